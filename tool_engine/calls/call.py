"""Which id and context does a call have, how far has it come, and why did its run end as it did?

A caller who has seen a number could go on counting, and two processes would count alike: those
that a server forked, and those that began in one millisecond. So each id ends in a mark that is
drawn from the system, in a supply that a forked process does not share.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from math import inf
from typing import Any, Final, NoReturn

import msgspec
from msgspec.structs import force_setattr

from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.approval.scopes import narrow_scope
from tool_engine.backends.task import ABORTED, LEASE_LOST, STOPPED, SUPERSEDED, ToolTask
from tool_engine.calls.failure import Failure, failure_from, failure_of
from tool_engine.calls.plan import Plan
from tool_engine.errors import ToolEngineError, UnboundContextError
from tool_engine.interfaces import Run, Slot
from tool_engine.knowledge.entry import VisibleCall
from tool_engine.knowledge.memory import CallerFacts
from tool_engine.logger import current_call
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult, ValidationError
from tool_engine.model.context_check import check_context, heard_by, is_of_own
from tool_engine.model.context_copy import DEFAULT_TIMEOUT
from tool_engine.model.progress import ToolProgress
from tool_engine.model.settings.concurrency import DEFAULT_PRIORITY
from tool_engine.model.settings.settable import settable
from tool_engine.model.tool import Tool
from tool_engine.redaction import NO_SECRETS, OwnSecrets

ANONYMOUS: Final = ToolExecutionContext()
"""The context of a call that comes without one."""
_CANCELLED: Final = Failure("cancelled", "the caller cancelled the call")
_SUPERSEDED: Final = Failure(
    "cancelled", "a newer call with the same key took the place of this one"
)
NOT_OURS: Final = Failure(
    "lease_lost",
    "this process was cut off from those that share its limits, or stood still, so that another "
    "one may have had the slot of this call; look whether the tool has run, then call it again",
)
"""Why a call ends whose units others may have had."""
_first_helper: Final = threading.Lock()
"""Held while a call notes its first helping task; two loops may do so at once."""
_NOT_BEGUN: Final = Failure("engine_closed", "the engine was closed before the task ran")
_ABORTED: Final = Failure("engine_closed", "the engine was closed while the tool ran")
_ENDS: Final[dict[str | None, Failure]] = {
    ABORTED: _ABORTED,
    SUPERSEDED: _SUPERSEDED,
    LEASE_LOST: NOT_OURS,
}
_SUPPLY: Final = 256
"""Marks that are drawn at once: a request to the system for each would cost more than a tool."""
_BYTES: Final = 10
"""The bytes of one mark: enough that two calls of an engine never share an id."""
_TASK_DIGITS: Final = 32
_marks: Final[list[str]] = []
take_mark: Final = _marks.pop
"""Returns a mark that no other call has.

Raises:
    IndexError: None is left; `name_call` draws more.
"""


@settable
class Call(msgspec.Struct, eq=False):
    """One call on its way through the steps."""

    owner: Any
    """The pipeline that runs it."""
    serial: int
    """The number of the call in this process."""
    call_id: str
    tool_name: str
    params: bytes
    """A copy of the arguments as they came, as MessagePack, for the record."""
    context: ToolExecutionContext
    plan: Plan | None = None
    held: Any = None
    """Its slot, if that was made."""
    lane: Any = None
    """Where a slot is counted for it that nothing has looked at so far: see `slot`."""
    arrival: int = 0
    began: float = 0.0
    """When it was given that."""
    run: Any = None
    """The `Run` that is waiting, if one is."""
    bell: Any = None
    """The future that ends a pause between two attempts, with the reason."""
    arguments: dict[str, Any] | None = None
    """The arguments for another attempt; set where there may be one."""
    retries: int = 0
    attempt_log: list[dict[str, Any]] | None = None
    findings: list[dict[str, Any]] | None = None
    misfits: tuple[dict[str, Any], ...] = ()
    """Those of its findings that are about its output."""
    waited: float = 0.0
    """Seconds of waiting for a slot, made or not."""
    limited: Any = None
    """The `LimitedOutput` of a successful call whose output its tool's limits changed."""
    kept: bytes | None = None
    """What the record keeps of the output of a call that failed because of it."""
    result: ToolExecutionResult | None = None
    """Set if the call was refused while it asked for a slot."""
    above: Any = None
    """The call of another engine that led to this one, if one did."""
    reports: Any = None
    """Its `CallReports`, once its tool has reported something."""
    helpers: Any = None
    """The tasks, beside its tool's own, in which calls run that it has made."""
    is_broken_off: bool = False
    """Whether it was cancelled, ran out of time or was ended from outside."""
    inside: dict[int, Tool] | None = None
    """The tools, by identity, whose results its own result may reveal, because its tool called
    them. Empty: it has tried to; None: it has called nothing.
    """
    stopped: str | Failure | None = None
    """Why it was cancelled from outside, or why its tool is gone; None: it goes on."""
    called_as: str | None = None
    """The alias by which the tool was called; None: by its name."""
    decided_by: str | None = None
    """Who allowed or refused it, where consent was asked for; see `ToolCallRecord`."""
    seen: tuple[Tool, VisibleCall] | None = None
    """The call as it may be shown, and the tool that determined this; set at the first use."""

    @property
    def slot(self) -> Any:
        """Its `Slot`, once it has one; that of a plain call is made when it is first asked for."""
        if self.held is None and self.lane is not None and self.plan is not None:
            request = self.plan.request
            self.held = ConcurrencySlot(
                self.lane, request.weight, self.arrival, self.began, request, self.call_id
            )
            self.held.queue_wait = self.waited
        return self.held

    def name_tool(self, tool: Tool) -> str:
        """Return the name of its tool, which it bears from here on, and note an alias."""
        if self.tool_name in tool.aliases:
            self.called_as, self.tool_name = self.tool_name, tool.name
        return self.tool_name

    @property
    def is_for_models(self) -> bool:
        """False if its tool is for code only."""
        return self.plan is None or self.plan.tool.is_for_models

    def forget_name(self) -> None:
        """Bear the name again by which it was called: an alias must not reveal another one."""
        self.tool_name, self.called_as = self.called_as or self.tool_name, None

    def note_inside(self, *tools: Tool) -> None:
        """Note that its tool, and so its caller, gets the results of these tools."""
        call: Call | None = self
        while call is not None:
            call.inside = call.inside or {}
            call.inside.update((id(tool), tool) for tool in tools)
            call = call.context.bound_call

    def note_misfits(self, found: list[ValidationError]) -> None:
        """Note where its output differs from the declaration, as warnings."""
        self.misfits = tuple({**each.to_dict(), "level": "warning"} for each in found)
        self.findings = [*(self.findings or ()), *self.misfits]

    def note_for_maker(self, tool: Tool) -> None:
        """Note that its caller gets the result of a run of the tool."""
        maker: Call | None = self.context.bound_call
        if maker is not None:
            maker.note_inside(tool)

    def is_owned_by(self, owner: object) -> bool:
        return self.owner is owner

    def of(self, owner: Any) -> Call | None:
        """Return the nearest call of `owner`: this one or one above it.

        It may be known from a context alone: a thread that has no variables may hand on its own.
        """
        call: Call | None = self
        while call is not None and call.owner is not owner:
            call = call.above
        return call

    def above_of(self, owner: Any) -> Call | None:
        """Return the call above one of `owner` that this call makes: never two of one engine."""
        return self if self.owner is not owner else self.above

    @property
    def cancelled(self) -> Failure:
        """Why it ends without its tool's having failed: its caller's wish, or that of others."""
        if self.stopped is None:
            task: Any = self.context.task
            if task is None:
                return _CANCELLED
            # A task has no caller who waits: without a reason, its event loop is being ended.
            if (reason := task.ending) is not None:
                return Failure(reason.error_type, reason.error)
            return _NOT_BEGUN if self.slot is None else _ABORTED
        if isinstance(self.stopped, Failure):
            return self.stopped
        return Failure("cancelled", f"the call was cancelled from outside: {self.stopped}")

    def explain_removed(self) -> Failure | None:
        """Return what is said where its tool is there no more; None: it never was."""
        task: Any = self.context.task
        if task is not None:
            removed = task.explain_removed()
            return removed and failure_from(removed)
        if self.plan is None:
            return None
        return Failure(
            "tool_not_found",
            f"the tool {self.tool_name!r} was removed while the call waited; call it again once it "
            "is back",
        )

    @property
    def is_over(self) -> bool:
        """Return True if it has ended and none of its work goes on."""
        return self.slot is None or self.slot.is_released

    @property
    def is_overdue(self) -> bool:
        """Return True if it has ended for its caller while its tool goes on."""
        return not self.is_over and bool(self.slot.is_overdue)

    @property
    def is_ending(self) -> bool:
        """Return True if its caller or its deadline asked its tool to end."""
        return self.run is not None and self.run.is_ending

    @property
    def is_lending(self) -> bool:
        """Return True if it runs, so that its own calls may use its slot meanwhile."""
        return not self.is_over and not self.slot.is_overdue

    def ended(self) -> ToolExecutionResult:
        if self.result is None:
            raise ToolEngineError(f"the call {self.call_id} has not ended")
        return self.result

    @property
    def has_secrets(self) -> bool:
        return self.plan is not None and self.plan.has_secrets

    @property
    def visible(self) -> VisibleCall | None:
        """The call as it may be shown; None: its tool declares no secrets, or it has no tool."""
        if self.plan is None or not self.plan.has_secrets:
            return None
        tool = self.plan.tool
        if self.seen is None or self.seen[0] is not tool:
            self.seen = tool, VisibleCall(self.params, tool)
        return self.seen[1]

    @property
    def secrets(self) -> OwnSecrets:
        """The secrets that it was sent, to hide them in messages about a failure."""
        visible = self.visible
        return NO_SECRETS if visible is None else visible.secrets

    @property
    def attempts(self) -> int:
        return 0 if self.slot is None else 1 + self.retries

    @property
    def priority(self) -> int:
        """The priority: the caller's, else the tool's."""
        if self.context.priority is not None:
            return self.context.priority
        return DEFAULT_PRIORITY if self.plan is None else self.plan.request.priority

    @property
    def timeout(self) -> float:
        """Seconds that the tool may run: the caller's value, the tool's or the default."""
        timeout = self.context.timeout
        if timeout is DEFAULT_TIMEOUT or timeout is None:
            return 0.0 if self.plan is None else self.plan.timeout
        return timeout

    def take_helper(self, task: Any) -> bool:
        """Note a task of any loop that makes a call for it; False: it is its tool's."""
        if type(task) is ToolTask and task.call is self:
            return False
        if self.helpers is None:
            with _first_helper:
                self.helpers = set() if self.helpers is None else self.helpers
        self.helpers.add(task)
        return True

    @contextmanager
    def helped(self) -> Iterator[None]:
        """Note the present task meanwhile, unless it is its tool's: it makes a call for this."""
        task = asyncio.current_task()
        is_helper = self.take_helper(task)
        try:
            yield
        finally:
            if is_helper:
                self.helpers.discard(task)

    def break_off(self, *, ends_helpers: bool = True) -> None:
        """Cancel all that calls for it, and allow no more: no caller waits for it."""
        self.is_broken_off = True
        for task in list(self.helpers or ()) if ends_helpers else ():
            loop = task.get_loop()
            if self.run is not None and self.run.get_loop() is loop:
                _cancel_once(task)
            else:
                # A closed loop has no tasks.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(_cancel_once, task)

    def supersede(self) -> None:
        """End the run, since a newer call with the same key replaces it."""
        if self.run is not None:
            self.run.end(SUPERSEDED)
        self.end_pause(SUPERSEDED)

    def end_pause(self, reason: str) -> None:
        """End the pause between two attempts, if there is one, and with it the call."""
        if self.bell is not None and not self.bell.done():
            self.bell.set_result(reason)

    def deadline_from(self, started: float) -> float:
        """Return the deadline on the loop's clock if the tool starts at `started`."""
        context = self.context
        timeout, outer = context.timeout, context.deadline
        if timeout is DEFAULT_TIMEOUT or timeout is None:
            timeout = self.timeout
        deadline = started + timeout
        return deadline if outer is None or deadline < outer else outer

    @property
    def deadline(self) -> float:
        """The deadline on the loop's clock of a call that has its slot."""
        return self.deadline_from((self.held or self.slot).acquired_at)

    def bind_run(self, run: Run, plan: Plan) -> None:
        """Let a run call the executor, with the arguments that the run holds, and the context."""
        arguments, run.kwargs = run.kwargs, {}
        if plan.retry is not None and self.arguments is None:
            self.arguments = deepcopy(arguments)
        run.leaves_on_cancel = plan.leaves_on_cancel
        run.function = plan.function
        run.args = (plan.tool, arguments, self.bind(run.deadline))

    def bind(self, deadline: float | None) -> ToolExecutionContext:
        """Return the caller's context, bound to this call, for the tool."""
        context = self.context
        nest = self.owner.take_nested
        own = context.bound_to(self, nest, self.call_id, deadline, self.timeout)
        if context is ANONYMOUS:
            force_setattr(own, "variables", {})
        if self.retries:
            force_setattr(own, "retry_count", context.retry_count + self.retries)
        return own


def _cancel_once(task: Any) -> None:
    if not task.cancelling():
        task.cancel()


def end_of(call: Call, run: Run, seconds: float) -> Failure:
    """Return why a run failed after `seconds`."""
    if run.is_cancelled:
        return call.cancelled
    if run.end_reason is STOPPED:
        return call.cancelled
    if run.end_reason in _ENDS:
        return _ENDS[run.end_reason]
    if run.error is not None and not run.is_timed_out:
        return failure_of(run.error, call.secrets)
    return too_late(call, seconds)


def too_late(call: Call, seconds: float = inf, why: str = "") -> Failure:
    """Return the failure of a call whose deadline passed after `seconds`.

    `why` says what it had waited for until then, and what to do about that.
    """
    within, cure = f"within {call.timeout:g} s", "raise its timeout"
    if call.context.deadline is not None and seconds < call.timeout:
        if outer := call.context.parent_call_id:
            within = f"by the deadline of the call {outer} that it is part of"
        else:
            within = "by the deadline of its context"
            cure = "give the context a later deadline"
    if why:
        return Failure("timeout", f"tool {call.tool_name!r} did not finish {within}; {why}")
    return Failure(
        "timeout", f"tool {call.tool_name!r} did not finish {within}; {cure} or ask for less"
    )


def attempt_of(failure: Failure | None, seconds: float) -> dict[str, Any]:
    """Return one attempt, as in `metadata["attempt_log"]`."""
    return {
        "is_success": failure is None,
        "error_type": None if failure is None else failure.error_type,
        "error": None if failure is None else failure.error,
        "execution_time": seconds,
    }


def slot_of_this_call() -> Slot | None:
    """Return the slot of the call whose tool runs here; None outside of tools."""
    call = current_call.get()
    return None if call is None else call.slot


async def end_work_of(call: Call, tool_name: str) -> NoReturn:
    """End the work that asks for one more call, though its tool has to end.

    A tool that catches its cancellation does nothing more by others. A task that it has started is
    cancelled: it may have no one left who reads an error.
    """
    task = asyncio.current_task()
    if type(task) is asyncio.Task:
        task.cancel()
        await asyncio.sleep(0)
    raise ended_error(call.call_id, tool_name)


def ended_error(call_id: str | None, tool_name: str) -> UnboundContextError:
    return UnboundContextError(
        f"cannot call {tool_name!r}: the call {call_id} that this context is bound to has "
        "ended, or has to end"
    )


class _Unnamed(ToolExecutionContext):
    """The context of a call that comes with a listener alone."""


def nested_context(
    outer: ToolExecutionContext, context: ToolExecutionContext | None, timeout: float | None
) -> ToolExecutionContext:
    """Return the context of an inner call: by default its maker's, which no one hears."""
    # The maker's own listener hears of the maker alone: `bind` leaves it out.
    heard = None if context is None else context.on_progress
    if isinstance(context, _Unnamed) and context.bound_call is None:
        context = None
    source = outer if context is None else context
    check_context(source)
    # The maker may reveal what it learns there, however the call ends.
    outer.bound_call.note_inside()
    # Of what is bound to a call that has ended, or to another one, the deadline is its own.
    own = None if source.bound_call is not None else source.deadline
    deadlines = [each for each in (outer.deadline, own) if each is not None]
    return ToolExecutionContext(
        source.caller_id,
        source.caller_type,
        source.conversation_id,
        source.workflow_id,
        timeout if context is None else context.timeout,
        0,
        source.max_retries,
        source.variables,
        priority=outer.priority if source.priority is None else source.priority,
        parent_call_id=outer.call_id,
        task_id=outer.task_id,
        deadline=min(deadlines, default=None),
        session_id=source.session_id or outer.session_id,
        # A tool cannot do what its conversation forbids, nor act for another conversation.
        scope=outer.scope if source is outer else narrow_scope(outer.scope, source.scope),
        on_progress=heard,
        _is_for_tool=context is None,
        _is_of_own=source.bound_call is None and is_of_own(source),
    )


def context_of(
    context: ToolExecutionContext | None, listener: Callable[[ToolProgress], object] | None
) -> ToolExecutionContext:
    """Return the context of a call that `listener` hears; see `heard_by`."""
    if context is None:
        return ANONYMOUS if listener is None else _Unnamed(on_progress=listener)
    is_unchanged = type(context) is ToolExecutionContext and not context._is_changed  # noqa: SLF001 - the engine's own
    if listener is None and (is_unchanged or check_context(context)):
        # One that is as it was made was checked then.
        return context
    return heard_by(listener, context)


def inner_context(maker: Call, context: ToolExecutionContext) -> ToolExecutionContext:
    """Return the context of an inner call: its time while that runs, and all else for ever."""
    outer = maker.bind(None if maker.is_over else maker.deadline)
    return nested_context(outer, None if context is ANONYMOUS else context, None)


def joined_context(near: Call, inner: ToolExecutionContext) -> ToolExecutionContext:
    """Return the context of an inner call that is part of another call, too."""
    joined = nested_context(near.bind(near.deadline), inner, None)
    joined._is_for_tool = inner.is_for_tool  # noqa: SLF001 - the engine's own
    return joined


def read_caller(who: ToolExecutionContext) -> CallerFacts:
    """Return what the record of a call says of who called."""
    return (
        who.caller_id,
        who.caller_type,
        who.conversation_id,
        who.workflow_id,
        who.parent_call_id,
        who.session_id,
    )


def name_call(engine: str) -> str:
    """Return a new call id: the engine's name and twenty digits.

    Args:
        engine: What `name_engine` gave.
    """
    try:
        return engine + take_mark()
    except IndexError:
        return engine + _draw_marks()


def name_task() -> str:
    """Return a new task id: 128 random bits as hexadecimal digits."""
    try:
        return (take_mark() + take_mark())[:_TASK_DIGITS]
    except IndexError:
        return (_draw_marks() + _draw_marks())[:_TASK_DIGITS]


def _draw_marks() -> str:
    drawn = os.urandom(_SUPPLY * _BYTES).hex("-", _BYTES).split("-")
    mark = drawn.pop()
    # Another thread may be drawing, too.
    _marks.extend(drawn)
    return mark


def name_engine() -> str:
    """Return the beginning of all call ids of one engine."""
    return f"call-{os.urandom(4).hex()}-"


def name_process(said: str | None) -> str:
    """Return the name of this process: what settings say, else machine and process id."""
    return said or f"{socket.gethostname()}-{os.getpid()}"


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_marks.clear)
