"""What an engine promises, it promises whatever controller and whatever backend it is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from tests.calls.audit import tally
from tests.calls.cancel_driver import SWEEPS, Scene, Stage
from tests.calls.samples import Stubborn, bare, forever
from tests.calls.virtual_loop import VirtualLoop
from tests.contracts.doors.engines import A_WHILE, DOORS, Crowd, Stand
from tool_engine import (
    ConcurrencyConfig,
    ConfigurationError,
    ToolConcurrencyController,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
)
from tool_engine.backends import LocalBackend

LIMIT = 10_000.0


async def quick() -> str:
    return "quick"


@pytest.fixture(params=DOORS)
def doors(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def stand(doors: str) -> AsyncIterator[Stand]:
    async with asyncio.timeout(LIMIT):
        made = Stand(doors, max_concurrent=1, queue_timeout=None)
        yield made
        await made.check()
        await made.close()


@pytest.mark.thinned(2)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("strategy", ["fifo", "priority"])
async def test_crowd(doors: str, strategy: str, seed: int) -> None:
    """C2, C14, K28: no slot is lost or given twice, one end per call, each by its deadline."""
    limits = {"bucket_limits": {"custom": 3}, "queue_timeout": 4.0, "queue_size": 40}
    stand = Stand(doors, seed, max_concurrent=4, strategy=strategy, **limits)
    crowd = Crowd(stand, seed)
    async with asyncio.timeout(LIMIT):
        async with asyncio.TaskGroup() as group:
            for number in range(120):
                group.create_task(crowd.caller(number))
        await stand.check(crowd.results)
        assert len(crowd.results) + crowd.cancelled == 120
        assert {None, "timeout", "execution_error"} <= set(tally(crowd.results))
        assert crowd.cancelled
        assert (await stand.engine.execute("quick")).is_success
        await stand.close()


async def test_one_slot_at_a_time(stand: Stand) -> None:
    """C2: with one slot, one tool runs at a time, in the order of the calls."""
    running: list[int] = []
    most: list[int] = []

    async def tool() -> None:
        running.append(1)
        most.append(len(running))
        await asyncio.sleep(0.3)
        running.pop()

    stand.engine.register_tool(bare("tool"), tool)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(stand.engine.execute("tool")) for _ in range(5)]
    assert all(call.result().is_success for call in calls)
    assert most == [1] * 5


async def test_nested_with_one_slot(stand: Stand) -> None:
    """C23: a tool lends its slot to what it calls, at any depth."""

    async def here_down(left: int, context: ToolExecutionContext) -> int:
        if left == 0:
            return 0
        inner = await context.call("here_down", {"left": left - 1})
        return int(inner.output["result"]) + 1

    parameter = {"name": "left", "type": "integer", "required": True, "description": "x"}
    stand.engine.register_tool(bare("here_down", parameters=[parameter]), here_down)
    assert (await stand.engine.execute("here_down", {"left": 4})).output == {"result": 4}


async def test_a_deadline_does_not_wait(stand: Stand) -> None:
    """C21, K20: the result is there by the deadline; the slot is held until work has stopped."""
    stubborn = Stubborn(seconds=20.0)
    stand.engine.register_tool(bare("stubborn"), stubborn)
    stand.engine.register_tool(bare("quick"), quick)
    loop = asyncio.get_running_loop()
    call = asyncio.create_task(
        stand.engine.execute("stubborn", {}, ToolExecutionContext(timeout=3.0))
    )
    await stubborn.started.wait()
    result = await call
    assert result.error_type == "timeout"
    assert result.execution_time == pytest.approx(3.0)
    assert stand.engine.controller.get_metrics().zombies == 1
    ended = loop.time()
    assert (await stand.engine.execute("quick")).is_success
    assert stubborn.ended.is_set()
    assert loop.time() - ended > 10.0


async def test_retries_pause_without_a_slot(stand: Stand) -> None:
    """C23: between two attempts the slot is lent, and another call has it meanwhile."""
    attempts: list[str] = []

    async def flaky() -> str:
        attempts.append("flaky")
        if attempts.count("flaky") < 3:
            raise ValueError("flaky")
        return "at last"

    async def other() -> None:
        attempts.append("other")

    retry = {"attempts": 3, "backoff": 40.0}
    stand.engine.register_tool(bare("flaky", effect="read", retry=retry), flaky)
    stand.engine.register_tool(bare("other"), other)
    call = asyncio.create_task(
        stand.engine.execute("flaky", {}, ToolExecutionContext(timeout=500.0))
    )
    await asyncio.sleep(20.0)
    assert (await stand.engine.execute("other")).is_success
    result = await call
    assert result.output == {"result": "at last"}
    assert attempts == ["flaky", "other", "flaky", "flaky"]


async def test_closing_ends_what_runs_and_what_waits(doors: str) -> None:
    """K27: each call has its one end when `close` returns, on this side and soon on the other."""
    stand = Stand(doors, max_concurrent=1, queue_timeout=None)
    stand.engine.register_tool(bare("forever"), forever)
    calls = [asyncio.create_task(stand.engine.execute("forever")) for _ in range(3)]
    await asyncio.sleep(5.0)
    await stand.engine.close()
    assert [(await call).error_type for call in calls] == ["engine_closed"] * 3
    await stand.check()


@pytest.mark.parametrize("doors", ["local, local", "local, far", "far, far"])
async def test_plain_functions(stand: Stand) -> None:
    """K52: a plain function runs in a thread, wherever that is."""
    stand.engine.register_tool(bare("plain"), lambda: {"a": [1, None]})
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    # Time stands still for threads that the loop knows of; of this one it does not.
    unknown = int(stand.far_backend is None)
    loop.busy += unknown
    assert (await stand.engine.execute("plain")).output == {"a": [1, None]}
    loop.busy -= unknown


async def test_results_are_limited_here(stand: Stand) -> None:
    """K55: the limits on results hold for what comes from elsewhere, and only then."""
    limits = {"max_chars": 100}

    async def long() -> dict[str, str]:
        return {"text": "x" * 5_000}

    stand.engine.register_tool(bare("long", result=limits), long)
    result = await stand.engine.execute("long")
    assert result.is_success, result.error
    assert len(str(result.output)) < 1_000


async def waiting_call(stage: Stage, doors: str) -> Coroutine[Any, Any, Any]:
    stand = seated(stage, doors)
    stage.beside(stand.engine.execute, "slow")
    stage.beside(stand.engine.execute, "slow", at=0.5)
    return stand.engine.execute("slow")


async def nesting_call(stage: Stage, doors: str) -> Coroutine[Any, Any, Any]:
    stand = seated(stage, doors)
    stage.beside(stand.engine.execute, "slow", at=0.5)
    return stand.engine.execute("here_outer")


async def retrying_call(stage: Stage, doors: str) -> Coroutine[Any, Any, Any]:
    stand = seated(stage, doors)
    stage.beside(stand.engine.execute, "slow", at=0.5)
    return stand.engine.execute("flaky", {}, ToolExecutionContext(timeout=12.0))


class Guest:
    """Looks at a stand after each performance."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand

    async def check(self, *, was_shut: bool) -> None:
        del was_shut
        await self.stand.check()
        assert (await self.stand.engine.execute("quick")).is_success
        await self.stand.close()


def seated(stage: Stage, doors: str) -> Stand:
    """A stand with one slot, and tools that wait, call and fail."""
    stand = Stand(doors, max_concurrent=1, queue_timeout=None)

    async def slow() -> str:
        await asyncio.sleep(1.0)
        return "slow"

    async def flaky() -> None:
        await asyncio.sleep(0.5)
        raise ValueError("flaky")

    async def here_outer(context: ToolExecutionContext) -> bool:
        return (await context.call("slow")).is_success

    retry = {"attempts": 2, "backoff": 2.0}
    stand.engine.register_tool(bare("quick"), quick)
    stand.engine.register_tool(bare("slow"), slow)
    stand.engine.register_tool(bare("here_outer"), here_outer)
    stand.engine.register_tool(bare("flaky", effect="read", retry=retry), flaky)
    stage.guests.append(Guest(stand))
    stage.slack = A_WHILE
    return stand


@pytest.mark.parametrize("sweep", ["thrown", "cancelled"])
@pytest.mark.parametrize("scene", [waiting_call, nesting_call, retrying_call])
@pytest.mark.parametrize("far", DOORS[1:3])
def test_cancelled_at_each_moment(scene: Any, sweep: str, far: str) -> None:
    """C8, K26: at each await and before each callback, and nothing is left on either side."""

    async def played(stage: Stage) -> Coroutine[Any, Any, Any]:
        made: Coroutine[Any, Any, Any] = await scene(stage, far)
        return made

    swept: Scene = played
    assert sum(1 for _ in SWEEPS[sweep](swept)) > 1


async def test_what_is_given_is_checked() -> None:
    """K30: a part that lacks something is refused where it is given, by name."""
    with pytest.raises(ConfigurationError, match=r"controller must be .*: it has no 'admit'"):
        ToolEngine(controller=object())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="it is a class, not an object"):
        ToolEngine(controller=ToolConcurrencyController)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"backend must be .*: it has no 'close'"):
        ToolEngine(backend=object())  # type: ignore[arg-type]


async def test_limits_are_given_once() -> None:
    """K30: limits beside a controller, which has its own, would not be heeded: they are refused."""
    limits = ConcurrencyConfig(max_concurrent=3)
    with pytest.raises(ConfigurationError, match="twice"):
        ToolEngine(controller=ToolConcurrencyController(), concurrency=limits)
    with pytest.raises(ConfigurationError, match="twice"):
        ToolEngine(ToolEngineConfig(concurrency=limits), controller=ToolConcurrencyController())
    engine = ToolEngine(controller=ToolConcurrencyController(limits))
    assert engine.controller.config is limits
    await engine.close()


async def test_one_engine_for_each_controller() -> None:
    """C27: an engine closes its controller, so a second one is refused."""
    controller = ToolConcurrencyController()
    engine = ToolEngine(controller=controller)
    with pytest.raises(ConfigurationError, match="make one for each engine"):
        ToolEngine(controller=controller)
    await engine.close()


async def test_a_backend_that_fails_to_close() -> None:
    """K27: it is closed once; what it raises stops nothing else, and reaches the one who closes."""

    class Failing(LocalBackend):
        closed = 0

        async def close(self, timeout: float) -> int:  # noqa: ASYNC109 - as the interface has it
            Failing.closed += 1
            await super().close(timeout)
            raise OSError("gone")

    engine = ToolEngine(backend=Failing())
    with pytest.raises(OSError, match="gone"):
        await engine.close()
    assert Failing.closed == 1
    assert (await engine.execute("echo")).error_type == "engine_closed"
