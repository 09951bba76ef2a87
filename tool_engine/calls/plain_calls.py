"""How does a call take its steps when no special rule applies to it?

Most calls come without a context, for a tool that needs no consent, while a slot is free and
nothing listens. Their steps are those of `pipeline`, in the same order, without what each of them
asks for other calls. A call that anything else applies to is left to the pipeline before anything
was done for it; one whose tool waits or fails, as soon as that shows.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tool_engine.admission import refusal
from tool_engine.admission.pool import SlotPool
from tool_engine.admission.queue import Queue
from tool_engine.backends.runs import Runs
from tool_engine.backends.task import ToolTask, task_of
from tool_engine.calls.call import ANONYMOUS, Call, name_call
from tool_engine.calls.ending import CallEnding
from tool_engine.calls.plan import Plan
from tool_engine.events import EventBus
from tool_engine.interfaces import AdmissionController, Slot
from tool_engine.knowledge.snapshot import pack_plain
from tool_engine.logger import current_call
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.record import next_serial

Begun = tuple[Call, Plan, Slot, ToolTask]
"""A call that has its slot, and whose tool has taken its first step, perhaps its last."""
_call_here: Final = current_call.get


class Wires(NamedTuple):
    """What the plain calls of one engine on one loop have in common."""

    loop: AbstractEventLoop
    clock: Callable[[], float]
    """The loop's."""
    pool: SlotPool
    queue: Queue
    bus: EventBus
    plans: Mapping[str, Plan]
    """By the names of their tools, as they are at any time."""
    owner: Any
    """The pipeline."""
    prefix: str
    """What the ids of its calls begin with."""
    runs: Runs
    ending: CallEnding


def make_wires(
    controller: AdmissionController, loop: AbstractEventLoop, clock: Callable[[], float], *rest: Any
) -> Wires | None:
    """Return the wires, the `rest` of them as given; None: who gives the slots shares no pool."""
    share = getattr(controller, "share_pool", None)
    pool: SlotPool | None = None if share is None else share()
    return None if pool is None else Wires(loop, clock, pool, pool.queue, *rest)


def take_plain(  # noqa: C901, PLR0911 - each step in between costs a hundredth of a call
    wires: Wires, tool_name: Any, params: Any
) -> ToolExecutionResult | Begun | None:
    """Take a call to its end, or as far as its tool comes without a wait.

    None: it is no plain call, and nothing was done for it.
    """
    loop, clock, pool, queue, bus, plans, owner, prefix, runs, ending = wires
    if _call_here() is not None or get_running_loop() is not loop or bus.has_subscribers:
        return None
    try:
        plan, packed = plans.get(tool_name), pack_plain(params)
    except Exception:  # noqa: BLE001 - a foreign value may raise anything
        return None
    if plan is None or not plan.is_plain or (arguments := plan.accept(params, packed)) is None:
        return None
    # The same as the controller's `admit_nowait`, written out.
    request, began, number = plan.request, clock(), pool.acquired
    lane, weight = request.spot, request.weight
    if lane is None or lane.is_gated or lane.is_gone or queue.waiting:
        return None
    bucket, call_id = lane.bucket, name_call(prefix)
    used, bucket_used = pool.used + weight, bucket.used + weight
    if used > pool.room or bucket_used > bucket.most or began >= pool.look_at:
        return None
    arrival, serial, who = number + queue.enqueued, next_serial(), ANONYMOUS
    call = Call(owner, serial, call_id, tool_name, packed, who, plan, None, lane, arrival, began)
    pool.used, bucket.used, pool.acquired = used, bucket_used, number + 1
    if used > pool.most_used:
        pool.most_used = used
    try:
        run = ToolTask(loop, began + plan.timeout, runs, call, plan.direct, arguments)
        if plan.direct is None:
            call.bind_run(run, plan)
        if not run.start(task_of(loop)) or run.is_troubled:
            return call, plan, call.slot, run
        if (ready := plan.ready(run.value)) is None:
            return call, plan, call.slot, run
    except BaseException:
        owner.end_broken(call, call.slot)
        raise
    now = clock()
    is_odd = call.held is not None or call.reports is not None or ready[0] is not None
    has_changed = lane.is_gated or queue.waiting or pool.idle or now >= pool.look_at
    if is_odd or has_changed or bus.has_subscribers:
        return call, plan, call.slot, run
    # The same as the controller's `release`, written out.
    pool.used -= weight
    bucket.used = bucket_used = bucket.used - weight
    if bucket_used < 0:
        raise refusal.broken_accounting(call.slot)
    call.lane, seconds = None, now - began
    pool.released += 1
    pool.held_seconds += seconds
    return ending.succeed_plainly(call, plan, seconds, ready, now)
