"""Who must approve a call before it asks for a slot, and what exactly is approved?

A call that waits for consent holds nothing. When it goes on, it runs the definition and the
arguments that were approved, or it asks again.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Protocol

from tool_engine.approval.preview import previewed_by
from tool_engine.approval.principal import asked_in
from tool_engine.calls.call import Call
from tool_engine.calls.ending import CallEnding
from tool_engine.calls.failure import Failure, failure_from, failure_of
from tool_engine.calls.plan import Plan
from tool_engine.calls.present import ASKING, PresentCalls, StoppedError, Wait
from tool_engine.interfaces import CallScope
from tool_engine.logger import get_logger
from tool_engine.model.call import Refusal
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.plain import copy_json
from tool_engine.model.json.unpacking import LARGE
from tool_engine.model.permission import POLICY, ExecutionPolicy
from tool_engine.model.tool import Tool

_log = get_logger(__name__)
_CLOSED = Refusal("engine_closed", "the engine was closed before the call was allowed")


class _Checks(Protocol):
    def look_up(self, call: Call) -> Plan | Failure: ...

    def check(
        self, call: Call, params: Any, packed: bytes
    ) -> tuple[Plan, dict[str, Any]] | Failure: ...


class Consents:
    """Ask for approval of the calls that need it.

    Args:
        ending: Ends the refused calls.
        scope: Approves calls of no conversation; None: those that need approval are refused.
        present: Knows the calls that wait.
        home: The engine.
    """

    def __init__(
        self,
        ending: CallEnding,
        scope: CallScope | None,
        present: PresentCalls,
        home: object = None,
    ) -> None:
        self._ending = ending
        self._present = present
        self.scope = scope
        self.home = home
        self._waiting: dict[asyncio.Timeout, asyncio.AbstractEventLoop] = {}
        self._is_closed = False
        self._asking = 0
        self._idle: list[asyncio.Future[None]] = []

    def close(self) -> None:
        """End every call that waits for consent as `engine_closed`; may come from any thread."""
        self._is_closed = True
        for clock, loop in list(self._waiting.items()):
            # A loop that has ended took its calls with it, and must not keep the others waiting.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._expire_clock, clock, loop)

    def is_guest(self, call: Call) -> bool:
        """Return True if another engine's tool makes a call for a foreign conversation."""
        if call.above is None or call.context.scope is None:
            return False
        has_engine = getattr(call.context.scope, "has_engine", None)
        return has_engine is None or has_engine(self.home, call.tool_name) is not True

    def _scopes_of(self, call: Call, plan: Plan) -> list[Any]:
        """Return all who must consent to a call: its conversation, or else the engine's own.

        A conversation that has come to a tool of a foreign engine does not speak for that one.
        """
        scope = call.context.scope
        if scope is None:
            return [self.scope]
        return [scope, self.scope] if plan.needs_consent and self.is_guest(call) else [scope]

    def refusal_since(self, call: Call, plan: Plan, arguments: dict[str, Any]) -> Refusal | None:
        """Return why an admitted call may not start any more; None: it may."""
        tool, home = plan.tool, None if call.above is None else self.home
        for scope in self._scopes_of(call, plan):
            if scope is None and _is_denied(tool):
                return _of_nobody(tool)
            find = getattr(scope, "refusal_since", None)
            if find is None:
                continue
            try:
                with asked_in(home, tool):
                    refusal: Refusal | None = find(call.call_id, tool, arguments)
            except BaseException as error:  # what cannot be judged does not run
                if ends_caller(error):
                    raise
                message = failure_of(error, call.secrets).error
                _log.warning("consent_failed", tool_name=tool.name, error=message)
                return Refusal(
                    "execution_rejected", f"no approver can say whether it may run: {message}"
                )
            if refusal is not None:
                return refusal
        return None

    async def ask(
        self,
        pipeline: _Checks,
        call: Call,
        params: Any,
        packed: bytes,
        plan: Plan,
        arguments: dict[str, Any],
    ) -> tuple[Plan, dict[str, Any]] | None:
        """Return what a call may run, with which arguments; None if it ended here."""
        self._asking += 1
        task = call.context.task
        try:
            if task is not None:
                task.note_asking(call, is_asking=True)
            while True:
                try:
                    await let_others_run(packed)
                    # Copied so that they cannot change during the request.
                    arguments = copy_json(arguments)
                    await let_others_run(packed)
                    with Wait(self._present, call, ASKING, plan):
                        refusal = await self._find_refusal(call, plan, arguments)
                    await let_others_run(packed)
                except StoppedError:
                    # Without a reason, it waited for consent to what is another tool by now.
                    is_over = call.stopped is not None
                    refusal = Refusal(*call.cancelled[:2]) if is_over else None
                except RecursionError:
                    refusal = Refusal(
                        "execution_rejected", "the arguments nest too deep to be shown"
                    )
                except BaseException:
                    self._ending.fail(call, call.cancelled)
                    raise
                if refusal is None:
                    asked = self._look_again(pipeline, call, params, packed, plan)
                    if asked is None:
                        return plan, arguments
                    if not isinstance(asked, Failure):
                        plan, arguments = asked
                        continue
                    failure = asked
                else:
                    failure = failure_from(refusal)
                    # Those who allowed it before have not decided.
                    call.decided_by = None
                call.result = self._ending.fail(call, failure)
                return None
        finally:
            if task is not None:
                task.note_asking(call, is_asking=False)
            self._end_asking()

    def _look_again(
        self, pipeline: _Checks, call: Call, params: Any, packed: bytes, plan: Plan
    ) -> tuple[Plan, dict[str, Any]] | Failure | None:
        """Return what is to be asked about anew; None: the consent was for what is there."""
        task = call.context.task
        # A task runs what it was started with: about nothing else is anyone asked.
        changed = None if task is None else task.find_refusal()
        if changed is not None:
            return failure_from(changed)
        now = pipeline.look_up(call)
        if isinstance(now, Failure):
            return now
        if now.runs_same(plan):
            return None
        # The consent was for the former tool, not for the present one.
        call.plan = call.findings = None
        return pipeline.check(call, params, packed)

    async def drain(
        self,
        timeout: float,  # noqa: ASYNC109 - what happens afterwards is up to the caller
    ) -> None:
        """Wait, after `close`, until every call that waited for consent has ended."""
        if self._asking:
            future = asyncio.get_running_loop().create_future()
            self._idle.append(future)
            try:
                await asyncio.wait([future], timeout=timeout)
            finally:
                self._idle.remove(future)

    async def _find_refusal(
        self, call: Call, plan: Plan, arguments: dict[str, Any]
    ) -> Refusal | None:
        deciders: list[str] = []
        for scope in self._scopes_of(call, plan):
            refusal = await self._said_by(scope, call, plan, arguments, deciders)
            if refusal is not None:
                return refusal
        call.decided_by = ", ".join(deciders) or None
        return None

    async def _said_by(
        self,
        scope: CallScope | None,
        call: Call,
        plan: Plan,
        arguments: dict[str, Any],
        deciders: list[str],
    ) -> Refusal | None:
        if scope is None:
            return _of_nobody(plan.tool)
        loop, home = asyncio.get_running_loop(), None if call.above is None else self.home
        clock = asyncio.timeout(None)
        try:
            async with clock:
                self._waiting[clock] = loop
                if self._is_closed:
                    return _CLOSED
                context = call.context
                with previewed_by(plan.runs), asked_in(home, plan.tool, context, deciders):
                    return await scope.consent(call.call_id, plan.tool, copy_json(arguments))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # an approver that fails has not consented
            if ends_caller(error):
                raise
            if clock.expired():
                return _CLOSED
            message = failure_of(error, call.secrets).error
            _log.warning("consent_failed", tool_name=plan.tool.name, error=message)
            return Refusal(
                "execution_rejected", f"no approver could be asked for consent: {message}"
            )
        finally:
            self._waiting.pop(clock, None)

    def _end_asking(self) -> None:
        self._asking -= 1
        if not self._asking:
            for future in self._idle:
                # The caller of close may be on another loop, or gone.
                with contextlib.suppress(RuntimeError):
                    future.get_loop().call_soon_threadsafe(_set_done, future)

    def _expire_clock(self, clock: asyncio.Timeout, loop: asyncio.AbstractEventLoop) -> None:
        if self._waiting.pop(clock, None) is not None:
            clock.reschedule(loop.time())


def _is_denied(tool: Tool) -> bool:
    """Return True if the definition allows no call, whatever a person says."""
    return tool.permission is not None and tool.permission.execution is ExecutionPolicy.DENY


def _of_nobody(tool: Tool) -> Refusal:
    """Return the refusal of a call that needs approval where there is no approver."""
    if _is_denied(tool):
        # An approver could not allow it either.
        message = f"calls of {tool.name!r} are not allowed here"
        return Refusal("execution_rejected", message, decided_by=POLICY)
    return Refusal(
        "execution_rejected",
        f"tool {tool.name!r} needs a person's consent, and there is no approver to ask: pass an "
        "approver to the engine or the session",
    )


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def let_others_run(packed: bytes) -> None:
    """Give other calls a turn between two steps that take long where much was sent."""
    if len(packed) >= LARGE:
        # A timer that is due takes two turns of the loop until its task runs.
        for _ in range(3):
            await asyncio.sleep(0)


def freeze_arguments(params: Any) -> Any:
    """Return a copy of the arguments, or the value itself if it cannot be copied."""
    try:
        return copy_json(params)
    except BaseException as error:  # a foreign object may refuse to be copied
        if ends_caller(error):
            raise
        return params
