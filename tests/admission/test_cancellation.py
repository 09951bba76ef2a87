"""Cancelled at any moment, a call keeps nothing; and the known bugs of others are not ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import product

import pytest

from tests.admission.conftest import MakeCrew
from tests.admission.crew import TURNS, Crew, check, controller_of
from tests.admission.test_nesting import inner_call
from tool_engine.admission import ToolConcurrencyController
from tool_engine.admission.request import AdmissionRequest
from tool_engine.errors import QueueTimeoutError

Action = Callable[[], object]


async def a_hundred_pass(controller: ToolConcurrencyController) -> None:
    """Nothing is held, and as many as ever can still have a slot."""
    check(controller)
    metrics = controller.get_metrics()
    assert (metrics.current_concurrent, metrics.queue_length, metrics.parked) == (0, 0, 0)
    for _ in range(100):
        async with asyncio.timeout(1.0), controller.slot("http"):
            pass
    check(controller)


async def play(steps: list[list[Action]], controller: ToolConcurrencyController) -> None:
    """Does some things in each step of the loop, and lets the rest happen."""
    for actions in (*steps, *([[]] * TURNS)):
        for action in actions:
            action()
        check(controller)
        await asyncio.sleep(0)


def at_steps(count: int, *when: tuple[int, Action]) -> list[list[Action]]:
    return [[action for at, action in when if at == step] for step in range(count)]


async def take_and_end(controller: ToolConcurrencyController) -> None:
    slot = await controller.acquire("http")
    try:
        await asyncio.sleep(0)
    finally:
        controller.release(slot)


async def take_in_a_block(controller: ToolConcurrencyController) -> None:
    async with controller.slot("http"):
        await asyncio.sleep(0)


async def take_and_nest(controller: ToolConcurrencyController) -> None:
    async with (
        controller.slot("http") as outer,
        inner_call(controller, outer) as middle,
        inner_call(controller, middle, bucket="http", lane="http"),
    ):
        await asyncio.sleep(0)


KINDS = [take_and_end, take_in_a_block, take_and_nest]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_cancel_first", [False, True])
async def test_cancel_beside_release(
    kind: Callable[[ToolConcurrencyController], asyncio.Future[None]], is_cancel_first: bool
) -> None:
    """C8: cancelled before, with or after the grant, in every order: the next in line has it."""
    for released_at, cancelled_at in product(range(7), range(12)):
        controller = controller_of(max_concurrent=1, bucket_limits={"http": 1})
        held = await controller.acquire("http")
        victim = asyncio.ensure_future(kind(controller))
        behind = [asyncio.ensure_future(kind(controller)) for _ in range(3)]
        when: list[tuple[int, Action]] = [
            (released_at, lambda slot=held, at=controller: at.release(slot)),  # type: ignore[misc]
            (cancelled_at, victim.cancel),
        ]
        if is_cancel_first:
            when.reverse()
        await play(at_steps(20, *when), controller)
        async with asyncio.timeout(10.0):
            await asyncio.gather(*behind)
            await asyncio.gather(victim, return_exceptions=True)
        await a_hundred_pass(controller)


@pytest.mark.parametrize("kind", KINDS)
async def test_cancel_two_in_a_row(
    kind: Callable[[ToolConcurrencyController], asyncio.Future[None]],
) -> None:
    """C8: a slot that passes on to one who is cancelled too passes on again."""
    for first_at, second_at in product(range(8), repeat=2):
        controller = controller_of(max_concurrent=1)
        held = await controller.acquire()
        tasks = [asyncio.ensure_future(kind(controller)) for _ in range(3)]
        release: Action = lambda slot=held, at=controller: at.release(slot)  # type: ignore[misc] # noqa: E731 - one line for one action
        steps = at_steps(
            12, (2, release), (first_at, tasks[0].cancel), (second_at, tasks[1].cancel)
        )
        await play(steps, controller)
        async with asyncio.timeout(10.0):
            await tasks[2]
            await asyncio.gather(*tasks, return_exceptions=True)
        await a_hundred_pass(controller)


async def test_cancel_at_each_await() -> None:
    """C8: CancelledError thrown in at await number k, for every k there is, keeps nothing."""
    for kind, number in product(KINDS, range(8)):
        controller = controller_of(max_concurrent=1, bucket_limits={"http": 1})
        held = await controller.acquire("http")
        coroutine = kind(controller).__await__()
        is_cancelled = False
        try:
            for count in range(20):
                future = next(coroutine)
                if count == number:
                    is_cancelled = True
                    coroutine.throw(asyncio.CancelledError)
                elif count == 0:
                    controller.release(held)
                if future is not None:
                    assert future.done()
                    future._asyncio_future_blocking = False
        except (StopIteration, asyncio.CancelledError):
            pass  # either end is right; what is held then is checked below
        controller.release(held)
        assert is_cancelled == (number < 2)
        await a_hundred_pass(controller)


async def test_cancel_beside_timeout(crew_of: MakeCrew) -> None:
    """C7, C8: when time runs out for one who is cancelled in the same step, it counts once."""
    for is_timeout_first in (False, True):
        crew = crew_of(max_concurrent=1)
        await crew.call("holder")
        loop = asyncio.get_running_loop()
        victim = crew.begin("victim", timeout=5.0)
        if is_timeout_first:
            await crew.turn()
        loop.call_at(loop.time() + 5.0, victim.cancel)
        await crew.call("behind")
        await asyncio.sleep(6.0)
        assert victim.cancelled()
        metrics = crew.controller.get_metrics()
        assert metrics.total_queue_timeout + metrics.total_cancelled == 1
        await crew.end("holder")
        assert crew.started == ["holder", "behind"]


async def test_timeout_beside_release(crew_of: MakeCrew) -> None:
    """C7: at the last moment a call has its slot or its error, and the slot is somebody's."""
    for offset in (-1.0, 0.0, 1.0):
        crew = crew_of(max_concurrent=1)
        await crew.call("holder")
        await crew.call("late", timeout=5.0)
        await crew.call("behind")
        loop = asyncio.get_running_loop()
        slot = crew.slots.pop("holder")
        loop.call_at(loop.time() + 5.0 + offset, crew.controller.release, slot)
        await asyncio.sleep(7.0)
        if "late" in crew.errors:
            assert isinstance(crew.errors["late"], QueueTimeoutError)
            assert crew.started == ["holder", "behind"]
        else:
            assert crew.started == ["holder", "late"]
        assert crew.controller.get_metrics().current_concurrent == 1


async def test_failure_while_telling_of_the_wait(crew_of: MakeCrew) -> None:
    """C8, C29: if telling that a call waits fails, the call does not wait on unseen."""
    crew = crew_of(max_concurrent=1)
    await crew.call("holder")

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await crew.controller.admit(AdmissionRequest(), fail)
    assert crew.controller.get_metrics().queue_length == 0


async def test_told_of_the_wait_once(crew_of: MakeCrew) -> None:
    """C29: who must wait hears of it before, once; who need not hears nothing."""
    crew = crew_of(max_concurrent=2, strategy="priority")
    told: list[str] = []
    first = await crew.controller.admit(AdmissionRequest(), lambda: told.append("first"))
    await crew.call("heavy", weight=2)
    # Passes the heavy one at once, without a wait.
    urgent = await crew.controller.admit(
        AdmissionRequest(priority=0), lambda: told.append("urgent")
    )
    assert told == []
    task = asyncio.create_task(
        crew.controller.admit(AdmissionRequest(), lambda: told.append("waiter"))
    )
    await crew.turn()
    assert told == ["waiter"]
    for slot in (first, urgent):
        crew.controller.release(slot)
    await crew.turn()
    await crew.end("heavy")
    crew.controller.release(await task)
    assert told == ["waiter"]


async def test_no_lost_wake_up(crew_of: MakeCrew) -> None:
    """C8 (python/cpython#90155): a woken waiter that is cancelled wakes the next in line."""
    crew = crew_of(max_concurrent=1)
    await crew.call("holder", "w1", "w2", "w3")
    crew.controller.release(crew.slots.pop("holder"))
    crew.tasks["w1"].cancel()
    await crew.turn()
    assert crew.started == ["holder", "w2"]
    crew.tasks["w3"].cancel()
    await crew.end("w2")
    await crew.call("newcomer")
    assert crew.started == ["holder", "w2", "newcomer"]


async def test_no_over_grant(crew_of: MakeCrew) -> None:
    """C3, C8 (agronholm/anyio#1170): between grant and resumption nobody else can have the slot."""
    crew = crew_of(max_concurrent=2)
    await crew.call("h1", "h2", "w1", "w2")
    for holder in ("h1", "h2"):
        crew.controller.release(crew.slots.pop(holder))
        assert crew.controller.try_acquire() is None
    crew.tasks["w1"].cancel()
    assert crew.controller.try_acquire() is None
    assert crew.controller.get_metrics().current_concurrent == 2
    crew.begin("newcomer")
    await crew.turn()
    assert crew.started == ["h1", "h2", "w2", "newcomer"]
    assert crew.controller.get_metrics().max_concurrent_observed == 2


async def test_each_release_wakes(crew_of: MakeCrew) -> None:
    """C3, C16 (PrefectHQ/prefect#23183): a release wakes all whom its room lets run."""
    crew = crew_of(max_concurrent=4, bucket_limits={"http": 1})
    await crew.call("heavy", weight=4)
    await crew.call("h1", "h2", bucket="http")
    await crew.call("a", "b", "c", "d", bucket="ai")
    await crew.end("heavy")
    assert crew.started == ["heavy", "h1", "a", "b", "c"]
    await crew.end("a")
    assert crew.started[-1] == "d"
    await crew.end("h1")
    assert crew.started[-1] == "h2"


async def test_woken_by_another_bucket(crew_of: MakeCrew) -> None:
    """C4 (PrefectHQ/prefect#23183): room in the global limit wakes the waiters of any bucket."""
    crew = crew_of(max_concurrent=1, bucket_limits={"http": 1, "ai": 1})
    await crew.call("h", bucket="http")
    await crew.call("a", bucket="ai")
    await crew.call("other", bucket="other")
    await crew.end("h")
    assert crew.started == ["h", "a"]
    await crew.end("a")
    assert crew.started == ["h", "a", "other"]


async def failing(crew: Crew, number: int) -> None:
    async with crew.controller.slot("http"):
        slot = await crew.controller.acquire()
        await crew.call(f"refused {number}")
        for _ in range(2):
            crew.controller.release(slot)
        raise ConnectionError


async def test_counters_are_exact_after_failures(crew_of: MakeCrew) -> None:
    """C9 (kestra-io/kestra PR17759): failures, double releases and refusals leave exact counts."""
    crew = crew_of(max_concurrent=2, queue_size=0, bucket_limits={"http": 1})
    for number in range(20):
        with pytest.raises(ConnectionError):
            await failing(crew, number)
    metrics = crew.controller.get_metrics()
    assert (metrics.total_acquired, metrics.total_released) == (40, 40)
    assert metrics.total_rejected == 20
    assert metrics.current_concurrent == 0
