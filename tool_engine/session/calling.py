"""How does one call of a conversation go: what is put in, what is kept, what does the model read?

references -> engine (validate, consent, admit, run) -> consent to the result -> variables -> text
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from tool_engine.errors import VariableError
from tool_engine.model.approval import ApprovalDecision
from tool_engine.model.call import (
    DEFAULT_TIMEOUT,
    ErrorType,
    Refusal,
    ToolExecutionContext,
    ToolExecutionResult,
)
from tool_engine.model.tool import Tool
from tool_engine.session.deferral import result_of, tool_of
from tool_engine.session.labels import labels_of_result
from tool_engine.session.presentation import (
    Presentation,
    present_in_time,
    without_hidden_limit,
)
from tool_engine.session.references import Expanded, expand
from tool_engine.session.result import SessionResult
from tool_engine.session.scope import SessionScope
from tool_engine.session.skills import READING
from tool_engine.session.state import Deferred, SessionState
from tool_engine.session.toolbox import Placed
from tool_engine.session.variable_tools import keep_call_in_time, names_of_call
from tool_engine.session.variables import Variable

__all__ = ["SessionCalls", "confirmed"]

_CALLER: Final = "conversation_agent"
_UNSET: Final = 30.0
"""The `timeout` of settings that say nothing: then the tool's own decides."""
_NOTHING: Final = Expanded({}, ())
_WHOLE: Final = Presentation()
_NEWS: Final = {
    "en": "The call of {0} that waited for consent has ended: {1}",
    "zh": "等待同意的 {0} 调用已结束：{1}",
}


confirmed: Final[ContextVar[bool]] = ContextVar("confirmed", default=False)
"""Whether the call that is made next in this task was asked about before it came here. A29."""


class _Ready(NamedTuple):
    """A call that may be made."""

    placed: Placed
    expanded: Expanded


class SessionCalls:
    """Takes the calls of one conversation through.

    Args:
        session: The conversation.
    """

    def __init__(self, session: SessionState) -> None:
        self._session = session
        self.number = 0
        """How many calls there were."""
        self.news: list[str] = []
        """What the model has not been told yet of calls that were deferred."""

    async def execute(
        self, tool_name: str, params: Any, context: ToolExecutionContext | None
    ) -> SessionResult:
        """One call; see `ToolSession.execute`."""
        session = self._session
        placed = session.toolbox.find(tool_name) if isinstance(tool_name, str) else None
        # What names no tool may be anything that a program or a model can come up with.
        tool_name = str(tool_name)
        params = {} if params is None else params
        checked = self._checked(tool_name, placed, params)
        if isinstance(checked, Refusal):
            return await self._refused(tool_name, placed, params, context, checked)
        return await self._run(checked.placed, params, checked.expanded, context)

    async def resume(self, token: str, decision: ApprovalDecision) -> SessionResult:
        """The end of a call that was deferred; see `ToolSession.resume`."""
        result = await self._resumed(token, decision)
        told = result.final_text or result.error or ""
        self.news.append(_NEWS[self._session.config.language].format(result.tool_name, told))
        return result

    async def _resumed(self, token: str, decision: ApprovalDecision) -> SessionResult:
        book = self._session.gate.book
        known = {each.token: each for each in await book.pending_anywhere()}
        kept = self._session.deferred.get(token, Deferred())
        tool = tool_of(self._session, known[token], kept) if token in known else None
        named = None if tool is None else msgspec.structs.replace(tool, name=known[token].tool_name)
        request = await book.answer(token, decision, named)
        self._session.deferred.pop(token, None)
        name = request.tool_name if tool is None else tool.name
        if tool is None or named is None or not decision.is_approved:
            refusal = self._session.gate.refused(request, named, decision.reason)
            if request.kind == "result":
                return result_of(name, request, refusal)
            return await self._refused(name, None, request.params, None, refusal)
        if request.kind == "result":
            return result_of(name, request, None)
        placed = self._session.toolbox.find(name)
        off = None if kept.tool_name is None else self._off(name)
        if off is not None:
            return await self._refused(name, placed, request.params, None, off)
        if placed is None:
            # A tool that another one called, of which the model is not told.
            placed = Placed(name, tool, True, False)
        # What was put in is there already, and is data now.
        put_in = Variable(name="approved", value=None, labels=kept.labels)
        variables = (put_in,) if kept.labels else ()
        expanded = Expanded(request.params, variables, self._session.variables)
        return await self._run(placed, request.params, expanded, None, request.fingerprint)

    def _off(self, tool_name: str) -> Refusal | None:
        """Why a tool that is there may not be called; None: it may."""
        if self._session.get(tool_name) is not None:
            return None
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
        bound = self.bound(context, placed)
        bound.scope = SessionScope(session.own, session.gate, _NOTHING)
        sent = params if isinstance(params, dict) else {"value": params}
        result = session.source.refuse(str(tool_name), sent, bound, refusal)
        return await self._ended(tool_name, placed, sent, _NOTHING, result)

    async def _run(
        self,
        placed: Placed,
        params: Any,
        expanded: Expanded,
        context: ToolExecutionContext | None,
        consented: str | None = None,
    ) -> SessionResult:
        session, tool_name = self._session, placed.name
        bound = self.bound(context, placed)
        scope = SessionScope(
            session.own,
            session.gate,
            expanded,
            consented,
            # What was approved may be a tool that only other ones call.
            partial(self._off, tool_name) if consented is None else lambda: None,
            is_confirmed=confirmed.get(),
        )
        confirmed.set(False)
        bound.scope = scope
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
        return await self._ended(tool_name, placed, params, expanded, result, scope)

    def _checked(self, tool_name: Any, placed: Placed | None, params: Any) -> _Ready | Refusal:
        """A call that may be made, with its arguments without references."""
        session = self._session
        if placed is None:
            return Refusal(ErrorType.TOOL_NOT_FOUND.value, session.missing(tool_name))
        off = self._off(tool_name)
        if off is not None:
            return off
        refusal = session.meter.take(tool_name, placed.tool.max_uses)
        if refusal is not None:
            return refusal
        if not isinstance(params, dict):
            # What is wrong with it is for the validation to say.
            return _Ready(placed, _NOTHING._replace(params=params))
        sent = without_hidden_limit(params, placed.tool)
        try:
            return _Ready(placed, expand(sent, session.variables))
        except VariableError as error:
            return Refusal(ErrorType.VALIDATION_ERROR.value, str(error))

    def bound(
        self, context: ToolExecutionContext | None, placed: Placed | None = None
    ) -> ToolExecutionContext:
        """A copy of the context that says which conversation a call belongs to."""
        session = self._session
        if context is None:
            context = ToolExecutionContext()
        timeout = context.timeout
        if timeout is DEFAULT_TIMEOUT or timeout is None:
            timeout = self._timeout(None if placed is None else placed.tool)
        is_anonymous = context.caller_id is None and context.caller_type == "unknown"
        return msgspec.structs.replace(
            context,
            caller_id=session.agent_id if is_anonymous else context.caller_id,
            caller_type=_CALLER if is_anonymous else context.caller_type,
            conversation_id=context.conversation_id or session.conversation_id,
            session_id=session.session_id,
            timeout=timeout,
        )

    def _timeout(self, tool: Tool | None) -> float:
        own = None if tool is None else tool.timeout
        session: SessionState | None = self._session
        limits = []
        # A helper has no more time than whoever it works for.
        while session is not None:
            limit = session.config.timeout
            if own is not None:
                limit = own if limit == _UNSET else min(own, limit)
            limits.append(limit)
            session = session.parent
        return min(limits)

    async def _ended(
        self,
        tool_name: str,
        placed: Placed | None,
        params: Any,
        expanded: Expanded,
        result: ToolExecutionResult,
        scope: SessionScope | None = None,
    ) -> SessionResult:
        """What the conversation makes of a call that has ended."""
        session = self._session
        self.number += 1
        tool, names = None if placed is None else placed.tool, None
        presentation = session.presentations.get(tool_name, _WHOLE)
        is_kept = presentation.is_kept and result.error_type not in _REFUSED
        if is_kept and placed is not None and scope is not None and tool_name not in READING:
            # What a model reads of its own variables is in them already.
            names = names_of_call(tool_name, self.number, session.variables)
        arguments = expanded.params if isinstance(expanded.params, dict) else {}
        shown = await present_in_time(
            result,
            _with_limit(arguments, params),
            tool,
            presentation,
            self._limit(tool_name, tool, presentation),
            variable=names.result if names is not None and result.is_success else None,
            language=session.config.language,
        )
        known = {name: getattr(result, name) for name in ToolExecutionResult.__struct_fields__}
        known |= {"tool_name": tool_name, "formatted_text": shown.formatted_text}
        if shown.findings:
            known["metadata"] = {**result.metadata, "findings": shown.findings}
        if placed is not None and result.error_type not in _REFUSED:
            refusal = await self._review(placed, arguments, shown.final_text, result, scope)
            if refusal is not None:
                return _withheld(known, refusal)
        if tool is not None and names is not None and scope is not None:
            ran = msgspec.structs.replace(result, tool_name=(scope.tool or tool).name)
            labels = labels_of_result(tool, arguments, ran, scope.labels)
            put_in = frozenset(scope.labels)
            await keep_call_in_time(
                session.variables, tool, names, arguments, result, labels, put_in
            )
        has_result = names is not None and result.is_success
        return SessionResult(
            **known,
            final_text=shown.final_text,
            is_truncated=shown.is_truncated,
            reject_reason=_reason(result),
            result_variable=names.result if names is not None and has_result else None,
            args_variable=None if names is None else names.args,
        )

    async def _review(
        self,
        placed: Placed,
        params: dict[str, Any],
        text: str,
        result: ToolExecutionResult,
        scope: SessionScope | None,
    ) -> Refusal | None:
        """Why the model may not read a result, which stays out of its variables then."""
        gate, call_id, tool = self._session.gate, result.call_id or "", placed.tool
        if scope is not None and scope.tool is not None:
            # Rules are about the tool as the engine has it, and about what it ran with.
            tool, params = scope.tool, scope.params
        refusal = await gate.review(call_id, tool, params, text, not result.is_success)
        token = None if refusal is None else (refusal.details or {}).get("approval_token")
        if token is not None:
            self._note(token, scope, placed.name)
        return refusal

    def _note(self, token: str, scope: SessionScope | None, tool_name: str | None) -> None:
        """What `resume` has to know; of requests that have expired it is forgotten."""
        is_open = {each.token for each in self._session.gate.book.pending()}
        deferred = self._session.deferred
        for each in deferred.keys() - is_open:
            del deferred[each]
        labels = frozenset[str]() if scope is None else frozenset(scope.labels)
        deferred[token] = Deferred(labels, tool_name)

    def _limit(self, tool_name: str, tool: Tool | None, presentation: Presentation) -> int:
        """Characters: the session's word, the code's, the definition's, then the default. S7."""
        config = self._session.config
        declared = None if tool is None or tool.result is None else tool.result.limit
        for limit in (config.tool_limits.get(tool_name), presentation.limit, declared):
            if limit is not None:
                return limit
        return config.limit


_REFUSED: Final = frozenset(
    kind.value
    for kind in (
        ErrorType.TOOL_NOT_FOUND,
        ErrorType.EXECUTION_REJECTED,
        ErrorType.APPROVAL_REQUIRED,
        ErrorType.REJECTED,
        ErrorType.LIMIT_REACHED,
    )
)
"""Of a call that was refused there is nothing to read that the refusal does not say."""


def _with_limit(arguments: dict[str, Any], params: Any) -> dict[str, Any]:
    """The arguments that the tool ran with, and the limit that is not for the tool. U39."""
    asked = params.get("limit") if isinstance(params, dict) else None
    return arguments if asked is None else {"limit": asked, **arguments}


def _withheld(known: dict[str, Any], refusal: Refusal) -> SessionResult:
    """A result that the program has, and the model may not read. S31."""
    details = {} if refusal.details is None else {"error_details": refusal.details}
    rejected = {
        "is_success": False,
        "error": refusal.error,
        "error_type": refusal.error_type,
        "metadata": {**known["metadata"], **details},
    }
    reason = (refusal.details or {}).get("reason")
    return SessionResult(**{**known, **rejected}, final_text=None, reject_reason=reason)


def _reason(result: ToolExecutionResult) -> str | None:
    details = result.metadata.get("error_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    return reason if isinstance(reason, str) else None
