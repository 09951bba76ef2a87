"""What may one conversation use, and what does it remember and spend?"""

from __future__ import annotations

from asyncio import get_running_loop
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from tool_engine.approval.answers import Answer, decision_from
from tool_engine.approval.book import ApprovalBook
from tool_engine.approval.gate import ApprovalGate
from tool_engine.calls.home_loop import HomeLoop
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import (
    ApprovalError,
    ConfigurationError,
    ToolConflictError,
    ToolNotFoundError,
)
from tool_engine.executors.handler import executor_for
from tool_engine.interfaces import (
    Approver,
    SessionStorage,
    Source,
    ToolCallingProtocol,
    ToolExecutor,
    ToolSource,
)
from tool_engine.model.approval import ApprovalRequest
from tool_engine.model.call import Refusal, ToolExecutionContext
from tool_engine.model.checks.known_fields import KnownArguments
from tool_engine.model.json.copying import live
from tool_engine.model.session import check_session_id
from tool_engine.model.tool import Tool
from tool_engine.protocols.registry import PROTOCOLS, get_protocol
from tool_engine.session.bounds import Meter, Usage
from tool_engine.session.calling import SessionCalls
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.contexts import context_of
from tool_engine.session.deriving import derived
from tool_engine.session.discovery import as_config
from tool_engine.session.facade import CycleFacade
from tool_engine.session.parts import check_parts, find_storage
from tool_engine.session.policy import SessionPolicy
from tool_engine.session.prompt.prompt import SessionPrompt
from tool_engine.session.reading.presentation import Presentation, telling_returns
from tool_engine.session.reading.result import SessionResult, as_session_result
from tool_engine.session.reading.shown_results import ShownResults, Shows
from tool_engine.session.repetition import RepetitionGuard
from tool_engine.session.saving import SavedSession
from tool_engine.session.scope import SessionScope
from tool_engine.session.showing import Showing
from tool_engine.session.state import Deferred
from tool_engine.session.toolbox.toolbox import Toolbox
from tool_engine.session.variables.read_labels import ReadLabels
from tool_engine.session.variables.references import Expanded
from tool_engine.session.variables.store import VariableStore
from tool_engine.session.variables.variable_tools import VariableTools
from tool_engine.sources.composition import Prepare
from tool_engine.sources.identity import identity_of, identity_of_own
from tool_engine.subagent import ToolSubAgent

_LONGEST: Final = 200


@live("keep it with save() and get it back with ToolSession.restore()")
class ToolSession(CycleFacade, SavedSession, KnownArguments, Source):
    """One conversation: what it may use, remember and spend. X1.

    Many sessions share one engine; none sees another one's state. A session lives on one event
    loop, and calls from others go there; its calls may run at the same time.

    Args:
        engine: A `ToolEngine`, or what `combine`, `prefix`, `rename`, `keep` and `prepare` make of
            some.
        session_id: Names the conversation, in records too.
        config: What it may do; of a mapping, what `ToolCallConfig.from_dict` reads in it.
        approver: Who is asked for approval; None: calls that need approval are refused.
        agent_id: Who calls, in records; None: `session_id`.
        conversation_id: Of its calls; None: `session_id`.
        prepare: Adapts how the model sees each tool, in each turn.
        presentations: Tool -> how its results become texts.
        storage: Where `save` keeps the conversation; None: where the engine keeps its records.
        variables: What it keeps from the start; None: nothing.
        parent: The session that this one works for, whose bounds it shares.

    Raises:
        SessionError: An id that no storage could keep.
        ConfigurationError: Something of the wrong kind.

    Example:
        >>> session = ToolSession(engine, "chat-1")
        >>> result = await session.execute("calculator", {"expression": "6*7"})
        >>> result.final_text
        '42'
    """

    def __init__(
        self,
        engine: ToolSource,
        session_id: str,
        config: ToolCallConfig | Mapping[str, Any] | None = None,
        approver: Approver | None = None,
        *,
        agent_id: str | None = None,
        conversation_id: str | None = None,
        prepare: Prepare | None = None,
        presentations: Mapping[str, Presentation] | None = None,
        storage: SessionStorage | None = None,
        variables: VariableStore | None = None,
        parent: ToolSession | None = None,
    ) -> None:
        check_session_id(session_id)
        check_parts(presentations, storage, variables, parent)
        chosen = as_config({} if config is None else config)
        self.session_id = session_id
        self.agent_id = check_session_id(session_id if agent_id is None else agent_id)
        self.conversation_id = check_session_id(conversation_id or session_id)
        self.variables = VariableStore(chosen.capacity) if variables is None else variables
        """The named values that the conversation keeps: results, arguments and notes."""
        self.read_labels = ReadLabels(None if parent is None else parent.read_labels)
        """Where all that its model has read came from, and so whatever it types."""
        self._variable_tools = VariableTools(self.variables, self.read_labels)
        self.own_tools: dict[str, tuple[Tool, ToolExecutor]] = {}
        """The tools that were registered for this conversation only, with their executors."""
        self.presentations = dict(presentations or {})
        """Tool -> how its results become texts."""
        told = telling_returns(prepare, self.presentations)
        self.toolbox = Toolbox(engine, chosen, self._all_own, prepare=told, stamp=self._registered)
        """Its tools and groups, and which of them are on."""
        # One that is empty may count as false.
        self.storage = find_storage(self.source, "sessions") if storage is None else storage
        self.parent = parent
        self.home = HomeLoop() if parent is None else parent.home
        """The event loop that it lives on."""
        above = None if parent is None else parent.meter
        found, catalog = lambda: self.toolbox.found, lambda: self.source
        self.meter: Meter = Meter(
            chosen, above, identity=self._identity, stamp=found, catalog=catalog
        )
        """What it has spent, against its bounds."""
        self.guard = RepetitionGuard(chosen.hint_at, chosen.stop_at)
        """Notices a model that repeats itself."""
        of_parent = None if parent is None else parent.policy
        self.policy: SessionPolicy = SessionPolicy(self.toolbox, of_parent)
        self.gate = ApprovalGate(self._book(chosen), approver, self.policy.decide)
        """Decides what needs consent, and asks for it."""
        self.results = ShownResults() if parent is None else parent.results
        self.showing: Shows = Showing(self, self.policy, self.results)
        self._prompt = SessionPrompt(self.toolbox, self.variables, chosen.language)
        self.deferred: dict[str, Deferred] = {} if parent is None else parent.deferred
        self.calls = SessionCalls(self)
        self._protocols: dict[str, ToolCallingProtocol] = {}
        self.more: dict[str, Any] = {}
        """Data saved with the conversation, such as its messages: JSON values."""

    def __repr__(self) -> str:
        return f"<ToolSession {self.session_id!r}, {self.toolbox!r}, {self.meter!r}>"

    def _book(self, config: ToolCallConfig) -> ApprovalBook:
        if self.parent is not None:
            # What the user has decided holds for helpers, too.
            return self.parent.gate.book
        storage = find_storage(self.source, "approvals")
        return ApprovalBook(self.session_id, config.approval_timeout, storage=storage)

    def _identity(self, tool_name: str) -> str:
        if tool_name in self.own_tools:
            return identity_of_own(tool_name)
        return identity_of(self.source, tool_name)

    # The tools.

    def tools(self) -> list[Tool]:
        """Return the enabled tools as the model sees them.

        Raises:
            ToolConflictError: Two of them have one name.
        """
        told = self.toolbox.tools()
        return told if self.parent is None else [each for each in told if self.get(each.name)]

    def list_all(self) -> list[Tool]:
        """Return the same as `tools()`, for protocols and sub-agents."""
        return self.tools()

    def get(self, tool_name: str) -> Tool | None:
        """Return the enabled tool of this name, or None."""
        placed = self.toolbox.find(tool_name)
        if placed is None or not placed.is_enabled:
            return None
        # A tool that is turned off for a conversation is off for its helpers.
        is_off = self.parent is not None and self.parent.get(tool_name) is None
        return None if is_off and not placed.is_own else placed.tool

    def get_or_raise(self, tool_name: str) -> Tool:
        """Return the enabled tool of this name.

        Raises:
            ToolNotFoundError: There is none; the message names the nearest.
        """
        tool = self.get(tool_name)
        if tool is None:
            raise ToolNotFoundError(self.missing(tool_name))
        return tool

    @property
    def controller(self) -> Any:
        """The controller that admits its calls; None: unknown."""
        return self.source.controller

    def missing(self, tool_name: object) -> str:
        """Return the message for a tool that the conversation does not have."""
        shown = str(tool_name)[:_LONGEST]
        return f"there is no tool {shown!r} in this conversation{self.toolbox.hint(shown)}"

    def register_tool(self, tool: Tool | Mapping[str, Any], handler: Callable[..., Any]) -> Tool:
        """Add a tool that only this conversation has.

        Its calls go the way of all others: they are validated, admitted, recorded and published.

        Args:
            tool: The tool, or its definition as a mapping.
            handler: As for `ToolEngine.register_tool`.

        Raises:
            DefinitionError: The definition is not right.
            ToolConflictError: There is a tool of this name.
            ConfigurationError: The handler does not fit the parameters.
        """
        loaded = tool if isinstance(tool, Tool) else ToolConfigLoader().from_mapping(tool)
        if loaded.name in self.own_tools:
            raise ToolConflictError(
                f"the session has a tool named {loaded.name!r} already: register it under another "
                "name"
            )
        executor = executor_for(handler, loaded)
        before = self.own_tools
        self.own_tools = {**before, loaded.name: (loaded, executor)}
        try:
            self.toolbox.tools()
        except BaseException:
            self.own_tools = before
            raise
        return loaded

    def own(self, tool_name: str) -> tuple[Tool, ToolExecutor] | None:
        """Return a tool that only this conversation has, with its executor."""
        return (
            self.own_tools.get(tool_name)
            or self._variable_tools.own(tool_name)
            or self._prompt.own(tool_name)
        )

    def _registered(self) -> object:
        # Tools may also be added in the dictionary directly.
        return tuple(self.own_tools.values())

    def _all_own(self) -> tuple[Tool, ...]:
        registered = (tool for tool, _ in self.own_tools.values())
        return (*registered, *self._variable_tools.tools(), *self._prompt.tools())

    def protocol(self, protocol: ToolCallingProtocol | str | None = None) -> ToolCallingProtocol:
        """Return the protocol that shows these tools to a model; always the same for one name.

        Args:
            protocol: The name of one, an object, which is given back, or None: that of the
                settings.

        Raises:
            ConfigurationError: There is no such protocol, or this is none.
        """
        if isinstance(protocol, ToolCallingProtocol):
            return protocol
        if protocol is not None and not isinstance(protocol, str):
            raise ConfigurationError(
                f"protocol must be a name or a ToolCallingProtocol, got {protocol!r:.80}"
            )
        name = protocol or self.config.protocol
        if name not in self._protocols:
            options = {"tools": self} if name in PROTOCOLS else {}
            self._protocols[name] = get_protocol(name, **options)
        return self._protocols[name]

    def system_prompt(self, protocol: ToolCallingProtocol | str | None = None) -> str:
        """Return the system prompt: use of tools, rules of groups, and skills. S24.

        With a text protocol also the tools themselves; otherwise the request contains them.
        Empty when tools are switched off. A5.
        """
        return self._prompt.text(self.protocol(protocol))

    @property
    def findings(self) -> list[str]:
        """Problems that keep a tool, a group or its rules from the model."""
        return [*self.toolbox.findings, *self._prompt.findings, *self.left_out()]

    # The calls.

    async def execute(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
    ) -> SessionResult:
        """Run one tool for the conversation.

        Args:
            tool_name: The tool, as the model knows it.
            params: Its arguments; `$VAR_REF{{name}}` stands for a variable.
            context: Who calls, and within which limits; None: this session.

        Returns:
            How the call ended; what a model reads of it is `final_text`.

        Raises:
            ConfigurationError: The context is none.
            asyncio.CancelledError: The caller was cancelled.
        """
        if get_running_loop() is self.home.loop:
            return await self.calls.execute(tool_name, params, context)
        return await self.home.carry(
            partial(self.calls.execute, tool_name, params, context), context
        )

    def refuse(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None,
        context: ToolExecutionContext | None,
        refusal: Refusal,
    ) -> SessionResult:
        """End a call that is not made, as the engine's method of this name does."""
        scope = SessionScope(self.own, self.gate, Expanded({}, ()), showing=self.showing)
        bound = context_of(self, context, None, scope)
        return as_session_result(self.source.refuse(tool_name, params, bound, refusal))

    def sub_agent(self, agent_id: str, **options: Any) -> ToolSubAgent:
        """Make a caller with its own history, whose calls belong to this conversation.

        Args:
            agent_id: Who calls.
            options: As for `ToolSubAgent`.
        """
        options.setdefault("parent_agent_id", self.agent_id)
        options.setdefault("conversation_id", self.conversation_id)
        return ToolSubAgent(agent_id, self, **options)

    def derive(
        self, name: str | None = None, *, tools: Iterable[str] | None = None, **changes: Any
    ) -> ToolSession:
        """Make a session for a part of the work, with no more rights than this one.

        It has variables of its own, and spends what this session may spend.

        Args:
            name: The last part of its id; None: a number.
            tools: The names of its tools, of those that are enabled here; None: all of these but
                those that only this conversation has.
            changes: Other bounds, such as `max_iterations`.

        Raises:
            ToolNotFoundError: A tool is not enabled here.
            ConfigurationError: A change is none of a bound.
        """
        if name is None:
            self.children += 1
        named = str(self.children) if name is None else name
        return derived(self, named, tools, changes)

    # Approvals.

    @property
    def pending_approvals(self) -> list[ApprovalRequest]:
        """Return the requests that wait for an answer, the oldest first.

        `session.gate.book.pending_anywhere` also finds those of other processes on the same
        database.
        """
        return self.gate.book.pending()

    async def resume(self, token: str, decision: Answer) -> SessionResult:
        """Answer a deferred request and continue its call.

        The call runs with the arguments that were shown, and only if its tool is what it was.

        Args:
            token: That of the request: `result.approval_token`.
            decision: The answer: True, False, the reason of a refusal, or an `ApprovalDecision`.

        Returns:
            How the call ended now.

        Raises:
            ApprovalError: There is no such open request, it has expired, or the tool has changed.
                That is no answer: then the request stays open.
        """
        decided = decision_from(decision)
        if decided is None:
            raise ApprovalError("None is no answer to a call that waits: say True or False")
        return await self.home.carry(partial(self.calls.resume, str(token), decided))

    def take_news(self) -> list[str]:
        """Return the results of deferred calls that ended since, as text for the model.

        Each is given once.
        """
        news, self.calls.news = self.calls.news, []
        return news

    # What it has spent, and what is kept of it.

    def usage(self) -> Usage:
        """Return what was spent so far."""
        return self.meter.usage()
