"""How does a call take its steps when no special rule applies to it?

Most calls come without a context, or from a conversation that has found before that nothing asks
about the tool; for a tool that needs no consent. Their steps are those of `pipeline`, in the same
order, without what each of them asks for other calls. A call that anything else applies to is left
to the pipeline before anything was done for it; one whose tool fails, as soon as that shows.
"""

from __future__ import annotations

import sys
from asyncio import AbstractEventLoop, Future, get_running_loop
from collections.abc import Callable, Coroutine, Mapping
from threading import get_ident
from typing import Any, Final

from tool_engine.admission import refusal
from tool_engine.admission.lines import Lane
from tool_engine.admission.pool import SlotPool
from tool_engine.admission.queue import Queue
from tool_engine.admission.slot import ACTIVE, RELEASED, ConcurrencySlot
from tool_engine.backends.runs import Runs
from tool_engine.backends.task import ToolTask, current_tasks, task_of
from tool_engine.calls.call import ANONYMOUS, Call, read_caller, take_mark
from tool_engine.calls.ending import CallEnding
from tool_engine.calls.plain_events import make_end, make_start
from tool_engine.calls.plan import Plan
from tool_engine.calls.present import SlotWait
from tool_engine.events import EventBus
from tool_engine.interfaces import AdmissionController
from tool_engine.knowledge.memory import SMALL, CallerFacts, PlainEntry
from tool_engine.knowledge.snapshot import pack_plain
from tool_engine.logger import current_call
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.context_copy import DEFAULT_TIMEOUT
from tool_engine.model.event import ToolEngineEventType
from tool_engine.model.record import serials

Waiting = tuple[Future[Any], Call, Plan, SlotWait, dict[str, Any]]
"""What a call in line waits for, itself, its place there, and the arguments for its tool."""
Step = ToolExecutionResult | ToolTask | Waiting | Coroutine[Any, Any, ToolExecutionResult]
"""How far a call has come: to its result; to a wait for its run, or for its turn in line; or to
what is the pipeline's to do."""
_QUEUED: Final = ToolEngineEventType.EXECUTION_QUEUED
_call_here: Final = current_call.get


Wires = tuple[
    AbstractEventLoop,
    Callable[[], float],
    SlotPool,
    Queue,
    EventBus,
    Mapping[str, Plan],
    Any,
    str,
    Runs,
    CallEnding,
    Any,
]
"""What the plain calls of one engine on one loop have in common: the loop and its clock, the slots
and who waits for them, the bus, the plans by the names of their tools as they are at any time, the
pipeline, what the ids of its calls begin with, the runs, how calls end, and the loop again if it
says in which thread it runs.

A plain tuple, as one with names costs a fiftieth of a call when it is taken apart."""


def leave_all(*_: Any) -> None:
    """Leave each call to the pipeline, as `take_plain` does with those that are not plain."""


def make_wires(
    controller: AdmissionController, loop: AbstractEventLoop, clock: Callable[[], float], *rest: Any
) -> Wires | None:
    """Return the wires, the `rest` of them as given; None: who gives the slots shares no pool."""
    share = getattr(controller, "share_pool", None)
    pool: SlotPool | None = None if share is None else share()
    if pool is None:
        return None
    pool.held.find_running = rest[2].present.find_slots
    # Before 3.12, asking for the running loop asks the system which process this is.
    is_known = sys.version_info < (3, 12) and getattr(loop, "_thread_id", None) == get_ident()
    return (loop, clock, pool, pool.queue, *rest, loop if is_known else None)


def take_plain(  # noqa: C901, PLR0911, PLR0912 - each step in between costs a hundredth of a call
    wires: Wires, tool_name: Any, params: Any, context: ToolExecutionContext | None = None
) -> Step | None:
    """Take a call to its end, or as far as it comes without a wait.

    Args:
        wires: What it has in common with other calls.
        tool_name: The tool.
        params: Its arguments.
        context: The caller's, if it has one.

    Returns:
        None: it is no plain call, and nothing was done for it.
    """
    loop, clock, pool, queue, bus, plans, owner, prefix, runs, _, here = wires
    is_said = here is not None and len(current_tasks) == 1  # more: one may run within another
    is_away = here._thread_id != get_ident() if is_said else get_running_loop() is not loop  # noqa: SLF001 - no public way
    if is_away or _call_here() is not None:
        return None
    try:
        plan, packed = plans.get(tool_name), pack_plain(params)
        if plan is None or not plan.is_plain or (bus.has_subscribers and plan.has_secrets):
            return None
        call_id = prefix + take_mark()
    except Exception:  # noqa: BLE001 - a foreign value raises anything; or no mark is left
        return None
    accept, request = plan.accept, plan.request  # then what the controller's `admit_nowait` does
    arguments, lane, weight = accept(params, packed), request.spot, request.weight
    if arguments is None or lane is None or lane.is_gated or lane.is_gone:
        return None
    bucket, direct, began = lane.bucket, plan.direct, clock()
    used, bucket_used = pool.used + weight, bucket.used + weight
    if queue.waiting or used > pool.room or bucket_used > bucket.most or began >= pool.look_at:
        if context is not None or (used <= pool.limit and bucket_used <= bucket.most):
            return None
        call = Call(owner, next(serials), call_id, tool_name, packed, ANONYMOUS, plan)
        return _join_line(wires, call, plan, lane, began, arguments)
    who, timeout = context, plan.timeout
    if who is None:
        who = ANONYMOUS
    elif (timeout := _begin_scoped(pool, plan, who, call_id, arguments)) is None:
        return None
    arrival, serial = pool.acquired + queue.enqueued, next(serials)
    call = Call(owner, serial, call_id, tool_name, packed, who, plan, None, lane, arrival, began)
    pool.used, bucket.used, pool.acquired = used, bucket_used, pool.acquired + 1
    if used > pool.most_used:
        pool.most_used = used
    try:
        if bus.hears_start:
            _announce_start(bus, owner, call, plan)
        run = ToolTask(loop, began + timeout, runs, call, direct, arguments)
        if direct is None:
            call.bind_run(run, plan)
        if not run.start(task_of(loop)):
            call.run = run
            return run
    except BaseException:
        owner.end_broken(call, call.slot)
        raise
    return _end_plainly(wires, call, plan, run, lane)


def _join_line(
    wires: Wires, call: Call, plan: Plan, lane: Lane, now: float, arguments: dict[str, Any]
) -> Step | None:
    """Let a call stand in line for which there is no room; None: more rules are to be asked."""
    loop, pool, owner, request = wires[0], wires[2], wires[6], plan.request
    queue, bucket, config, task = pool.queue, lane.bucket, pool.config, task_of(loop)
    timeout = config.queue_timeout if request.timeout is None else request.timeout
    if (
        # It may not pass, or its place depends on when it came; or there is a pause.
        pool.room < 0
        or bucket.most < 0
        or bucket.queue_size is not None
        or queue.queued >= config.queue_size
        or config.strategy == "reject"
        or request.weight > 1
        or pool.leases is not None
        or timeout is None
        or (queue.waiting and queue.loop is not loop)
        or task is None
    ):
        return None
    # The same as the controller's `_join_line`, without what was asked above.
    order, future = (0.0, pool.acquired + queue.enqueued, 0), loop.create_future()
    waiter = SlotWait(lane, request, 1, order, now, future, call.call_id, timeout, True, True)
    waiter.call = waiter.holder = call
    waiter.task, waiter.cancels = task, task.cancelling()
    if lane.waiting:
        queue.join_behind(waiter, lane, now + timeout)
    else:
        pool.join(waiter)
        queue.set_deadline(waiter, timeout, now)
    if queue.waiting > pool.most_waiting:
        pool.most_waiting = queue.waiting
    waiting, owner.present.waits[call.call_id] = (future, call, plan, waiter, arguments), waiter
    if wires[4].has_subscribers:
        try:
            wires[9].publish(call, _QUEUED)
        except BaseException as error:
            if (result := break_off_wait(wires, waiting, error)) is None:
                raise
            return result
    return waiting


def _announce_start(bus: EventBus, owner: Any, call: Call, plan: Plan) -> None:
    """Publish that a call has its slot, which snapshots show to those who hear of it."""
    owner.announced = call
    try:
        bus.publish(make_start(call, plan))
    finally:
        owner.announced = None


def _begin_scoped(
    pool: SlotPool, plan: Plan, who: ToolExecutionContext, call_id: str, arguments: dict[str, Any]
) -> Any:
    """Begin a call that comes from a conversation, and has room.

    Returns:
        The seconds that its tool may run; None: more applies to it than its conversation has said
        before, and nothing was done.
    """
    if (
        type(who) is not ToolExecutionContext
        or who._is_changed  # noqa: SLF001 - the engine's own
        or who._is_of_own  # noqa: SLF001 - the engine's own
        or who._call is not None  # noqa: SLF001 - the engine's own
        or who._task is not None  # noqa: SLF001 - the engine's own
        or who.on_progress is not None
        or who.deadline is not None
        or who.task_id is not None
        or (begin := getattr(who.scope, "begin_known", None)) is None
        or plan.choose_request(pool.config, who, arguments, None) is not plan.request
        or not begin(call_id, plan.tool, arguments)
    ):
        return None
    seconds: float | None = who.timeout
    return plan.timeout if seconds is None or seconds is DEFAULT_TIMEOUT else seconds


def _end_scoped(
    who: ToolExecutionContext, sent: bytes, output: dict[str, Any], kept: bytes | None
) -> CallerFacts:
    """Give a conversation what is packed of its call; return what the record says of it."""
    who.scope.note_known(sent, output, kept)
    return read_caller(who)


def end_run(wires: Wires, run: ToolTask) -> Step:
    """Take a call to its end that waited for its run, which has ended."""
    call = run.call
    done = _end_plainly(wires, call, call.plan, run, call.lane)
    if not run.is_troubled:
        call.run = None  # the run knows its call: without a cycle both are freed at once
    return done


def break_off_wait(
    wires: Wires, waiting: Waiting, error: BaseException
) -> ToolExecutionResult | None:
    """End a call whose wait in line has ended with an error; None: its caller gets the error."""
    owner, (_, call, _, waiter, _) = wires[6], waiting
    if (slot := waiter.slot or call.slot) is None:
        owner.give_up(waiter)
    error = waiter.leave(owner.present, error)
    if (now := owner.explain_wait(call, slot, waiter, error)) is None:
        return None
    owner.settle_wait(call, slot, waiter, now)
    return call.ended()


def start_late(wires: Wires, waiting: Waiting) -> Step:
    """Go on with a call that has waited for its slot, if it still may run."""
    plans, owner, (_, call, plan, waiter, arguments) = wires[5], wires[6], waiting
    now = plan
    try:
        del owner.present.waits[call.call_id]
        if (slot := waiter.slot) is not None:
            call.held, call.lane, call.began = slot, waiter.lane, slot.acquired_at
        if plans.get(call.tool_name) is not plan:
            now = owner.recheck(call, arguments)
    except BaseException as error:
        if (result := break_off_wait(wires, waiting, error)) is None:
            raise
        return result
    if now is not plan:
        if owner.settle_wait(call, waiter.slot or call.slot, waiter, now) is None:
            return call.ended()
        plan = call.plan or plan
    return _start_tool(wires, call, plan, arguments)


def _start_tool(wires: Wires, call: Call, plan: Plan, arguments: dict[str, Any]) -> Step:
    """Run the tool of a call that was given its slot to its first wait, or its end."""
    loop, _, _, _, bus, _, owner, _, runs, _, _ = wires
    try:
        if bus.has_subscribers:
            owner.announce_start(call, call.slot)
        run = ToolTask(loop, call.began + plan.timeout, runs, call, plan.direct, arguments)
        if plan.direct is None:
            call.bind_run(run, plan)
        if not run.start(task_of(loop)):
            call.run = run
            return run
    except BaseException:
        owner.end_broken(call, call.slot)
        raise
    return _end_plainly(wires, call, plan, run, call.lane)


def _end_plainly(wires: Wires, call: Call, plan: Plan, run: ToolTask, lane: Any) -> Step:
    """Return the result of a call whose tool has ended, or what is left to be done."""
    _, clock, pool, queue, bus, _, owner, _, _, ending, _ = wires
    try:
        make_ready = plan.ready
        ready = None if run.is_troubled else make_ready(run.value)
    except BaseException:
        owner.end_broken(call, call.slot)
        raise
    now, slot = clock(), call.held
    if (
        ready is None
        or ready[0] is not None
        or call.reports is not None
        or lane.is_gated
        or now >= pool.look_at
        or (slot is not None and _is_special(call, slot, pool))
        or (plan.has_secrets and bus.has_subscribers)
    ):
        pool.held.show(call.slot)  # its work may go on without it
        rest: Step = owner.complete_call(call, plan, call.slot, run, is_lost=False)
        return rest
    # The same as the controller's `release`, written out.
    bucket, weight = lane.bucket, plan.request.weight
    pool.used -= weight
    bucket.used = bucket_used = bucket.used - weight
    if bucket_used < 0:
        raise refusal.make_accounting_error(call.slot)
    if slot is None:
        held, waited = (seconds := now - call.began), call.waited
    else:
        seconds, held, waited = _give_back(pool, slot, now)
    call.lane = None
    pool.released += 1
    pool.held_seconds += held
    if queue.waiting:
        bucket.served.append(held)
        pool.hand_over(lane, now)
    if pool.idle:
        pool.wake_idle()
    # The same as `CallEnding.succeed`, without what only other calls have.
    _, output, kept, whole = ready
    date = ending.date if now < ending.next_date else ending.read_date(now, call, run.deadline)
    packed, name, who = call.params, call.tool_name, call.context
    after, serial, call_id = now - ending.dated, call.serial, call.call_id
    facts, tool, memory = plan.facts, plan.tool, ending.memory
    caller = None if who is ANONYMOUS else _end_scoped(who, packed, output, whole)
    entry = PlainEntry(packed, kept, seconds, date, after, call_id, facts, tool, serial, caller)
    metadata = facts.copy()
    metadata["call_id"] = call_id
    if waited:
        entry.queue_wait = metadata["queue_wait"] = waited
    if memory is None or len(packed) + len(kept) > SMALL:
        ending.append(entry.complete())
    else:  # the same as the storage's `add`, written out
        keep, memory.added = memory.keep_small, memory.added + 1
        keep(entry)
    if bus.hears_end:
        bus.publish(make_end(entry, plan))
    return ToolExecutionResult(True, name, output, None, None, [], seconds, date, metadata)


def _is_special(call: Call, slot: ConcurrencySlot, pool: SlotPool) -> bool:
    """Return True for a slot that others had meanwhile, or are to have in their own ways."""
    has_called = call.inside is not None
    return has_called or slot.state is not ACTIVE or slot.is_gated or pool.leases is not None


def _give_back(pool: SlotPool, slot: ConcurrencySlot, now: float) -> tuple[float, float, float]:
    """Let go of a slot whose units are counted.

    Returns:
        The seconds of its call, those for which it was held, and those that were waited for it.
    """
    slot.state, seconds = RELEASED, now - slot.acquired_at
    if slot.is_listed:
        pool.held.remove(slot)
    return seconds, seconds - slot.counted, slot.queue_wait
