"""How does a session run one call and turn its result into text for the model?

references -> engine (validate, consent, admit, run) -> consent to the result -> variables -> text
"""

from __future__ import annotations

import asyncio
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple

import msgspec

from tool_engine.calls.uses import is_use
from tool_engine.errors import VariableError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.call import Refusal, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.caller import check_context
from tool_engine.model.finding import finding_of
from tool_engine.model.json.plain import read_plain
from tool_engine.model.outcome import ErrorType
from tool_engine.model.result import ResultShow
from tool_engine.model.tool import Tool, is_same
from tool_engine.output.shaping import is_quick
from tool_engine.protocols.allowed_call import Yes, take_yes
from tool_engine.protocols.written_arguments import is_written
from tool_engine.redaction import hide_quotes
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.contexts import context_of
from tool_engine.session.deferral import (
    check_engine,
    check_shared,
    result_of,
    scope_of,
    tool_of,
    withheld,
)
from tool_engine.session.keeping import (
    REFUSED,
    Ended,
    is_told_by_tool,
    labels_of_call,
    labels_read,
    remember,
)
from tool_engine.session.narrowing import of_reply
from tool_engine.session.prompt.skills import READING
from tool_engine.session.reading.hiding import hide_result, least_shown, show_of
from tool_engine.session.reading.presentation import (
    Presentation,
    Presented,
    present,
    present_in_time,
    with_limit,
    without_hidden_limit,
)
from tool_engine.session.reading.result import SessionResult, reason_of
from tool_engine.session.scope import SessionScope, changed
from tool_engine.session.state import Deferred, Rest, SessionState
from tool_engine.session.toolbox.toolbox import Found, Placed
from tool_engine.session.variables.references import (
    Expanded,
    expand,
    has_typed,
    make_ready,
    refers,
)
from tool_engine.session.variables.store import Variable
from tool_engine.session.variables.variable_definitions import (
    VARIABLE_TOOLS,
    WRITE_VAR,
    check_arguments,
)
from tool_engine.session.variables.variable_tools import (
    NamesOfCall,
    names_of_call,
)
from tool_engine.session.variables.written import expand_written
from tool_engine.sources.identity import source_of
from tool_engine.sources.naming import named_twice, refusal_named

_NOTHING: Final = Expanded({}, ())
_WHOLE: Final = Presentation()
_UNKNOWN: Final = Deferred()
_FULL: Final = ResultShow.FULL.value
_NO_LABELS: Final = frozenset[str]()
_NEWS: Final = {
    "en": "The call of {0} that waited for consent has ended: {1}",
    "zh": "等待同意的 {0} 调用已结束：{1}",
}


_EMPTY: Final = {"en": "its result is empty", "zh": "结果为空"}


class _Ready(NamedTuple):
    placed: Placed
    expanded: Expanded


class SessionCalls:
    """Run the calls of one conversation.

    Args:
        session: The conversation.
    """

    def __init__(self, session: SessionState) -> None:
        self._session = session
        self.number = 0
        self.news: list[str] = []
        """Results of deferred calls that the model has not read yet."""

    async def execute(
        self, tool_name: str, params: Any, context: ToolExecutionContext | None
    ) -> SessionResult:
        session = self._session
        if context is not None:
            check_context(context)
        # It is good for this call, however this call ends.
        yes = take_yes(session, params)
        params = {} if params is None else read_plain(params)
        if session.variables.has_large and isinstance(params, dict) and refers(params):
            await make_ready(params, session.variables)
        placed = session.toolbox.find(tool_name) if isinstance(tool_name, str) else None
        # An invalid tool name may be any object that a program or a model made up.
        tool_name = str(tool_name)
        is_known = yes is None or placed is None or is_same(placed.tool, yes.tool)
        checked = self._checked(tool_name, placed, params) if is_known else changed(tool_name)
        if isinstance(checked, Refusal):
            return await self._refused(tool_name, placed, params, context, checked)
        return await self._run(checked.placed, params, checked.expanded, context, yes=yes)

    async def resume(self, token: str, decision: ApprovalDecision) -> SessionResult:
        result = await self._resumed(token, decision)
        told = result.final_text or result.error or _EMPTY[self._session.config.language]
        self.news.append(_NEWS[self._session.config.language].format(result.tool_name, told))
        return result

    async def _resumed(self, token: str, decision: ApprovalDecision) -> SessionResult:
        book = self._session.gate.book
        known = await book.find(token)
        kept = self._session.deferred.get(token, _UNKNOWN)
        tool = None if known is None else tool_of(self._session, known, kept)
        named = None
        if tool is not None and known is not None:
            named = msgspec.structs.replace(tool, name=known.tool_name)
        if known is not None and decision.is_approved:
            check_shared(known, kept)
            check_engine(self._session, known, tool)
        request = await book.answer(token, decision, named)
        is_of_here = self._session.deferred.pop(token, None) is not None
        name = request.tool_name if tool is None else tool.name
        if tool is None or named is None or not decision.is_approved:
            refusal = self._session.gate.refused(request, named, decision.reason)
            refusal = refusal_named(refusal, request.tool_name, name)
            if request.kind == "result":
                self._session.results.withhold(request.call_id)
                return await result_of(name, request, kept, refusal)
            return await self._refused(name, None, request.params, None, refusal)
        if request.kind == "result":
            return await self._read_later(tool, name, request, kept)
        placed = self._session.toolbox.find(name)
        off = self._off_for(name, request.is_nested)
        if off is None and not is_of_here:
            # Where it was asked about it was counted, and here it is a call like any other.
            is_asked_for = not request.is_nested
            off = self._session.meter.take(name, tool.max_uses, is_asked_for=is_asked_for)
        if off is not None:
            return await self._refused(name, placed, request.params, None, off)
        if placed is None:
            # The tool was called by another tool, so the model may not know it.
            placed = Placed(name, tool, True, False)
        # What was put in is there already, and is data now.
        put_in = Variable(name="approved", value=None, labels=kept.labels)
        variables = (put_in,) if kept.labels else ()
        expanded = Expanded(request.params, variables, read=self._session.read_labels.labels)
        return await self._run(placed, request.params, expanded, None, request, kept=kept)

    async def _read_later(
        self, tool: Tool, tool_name: str, request: ApprovalRequest, kept: Deferred
    ) -> SessionResult:
        """Finish a call whose result was approved for reading after the call had ended."""
        self._session.results.allow(request.call_id)
        read = await result_of(tool_name, request, kept, None)
        if kept.rest is None:
            # The variables are in another process, if they exist at all.
            source = source_of(self._session.source, tool_name)
            call = Ended(tool, request.tool_name, request.params, read, kept.labels, source)
            labels = labels_of_call(call)
            self._session.results.note(request.call_id, labels)
            show = self._show(tool_name, tool)
            if show != _FULL:
                return hide_result(read, show, None, len(read.formatted_text), self._language)
            self._session.read_labels.note(
                labels_read(call, labels, has_begun=True, is_formatted=True)
            )
        return read

    def _off_since(self, found: Found | None, tool_name: str) -> Refusal | None:
        """Check `_off` again for a tool that was on before an approval was awaited."""
        is_as_it_was = self._session.toolbox.found is found and self._session.parent is None
        return None if is_as_it_was else self._off(tool_name)

    def _off_for(self, tool_name: str, is_nested: bool) -> Refusal | None:
        """Check `_off` for a call that was approved later.

        A tool that another tool calls may be unknown to the model.
        """
        if not is_nested:
            return self._off(tool_name)
        session: SessionState | None = self._session
        while session is not None:
            if not session.config.enabled:
                return Refusal(ErrorType.REJECTED.value, "tools are off in this conversation")
            session = session.parent
        return None

    def _off(self, tool_name: str) -> Refusal | None:
        """Return why an existing tool may not be called, or None if it may."""
        if self._session.get(tool_name) is not None:
            return None
        if self._session.toolbox.find(tool_name) is None:
            # The tool was removed while approval was awaited.
            missing = self._session.missing(tool_name)
            return Refusal(ErrorType.TOOL_NOT_FOUND.value, missing)
        message = f"the tool {tool_name!r} is there, but not enabled in this conversation"
        return Refusal(ErrorType.REJECTED.value, message)

    async def _refused(
        self,
        tool_name: str,
        placed: Placed | None,
        params: Any,
        context: ToolExecutionContext | None,
        refusal: Refusal,
    ) -> SessionResult:
        session = self._session
        scope = SessionScope(session.own, session.gate, _NOTHING, showing=session.showing)
        bound = context_of(session, context, None if placed is None else placed.tool, scope)
        sent = params if isinstance(params, dict) else {"value": params}
        result = session.source.refuse(str(tool_name), sent, bound, refusal)
        return await self._ended(tool_name, placed, sent, _NOTHING, result)

    async def _run(
        self,
        placed: Placed,
        params: Any,
        expanded: Expanded,
        context: ToolExecutionContext | None,
        asked: ApprovalRequest | None = None,
        yes: Yes | None = None,
        kept: Deferred = _UNKNOWN,
    ) -> SessionResult:
        session, tool_name = self._session, placed.name
        scope = SessionScope(
            session.own,
            session.gate,
            expanded,
            None if asked is None else asked.fingerprint,
            partial(self._off_since, session.toolbox.found, tool_name)
            if asked is None
            else partial(self._off_for, tool_name, asked.is_nested),
            yes=None if yes is None else yes.is_consent,
            line=session.meter.line,
            paid=session.meter.spenders() if not kept.paid else kept.paid,
            showing=session.showing,
            source="" if placed.is_own else source_of(session.source, tool_name),
            called_name=tool_name if asked is None else asked.called_name,
            catalog=session.source,
            is_nested=asked is not None and asked.is_nested,
            home=session.home,
        )
        whole = scope if asked is None else scope_of(scope, asked, kept)
        bound = context_of(session, context, placed.tool, whole)
        try:
            result = await session.source.execute(placed.name, expanded.params, bound)
        except asyncio.CancelledError:
            failure = getattr(bound, "failure", None)
            if failure is not None and context is not None:
                context.note_failure(failure)
            raise
        finally:
            for token, is_itself in scope.deferred.items():
                self._note(token, scope, tool_name if is_itself else None)
        for part in kept.parts:
            scope.take_asks(part)
        if scope.tool is not None and not result.is_success:
            result = named_twice(result, scope.tool.name)
        if not is_use(result):
            # What is wrong with it can be put right: that is no use of the tool.
            is_asked_for = asked is None or not asked.is_nested
            session.meter.give_back(tool_name, scope.paid, is_asked_for=is_asked_for)
        return await self._ended(tool_name, placed, params, expanded, result, scope)

    def _checked(self, tool_name: Any, placed: Placed | None, params: Any) -> _Ready | Refusal:
        """Check a call and replace the references in its arguments."""
        session = self._session
        if placed is None:
            return Refusal(ErrorType.TOOL_NOT_FOUND.value, session.missing(tool_name))
        # The tool was looked up a moment ago; for a helper, the sessions above it must agree too.
        if not placed.is_enabled or session.parent is not None:
            off = self._off(tool_name)
            if off is not None:
                return off
        refusal = session.meter.take(tool_name, placed.tool.max_uses)
        if refusal is not None:
            return refusal
        if not isinstance(params, dict):
            # Validation reports what is wrong with it.
            return _Ready(placed, _NOTHING._replace(params=params))
        try:
            return _Ready(placed, self._put_in(placed, params))
        except VariableError as error:
            session.meter.give_back(tool_name)
            message = _describe_error(error, placed.tool)
            findings = (finding_of(message, error.path),)
            return Refusal(ErrorType.VALIDATION_ERROR.value, message, None, findings)

    def _put_in(self, placed: Placed, params: dict[str, Any]) -> Expanded:
        sent = typed = without_hidden_limit(params, placed.tool)
        if placed.is_own and placed.name in VARIABLE_TOOLS:
            check_arguments(placed.tool, sent)
            if placed.name == WRITE_VAR:
                # What it keeps is the value, whatever else is written beside it.
                typed = {key: item for key, item in sent.items() if key == "value"}
        if is_written(params):
            expanded = expand_written(sent, placed.tool, self._session.variables)
        else:
            expanded = expand(sent, self._session.variables)
        read = self._session.read_labels.labels
        if not read:
            return expanded
        is_typed = has_typed(typed, lambda: {each.name for each in placed.tool.parameters})
        return Expanded(expanded.params, expanded.variables, expanded.texts, read, is_typed)

    async def _ended(
        self,
        tool_name: str,
        placed: Placed | None,
        params: Any,
        expanded: Expanded,
        result: ToolExecutionResult,
        scope: SessionScope | None = None,
    ) -> SessionResult:
        """Turn a finished call into a session result."""
        session = self._session
        self.number += 1
        tool, names = None if placed is None else placed.tool, None
        presentation = session.presentations.get(tool_name, _WHOLE)
        is_kept = presentation.is_kept and result.error_type not in REFUSED
        if is_kept and placed is not None and scope is not None and tool_name not in READING:
            # What a model reads of its own variables is in them already.
            names = names_of_call(tool_name, self.number, session.variables)
        arguments = expanded.params if isinstance(expanded.params, dict) else {}
        # Functions in code read what the tool ran with, defaults filled in.
        filled = {} if scope is None or presentation is _WHOLE else scope.params
        present_it = present if is_quick(result.output) else present_in_time
        presented = present_it(
            result,
            with_limit({**arguments, **filled}, params),
            tool,
            presentation,
            self._limit(tool_name, tool, presentation),
            variable=names.result if names is not None and result.is_success else None,
            language=session.config.language,
            has_reader=session.config.tool_toggles.get("read_var", True),
        )
        # What is short is there at once.
        shown = presented if isinstance(presented, Presented) else await presented
        read, refusal = _read(tool_name, result, shown), None
        if placed is not None and result.error_type not in REFUSED:
            said, sent = placed.tool, arguments
            if scope is not None and scope.tool is not None:
                # Rules are about the tool as the engine has it, and about what it ran with.
                said, sent = scope.tool, scope.params
            is_error = not result.is_success
            is_asked = scope is not None and scope.asks_about_result(is_error)
            if is_asked or not session.gate.is_readable(said, sent, is_error):
                review = partial(self._review, called_name=tool_name, is_asked=is_asked)
                refusal = await review(said, sent, shown.final_text, result)
                refusal = refusal and refusal_named(refusal, said.name, tool_name)
            token = None if refusal is None else (refusal.details or {}).get("approval_token")
            if token is not None:
                rest = partial(self._kept, read, tool, names, arguments, result, scope)
                self._note(token, scope, placed.name, rest)
        return await self._kept(read, tool, names, arguments, result, scope, refusal)

    async def _kept(
        self,
        read: SessionResult,
        tool: Tool | None,
        names: NamesOfCall | None,
        arguments: dict[str, Any],
        result: ToolExecutionResult,
        scope: SessionScope | None,
        refusal: Refusal | None,
    ) -> SessionResult:
        """Keep the result in variables, unless the model may not read it."""
        session = self._session
        if refusal is not None:
            session.results.withhold(result.call_id)
            return withheld(read, refusal)
        call, labels = None, _NO_LABELS
        if tool is not None and scope is not None:
            ran_as = (scope.tool or tool).name
            call = Ended(tool, ran_as, arguments, result, frozenset(scope.labels), scope.source)
            labels = labels_of_call(call)
            if names is not None:
                await remember(session.variables, call, names, labels)
            session.results.note(result.call_id, labels)
        if names is not None:
            # With room for one variable the result has taken its place.
            is_there = names.args in session.variables
            read.args_variable = names.args if is_there else None
            read.result_variable = names.result if result.is_success else None
        if call is None or scope is None:
            return read
        return self._shown(read, call, labels, has_begun=scope.has_begun)

    def _shown(
        self, read: SessionResult, call: Ended, labels: frozenset[str], *, has_begun: bool
    ) -> SessionResult:
        """Return what the model reads of a call, and note where that came from."""
        session = self._session
        show = self._show(read.tool_name, call.tool)
        if show != _FULL and is_told_by_tool(call.result, has_begun=has_begun):
            name, chars = read.result_variable, len(read.formatted_text)
            if name is not None and name in session.variables:
                chars = session.variables.get(name).chars
            return hide_result(read, show, name, chars, self._language)
        own = session.presentations.get(read.tool_name)
        is_formatted = own is not None and (own.format is not None or own.truncate is not None)
        session.read_labels.note(
            labels_read(call, labels, has_begun=has_begun, is_formatted=is_formatted)
        )
        return read

    async def _review(
        self,
        tool: Tool,
        params: dict[str, Any],
        text: str,
        result: ToolExecutionResult,
        *,
        called_name: str,
        is_asked: bool,
    ) -> Refusal | None:
        """Return why the model may not read a result, which then stays out of its variables."""
        gate, call_id = self._session.gate, result.call_id or ""
        is_error, error_type = not result.is_success, result.error_type
        return await gate.review(
            call_id,
            tool,
            params,
            text,
            is_error,
            error_type=error_type,
            is_asked=is_asked,
            called_name=called_name,
        )

    def _note(
        self,
        token: str,
        scope: SessionScope | None,
        tool_name: str | None,
        rest: Rest | None = None,
    ) -> None:
        """Note what `resume` needs, and forget requests that have expired."""
        deferred, book = self._session.deferred, self._session.gate.book
        # The oldest stand first; those that may be answered are not looked at each time.
        while deferred and not book.is_open(oldest := next(iter(deferred))):
            del deferred[oldest]
        labels = frozenset[str]() if scope is None else frozenset(scope.labels)
        parts = () if scope is None else scope.shared.get(token, ())
        paid = () if scope is None else scope.paid
        deferred[token] = Deferred(labels, tool_name, rest, parts, scope if parts else None, paid)

    @property
    def _language(self) -> str:
        return self._session.config.language

    def _show(self, tool_name: str, tool: Tool | None) -> str:
        """Return how much of a result the model reads: what its reply's settings say counts too."""
        config, of_its_reply = self._session.config, of_reply(self._session)
        is_of_tool = bool(config.tool_show) or (tool is not None and tool.result is not None)
        if of_its_reply is None and config.show == _FULL and not is_of_tool:
            # As almost always.
            return _FULL
        show = show_of(config, tool_name, tool)
        if of_its_reply is None:
            return show
        return least_shown(show, show_of(of_its_reply, tool_name, tool))

    def _limit(self, tool_name: str, tool: Tool | None, presentation: Presentation) -> int:
        """Return the limit: the session's, the code's, the definition's or the default. S7."""
        declared = None if tool is None or tool.result is None else tool.result.limit
        said = presentation.limit if presentation.limit is not None else declared
        config, of_its_reply = self._session.config, of_reply(self._session)
        limit = _limit_by(config, tool_name, said)
        if of_its_reply is None:
            return limit
        other = _limit_by(of_its_reply, tool_name, said)
        return min(limit, other, key=lambda each: each if each > 0 else inf)


def _limit_by(config: ToolCallConfig, tool_name: str, said: int | None) -> int:
    own = config.tool_limits.get(tool_name)
    if own is not None:
        return own
    return config.limit if said is None else said


def _read(tool_name: str, result: ToolExecutionResult, shown: Presented) -> SessionResult:
    metadata = result.metadata
    return SessionResult(
        result.is_success,
        tool_name,
        result.output,
        result.error,
        result.error_type,
        result.validation_errors,
        result.execution_time,
        result.executed_at,
        {**metadata, "findings": shown.findings} if shown.findings else metadata,
        formatted_text=shown.formatted_text,
        final_text=shown.final_text,
        is_truncated=shown.is_truncated,
        reject_reason=reason_of(result),
    )


def _describe_error(error: VariableError, tool: Tool) -> str:
    """Return what is wrong with a reference, without the words of a secret argument."""
    places = {place.rstrip("]") for place in str(error.path).replace("[", ".").split(".")}
    is_secret = not places.isdisjoint(tool.secret_names | tool.secret_parts)
    return hide_quotes(str(error)) if is_secret else str(error)
