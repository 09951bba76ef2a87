"""In whose name does a session's call run, and what is added to it and its inner calls?"""

from __future__ import annotations

from asyncio import get_running_loop
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import force_setattr as set_field

from tool_engine.approval.gate import ApprovalGate
from tool_engine.approval.principal import engine_asked, note_decider
from tool_engine.approval.scopes import token_of
from tool_engine.approval.subject import making_of, place_of
from tool_engine.calls.home_loop import HomeLoop
from tool_engine.interfaces import CallScope, ToolExecutor
from tool_engine.interfaces.source import Source
from tool_engine.model.approval import ApprovalRequest, fingerprint_of
from tool_engine.model.call import Refusal, ToolExecutionContext
from tool_engine.model.context_check import check_context
from tool_engine.model.context_copy import DEFAULT_TIMEOUT
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.json.plain import copy_json
from tool_engine.model.outcome import ErrorType
from tool_engine.model.permission import ResultPolicy
from tool_engine.model.record import ToolCallRecord
from tool_engine.model.tool import Tool, is_same
from tool_engine.protocols.allowed_call import Yes
from tool_engine.session.bounds import InnerUse, Meter, find_reply_bounds
from tool_engine.session.narrowing import find_replies, find_reply_marks
from tool_engine.session.policy import SessionPolicy, find_reply_rules, hold_rules
from tool_engine.session.showing import Showing
from tool_engine.session.toolbox.standing import Placed
from tool_engine.session.toolbox.toolbox import Found, Toolbox
from tool_engine.session.tools import SessionTools
from tool_engine.session.variables.accepts import refuse_content, refuse_typing
from tool_engine.session.variables.references import Expanded
from tool_engine.sources.identity import engine_of, source_text
from tool_engine.sources.owners import engine_of_inner, leaf_of

_CALLER: Final = "conversation_agent"
_copy: Final = ToolExecutionContext.__copy__
"""Copies a context, without the detour of `copy.copy`."""
_UNSET: Final = 30.0
"""The default `timeout`, at which the tool's own timeout decides."""
_NO_TOKENS: Final[Mapping[str, Any]] = MappingProxyType({})
_FOREIGN: Final = "source 0"
"""Stands for `source_of` of a tool whose engine the conversation does not have."""

FindOwn = Callable[[str], tuple[Tool, ToolExecutor] | None]
"""Finds a tool that only one conversation has, with its executor."""


class Called(msgspec.Struct, eq=False):
    """A tool as a conversation calls it: what its calls share until tools or settings change."""

    placed: Placed
    identity: str
    """What says which tool it is, whatever its name."""
    source: str
    """The source of the tool among several; see `source_of`."""
    found: Found
    """How the tools and settings stood."""
    limit: int
    """The most characters that a model reads of its results; 0 or -1: all. S7."""
    show: str
    """How much of its results a model reads."""
    has_secrets: bool
    """Whether it declares some."""
    timeout: float | None = None
    """Seconds for a call whose caller says nothing; None: not found yet, or not always the same."""
    free: Tool | None = None
    """The engine's tool, once it was found that nothing but its arguments can forbid a call, nor
    ask about its result, until something changes."""
    is_plain: bool = False
    """Whether nothing in its definition or the settings asks for more than the shortest way."""


class Caller:
    """The name in which one conversation calls, and its time.

    Args:
        session_id: Names the conversation.
        agent_id: Who calls.
        conversation_id: Of its calls.
        principal: Who is behind it; empty: that of the session that it works for, or not known.
        toolbox: Its tools, with its settings.
        parent: That of the session that it works for.
    """

    __slots__ = (
        "_parent",
        "_toolbox",
        "_unnamed",
        "agent_id",
        "conversation_id",
        "principal",
        "session_id",
    )

    def __init__(
        self,
        session_id: str,
        agent_id: str,
        conversation_id: str,
        principal: str,
        toolbox: Toolbox,
        parent: Caller | None,
    ) -> None:
        self.session_id = session_id
        self.agent_id = agent_id
        self.conversation_id = conversation_id
        self.principal: str = principal or ("" if parent is None else parent.principal)
        self._toolbox = toolbox
        self._parent = parent
        self._unnamed = ToolExecutionContext(
            caller_id=agent_id,
            caller_type=_CALLER,
            conversation_id=conversation_id,
            session_id=session_id,
        )
        """The context of its own calls, without what differs between them."""

    @property
    def is_alone(self) -> bool:
        """Return True if the conversation works for no other one."""
        return self._parent is None

    @property
    def root_id(self) -> str:
        """The id of the conversation that all others above it work for."""
        return self.session_id if self._parent is None else self._parent.root_id

    def bind(
        self,
        context: ToolExecutionContext | None,
        tool: Tool | None,
        scope: CallScope,
        *,
        is_own: bool = False,
        timeout: float | None = None,
    ) -> ToolExecutionContext:
        """Return a copy of a context that names the conversation.

        Args:
            context: Who calls, and within which limits; None: the conversation itself.
            tool: What is called; None: it is not known.
            scope: What the conversation adds to the call.
            is_own: Whether only the conversation has the tool.
            timeout: Its seconds where the caller says nothing; None: they are found.

        Raises:
            ConfigurationError: The context is none.
        """
        if context is None:
            # A copy is not checked again: what is set in it was checked where it comes from.
            made: ToolExecutionContext = _copy(self._unnamed)
            set_field(made, "timeout", self.find_timeout(tool) if timeout is None else timeout)
            set_field(made, "variables", {})
            set_field(made, "scope", scope)
            set_field(made, "_is_of_own", is_own)
            return made
        check_context(context)
        seconds = context.timeout
        if seconds is DEFAULT_TIMEOUT or seconds is None:
            seconds = self.find_timeout(tool)
        elif self._toolbox in find_replies():
            seconds = min(seconds, self.find_timeout(tool))
        is_anonymous = context.caller_id is None and context.caller_type == "unknown"
        return msgspec.structs.replace(
            context,
            caller_id=self.agent_id if is_anonymous else context.caller_id,
            caller_type=_CALLER if is_anonymous else context.caller_type,
            conversation_id=context.conversation_id or self.conversation_id,
            session_id=self.session_id,
            timeout=seconds,
            scope=scope,
            _is_of_own=is_own,
        )

    def find_timeout(self, tool: Tool | None) -> float:
        """Return the seconds for a call whose caller says nothing."""
        own, limit = None if tool is None else tool.timeout, self._toolbox.config.timeout
        if own is not None:
            limit = own if limit == _UNSET else min(own, limit)
        # A helper has no more time than the session that it works for.
        return limit if self._parent is None else min(limit, self._parent.find_timeout(tool))


class ConversationParts(NamedTuple):
    """What the scopes of all calls of one conversation share."""

    own: FindOwn
    """The tools that only the conversation has."""
    gate: ApprovalGate
    """Says what needs consent, and asks."""
    policy: SessionPolicy
    """Decides by the rules of the conversation."""
    showing: Showing
    """Decides which tools and results the conversation may see."""
    catalog: Source
    """What has its other tools."""
    line: tuple[Meter, ...]
    """What the conversation has spent, then those that it works for; see `Meter`."""
    home: HomeLoop
    """Where it is asked, whatever loop a call runs on."""
    tools: SessionTools
    """Which tools it has, and which of them are on."""


@refuse_copying(
    "pickle context.to_wire(), or a replace(context, scope=None) without its conversation"
)
class SessionScope:
    """One call of a conversation, on its way through the engine.

    Args:
        parts: What it shares with the other calls of its conversation.
        expanded: What was put into the arguments: it must not get to a tool that does not accept
            where it came from, however many tools it goes through.
        consented: The fingerprint of the call that has been approved already, and by whom.
        find_off: Why the call may not run after all, by what was turned off since; None: it may,
            or `called` says it.
        called: The tool as it was looked up for the call; None: it was approved before.
        yes: The answer to a question about this very call before it came here; None, there was no
            question. Calls that its tool makes are not covered.
        paid: In which books the call itself was counted before it came here.
        source: Which of several sources has the tool; see `source_of`.
        called_name: The name that the model called.
        is_nested: Whether the call was made by a tool, and waited until now.
        principal: Who is behind the call; empty: not known.
    """

    __slots__ = (
        "_allowed",
        "_find_off",
        "_others",
        "_output",
        "_rules",
        "asks",
        "asks_on_error",
        "call_id",
        "called",
        "called_name",
        "consented",
        "deferred",
        "expanded",
        "is_nested",
        "labels",
        "paid",
        "params",
        "parts",
        "principal",
        "sent",
        "shared",
        "source",
        "tool",
        "yes",
    )

    def __init__(
        self,
        parts: ConversationParts,
        expanded: Expanded,
        consented: tuple[str, str | None] | None = None,
        find_off: Callable[[], Refusal | None] | None = None,
        *,
        called: Called | None = None,
        yes: Yes | None = None,
        paid: tuple[Meter, ...] = (),
        source: str = "",
        called_name: str = "",
        is_nested: bool = False,
        principal: str = "",
    ) -> None:
        self.parts = parts
        self.expanded = expanded
        self.consented = consented
        self._find_off = find_off
        self.called = called
        self.yes = yes
        self.paid = paid
        # A thread may have the context of a call without the context variables set around it.
        self._others = find_reply_bounds()
        self._rules = find_reply_rules()
        self.called_name = called_name
        self.is_nested = is_nested
        self.principal = principal
        self.source = source
        """The source of the tool among several; empty: the first, or the only one."""
        self.call_id: str | None = None
        """The id of the call itself, once it has reached the engine; later ones are its tool's."""
        self.asks = self.asks_on_error = False
        """Whether its tool's calls require approval of the result, and of that of a failed call."""
        self.tool: Tool | None = None
        """The tool that the conversation called, in the form in which the engine has it."""
        self.params: dict[str, Any] = {}
        """The arguments that the tool ran with, defaults filled in."""
        self.sent: bytes | None = None
        """The arguments as they came, as MessagePack, where the engine packed them for it."""
        self._allowed: ApprovalRequest | None = None
        self._output: tuple[Any, bytes | None] | None = None
        """An output, and what its record keeps of it; that of the call itself is the last one."""
        self.shared: Mapping[str, tuple[CallScope, ...]] = _NO_TOKENS
        """Request token -> the scopes of all conversations that must agree to its call."""
        self.deferred: Mapping[str, bool] = _NO_TOKENS
        """Request token -> whether it is about this call itself rather than one that its tool
        makes.
        """
        self.labels: set[str] = set(expanded.labels if expanded.variables else expanded.typed)
        """The labels of content in its arguments, put in or typed, or that it has read."""

    def __repr__(self) -> str:
        return f"<SessionScope of {self.called_name!r}>"

    @property
    def line(self) -> tuple[Meter, ...]:
        """What the conversation has spent, then those that it works for."""
        return self.parts.line

    @property
    def conversation(self) -> tuple[object, ...]:
        """A key for the rules and labels of its tool's calls."""
        return self.parts.gate, frozenset(self.labels), find_reply_marks()

    def own(self, tool_name: str) -> tuple[Tool, ToolExecutor] | None:
        return self.parts.own(tool_name)

    async def lets_in(self, tool: Tool, params: dict[str, Any]) -> Refusal | None:
        """Return why the arguments' contents must not reach a tool, or None.

        What the model typed is another question, which `consent` asks: of a call by a helper the
        helper's own scope does, since it knows all that its conversations have read.
        """
        del params
        # What its own calls have read of the conversation is in what they go on with.
        inside = self.labels - self.expanded.labels
        return refuse_content(tool, self.expanded, inside, self._source_of(tool))

    @property
    def has_begun(self) -> bool:
        """Return True if the call itself has reached the engine."""
        return self.call_id is not None

    def uses_of(self, tool: Tool, engine: Source | None) -> list[InnerUse]:
        """Return the uses to count for a call that its tool makes."""
        paid = () if self.has_begun else self.paid
        return [
            InnerUse(each, tool, engine, self._others.get(each, ()))
            for each in self.line
            if each not in paid
        ]

    def has_engine(self, engine: Source, tool_name: str) -> bool:
        """Return True if the conversation has this tool of the engine."""
        return leaf_of(self.parts.catalog, engine, tool_name) is not None

    def _source_of(self, tool: Tool) -> str:
        engine = engine_asked(tool)
        if engine is None:
            return self.source
        leaf = leaf_of(self.parts.catalog, engine, tool.name)
        return _FOREIGN if leaf is None else source_text(self.parts.catalog, leaf)

    def is_free(self, call_id: str, tool: Tool, params: dict[str, Any]) -> bool:
        """Return True if the call needs no consent; otherwise `consent` decides."""
        if self._allowed is not None or self.consented is not None or self.yes is not None:
            return False
        is_first = self.call_id is None or call_id == self.call_id
        if not (is_first and self.is_still_free(tool)) and not self._find_free(
            tool, params, is_first=is_first
        ):
            return False
        if is_first:
            self.call_id = call_id
            # The tool may do anything with its arguments.
            self.tool, self.params = tool, copy_json(params)
        return True

    def begin_known(self, call_id: str, tool: Tool, params: dict[str, Any]) -> bool:
        """Begin the call itself; False: it is not known to be free, and nothing was done."""
        if (
            self.call_id is not None
            or self._allowed is not None
            or self.consented is not None
            or self.yes is not None
            or not self.is_still_free(tool)
        ):
            return False
        self.call_id, self.tool, self.params = call_id, tool, copy_json(params)
        return True

    def _find_free(self, tool: Tool, params: dict[str, Any], *, is_first: bool) -> bool:
        """Return True if rules, content and switches ask about no call, and note what holds."""
        if tool.accepts is not None:
            return False
        is_silent = not self._rules and tool.permission is None and self.parts.policy.is_silent()
        if not is_silent:
            # Also for what a tool calls in a thread that has its context alone.
            with hold_rules(self._rules):
                if not self.parts.gate.is_free(tool, params):
                    return False
                if not is_first:
                    self._note_result(tool, params)
        if not is_first:
            return True
        if self._find_refusal_since() is not None:
            return False
        if is_silent and self.called is not None:
            self.called.free = tool
        return True

    def is_still_free(self, tool: Tool) -> bool:
        """Return True if it was found before that nothing asks about the tool that was called."""
        called = self.called
        if called is None or called.free is not tool or self._rules or find_reply_rules():
            return False
        return self.parts.tools.toolbox.find_present() is called.found

    def _find_refusal_since(self) -> Refusal | None:
        """Return why the call may not run after all, by what was turned off since; None: it may."""
        if self._find_off is not None:
            return self._find_off()
        called, tools = self.called, self.parts.tools
        if called is None or (tools.toolbox.found is called.found and tools.parent is None):
            return None
        return tools.find_refusal(called.placed.name)

    async def consent(self, call_id: str, tool: Tool, params: dict[str, Any]) -> Refusal | None:
        """Return why the call may not run; None: it may."""
        home = self.parts.home
        if home.loop is get_running_loop():
            return await self._consent_here(call_id, tool, params)
        return await home.carry(partial(self._consent_here, call_id, tool, params))

    async def _consent_here(
        self, call_id: str, tool: Tool, params: dict[str, Any]
    ) -> Refusal | None:
        with hold_rules(self._rules):
            return await self._decide_call(call_id, tool, params)

    async def _decide_call(
        self, call_id: str, tool: Tool, params: dict[str, Any]
    ) -> Refusal | None:
        if self.call_id is None:
            self.call_id = call_id
        is_first = call_id == self.call_id
        if is_first:
            if self.yes is not None and self.tool is not None and not is_same(tool, self.tool):
                return refuse_changed(tool.name)
            self.tool, self.params = tool, params
        else:
            self._note_result(tool, params)
        is_nested = self.is_nested or not is_first
        if self._was_approved(tool, params, is_nested):
            # What it may hold was looked at before the approver was asked.
            refusal = self.parts.gate.denied(tool, params)
        else:
            refusal = await self._ask_consent(call_id, tool, params, is_nested)
        token = token_of(refusal)
        if token is not None:
            self.deferred = {**self.deferred, token: is_first}
        return self._find_refusal_since() if refusal is None and is_first else refusal

    def _was_approved(self, tool: Tool, params: dict[str, Any], is_nested: bool) -> bool:
        """Return True if the call waited for its approval, once."""
        known = self.consented
        if known is not None and known[0] == self._make_fingerprint(tool, params, is_nested):
            note_decider(tool, known[1])
            # The next one like it is asked about again.
            self.consented = None
            return True
        request = self._allowed
        if request is None or not request.is_about(tool) or request.params != params:
            return False
        self._allowed = None
        return True

    async def _ask_consent(
        self, call_id: str, tool: Tool, params: dict[str, Any], is_nested: bool
    ) -> Refusal | None:
        """Return why content, rules or a person refuse a call, or None."""
        refusal = await self.lets_in(tool, params)
        if refusal is not None:
            return refusal
        yes = self.yes if call_id == self.call_id else None
        yes = yes if yes is not None and yes.is_consent else None
        typed = refuse_typing(tool, self.expanded, self._source_of(tool))
        if typed is not None and not self.parts.gate.asks(tool, params, has_yes=yes is not None):
            return typed
        if yes is not None:
            note_decider(tool, yes.by)
            return self.parts.gate.denied(tool, params)
        return await self.parts.gate.consent(
            call_id,
            tool,
            params,
            is_nested=is_nested,
            engine=self._engine_of(tool, is_nested),
            called_name=self.called_name,
            principal=self.principal,
            # Who once allowed every call did not see what a model has read since.
            is_new=typed is not None,
        )

    def _make_fingerprint(self, tool: Tool, params: dict[str, Any], is_nested: bool) -> str:
        engine = self._engine_of(tool, is_nested)
        place = place_of(tool, engine, self.called_name, is_nested=is_nested)
        return fingerprint_of(tool.name, making_of(tool, place), params)

    def _engine_of(self, tool: Tool, is_nested: bool) -> str:
        """Return the engine of a tool; empty: the conversation's own, or unknown."""
        catalog, called_name = self.parts.catalog, self.called_name
        if is_nested:
            return engine_of_inner(catalog, called_name, tool, engine_asked(tool))
        return "" if self.own(called_name) is not None else engine_of(catalog, called_name)

    def allow_once(self, request: ApprovalRequest) -> None:
        """Let a call run that was approved and waited for another conversation."""
        self._allowed = request

    def share(self, token: str, parts: tuple[CallScope, ...]) -> None:
        """Note the conversations that must agree to a deferred call."""
        self.shared = {**self.shared, token: parts}

    async def take_back(self, token: str) -> None:
        """Withdraw a deferred call: whatever the answer, it does not run."""
        self.deferred = {each: it for each, it in self.deferred.items() if each != token}
        self.shared = {each: it for each, it in self.shared.items() if each != token}
        await self.parts.gate.book.take_back(token)

    def take_asks(self, other: CallScope) -> None:
        """Take over the questions of another conversation about results."""
        self.asks |= getattr(other, "asks", False)
        self.asks_on_error |= getattr(other, "asks_on_error", False)

    def _note_result(self, tool: Tool, params: dict[str, Any]) -> None:
        """Note that a tool gets its own call's result."""
        with hold_rules(self._rules):
            self.asks |= not self.parts.gate.is_readable(tool, params, is_error=False)
            self.asks_on_error |= not self.parts.gate.is_readable(tool, params, is_error=True)

    def note_inside(self, tools: Iterable[Tool]) -> None:
        """Note the tools that a call with a shared result has called."""
        for tool in tools:
            said = self.parts.showing.result_policy(tool)
            self.asks |= said is ResultPolicy.ALWAYS
            self.asks_on_error |= said is not ResultPolicy.NEVER

    def refusal_since(self, call_id: str, tool: Tool, params: dict[str, Any]) -> Refusal | None:
        """Return why an admitted call may not start any more, or None."""
        refusal = self.parts.gate.denied(tool, params)
        is_open = refusal is None and call_id == self.call_id
        return self._find_refusal_since() if is_open else refusal

    def note_output(self, output: dict[str, Any], kept: bytes) -> None:
        """Take all of the output of a call that has succeeded, as the engine has packed it."""
        self._output = output, kept

    def note_known(self, sent: bytes, output: dict[str, Any], kept: bytes | None) -> None:
        """Take what the engine has packed of a call that `begin_known` began."""
        self.sent, self._output = sent, (output, kept)

    def find_packed(self, output: dict[str, Any]) -> bytes | None:
        """Return an output as MessagePack; None: the engine has not packed all of it."""
        # Another one is of another call, or another source has changed it.
        known = self._output
        return known[1] if known is not None and known[0] is output else None

    def shown_tool(self, tool: Tool) -> Tool | None:
        return self.parts.showing.find_tool(tool)

    def refusal_of_result(self, record: ToolCallRecord) -> Refusal | None:
        """Return why a result may not be read, or add its labels."""
        found = self.parts.showing.find_labels(record)
        if isinstance(found, Refusal):
            return found
        self.labels |= found
        return None


def refuse_changed(tool_name: str) -> Refusal:
    """Return the refusal of a call whose tool changed since its approval."""
    message = (
        f"the tool {tool_name!r} has changed since a person said yes to this call: call it "
        "again, so that they are asked again"
    )
    return Refusal(ErrorType.EXECUTION_REJECTED.value, message)
