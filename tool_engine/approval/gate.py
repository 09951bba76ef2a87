"""May this call run, and may its result be read?

Policies decide, or the person who is asked. Nothing here holds a slot: calls come before admission,
results after it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from tool_engine.approval.answers import check_approver, decision_from, said_by
from tool_engine.approval.book import ApprovalBook
from tool_engine.approval.describe import describe_difference
from tool_engine.approval.desk import EngineApprovals
from tool_engine.approval.policy import Decision, decide
from tool_engine.approval.preview import AT_ONCE, preview_of
from tool_engine.approval.principal import context_asked, note_decider, principal_of
from tool_engine.approval.subject import making_of, place_of
from tool_engine.approval.waiting import Waiting, count_cancellations
from tool_engine.errors import ApprovalError
from tool_engine.interfaces import Approver, Front, ToolExecutor
from tool_engine.logger import get_logger
from tool_engine.model.approval import (
    ApprovalDecision,
    ApprovalRequest,
    fingerprint_of,
    standing_ids,
)
from tool_engine.model.call import Refusal, ToolExecutionContext
from tool_engine.model.foreign import ends_caller
from tool_engine.model.newest import keep_newest
from tool_engine.model.outcome import ErrorType
from tool_engine.model.permission import APPROVER, ExecutionPolicy, ResultPolicy
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.redaction import secrets_if_known, secrets_of, shorten_words, words_of

Policy = Callable[[Tool, Mapping[str, Any]], Decision]
"""Returns the decision of the rules and policies for one call."""

_Announce = Callable[[ApprovalRequest], None]
_ENGINE: Final = "engine"
_LONGEST_ERROR: Final = 500
_MOST_ALLOWED: Final = 256
"""Tools whose last allowed arguments are kept, to show the next difference."""

_log = get_logger(__name__)


class _Answer(NamedTuple):
    decision: ApprovalDecision | None
    """None: the question ended without an answer."""
    refusal: Refusal | None = None
    """Why the call ends without a person's refusal."""
    brief: str | None = None
    """The refusal without the approver's own words; None: there are none."""


class _Fronted:
    """An approver with another one in front of it."""

    def __init__(self, front: Front, behind: Approver, announce: _Announce) -> None:
        self.behind = behind
        self._front = front
        self._announce = announce

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        behind = _Announced(self.behind, self._announce)
        return decision_from(await self._front.approve(request, behind))


class _Announced:
    """An approver whose questions are announced once they can be answered.

    Args:
        approver: The approver; one that keeps questions for other processes has `keep`.
        announce: Publishes, once, that a person is asked.
    """

    def __init__(self, approver: Approver, announce: _Announce) -> None:
        self._approver = approver
        self.note_asked = announce

    async def approve(self, request: ApprovalRequest) -> ApprovalDecision | None:
        keep = getattr(self._approver, "keep", None)
        if keep is not None:
            await keep(request)
        self.note_asked(request)
        return await said_by(self._approver, request)


class _Question:
    """One question that identical calls wait for together."""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()
        self.answer: _Answer | None = None
        """None: no answer that others may share, so the next call asks again."""


class ApprovalGate:
    """Decide which calls may run and which results may be read, by consent.

    Args:
        book: The open requests and remembered decisions.
        approver: The person's side; None: what must be asked is refused.
        policy: Returns the decision of the rules for a call.
        engine: A key for the engine that has the tools, where `consent` does not say.
        on_request: Called with each request before the approver is; its errors are logged.
        on_answer: Called with each request that ends, with the decision; None: it was withdrawn, it
            expired, or it is deferred and still in `book.pending()`.

    Raises:
        ConfigurationError: The approver has no `approve` method.
    """

    def __init__(
        self,
        book: ApprovalBook,
        approver: Approver | None,
        policy: Policy,
        *,
        engine: str = "",
        on_request: Callable[[ApprovalRequest], object] | None = None,
        on_answer: Callable[[ApprovalRequest, ApprovalDecision | None], object] | None = None,
    ) -> None:
        if approver is not None:
            check_approver(approver)
        self.book = book
        self.approver = approver
        self.on_request = on_request
        self.on_answer = on_answer
        self.engine = engine
        self._policy = policy
        self._allowed: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()
        """(engine, tool) -> the arguments that were allowed last."""

    def put_in_front(self, front: Front) -> None:
        """Ask through `front` from now on; the one before, if there is one, is left out."""
        behind = self.approver.behind if isinstance(self.approver, _Fronted) else self.approver
        if behind is not None:
            self.approver = _Fronted(front, behind, self.book.announce)
            self.on_answer = front.note_answer

    def own(self, tool_name: str) -> tuple[Tool, ToolExecutor] | None:
        del tool_name
        return None

    async def consent(
        self,
        call_id: str,
        tool: Tool,
        params: dict[str, Any],
        *,
        is_nested: bool = False,
        engine: str = "",
        called_name: str = "",
        principal: str | None = None,
        is_new: bool = False,
    ) -> Refusal | None:
        """Return why the call may not run, or None if it may.

        `is_nested` means that a tool makes the call, `engine` is a key for the engine that has the
        tool, `called_name` is the name that the model called, and `principal` is who is behind the
        call; None: its context says so. `is_new` means that no standing decision is about this.
        """
        decision = self._policy(tool, params)
        if decision.execution is ExecutionPolicy.AUTO:
            return None
        if decision.execution is ExecutionPolicy.DENY:
            return _refuse_denied(tool, decision)

        is_once = decision.execution is ExecutionPolicy.ASK_ONCE
        context = context_asked(tool)
        engine = engine or self.engine
        principal = principal_of(context) if principal is None else principal
        making = making_of(tool, place_of(tool, engine, called_name, is_nested=is_nested))
        fingerprint = fingerprint_of(tool.name, making, params)
        ask = partial(
            self._ask_approver,
            tool,
            params,
            call_id=call_id,
            is_once=is_once,
            fingerprint=fingerprint,
            is_nested=is_nested,
            making=making,
            called_name=called_name,
            engine=engine,
            principal=principal,
            **_place_of_call(context),
        )
        whose = engine, "" if is_new else principal, making
        try:
            answer = await (
                self._ask_once(tool, params, fingerprint, whose, ask) if is_once else ask()
            )
        except RecursionError:
            raise
        except BaseException as error:
            if ends_caller(error):
                raise
            if not decision.is_silent:
                raise
            answer = _answer_failed("execution", tool, error, params)
        return self._judge_call(tool, params, answer, decision)

    def _judge_call(
        self, tool: Tool, params: dict[str, Any], answer: _Answer, decision: Decision
    ) -> Refusal | None:
        refusal = _judge_answer("execution", tool.name, answer, decision)
        # A rule may have forbidden it during the wait for the answer.
        refusal = refusal or self.denied(tool, params)
        if refusal is None and answer.decision is not None:
            note_decider(tool, answer.decision.by)
        return refusal

    def is_free(self, tool: Tool, params: Mapping[str, Any]) -> bool:
        """Return True if a call may run without consent."""
        return self._policy(tool, params).execution is ExecutionPolicy.AUTO

    def asks(self, tool: Tool, params: Mapping[str, Any], *, has_yes: bool = False) -> bool:
        """Return True if a person decides about a call.

        Args:
            tool: The tool.
            params: The arguments.
            has_yes: Whether the approver was asked about the call already.
        """
        decided = self._policy(tool, params).execution
        is_asked = decided in (ExecutionPolicy.ASK_ONCE, ExecutionPolicy.ASK_ALWAYS)
        return is_asked and (has_yes or self.approver is not None)

    def is_readable(self, tool: Tool, params: Mapping[str, Any], is_error: bool) -> bool:
        """Return True if a model may read a result without consent; see `review`."""
        try:
            asks = self._policy(tool, params).result
        except RecursionError:
            return False
        return asks is ResultPolicy.NEVER or (asks is ResultPolicy.ON_ERROR and not is_error)

    def denied(self, tool: Tool, params: dict[str, Any]) -> Refusal | None:
        """Return why a call is denied whatever the answer; None: consent suffices."""
        decision = self._policy(tool, params)
        return (
            _refuse_denied(tool, decision) if decision.execution is ExecutionPolicy.DENY else None
        )

    def refusal_since(self, call_id: str, tool: Tool, params: dict[str, Any]) -> Refusal | None:
        """Return `denied` for an admitted call, just before it starts."""
        del call_id
        return self.denied(tool, params)

    def refused(
        self, request: ApprovalRequest, tool: Tool | None, decision: ApprovalDecision
    ) -> Refusal:
        """Return the refusal for a deferred request that was answered.

        `tool` is the tool as the engine has it now; None: it is gone.
        """
        policy = self._policy(tool or _as_asked(request), request.params)
        return _refuse_rejected(request.kind, request.tool_name, policy, decision)

    async def review(
        self,
        call_id: str,
        tool: Tool,
        params: dict[str, Any],
        result_text: str,
        is_error: bool,
        *,
        error_type: str | None = None,
        is_asked: bool = False,
        **said: Any,
    ) -> Refusal | None:
        """Return why a model may not read a result; None: it may. S31, U35.

        `result_text` is what the model would read. `is_error` matters for `on_error`, which asks
        about failed calls only; `is_asked` asks in any case, because of the content. `said` are
        more fields of the request.
        """
        try:
            decision = self._policy(tool, params)
            if not is_asked and self.is_readable(tool, params, is_error):
                return None
            asked = partial(
                self._ask_approver, kind="result", result=result_text, error_type=error_type
            )
            answer = await asked(tool, params, call_id=call_id, **said)
        except RecursionError:
            message = f"the arguments of {tool.name!r} nest too deep to ask about its result"
            return Refusal(ErrorType.RESULT_REJECTED.value, message)
        return _judge_answer("result", tool.name, answer, decision)

    async def _ask_once(
        self,
        tool: Tool,
        params: Mapping[str, Any],
        fingerprint: str,
        whose: tuple[str, str, str],
        ask: Callable[[], Awaitable[_Answer]],
    ) -> _Answer:
        """Ask unless it was decided before; one identical call asks for all.

        `whose` is the engine of the tool, who is behind the call, and how the tool is made.
        """
        engine, principal, making = whose
        key = fingerprint, principal, id(asyncio.get_running_loop())
        questions: dict[tuple[str, str, int], _Question] = self.book.questions
        find_secrets = partial(secrets_if_known, tool, params)
        known = await self.book.remembered(fingerprint, principal, find_secrets)
        while known is None and (asked := questions.get(key)) is not None:
            await asked.is_over.wait()
            if asked.answer is not None:
                return asked.answer
        # Another call may have been answered while the storage was read.
        known = known or self.book.decided(fingerprint, principal)
        if known is not None:
            return _Answer(known)
        question = questions[key] = _Question()
        try:
            if principal and engine:
                ids = standing_ids(principal, engine, tool.name, making, fingerprint)
                known = await self.book.find_standing(engine, ids, find_secrets)
            answer = _Answer(known) if known is not None else await ask()
            decision = answer.decision
            if _is_deferred(answer):
                # A token is good for one run: each of the calls has its own.
                return answer
            if decision is None or decision.is_remembered is not False:
                question.answer = answer
            return answer
        finally:
            del questions[key]
            question.is_over.set()

    async def _ask_approver(
        self,
        tool: Tool,
        params: dict[str, Any],
        *,
        call_id: str,
        kind: str = "execution",
        engine: str = "",
        **said: Any,
    ) -> _Answer:
        if self.approver is None:
            what = "the result of " * (kind == "result") + repr(tool.name)
            return _answer_unasked(
                kind,
                f"{what} needs a person's consent, and there is no approver to ask: pass an "
                "approver to the session",
            )
        allowed = engine, tool.name
        preview = await self._make_preview(allowed, tool, params) if kind == "execution" else None
        await self.book.learn_time()
        request = self.book.ask(
            tool,
            params,
            kind=kind,
            call_id=call_id,
            preview=preview,
            is_waiting=True,
            engine=engine,
            **said,
        )
        answer = _Answer(None)
        try:
            self._call_listener(self.on_request, tool, request)
            answer = await self._await_answer(self.approver, request, tool)
        finally:
            if not _is_deferred(answer):
                self.book.withdraw(request.token)
            self._call_listener(self.on_answer, tool, request, answer.decision)
        if answer.decision is not None:
            await self.book.remember(request, answer.decision)
            if answer.decision.is_approved and kind == "execution":
                keep_newest(self._allowed, allowed, params, _MOST_ALLOWED)
        return answer

    async def _await_answer(
        self, approver: Approver, request: ApprovalRequest, tool: Tool
    ) -> _Answer:
        timeout = self.book.timeout
        clock, before = asyncio.timeout(timeout), count_cancellations()
        asked = (
            approver if isinstance(approver, _Fronted) else _Announced(approver, self.book.announce)
        )
        ask = partial(asked.approve, request)
        waiting = self.book.waits[request.token] = Waiting(approver, request, clock, ask)
        try:
            decision = await waiting.decide()
            if count_cancellations() > before:
                # An approver that delays its own cancellation does not undo it.
                raise asyncio.CancelledError
            if decision is None:
                await self.book.defer(request.token)
                return _Answer(None, _refuse_deferred(request))
            self.book.settle(request.token, decision, tool)
        except asyncio.CancelledError as error:
            if count_cancellations() > before:
                raise
            return _answer_failed(request.kind, tool, error, request.params)
        except ApprovalError as error:
            said = shorten_words(str(error), secrets_if_known(tool, request.params))
            return _answer_unasked(request.kind, said)
        except BaseException as error:  # an approver that fails has not consented
            if ends_caller(error):
                raise
            if clock.expired():
                return _answer_unasked(
                    request.kind,
                    f"no approver said within {timeout:g} s that {tool.name!r} "
                    f"{_name_doubt(request.kind)}",
                )
            return _answer_failed(request.kind, tool, error, request.params)
        finally:
            self.book.waits.pop(request.token, None)
        return _Answer(decision)

    async def _make_preview(
        self, allowed: tuple[str, str], tool: Tool, params: dict[str, Any]
    ) -> str | None:
        """Return the preview, else the difference from the arguments allowed last."""
        said = await preview_of(tool, params)
        if said is not None:
            return said
        before = self._allowed.get(allowed)
        if before is None:
            return None
        hidden = secrets_of(tool, params)
        names = hidden.names | hidden.parts
        if len(str(before)) + len(str(params)) <= AT_ONCE:
            return describe_difference(before, params, names)
        return await asyncio.to_thread(describe_difference, before, params, names)

    def _call_listener(
        self,
        listener: Callable[..., object] | None,
        tool: Tool,
        request: ApprovalRequest,
        *what: object,
    ) -> None:
        try:
            if listener is not None:
                listener(request, *what)
        except BaseException as error:  # who listens does not decide
            if ends_caller(error):
                raise
            said = words_of(error, secrets_if_known(tool, request.params))
            _log.warning("approval_listener_failed", tool_name=tool.name, error=said)


def gate_of_engine(approver: Approver, desk: EngineApprovals | None = None) -> ApprovalGate:
    """Return the gate for calls without a session whose definition demands consent.

    `desk` has the approvals of the engine; None: the questions are in no list.
    """
    if desk is None:
        return ApprovalGate(ApprovalBook(_ENGINE, is_of_all=True), approver, _of_definition)
    book = desk.own_book = ApprovalBook(
        _ENGINE,
        find_desk=lambda engine: desk,
        is_of_all=True,
        timekeeper=desk.find_timekeeper(),
    )
    return ApprovalGate(book, approver, _of_definition, engine=desk.engine_text)


def _of_definition(tool: Tool, params: Mapping[str, Any]) -> Decision:
    return decide(tool.name, params, (), (tool.permission,))


def _as_asked(request: ApprovalRequest) -> Tool:
    """Return a stand-in for a tool that is gone, by its name."""
    return Tool(
        id=request.tool_name,
        name=request.tool_name,
        version=request.tool_version,
        description=request.description,
        category=ToolCategory.CUSTOM,
        tags=[],
        parameters=[],
        implementation_config={},
    )


def _place_of_call(context: ToolExecutionContext | None) -> dict[str, str]:
    """Return to which conversation and task a call belongs; empty: to none."""
    if context is None:
        return {}
    return {"conversation_id": context.conversation_id or "", "task_id": context.task_id or ""}


def _refuse_denied(tool: Tool, policy: Decision) -> Refusal:
    message = f"calls of {tool.name!r} are not allowed here"
    by = policy.decided_by
    return _make_refusal(ErrorType.EXECUTION_REJECTED, message, policy, because=message, by=by)


def _judge_answer(kind: str, tool_name: str, answer: _Answer, policy: Decision) -> Refusal | None:
    refusal = answer.refusal
    if refusal is not None and refusal.details is None:
        is_silent = policy.is_result_silent if kind == "result" else policy.is_silent
        message_shown = answer.brief if is_silent and answer.brief else refusal.error
        return _make_refusal(
            ErrorType(refusal.error_type), message_shown, policy, because=message_shown
        )
    if answer.decision is None:
        return refusal
    if answer.decision.is_approved:
        return None
    return _refuse_rejected(kind, tool_name, policy, answer.decision)


def _refuse_rejected(
    kind: str, tool_name: str, policy: Decision, decision: ApprovalDecision
) -> Refusal:
    if kind == "result":
        message = f"{tool_name!r} has run, but the user did not let its result be read"
        return _make_refusal(ErrorType.RESULT_REJECTED, message, policy, decision.reason)
    message = f"the user did not allow this call of {tool_name!r}"
    by = decision.by or APPROVER
    return _make_refusal(ErrorType.EXECUTION_REJECTED, message, policy, decision.reason, by=by)


def _make_refusal(
    error_type: ErrorType,
    message: str,
    policy: Decision,
    reason: str | None = None,
    *,
    because: str | None = None,
    by: str | None = None,
) -> Refusal:
    """Return a refusal with the model's message and the program's details."""
    is_result = error_type is ErrorType.RESULT_REJECTED
    is_silent = policy.is_result_silent if is_result else policy.is_silent
    rule = policy.result_by if is_result else policy.execution_by
    why = because if reason is None else reason
    details = {} if why is None else {"reason": why}
    if isinstance(rule, str):
        details["rule"] = rule
    message_shown = f"{message}: {reason}" if reason and not is_silent else message
    shown = None if is_silent else details or None
    return Refusal(error_type.value, message_shown, shown, decided_by=by)


def _name_doubt(kind: str) -> str:
    return "may run" if kind == "execution" else "may show its result"


def _answer_failed(
    kind: str, tool: Tool, error: BaseException, params: Mapping[str, Any]
) -> _Answer:
    said = words_of(error, secrets_if_known(tool, params), most=_LONGEST_ERROR)
    _log.warning("approver_failed", tool_name=tool.name, error=said)
    brief = f"no approver could be asked whether {tool.name!r} {_name_doubt(kind)}"
    return _answer_unasked(kind, f"{brief}: {said}")._replace(brief=brief)


def _answer_unasked(kind: str, message: str) -> _Answer:
    is_result = kind == "result"
    refused = ErrorType.RESULT_REJECTED if is_result else ErrorType.EXECUTION_REJECTED
    return _Answer(None, Refusal(refused.value, message))


def _is_deferred(answer: _Answer) -> bool:
    return answer.refusal is not None and "approval_token" in (answer.refusal.details or {})


def _refuse_deferred(request: ApprovalRequest) -> Refusal:
    what = "the result of " * (request.kind == "result") + repr(request.tool_name)
    message = f"{what} waits for a person's consent; go on without its result"
    details = {"approval_token": request.token}
    if request.kind == "result":
        # It has run, and must not be taken for a call that has not.
        details["kind"] = "result"
    return Refusal(ErrorType.APPROVAL_REQUIRED.value, message, details)
