"""How does each call of a reply get exactly one result, whatever happens to it and the others?"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from copy import deepcopy
from functools import partial
from typing import Any, Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.interfaces.source import CallsTools, find_for_model
from tool_engine.logger import get_logger
from tool_engine.model.approval import ApprovalDecision
from tool_engine.model.call import Refusal, ToolCall, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.context_copy import DEFAULT_TIMEOUT
from tool_engine.model.foreign import ends_caller
from tool_engine.model.outcome import ErrorType, find_error_type
from tool_engine.model.pace import Pace
from tool_engine.model.permission import APPROVER
from tool_engine.model.refusal import make_refused
from tool_engine.model.tool import Tool, is_same
from tool_engine.protocols.allowed_call import Allowed, Consenting, Yes, allowed
from tool_engine.protocols.cycle_options import GIVEN, CycleOptions
from tool_engine.protocols.parallel_calls import count_workers
from tool_engine.protocols.result_content import REQUEST_ID, withhold_unreviewed
from tool_engine.protocols.routing import Route, Router
from tool_engine.protocols.unread_words import hide_in_call, takes_secrets
from tool_engine.protocols.written_arguments import written
from tool_engine.redaction import OwnSecrets, hide_quotes, secrets_if_known, words_of
from tool_engine.sources.foreign import check_caller_of_tools

Fit = Callable[[Tool, Mapping[str, Any]], tuple[dict[str, Any], tuple[str, ...]]]
"""A function that fits a call's arguments to its tool, and returns its changes."""

_log: Final = get_logger(__name__)
_APPROVAL_TIMEOUT: Final = 300.0
# So that the engine, which records why a call ended, is the one to end it.
_HEAD_START: Final = 0.05
_MOMENT: Final = 1.0
_MOST_ASKED: Final = 10
"""The most times that one call is put to the approver, while its tool changes."""
_DENIED: Final = {"en": "the user did not allow this call", "zh": "用户未授权"}


def name_as_sent(result: ToolExecutionResult, sent_names: Mapping[str, str]) -> ToolExecutionResult:
    """Return a refused call's result with the names that the model wrote.

    A text protocol takes `IMAGE-SIZE` for `image_size`, and `size2` for the `size` of the second
    call of a block. `sent_names` maps the names in the result to those. In the copy each finding
    about such an argument has its name as `sent_as`, and so has the text.
    """
    findings = [_add_sent_name(each, sent_names) for each in result.validation_errors]
    wrong = [each for each in findings if "sent_as" in each and each["level"] == "error"]
    sent = {each["parameter"]: each["sent_as"] for each in wrong}
    note = "".join(f"; you sent {name!r} as {key!r}" for name, key in sent.items())
    texts = ("error", "formatted_text", "final_text")
    changed = {
        name: text + note for name in texts if isinstance(text := getattr(result, name, None), str)
    }
    return msgspec.structs.replace(result, validation_errors=findings, **changed)


def _add_sent_name(finding: dict[str, Any], sent_names: Mapping[str, str]) -> dict[str, Any]:
    sent = sent_names.get(finding["parameter"])
    return finding if sent is None else {**finding, "sent_as": sent}


class _Turn:
    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.route = Route(call.tool_name, call.arguments)
        self.has_reached_engine = False
        self.reason: str | None = None
        self.is_consented = False
        """True if the approver's answer is also the consent that a conversation requires."""
        self.allowed_by: str | None = None
        self.refused_by: str | None = None

    def mark_result(self, result: ToolExecutionResult) -> ToolExecutionResult:
        """Copy a result, which others may share, with its call's id."""
        metadata = {**result.metadata, REQUEST_ID: self.call.call_id}
        if self.call.sent_names and result.error_type == ErrorType.VALIDATION_ERROR.value:
            result = name_as_sent(result, self.call.sent_names)
        read, tool = self.call.repairs, self.route.tool
        if read and tool is not None and (tool.secret_names or tool.secret_parts):
            read = tuple(map(hide_quotes, read))
        if repairs := [*read, *self.route.repairs]:
            metadata["repairs"] = repairs
        return msgspec.structs.replace(result, metadata=metadata)


class CallRunner:
    """The runner of one reply's calls.

    Raises:
        ConfigurationError: The engine cannot run calls, or not with this context.
    """

    def __init__(
        self,
        engine: CallsTools,
        options: CycleOptions,
        *,
        has_commands: bool = False,
        fit: Fit | None = None,
    ) -> None:
        self._source = check_caller_of_tools(engine)
        self._options = options
        self._fit = fit
        self._pace = Pace()
        self._router = Router(
            self._source, tools=options.tools, aliases=options.aliases, has_commands=has_commands
        )
        if self._source.makes_contexts and options.context is not None:
            raise ConfigurationError(
                f"{type(engine).__name__} makes the contexts of its calls itself: leave out "
                "context, or pass the engine"
            )

    async def run(self, calls: Sequence[ToolCall]) -> list[ToolExecutionResult]:
        """Return one result for each call, in the order of `calls`.

        Raises:
            asyncio.CancelledError: The caller was cancelled; so was what ran.
        """
        results: dict[int, ToolExecutionResult] = {}
        end = _find_end(self._options.total_timeout)
        async with aclosing(self._split_batches(calls)) as batches:
            async for batch in batches:
                names = [call.tool_name for _, call in batch]
                most = self._options.max_parallel
                workers = count_workers(self._source, names, most, may_wait=True)
                pending = iter(batch)
                if workers <= 1:
                    await self._run_pending(pending, end, results)
                    continue
                async with asyncio.TaskGroup() as group:
                    for _ in range(workers):
                        group.create_task(self._run_pending(pending, end, results))
        return [results[place] for place in range(len(calls))]

    async def _split_batches(
        self, calls: Sequence[ToolCall]
    ) -> AsyncGenerator[list[tuple[int, ToolCall]], None]:
        """Yield the groups of calls that run at the same time."""
        if self._options.order == GIVEN:
            yield list(enumerate(calls))
            return
        most = self._options.max_calls
        harmless: list[tuple[int, ToolCall]] = []
        for place, call in enumerate(calls):
            await self._pace.step()
            # Looked up when it is their turn: earlier calls may have changed the tools.
            if place >= most or self._only_reads(call):
                harmless.append((place, call))
                continue
            if harmless:
                yield harmless
                harmless = []
            yield [(place, call)]
        if harmless:
            yield harmless

    def _only_reads(self, call: ToolCall) -> bool:
        if not call.is_runnable:
            return True
        try:
            route = self._router.route(call)
        except BaseException as error:  # reported where the call is run
            if ends_caller(error):
                raise
            return False
        return route.error is not None or (route.tool is not None and route.tool.effect == "read")

    async def _run_pending(
        self,
        pending: Iterator[tuple[int, ToolCall]],
        end: float | None,
        results: dict[int, ToolExecutionResult],
    ) -> None:
        # Before a call is taken, so that none waits for its step while later ones run.
        await self._pace.step()
        for place, call in pending:
            turn = _Turn(call)
            result = self._refuse_at_once(place, turn, end) or await self._run_call(turn, end)
            results[place] = result
            await self._report_result(call, result, end, turn)
            await self._pace.step()

    async def _report_result(
        self, call: ToolCall, result: ToolExecutionResult, end: float | None, turn: _Turn
    ) -> None:
        if self._options.on_result is None:
            return
        # A listener to a call that was late gets a moment, too.
        until = None if end is None else max(end, asyncio.get_running_loop().time() + _MOMENT)
        try:
            async with asyncio.timeout_at(until):
                answer = self._options.on_result(call, result)
                if inspect.isawaitable(answer):
                    await answer
        except BaseException as error:  # a listener must not lose the result
            if ends_caller(error):
                raise
            message = words_of(error, *self._list_secrets(turn))
            _log.warning("on_result_failed", **_name_call(call), error=message)

    def _refuse_at_once(
        self, place: int, turn: _Turn, end: float | None
    ) -> ToolExecutionResult | None:
        call, most = turn.call, self._options.max_calls
        if not call.is_runnable:
            message = call.error or "the reply ended inside this call: write it again, shorter"
            if takes_secrets(self._find_tool, call.tool_name):
                message = hide_quotes(message)
                turn.call = msgspec.structs.replace(hide_in_call(call), error=message)
            return self._refuse_call(turn, message, ErrorType.VALIDATION_ERROR.value)
        if place >= most:
            first = "call of a reply is" if most == 1 else f"{most} calls of a reply are"
            message = (
                f"only the first {first} run, this is number {place + 1}: "
                "write it again in the next reply, if it is still needed"
            )
            return self._refuse_call(turn, message, ErrorType.REJECTED.value)
        # An expired timeout would still let the first step run.
        is_late = end is not None and asyncio.get_running_loop().time() >= end
        return self._refuse_late(turn) if is_late else None

    async def _run_call(self, turn: _Turn, end: float | None) -> ToolExecutionResult:
        clock = asyncio.timeout_at(end)
        try:
            async with clock:
                return await self._run_routed(turn)
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise
            return self._refuse_call(turn, "the call was cancelled", ErrorType.CANCELLED.value)
        except BaseException as error:  # one failure must not lose the other results
            if ends_caller(error):
                raise
            if clock.expired():
                return self._refuse_late(turn)
            message = words_of(error, *self._list_secrets(turn))
            _log.warning(
                "call_failed_outside_of_the_engine", **_name_call(turn.call), error=message
            )
            return self._refuse_call(turn, message, find_error_type(error).value)

    async def _run_routed(self, turn: _Turn) -> ToolExecutionResult:
        is_asked = self._options.on_before_execute is not None
        refused = await self._ask_until_settled(turn) if is_asked else self._look_up(turn)
        if refused is not None:
            return refused
        result = await self._execute_call(turn)
        if not isinstance(result, ToolExecutionResult):
            raise TypeError(f"the tool's engine gave no result, but {type(result).__name__}")
        return turn.mark_result(withhold_unreviewed(result, turn.route.tool))

    async def _ask_until_settled(self, turn: _Turn) -> ToolExecutionResult | None:
        """Ask until the approved tool is the one that would run."""
        # The approver may change the reply's objects: what runs is what the model wrote.
        turn.call = msgspec.structs.replace(turn.call, arguments=deepcopy(turn.call.arguments))
        refused = self._look_up(turn)
        for _ in range(_MOST_ASKED):
            asked = turn.route.tool
            if refused is not None or asked is None:
                return refused
            refusal = await self._ask_once(turn)
            if refusal is not None:
                return self._refuse_call(turn, refusal, ErrorType.REJECTED.value)
            refused = self._look_up(turn)
            now = turn.route.tool
            if refused is not None or (now is not None and is_same(now, asked)):
                return refused
            # The approver said yes to the old tool, not to the changed one.
        message = (
            f"{turn.route.name!r} is another tool each time that the approver is asked about it"
        )
        return self._refuse_call(turn, message, ErrorType.REJECTED.value)

    def _look_up(self, turn: _Turn) -> ToolExecutionResult | None:
        """Find the call's current tool; return a result if there is none."""
        route = turn.route = self._router.route(turn.call)
        if route.error is not None:
            return self._refuse_call(turn, route.error, route.error_type)
        if route.tool is None:
            # A tool that is loaded just now must not run before the approver was asked.
            is_asked = self._options.on_before_execute is not None
            if is_asked or self._source.is_hidden(route.name):
                missing = self._source.explain_missing(route.name)
                return self._refuse_call(turn, missing.error, missing.error_type)
        if route.tool is not None and self._fit is not None:
            arguments, repairs = self._fit(route.tool, route.arguments)
            turn.route = route._replace(arguments=arguments, repairs=route.repairs + repairs)
        return None

    async def _ask_once(self, turn: _Turn) -> str | None:
        ask: Any = self._options.on_before_execute  # which takes both: see `asking`
        route = turn.route
        if ask is None or route.tool is None:
            return None
        # An approver may say yes or no, and nothing else.
        arguments = deepcopy(route.arguments)
        asked = msgspec.structs.replace(turn.call, tool_name=route.name, arguments=arguments)
        limit = self._options.approval_timeout or self._options.timeout or _APPROVAL_TIMEOUT
        denied = _DENIED[self._options.language]
        clock = asyncio.timeout(limit)
        try:
            async with clock:
                answer: object = ask(asked, route.tool)
                if inspect.isawaitable(answer):
                    answer = await answer
        except BaseException as error:  # an approver that fails has not allowed it
            if ends_caller(error):
                raise
            if clock.expired():
                return f"{denied}: the approver did not answer within {limit} seconds"
            message = words_of(error, *self._list_secrets(turn))
            _log.warning("on_before_execute_failed", **_name_call(turn.call), error=message)
            return f"{denied}: {message}"
        by = None
        if isinstance(answer, ApprovalDecision):
            by, answer = answer.by, answer.is_approved or answer.reason or False
        if answer is True or answer is None:
            turn.is_consented = answer is True and isinstance(ask, Consenting)
            turn.allowed_by = by
            return None
        turn.refused_by = by or APPROVER
        turn.reason = answer if isinstance(answer, str) and answer else None
        return denied if turn.reason is None else f"{denied}: {answer}"

    async def _execute_call(self, turn: _Turn) -> ToolExecutionResult:
        timeout = self._options.timeout
        name, arguments = turn.route.name, dict(turn.route.arguments)
        clock = asyncio.timeout(None if timeout is None else _add_grace(timeout))
        turn.has_reached_engine = True
        sent = written.set(None if self._fit is None else arguments)
        tool = turn.route.tool
        yes = None if tool is None else Yes(tool, turn.is_consented, turn.allowed_by)
        said = allowed.set(Allowed(self._source, arguments, yes))
        try:
            async with clock:
                return await self._source.execute(name, arguments, self._make_context(turn.call))
        except TimeoutError:
            if not clock.expired():
                raise
            message = f"the call did not end within {timeout} seconds"
            return self._refuse_call(turn, message, ErrorType.TIMEOUT.value)
        finally:
            written.reset(sent)
            allowed.reset(said)

    def _find_tool(self, name: str) -> Tool | None:
        return find_for_model(self._source, name)

    def _list_secrets(self, turn: _Turn) -> tuple[OwnSecrets | None, ...]:
        """Return the secrets that foreign code may repeat in its errors."""
        return (*self._list_sent(turn), *self._source.secrets)

    def _list_sent(self, turn: _Turn) -> tuple[OwnSecrets | None, ...]:
        route, call = turn.route, turn.call
        tool: Any = route.tool
        # In unreadable arguments, no part can be recognized as the secret.
        sent = call.arguments if call.is_runnable else None
        if tool is None:
            try:
                tool = self._source.get(call.tool_name)
            except BaseException as error:  # a foreign engine may raise anything
                if ends_caller(error):
                    raise
                tool = error
            if tool is not None and not isinstance(tool, Tool):
                # No definition says which arguments are secret, so each of them may be.
                return (None if sent is None else OwnSecrets(sent, sent),)
        found = secrets_if_known(tool, sent)
        is_same = route.arguments is call.arguments
        return (found,) if is_same else (found, secrets_if_known(tool, route.arguments))

    def _make_context(self, call: ToolCall) -> ToolExecutionContext:
        """Return a context for one call; all calls share `variables`."""
        context, hear = self._options.context or ToolExecutionContext(), self._options.on_progress
        listener = context.on_progress if hear is None else partial(hear, call)
        limit, own = self._options.timeout, context.timeout
        if limit is None:
            limit = own
        elif own is not None and own is not DEFAULT_TIMEOUT:
            limit = min(limit, own)
        return msgspec.structs.replace(context, timeout=limit, on_progress=listener)

    def _refuse_late(self, turn: _Turn) -> ToolExecutionResult:
        total = self._options.total_timeout
        message = f"the calls of the reply did not end within {total} seconds in all"
        return self._refuse_call(turn, message, ErrorType.TIMEOUT.value)

    def _refuse_call(self, turn: _Turn, message: str, kind: str) -> ToolExecutionResult:
        """Return a result without running the call, and record it."""
        route = turn.route
        details = None if turn.reason is None else {"reason": turn.reason}
        refusal = Refusal(kind, message, details, decided_by=turn.refused_by)
        if not turn.has_reached_engine:
            # For a call of no tool, it is unknown which arguments are secret.
            params = {} if route.tool is None else dict(route.arguments)
            context = self._options.context
            try:
                return turn.mark_result(self._source.refuse(route.name, params, context, refusal))
            except BaseException as error:  # the other calls still need their results
                if ends_caller(error):
                    raise
                reason = words_of(error, *self._list_secrets(turn))
                _log.warning("refusal_not_recorded", **_name_call(turn.call), error=reason)
        return turn.mark_result(make_refused(route.name, refusal))


def _name_call(call: ToolCall) -> dict[str, str]:
    return {"tool_name": call.tool_name, "request_id": call.call_id}


def _find_end(total_timeout: float | None) -> float | None:
    if total_timeout is None:
        return None
    return asyncio.get_running_loop().time() + total_timeout


def _add_grace(timeout: float) -> float:
    """Return the seconds to wait for engines that keep no time."""
    return min(timeout + _HEAD_START, timeout * 1.1)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
