"""What becomes of a call whose backend never says that the work has ended?

The caller has its result by the deadline. After `fleet_lost_after` its slot goes to others, and
what has become of the work is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.calls.audit import EMPTY_FOLDER
from tests.calls.samples import Stubborn, bare
from tool_engine import (
    ConcurrencyConfig,
    ConfigurationError,
    Tool,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
)
from tool_engine.interfaces import ExecutionBackend, ToolExecutor

LOST_AFTER = 30.0


class Frozen(ExecutionBackend):
    """Begins all work that is not for `here`, and says nothing more until it thaws."""

    def __init__(self) -> None:
        self.thaw = asyncio.Event()

    def takes(self, executor: ToolExecutor, tool: Tool) -> bool:
        return not tool.name.startswith("here")

    def leaves_on_cancel(self, executor: ToolExecutor) -> bool:
        return True

    async def execute(
        self,
        executor: ToolExecutor,
        tool: Tool,
        params: dict[str, Any],
        context: ToolExecutionContext,
    ) -> Any:
        while not self.thaw.is_set():
            try:
                await self.thaw.wait()
            except asyncio.CancelledError:
                continue
        return "late"


async def quick() -> str:
    return "quick"


@pytest.fixture
async def frozen() -> AsyncIterator[tuple[ToolEngine, Frozen]]:
    backend = Frozen()
    config = ToolEngineConfig(
        tools_directory=EMPTY_FOLDER, auto_reload=False, fleet_lost_after=LOST_AFTER
    )
    engine = ToolEngine(
        config,
        concurrency=ConcurrencyConfig(max_concurrent=1, queue_timeout=900.0),
        backend=backend,
    )
    engine.register_tool(bare("far"), quick)
    engine.register_tool(bare("here_quick"), quick)
    yield engine, backend
    backend.thaw.set()
    await engine.close()
    metrics = engine.controller.get_metrics()
    assert (metrics.current_concurrent, metrics.zombies) == (0, 0)
    assert metrics.total_acquired == metrics.total_released


async def test_after_a_while_its_slot_is_given_back(frozen: tuple[ToolEngine, Frozen]) -> None:
    """K20, DESIGN 10.5: held for `fleet_lost_after`, then given to others; `explain` says so."""
    engine, _ = frozen
    loop = asyncio.get_running_loop()
    began = loop.time()
    result = await engine.execute("far", {}, ToolExecutionContext(timeout=3.0))
    assert result.error_type == "timeout"
    assert loop.time() - began == pytest.approx(3.0, abs=0.1)
    assert "is overdue" in str(engine.controller.explain(result.call_id or ""))
    with capture_logs() as logs:
        assert (await engine.execute("here_quick")).is_success
    assert loop.time() - began == pytest.approx(3.0 + LOST_AFTER, abs=0.1)
    told = engine.controller.explain(result.call_id or "")
    assert told.state == "unknown"
    assert "has not said within 30 s that its work has" in str(told)
    assert "its slot was given back" in str(told)
    [log] = [each for each in logs if each["event"] == "work_lost"]
    assert (log["call_id"], log["tool_name"]) == (result.call_id, "far")


async def test_one_that_comes_back_late(frozen: tuple[ToolEngine, Frozen]) -> None:
    """Its end is known then, nothing is given back twice, and its value goes to no caller."""
    engine, backend = frozen
    result = await engine.execute("far", {}, ToolExecutionContext(timeout=3.0))
    await asyncio.sleep(2 * LOST_AFTER)
    call = asyncio.create_task(engine.execute("far", {}, ToolExecutionContext(timeout=3.0)))
    await asyncio.sleep(1.0)
    metrics = engine.controller.get_metrics()
    assert (metrics.current_concurrent, metrics.queue_length, metrics.zombies) == (1, 0, 0)
    assert engine.controller.explain(result.call_id or "").reason
    backend.thaw.set()
    assert (await call).output == {"result": "late"}
    assert not engine.controller.explain(result.call_id or "").reason
    records = await engine.store.query_call_records()
    assert sorted(str(each.error_type) for each in records) == ["None", "timeout"]


async def test_a_cancelled_caller_does_not_wait(frozen: tuple[ToolEngine, Frozen]) -> None:
    """It goes on at once; the slot counts until the work is lost."""
    engine, _ = frozen
    loop = asyncio.get_running_loop()
    began = loop.time()
    call = asyncio.create_task(engine.execute("far", {}, ToolExecutionContext(timeout=900.0)))
    await asyncio.sleep(1.0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert loop.time() - began == pytest.approx(1.0, abs=0.1)
    assert (await engine.execute("here_quick")).is_success
    assert loop.time() - began == pytest.approx(1.0 + LOST_AFTER, abs=0.1)


async def test_work_that_ends_in_time_is_not_lost(frozen: tuple[ToolEngine, Frozen]) -> None:
    """The slot goes back when the backend says so, and nothing is said of it later."""
    engine, backend = frozen
    loop = asyncio.get_running_loop()
    began = loop.time()
    result = await engine.execute("far", {}, ToolExecutionContext(timeout=3.0))
    loop.call_later(5.0, backend.thaw.set)
    with capture_logs() as logs:
        assert (await engine.execute("here_quick")).is_success
        assert loop.time() - began == pytest.approx(8.0, abs=0.1)
        await asyncio.sleep(2 * LOST_AFTER)
    assert [each for each in logs if each["event"] == "work_lost"] == []
    assert not engine.controller.explain(result.call_id or "").reason


async def test_work_of_this_process_is_never_lost(frozen: tuple[ToolEngine, Frozen]) -> None:
    """Whether a thread or a coroutine here has ended is always known: it keeps its slot."""
    engine, _ = frozen
    stubborn = Stubborn(seconds=10 * LOST_AFTER)
    engine.register_tool(bare("here_stubborn"), stubborn)
    result = await engine.execute("here_stubborn", {}, ToolExecutionContext(timeout=3.0))
    assert result.error_type == "timeout"
    assert (await engine.execute("here_quick")).is_success
    assert stubborn.ended.is_set()


async def test_a_backend_that_stands_still_does_not_keep_the_engine_open() -> None:
    """C24: what is lost is waited for a moment, as all that goes on without its caller."""
    backend = Frozen()
    config = ToolEngineConfig(
        tools_directory=EMPTY_FOLDER, auto_reload=False, fleet_lost_after=LOST_AFTER
    )
    engine = ToolEngine(config, backend=backend)
    engine.register_tool(bare("far"), quick)
    await engine.execute("far", {}, ToolExecutionContext(timeout=3.0))
    began = asyncio.get_running_loop().time()
    await engine.close()
    assert asyncio.get_running_loop().time() - began < 10.0
    backend.thaw.set()
    await asyncio.sleep(2 * LOST_AFTER)
    assert engine.controller.get_metrics().current_concurrent == 0


@pytest.mark.parametrize("value", [0, -1, float("inf"), "60"])
def test_the_setting_is_checked(value: Any) -> None:
    """S1: no call keeps its slot for ever, or not at all."""
    with pytest.raises(ConfigurationError, match="fleet_lost_after must be a positive, finite"):
        ToolEngineConfig(fleet_lost_after=value)
