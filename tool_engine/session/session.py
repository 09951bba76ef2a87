"""What may one conversation use, and what does it remember and spend?"""

from __future__ import annotations

from asyncio import get_running_loop
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self

from tool_engine.approval.answers import Answer
from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import (
    Approver,
    SessionStorage,
    Source,
    ToolCallingProtocol,
    ToolExecutor,
    ToolSource,
)
from tool_engine.model.approval import ApprovalRequest
from tool_engine.model.call import Refusal, ToolCall, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.checks.known_fields import KnownArguments, KnownNames
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.context_check import heard_by
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.progress import ToolProgress
from tool_engine.model.session import check_session_id
from tool_engine.model.tool import Tool
from tool_engine.protocols.allowed_call import allowed
from tool_engine.protocols.cycle import ToolCallCycleResult
from tool_engine.protocols.cycle_options import BeforeExecute, OnProgress, OnResult
from tool_engine.session.bounds import Usage
from tool_engine.session.calling import SessionCalls
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.discovery import DiscoveredTool, MethodFilter, ToolDiscoveryService
from tool_engine.session.narrowing import narrow_settings
from tool_engine.session.parts import SessionParts, hand_down, make_parts, plan_helper
from tool_engine.session.reading.presentation import Presentation
from tool_engine.session.reading.result import SessionResult
from tool_engine.session.replies import ReplyRunner
from tool_engine.session.saving import Restored, SessionState, load_session, read_session
from tool_engine.session.session_storage import check_storage, choose_storage
from tool_engine.session.variables.store import VariableStore
from tool_engine.sources.composition import Prepare, keep
from tool_engine.subagent import ToolSubAgent


@refuse_copying("keep it with save() and get it back with ToolSession.restore()")
class ToolSession(KnownArguments, KnownNames, Source):
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
        principal: Who is behind it, for decisions that hold elsewhere too; None: not known.
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
        principal: str | None = None,
        prepare: Prepare | None = None,
        presentations: Mapping[str, Presentation] | None = None,
        storage: SessionStorage | None = None,
        variables: VariableStore | None = None,
        parent: ToolSession | None = None,
    ) -> None:
        check_session_id(session_id)
        if parent is not None and not isinstance(parent, ToolSession):
            raise ConfigurationError(f"parent must be a ToolSession, got {type(parent).__name__}")
        self.parent = parent
        self._parts: SessionParts = make_parts(
            engine,
            session_id,
            config,
            approver,
            agent_id=agent_id,
            conversation_id=conversation_id,
            principal=principal,
            prepare=prepare,
            presentations=presentations,
            variables=variables,
            parent=None if parent is None else parent._parts,  # noqa: SLF001 - another session's
        )
        parts, self._tools = self._parts, self._parts.tools
        self.toolbox = parts.tools.toolbox
        """Its tools and groups, and which of them are on."""
        self.variables = parts.variables
        """The named values that the conversation keeps: results, arguments and notes."""
        self.read_labels = parts.read_labels
        """Where all that its model has read came from, and so whatever it types."""
        self.presentations = parts.presentations
        """Tool -> how its results become texts."""
        self.meter = parts.meter
        """What it has spent, against its bounds."""
        self.guard = parts.guard
        """Notices a model that repeats itself."""
        self.gate = parts.gate
        """Decides what needs consent, and asks for it."""
        self.home = parts.home
        """The event loop that it lives on."""
        self.more: dict[str, Any] = {}
        """Data saved with the conversation, such as its messages: JSON values."""
        self.policy, self.results, self.deferred = parts.policy, parts.results, parts.deferred
        self.storage = choose_storage(storage, self.source)
        self.calls, self.secrets = SessionCalls(parts), parts.secrets
        self._state, self._replies = SessionState(parts, self.calls), ReplyRunner(self, parts)
        self._discovery = ToolDiscoveryService(self.toolbox, self.protocol)

    def __repr__(self) -> str:
        return f"<ToolSession {self.session_id!r}, {self.toolbox!r}, {self.meter!r}>"

    @property
    def session_id(self) -> str:
        """The name of the conversation, in records too."""
        return self._parts.caller.session_id

    @property
    def agent_id(self) -> str:
        """Who calls, in records."""
        return self._parts.caller.agent_id

    @property
    def conversation_id(self) -> str:
        """The conversation of its calls, in records."""
        return self._parts.caller.conversation_id

    @property
    def config(self) -> ToolCallConfig:
        """The settings, with later toggles."""
        return self.toolbox.config

    @property
    def source(self) -> Source:
        """What runs its tools, under the model's names."""
        return self.toolbox.catalog

    @property
    def controller(self) -> Any:
        """The controller that admits its calls; None: unknown."""
        return self.source.controller

    @property
    def own_tools(self) -> dict[str, tuple[Tool, ToolExecutor]]:
        """The tools that were registered for this conversation only, with their executors."""
        return self._tools.registered

    @own_tools.setter
    def own_tools(self, tools: dict[str, tuple[Tool, ToolExecutor]]) -> None:
        self._tools.replace_registered(tools)

    @property
    def findings(self) -> list[str]:
        """Problems that keep a tool, group or rules from the model."""
        return [*self.toolbox.findings, *self._tools.prompt.findings, *self.left_out()]

    def tools(self) -> list[Tool]:
        """Return the enabled tools as the model sees them.

        Raises:
            ToolConflictError: Two of them have one name.
        """
        return self._tools.list_enabled()

    def list_all(self) -> list[Tool]:
        """Return the same as `tools()`, for protocols and sub-agents."""
        return self.tools()

    def get(self, tool_name: str) -> Tool | None:
        """Return the enabled tool of this name, or None."""
        return self._tools.get(tool_name)

    def get_or_raise(self, tool_name: str) -> Tool:
        """Return the enabled tool of this name.

        Raises:
            ToolNotFoundError: There is none; the message names the nearest.
        """
        return self._tools.get_or_raise(tool_name)

    def missing(self, tool_name: object) -> str:
        """Return the message for a tool that the conversation does not have."""
        return self._tools.describe_missing(tool_name)

    def own(self, tool_name: str) -> tuple[Tool, ToolExecutor] | None:
        """Return a tool that only this conversation has, with its executor."""
        return self._tools.find_own(tool_name)

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
        return self._tools.register(tool, handler)

    def protocol(self, protocol: ToolCallingProtocol | str | None = None) -> ToolCallingProtocol:
        """Return the protocol that shows these tools to a model.

        Args:
            protocol: The name of one, always the same object; an object, which is given back; or
                None: that of the settings.

        Raises:
            ConfigurationError: There is no such protocol, or this is none.
        """
        return self._replies.find_protocol(protocol)

    def system_prompt(self, protocol: ToolCallingProtocol | str | None = None) -> str:
        """Return the system prompt: tools, rules of groups, and skills. S24.

        With a text protocol also the tools themselves; otherwise the request contains them.
        Empty when tools are switched off. A5.
        """
        return self._tools.prompt.text(self.protocol(protocol))

    async def execute(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
        *,
        on_progress: Callable[[ToolProgress], object] | None = None,
    ) -> SessionResult:
        """Run one tool for the conversation.

        Args:
            tool_name: The tool, as the model knows it.
            params: Its arguments; `$VAR_REF{{name}}` stands for a variable.
            context: Who calls, and within which limits; None: this session.
            on_progress: As for `ToolEngine.execute`.

        Returns:
            How the call ended; what a model reads of it is `final_text`.

        Raises:
            ConfigurationError: The context is none, or `on_progress` is no plain function.
            asyncio.CancelledError: The caller was cancelled.
        """
        context = context if on_progress is None else heard_by(on_progress, context)
        asked = allowed.get()
        yes = None if asked is None else asked.take(self, params)
        if get_running_loop() is self.home.loop:
            return await self.calls.execute(tool_name, params, context, yes)
        execute = partial(self.calls.execute, tool_name, params, context, yes)
        return await self.home.carry(execute, context)

    def refuse(
        self,
        tool_name: str,
        params: Mapping[str, Any] | None,
        context: ToolExecutionContext | None,
        refusal: Refusal,
    ) -> SessionResult:
        """End a call that is not made, as the engine does."""
        return self.calls.refuse(tool_name, params, context, refusal)

    def sub_agent(self, agent_id: str, **options: Any) -> ToolSubAgent:
        """Make a caller with its own history within this conversation.

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
        """Make a session for a part of the work, without more rights.

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
            self._state.children += 1
        plan = plan_helper(self._tools, tools, changes)
        child = type(self)(
            keep(self.source, lambda tool: tool.name in plan.tools),
            f"{self.session_id}/{self._state.children if name is None else name}",
            plan.config,
            self.gate.approver,
            agent_id=self.agent_id,
            conversation_id=self.conversation_id,
            presentations=self.presentations,
            parent=self,
        )
        hand_down(self._parts, child._parts, plan.tools)  # noqa: SLF001 - another session's
        return child

    @property
    def pending_approvals(self) -> list[ApprovalRequest]:
        """Return the requests that wait here for an answer, the oldest first.

        `engine.approvals.pending` also finds those of other processes on the same database.
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
        return await self.calls.resume(str(token), decision)

    def take_news(self) -> list[str]:
        """Return the deferred calls that ended since, as text for the model.

        Each is given once.
        """
        news, self.calls.news = self.calls.news, []
        return news

    def usage(self) -> Usage:
        """Return what was spent so far."""
        return self.meter.usage()

    async def process(
        self,
        reply: Any,
        protocol: ToolCallingProtocol | str | None = None,
        on_before_execute: BeforeExecute | None = None,
        *,
        on_result: OnResult | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolCallCycleResult:
        """Parse a reply, run its calls and format their results.

        Calls that only read run at the same time, unless `config.parallel_execution` is off; each
        other one runs alone, in its place.

        Args:
            reply: A whole reply in any form that the protocol parses, or a `ParsedReply`.
            protocol: The one that showed the tools to the model; None: that of the settings. Where
                that is a text protocol, a reply in the form of a provider is read as its.
            on_before_execute: Asked before each call, besides what the settings say of consent.
                Without an approver, its True is the consent that the settings ask for.
            on_result: Called with each call and its result, as soon as there is one.
            on_progress: Called with each call whose tool says how far it has come.

        Returns:
            The calls and their results, and the messages with which the conversation goes on.

        Raises:
            ConfigurationError: There is no such protocol.
            asyncio.CancelledError: The caller was cancelled; so were the calls that ran.
        """
        heard = on_result, on_progress
        return await self._replies.process(reply, protocol, on_before_execute, *heard)

    async def process_cycle(
        self,
        text: str,
        config: ToolCallConfig | Mapping[str, Any] | None = None,
        on_before_execute: BeforeExecute | None = None,
    ) -> ToolCallCycleResult:
        """Parse one reply, run its calls and format the results. A38.

        Args:
            text: The reply, whole.
            config: Other settings for this reply. What they leave out is as the conversation has
                it, and of what both say the stricter word holds: a tool must be on in both, and
                the smaller bound counts. Bounds of whole turns and of the conversation's state,
                such as `max_iterations` and `capacity`, stay its own.
            on_before_execute: Asked before each call: True, or None, lets it run. A29. Without an
                approver, its True is the consent that the settings ask for.

        Returns:
            The calls and their results; `has_tool_requests` is False for a reply without calls.

        Raises:
            ConfigurationError: The settings are none, or name no protocol.
            asyncio.CancelledError: The caller was cancelled; so were the calls that ran.
        """
        if config is None:
            return await self.process(text, None, on_before_execute)
        return await self._replies.process_with(text, config, on_before_execute)

    def format_cycle_results(
        self,
        results: ToolCallCycleResult | Sequence[ToolExecutionResult],
        protocol_id: ToolCallingProtocol | str | None = None,
        calls: Sequence[ToolCall] | None = None,
    ) -> str:
        """Format results as the text that the model reads next. A39.

        Args:
            results: A cycle, or the results of one.
            protocol_id: Whose form they take; None: that of the settings.
            calls: Of results that do not say which call they belong to.

        Raises:
            ConfigurationError: No such protocol, these are no results, or a call is missing.
        """
        return self._replies.format(results, protocol_id, calls)

    def generate_tools_prompt(
        self,
        config: ToolCallConfig | Mapping[str, Any] | None = None,
        agent_id: str | None = None,
    ) -> str:
        """Return the part of the system prompt about the enabled tools. A25.

        Empty when tools are switched off. Kept for as long as the tools and settings are the same.

        Args:
            config: Other settings, for this prompt.
            agent_id: Whose prompt it is.

        Raises:
            ConfigurationError: The settings are none, or name no protocol.
            ToolConflictError: Two tools have one name.
        """
        return self._discovery.generate_prompt(config, agent_id)

    def get_discovered_methods(self, filter: MethodFilter | None = None) -> list[DiscoveredTool]:  # noqa: A002 - the founding document's word
        """Return the enabled or the accepted tools, with their methods. A24.

        Raises:
            ToolConflictError: Two tools have one name.
        """
        return self._discovery.get_discovered_methods(filter)

    def invalidate_discovery_cache(self) -> None:
        """Forget the cached prompts, although any change is noticed. A26."""
        self._discovery.invalidate_cache()

    def has_tool_calling_enabled(
        self, config: ToolCallConfig | Mapping[str, Any] | None = None
    ) -> bool:
        """Return True if the model may call any tool. A5.

        Raises:
            ConfigurationError: The settings are none.
        """
        own = self.toolbox.config
        return own.enabled if config is None else narrow_settings(own, config).enabled

    def left_out(self) -> list[str]:
        """Return the tools and groups that must still be registered again."""
        return self._state.describe_left_out()

    def to_dict(self) -> dict[str, Any]:
        """Return the whole conversation as JSON values, for `from_dict`.

        Functions and tools registered in code are left out: pass them again. The arguments of open
        requests for approval are in it, secret ones too.
        """
        return self._state.to_dict()

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        engine: ToolSource,
        approver: Approver | None = None,
        **options: Any,
    ) -> Self:
        """Make the conversation that `to_dict` wrote, in any process.

        Args:
            data: What it wrote.
            engine: As for a new session.
            approver: As for a new session.
            options: The other arguments of a new session that are no data.

        Raises:
            SessionError: The data is not what `to_dict` writes; the message names the place.
            ConfigurationError: Another argument is of the wrong kind, or is part of the data.
        """
        restored = read_session(data, engine, approver, options)
        return cls._make_from(restored, engine, approver, **options)

    @classmethod
    async def restore(
        cls, engine: ToolSource, session_id: str, approver: Approver | None = None, **options: Any
    ) -> Self | None:
        """Load the conversation that `save` kept; None: there is none.

        Args:
            engine: As for a new session.
            session_id: Which one.
            approver: As for a new session.
            options: The other arguments of a new session that are no data.

        Raises:
            SessionError: What is kept is no session, or there is no storage.
            RecordsUnavailableError: The storage failed, or its database does not answer.
            ConfigurationError: An argument is of the wrong kind, or is kept with the session.
        """
        restored = await load_session(session_id, engine, approver, options)
        return None if restored is None else cls._make_from(restored, engine, approver, **options)

    @classmethod
    def _make_from(
        cls, restored: Restored, engine: ToolSource, approver: Approver | None, **options: Any
    ) -> Self:
        session = restored.make(cls, engine, approver, **options)
        session._state.restore(restored.kept)  # noqa: SLF001 - it has just been made
        session.more = restored.kept.more
        return session

    async def save(
        self,
        more: Mapping[str, Any] | None = None,
        *,
        as_id: str | None = None,
        overwrite: bool = False,
    ) -> None:
        """Save the conversation in its storage, over the state that it continues.

        A save by another session object meanwhile, in any process, is kept: of two that continue
        one state, the first to save wins, and the other one gets an error.

        Args:
            more: What else belongs to it, such as the messages: JSON values, for `session.more`.
            as_id: Keeps a copy under this id, of which nothing may be kept yet; the session itself
                stays what it is.
            overwrite: Replace what is kept, whichever process saved it.

        Raises:
            SessionConflictError: Another session object has saved it; nothing was kept.
            SessionError: There is no storage, or something is no JSON value.
            RecordsUnavailableError: The storage failed, or its database does not answer.
            ConfigurationError: `overwrite` is neither True nor False.
        """
        check_switch("overwrite", overwrite)
        storage = check_storage(self.storage)
        self.more = dict(self.more if more is None else more)
        await self._state.save(storage, self.more, as_id, overwrite=overwrite)

    async def is_behind(self) -> bool:
        """Return True if another session object has saved it since.

        Raises:
            SessionError: There is no storage, or what is kept is damaged.
            RecordsUnavailableError: The storage does not answer.
        """
        return await self._state.is_behind(check_storage(self.storage))
