"""How does a session run one call?

references -> engine (validate, consent, admit, run) -> what the model reads of it: see `keeping`
"""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic
from typing import Any, Final

import msgspec

from tool_engine.approval.answers import Answer, decision_from
from tool_engine.approval.book import ApprovalBook
from tool_engine.approval.desk import tell_toggle, watch_session
from tool_engine.approval.principal import principal_of
from tool_engine.calls.uses import is_use
from tool_engine.errors import ApprovalError, VariableError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.context_check import check_context, heard_by, is_of_own
from tool_engine.model.json.plain import read_plain
from tool_engine.model.json.secret_schema import UNNAMED
from tool_engine.model.outcome import ErrorType
from tool_engine.model.refusal import finding_of
from tool_engine.model.result import ResultShow
from tool_engine.model.tool import Tool, is_same
from tool_engine.protocols.allowed_call import Yes
from tool_engine.protocols.written_arguments import is_written
from tool_engine.redaction import hide_quotes
from tool_engine.session.bounds import Meter
from tool_engine.session.deferral import (
    Deferred,
    check_engine,
    check_shared,
    find_tool,
    finish_result,
    join_scopes,
    note_deferred,
)
from tool_engine.session.formatting import LIMIT
from tool_engine.session.keeping import ResultKeeper
from tool_engine.session.narrowing import find_limit
from tool_engine.session.parts import SessionParts
from tool_engine.session.prompt.skills import READING
from tool_engine.session.reading.presentation import without_hidden_limit
from tool_engine.session.reading.result import SessionResult, as_session_result, find_show
from tool_engine.session.scope import (
    Called,
    ConversationParts,
    SessionScope,
    refuse_changed,
)
from tool_engine.session.showing import Showing
from tool_engine.session.toolbox.standing import Placed
from tool_engine.session.toolbox.toolbox import Found
from tool_engine.session.variables.references import (
    Expanded,
    expand_references,
    expand_written,
    has_typed,
    is_typed_flat,
    make_ready,
    may_refer,
)
from tool_engine.session.variables.store import Variable
from tool_engine.session.variables.variable_definitions import (
    VARIABLE_TOOLS,
    WRITE_VAR,
    check_arguments,
)
from tool_engine.sources.identity import source_of
from tool_engine.sources.naming import named_twice, refusal_named

_NOTHING: Final = Expanded({}, ())
_LONG: Final = 0.005
"""Seconds of reading after which others have a turn before the call begins."""
_NO_PLACES = _NO_LABELS = frozenset[str]()
_UNKNOWN: Final = Deferred()
_NEWS: Final = {
    "en": "The call of {0} that waited for consent has ended: {1}",
    "zh": "等待同意的 {0} 调用已结束：{1}",
}
_EMPTY: Final = {"en": "its result is empty", "zh": "结果为空"}


class _Ready(msgspec.Struct, frozen=True, eq=False):
    """A call that may run, and has been counted."""

    placed: Placed
    source: str
    """The source of the tool among several; see `source_of`."""
    expanded: Expanded
    paid: tuple[Meter, ...]
    """Where it was counted."""
    called: Called | None = None
    """The tool as it was looked up; None: the call was approved before."""


class SessionCalls:
    """Run the calls of one session."""

    def __init__(self, parts: SessionParts) -> None:
        self._tools = parts.tools
        self._toolbox = parts.tools.toolbox
        self._source = parts.tools.source
        self._called: tuple[Found | None, dict[str, Called]] = None, {}
        """What was found of called tools, and how the tools stood then."""
        self._caller = parts.caller
        self._variables = parts.variables
        self._read_labels = parts.read_labels
        self._meter = parts.meter
        self._gate = parts.gate
        self._results = parts.results
        self._deferred = parts.deferred
        self._home = parts.home
        self.secrets = parts.secrets
        self.of_scopes = ConversationParts(
            parts.tools.find_own,
            parts.gate,
            parts.policy,
            Showing(parts.tools, parts.caller.root_id, parts.policy, parts.results),
            parts.tools.source,
            parts.meter.line,
            parts.home,
            parts.tools,
        )
        """What the scopes of its calls share."""
        self._keeper = ResultKeeper(parts)
        self.news: list[str] = []
        """Results of deferred calls that the model has not read yet."""
        self._toolbox.on_toggle = partial(
            tell_toggle,
            parts.tools.source,
            session_id=self._caller.session_id,
            conversation_id=self._caller.conversation_id,
        )
        if parts.tools.parent is None:
            watch_session(parts.tools.source, self)

    @property
    def session_id(self) -> str:
        """The name of the conversation."""
        return self._caller.session_id

    @property
    def book(self) -> ApprovalBook:
        """Its requests for approval."""
        return self._gate.book

    @property
    def number(self) -> int:
        """How many calls have ended."""
        return self._keeper.number

    @number.setter
    def number(self, number: int) -> None:
        self._keeper.number = number

    async def execute(
        self, tool_name: str, params: Any, context: ToolExecutionContext | None, yes: Yes | None
    ) -> SessionResult:
        """Run a call; see `ToolSession.execute`.

        Args:
            tool_name: The tool, as the model knows it.
            params: Its arguments.
            context: Who calls, and within which limits.
            yes: The consent that was given for this very call before it came here.
        """
        is_plain = context is None and yes is None
        if is_plain and (begun := self._begin_plain(tool_name, params)) is not None:
            return await self._run_plain(*begun)
        if context is not None:
            check_context(context)
            if is_of_own(context):
                # It belongs to a conversation that has this one among its sources.
                result = await self._source.execute(tool_name, params, context)
                return as_session_result(result)
        began = monotonic()
        params = {} if params is None else read_plain(params)
        if monotonic() - began > _LONG:
            # A timer that is due takes two turns of the loop until its task runs.
            for _ in range(3):
                await asyncio.sleep(0)
        if self._variables.has_large and isinstance(params, dict) and may_refer(params):
            await make_ready(params, self._variables)
        called = self._find_called(tool_name) if isinstance(tool_name, str) else None
        # An invalid tool name may be any object that a program or a model made up.
        given, tool_name = tool_name, str(tool_name) if called is None else called.placed.name
        checked: _Ready | Refusal
        if called is None:
            checked = self._tools.refuse_missing(given)
        elif yes is None or is_same(called.placed.tool, yes.tool):
            checked = self._prepare_call(called, params)
        else:
            checked = refuse_changed(tool_name)
        if isinstance(checked, Refusal):
            placed = None if called is None else called.placed
            return await self._end_refused(tool_name, placed, params, context, checked)
        return await self._run_call(checked, params, context, yes=yes)

    def _begin_plain(
        self, tool_name: str, params: Any
    ) -> tuple[Called, SessionScope, ToolExecutionContext] | None:
        """Count a call to which no special rule applies; None: one may, and nothing was done.

        Of its tool it was found before, at its first call since anything changed.
        """
        found, (seen, known) = self._toolbox.find_present(), self._called
        if found is not seen or type(tool_name) is not str or type(params) is not dict:
            return None
        called = known.get(tool_name)
        if (
            called is None
            or called.free is None
            or not called.is_plain
            or LIMIT in params
            or not is_typed_flat(params)
            or (timeout := called.timeout) is None
            or not self._meter.take_plainly(called.placed.name, called.identity)
        ):
            return None
        name, caller = called.placed.name, self._caller
        read = self._read_labels.labels
        scope = SessionScope(
            self.of_scopes,
            Expanded(params, (), _NO_PLACES, read, read if params else _NO_LABELS),
            called=called,
            paid=self._meter.line,
            source=called.source,
            called_name=name,
            principal=caller.principal,
        )
        return called, scope, caller.bind(None, called.placed.tool, scope, timeout=timeout)

    async def _run_plain(
        self, called: Called, scope: SessionScope, bound: ToolExecutionContext
    ) -> SessionResult:
        placed, expanded = called.placed, scope.expanded
        try:
            result = await self._source.execute(placed.name, expanded.params, bound)
        finally:
            if scope.deferred:
                self._note_deferred(scope, placed.name, None)
        read = self._keeper.finish_plainly(called, result, scope)
        if read is not None:
            return read
        return await self._end_call(placed, expanded.params, expanded, result, scope)

    def refuse(
        self, tool_name: str, params: Any, context: ToolExecutionContext | None, refusal: Refusal
    ) -> SessionResult:
        """End a call that is not made, and keep nothing."""
        if is_of_own(context):
            result = self._source.refuse(tool_name, params, context, refusal)
            return as_session_result(result)
        bound = self._bind_refused(context, self._toolbox.find(tool_name))
        return as_session_result(self._source.refuse(tool_name, params, bound, refusal))

    async def resume(self, token: str, decision: Answer) -> SessionResult:
        """Answer a deferred request and continue its call; see `ToolSession.resume`."""
        return await self._home.carry(partial(self._resume_here, token, decision))

    async def _resume_here(self, token: str, decision: Answer) -> SessionResult:
        decided = decision_from(decision)
        if decided is None:
            raise ApprovalError("None is no answer to a call that waits: say True or False")
        result = await self._continue_call(token, decided)
        language = self._tools.config.language
        text = result.final_text or result.error or _EMPTY[language]
        self.news.append(_NEWS[language].format(result.tool_name, text))
        return result

    async def _continue_call(self, token: str, decision: ApprovalDecision) -> SessionResult:
        book = self._gate.book
        known = await book.find(token)
        kept = self._deferred.get(token, _UNKNOWN)
        tool = None if known is None else find_tool(self._tools, known, kept)
        named = None
        if tool is not None and known is not None:
            named = msgspec.structs.replace(tool, name=known.tool_name)
        if known is not None and decision.is_approved:
            check_shared(known, kept)
            check_engine(self._tools, known, tool)
        request = await book.answer(token, decision, named)
        is_of_here = self._deferred.pop(token, None) is not None
        name = request.tool_name if tool is None else tool.name
        if tool is None or named is None or not decision.is_approved:
            refusal = self._gate.refused(request, named, decision)
            refusal = refusal_named(refusal, request.tool_name, name)
            if request.kind == "result":
                self._results.withhold(request.call_id)
                return await finish_result(name, request, kept, refusal)
            return await self._end_refused(name, None, request.params, None, refusal)
        if request.kind == "result":
            return await self._keeper.finish_later(tool, name, request, kept)
        placed = self._toolbox.find(name)
        off = self._find_refusal_later(tool, request, kept)
        if off is None and not is_of_here:
            # Where it was asked about it was counted, and here it is a call like any other.
            is_asked_for = not request.is_nested
            off = self._meter.take(name, tool.max_uses, is_asked_for=is_asked_for)
        if off is not None:
            return await self._end_refused(name, placed, request.params, None, off)
        if placed is None:
            # The tool was called by another tool, so the model may not know it.
            placed = Placed(name, tool, True, False)
        # What was put in is there already, and is data now.
        put_in = Variable(name="approved", value=None, labels=kept.labels)
        variables = (put_in,) if kept.labels else ()
        expanded = Expanded(request.params, variables, read=self._read_labels.labels)
        source = "" if placed.is_own else source_of(self._source, name)
        ready = _Ready(placed, source, expanded, kept.paid or self._meter.spenders())
        context = None if kept.listener is None else heard_by(kept.listener, None)
        return await self._run_call(
            ready, request.params, context, request, kept=kept, by=decision.by
        )

    def forbids(self, tool: Tool, request: ApprovalRequest) -> Refusal | None:
        """Return why a call that this session asked about may not run after all."""
        off = self._tools.find_refusal_later(tool.name, is_nested=request.is_nested)
        return self._gate.denied(tool, request.params) if off is None else off

    def _find_refusal_later(
        self, tool: Tool, request: ApprovalRequest, kept: Deferred
    ) -> Refusal | None:
        """Return why an approved call may not run after all, here or where it was asked about."""
        off = self._tools.find_refusal_later(tool.name, is_nested=request.is_nested)
        if off is not None or kept.asker is None or kept.asker is self:
            return off
        return kept.asker.forbids(tool, request)

    def _bind_refused(
        self, context: ToolExecutionContext | None, placed: Placed | None
    ) -> ToolExecutionContext:
        scope = SessionScope(self.of_scopes, _NOTHING)
        if placed is None:
            return self._caller.bind(context, None, scope)
        return self._caller.bind(context, placed.tool, scope, is_own=placed.is_own)

    async def _end_refused(
        self,
        tool_name: str,
        placed: Placed | None,
        params: Any,
        context: ToolExecutionContext | None,
        refusal: Refusal,
    ) -> SessionResult:
        bound = self._bind_refused(context, placed)
        sent = params if isinstance(params, dict) else {"value": params}
        result = self._source.refuse(tool_name, sent, bound, refusal)
        return await self._keeper.finish(tool_name, placed, sent, _NOTHING, result)

    async def _run_call(
        self,
        ready: _Ready,
        params: Any,
        context: ToolExecutionContext | None,
        asked: ApprovalRequest | None = None,
        yes: Yes | None = None,
        kept: Deferred = _UNKNOWN,
        by: str | None = None,
    ) -> SessionResult:
        placed, expanded, called = ready.placed, ready.expanded, ready.called
        tool_name = placed.name
        is_nested = asked is not None and asked.is_nested
        scope = SessionScope(
            self.of_scopes,
            expanded,
            None if asked is None else (asked.fingerprint, by),
            None if asked is None else partial(self._find_refusal_later, placed.tool, asked, kept),
            called=called,
            yes=yes,
            paid=ready.paid,
            source=ready.source,
            called_name=tool_name if asked is None else asked.called_name,
            is_nested=is_nested,
            principal=self._caller.principal or ("" if context is None else principal_of(context)),
        )
        if _has_secrets(placed.tool) if called is None else called.has_secrets:
            self.secrets.note(placed.tool, expanded.params)
        self._keeper.note_put_in(placed.tool, scope)
        whole = scope if asked is None else join_scopes(scope, asked, kept)
        timeout = None if called is None else called.timeout
        if timeout is None and called is not None and self._caller.is_alone:
            timeout = called.timeout = self._caller.find_timeout(placed.tool)
        bound = self._caller.bind(
            context, placed.tool, whole, is_own=placed.is_own, timeout=timeout
        )
        try:
            result = await self._source.execute(tool_name, expanded.params, bound)
        except asyncio.CancelledError:
            failure = getattr(bound, "failure", None)
            if failure is not None and context is not None:
                context.note_failure(failure)
            raise
        finally:
            if scope.deferred:
                self._note_deferred(scope, tool_name, context)
        for part in kept.parts:
            scope.take_asks(part)
        return await self._end_call(placed, params, expanded, result, scope)

    def _note_deferred(
        self, scope: SessionScope, tool_name: str, context: ToolExecutionContext | None
    ) -> None:
        """Note the calls that wait for an answer: this one, or some that its tool made."""
        for token, is_itself in scope.deferred.items():
            name = tool_name if is_itself else None
            heard = context.on_progress if is_itself and context is not None else None
            note_deferred(
                self._deferred, self._gate.book, token, scope, name, asker=self, listener=heard
            )

    async def _end_call(
        self,
        placed: Placed,
        params: Any,
        expanded: Expanded,
        result: ToolExecutionResult,
        scope: SessionScope,
    ) -> SessionResult:
        """Return what the model reads of a call that has ended in the engine."""
        if scope.tool is not None and not result.is_success:
            result = named_twice(result, scope.tool.name)
        if not result.is_success and not is_use(result):
            # What is wrong with it can be put right: that is no use of the tool.
            self._meter.give_back(placed.name, scope.paid, is_asked_for=not scope.is_nested)
        return await self._keeper.finish(placed.name, placed, params, expanded, result, scope)

    def _find_called(self, tool_name: str) -> Called | None:
        """Return the one tool of a shown name, on or off, or None."""
        found, (seen, known) = self._toolbox.find_present(), self._called
        if found is not seen:
            known = {}
            self._called = found, known
        called = known.get(tool_name)
        if called is None and (placed := self._toolbox.find(tool_name)) is not None:
            # Further names of a tool mean the same one.
            name = placed.name
            source, config = "" if placed.is_own else source_of(self._source, name), found.config
            limit, show = (
                find_limit(config, placed.tool, name),
                find_show(config, name, placed.tool),
            )
            identity, has_secrets = self._tools.identify(name), _has_secrets(placed.tool)
            called = Called(placed, identity, source, found, limit, show, has_secrets)
            called.is_plain = (
                placed.is_enabled
                and placed.tool.max_uses is None
                and show == ResultShow.FULL.value
                and self._caller.is_alone
                and not (placed.is_own or has_secrets or name in READING)
            )
            known[name] = called
        return called

    def _prepare_call(self, called: Called, params: Any) -> _Ready | Refusal:
        """Check a call, count it, and replace the references in its arguments."""
        placed, identity, source = called.placed, called.identity, called.source
        tool_name = placed.name
        # The tool was looked up a moment ago; for a helper, the sessions above it must agree too.
        if not placed.is_enabled or self._tools.parent is not None:
            off = self._tools.find_refusal(tool_name)
            if off is not None:
                return off
        spenders, most = self._meter.spenders(), placed.tool.max_uses
        refusal = self._meter.take(tool_name, most, identity=identity, spenders=spenders)
        if refusal is not None:
            return refusal
        if not isinstance(params, dict):
            # Validation reports what is wrong with it.
            return _Ready(placed, source, Expanded(params, ()), spenders, called)
        try:
            return _Ready(placed, source, self._put_in(placed, params), spenders, called)
        except VariableError as error:
            self._meter.give_back(tool_name, spenders)
            message = _describe_error(error, placed.tool)
            findings = (finding_of(message, error.path),)
            return Refusal(ErrorType.VALIDATION_ERROR.value, message, None, findings)

    def _put_in(self, placed: Placed, params: dict[str, Any]) -> Expanded:
        sent = params if LIMIT not in params else without_hidden_limit(params, placed.tool)
        typed = sent
        if placed.is_own and placed.name in VARIABLE_TOOLS:
            check_arguments(placed.tool, sent)
            if placed.name == WRITE_VAR:
                # What it keeps is the value, whatever else is written beside it.
                typed = {key: item for key, item in sent.items() if key == "value"}
        read = self._read_labels.labels
        if not may_refer(sent):
            # All of it is typed.
            return Expanded(sent, (), _NO_PLACES, read, read if typed else _NO_LABELS)
        is_typed = bool(read) and has_typed(typed, placed.tool)
        expanded = (
            expand_written(sent, placed.tool, self._variables)
            if is_written(params)
            else expand_references(sent, self._variables)
        )
        labels = read if is_typed else _NO_LABELS
        return msgspec.structs.replace(expanded, read=read, typed=labels)


def _has_secrets(tool: Tool) -> bool:
    return bool(tool.secret_names or tool.secret_parts)


def _describe_error(error: VariableError, tool: Tool) -> str:
    """Return a reference's fault, without the words of a secret argument."""
    places = {place.rstrip("]") for place in str(error.path).replace("[", ".").split(".")}
    secrets = tool.secret_names | tool.secret_parts
    is_secret = UNNAMED in secrets or not places.isdisjoint(secrets)
    return hide_quotes(str(error)) if is_secret else str(error)
