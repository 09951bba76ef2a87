"""All runs of a loop share one timer, and each still ends at its own deadline.

For those who wait for a slot: `tests/admission/test_deadlines.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.calls.audit import make_engine
from tests.calls.samples import bare, forever
from tests.calls.virtual_loop import VirtualLoop
from tests.effort import share_of
from tool_engine import ToolEngine, ToolExecutionContext
from tool_engine.backends.runs import Runs
from tool_engine.backends.task import ToolTask
from tool_engine.shared_timer import SharedTimer

MANY = 3_000


class CountingLoop(VirtualLoop):
    """A loop that counts the timers that are set."""

    timers = 0

    def call_at(  # type: ignore[override] # the same, counted
        self, *args: Any, **keywords: Any
    ) -> asyncio.TimerHandle:
        self.timers += 1
        return super().call_at(*args, **keywords)


def run(main: Coroutine[Any, Any, Any], loop: Callable[[], Any] = VirtualLoop) -> Any:
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main)


async def drive(runs: Runs, tool: Callable[[], Coroutine[Any, Any, Any]], seconds: float) -> Any:
    """Run `tool` as an engine does; return its run and when that ended."""
    loop = asyncio.get_running_loop()
    made = ToolTask(loop, loop.time() + seconds, runs, None, tool)
    if not made.start(asyncio.current_task()):
        await made
    return made, loop.time()


@settings(max_examples=share_of(100), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 40), st.integers(1, 40)),
        min_size=1,
        max_size=30,
    )
)
def test_each_run_ends_at_the_earlier_of_its_end_and_its_deadline(
    plans: list[tuple[int, int, int]],
) -> None:
    """K27: whatever the order of starts, ends and deadlines."""

    async def main() -> None:
        runs = Runs()

        async def one(start: float, takes: float, allowed: float) -> None:
            await asyncio.sleep(start)
            began = asyncio.get_running_loop().time()
            made, ended = await drive(runs, lambda: asyncio.sleep(takes), allowed)
            assert abs(ended - began - min(takes, allowed)) < 1e-6
            assert made.is_timed_out or takes <= allowed
            assert not made.is_timed_out or allowed <= takes

        async with asyncio.TaskGroup() as group:
            for start, takes, allowed in plans:
                group.create_task(one(start / 8, takes / 8, allowed / 8))
        assert not runs.running

    run(main())


@pytest.mark.parametrize(("turns", "expected"), [(1, 0), (2, 1)])
def test_runs_that_end_in_time_set_no_timer_each(turns: int, expected: int) -> None:
    """K27: a timer for each would cost as much as the rest of a short wait."""

    async def wait() -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    async def main() -> tuple[int, int]:
        runs = Runs()
        for _ in range(MANY):
            await drive(runs, wait, 30.0)
        loop: Any = asyncio.get_running_loop()
        return loop.timers, 0 if runs._deadlines is None else len(runs._deadlines)

    timers, kept = run(main(), CountingLoop)
    assert timers == expected
    assert kept <= 64


def test_what_has_ended_is_let_go_as_others_come() -> None:
    """C30: as many wait as before; those that were served are not kept beside them."""
    ended = 0

    async def main() -> None:
        nonlocal ended
        loop = asyncio.get_running_loop()
        timer = SharedTimer[int](
            loop, lambda item: item >= ended, lambda item: pytest.fail(f"{item} expired")
        )
        for number in range(MANY):
            timer.add(loop.time() + 30.0 + number, number)
            ended = number - 200
            assert len(timer) <= 202
        timer.stop()

    run(main())


def test_one_that_fails_when_it_is_cancelled_holds_up_no_other() -> None:
    """What a tool waits for may be foreign, and raise."""

    class Foreign(asyncio.Future[None]):
        def cancel(self, msg: Any = None) -> bool:
            raise RuntimeError("no")

    async def main() -> None:
        runs, loop = Runs(), asyncio.get_running_loop()
        heard: list[Any] = []
        loop.set_exception_handler(lambda _, context: heard.append(context["exception"]))
        stuck = Foreign()

        async def wait_for_foreign() -> None:
            await stuck

        async with asyncio.timeout(60.0), asyncio.TaskGroup() as group:
            first = group.create_task(drive(runs, wait_for_foreign, 1.0))
            others = [group.create_task(drive(runs, forever, 1.0)) for _ in range(3)]
            await asyncio.wait(others)
            assert [str(each) for each in heard] == ["no"]
            stuck.set_result(None)
            await first
        assert all(each.result()[0].is_timed_out for each in others)

    run(main())


def test_others_have_their_turn_while_very_many_time_out() -> None:
    """Promise 9: what is due at one moment is ended in parts."""

    async def main() -> int:
        runs, loop = Runs(), asyncio.get_running_loop()
        tasks = [asyncio.ensure_future(drive(runs, forever, 1.0)) for _ in range(MANY)]
        await asyncio.sleep(0.999)
        ended: list[int] = []

        def count() -> None:
            ended.append(sum(each.end_reason is not None for each in running))
            if ended[-1] < MANY:
                loop.call_soon(count)

        running = list(runs.running)
        loop.call_later(0.001, count)
        await asyncio.wait(tasks)
        return len({each for each in ended if 0 < each < MANY})

    assert run(main()) >= 2


def test_an_engine_on_another_loop_keeps_deadlines_there() -> None:
    """K27: each loop has a timer of its own."""
    engine: ToolEngine = make_engine()
    engine.register_tool(bare("tool"), forever)

    async def main() -> None:
        for timeout in (2.0, 1.0):
            loop = asyncio.get_running_loop()
            began = loop.time()
            result = await engine.execute("tool", context=ToolExecutionContext(timeout=timeout))
            assert result.error_type == "timeout"
            assert abs(loop.time() - began - timeout) < 1e-6

    run(main())
    run(main())
    run(engine.close())


def test_an_engine_that_is_closed_leaves_no_timer() -> None:
    """A loop of virtual time would jump to it."""

    async def rest() -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        async with make_engine() as engine:
            engine.register_tool(bare("tool"), rest)
            assert (await engine.execute("tool")).is_success
        assert not [each for each in loop._scheduled if not each.cancelled()]

    run(main())
