"""Does an engine tell an adaptive limit what its calls have met?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.calls.audit import make_engine
from tests.calls.samples import bare
from tool_engine import (
    ToolEngine,
    ToolEngineEvent,
    ToolEngineEventType,
    ToolExecutionContext,
    UnboundContextError,
)


def engine_of(**policy: Any) -> tuple[ToolEngine, list[ToolEngineEvent]]:
    engine = make_engine(
        max_concurrent=50, bucket_limits={"custom": 16}, adaptive={"custom": {"max": 40, **policy}}
    )
    events: list[ToolEngineEvent] = []
    engine.subscribe(events.append, [ToolEngineEventType.LIMIT_ADAPTED.value])
    return engine, events


async def rest() -> None:
    """A tool that takes its time."""
    await asyncio.sleep(9)


def limit_of(engine: ToolEngine) -> Any:
    return engine.controller.get_bucket_metrics()["custom"]["limit"]


async def test_a_call_that_ran_out_of_time_shrinks_the_limit() -> None:
    """C19: and the event says so, with the reason."""
    engine, events = engine_of()
    engine.register_tool(bare("slow", timeout=0.05), rest)
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(engine.execute("slow"))
    assert limit_of(engine) == 8
    assert [event.data for event in events] == [
        {
            "bucket": "custom",
            "previous": 16,
            "limit": 8,
            "reason": "a call was refused or ran out of time",
        }
    ]
    await engine.close()


@pytest.mark.parametrize("seconds", [None, 0.01])
async def test_what_a_tool_reports_shrinks_the_limit(seconds: float | None) -> None:
    """C19: with the pause that the service asks for, and without one."""
    engine, events = engine_of()

    async def ask(context: ToolExecutionContext) -> None:
        if seconds is None:
            context.report_overload()
        else:
            context.back_off(seconds)

    engine.register_tool(bare("ask"), ask)
    await engine.execute("ask")
    assert (limit_of(engine), len(events)) == (8, 1)
    await engine.close()


async def test_a_failure_and_a_cancelled_call_shrink_nothing() -> None:
    """C19: they say nothing of how many calls the service takes."""
    engine, events = engine_of()

    async def fail() -> None:
        raise ValueError("no")

    engine.register_tool(bare("fail"), fail)
    engine.register_tool(bare("rest"), rest)
    await engine.execute("fail")
    call = asyncio.create_task(engine.execute("rest"))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (limit_of(engine), events) == (16, [])
    await engine.close()


def test_a_context_without_a_call_has_nothing_to_report() -> None:
    """C19: a mistake of the program, said at once."""
    with pytest.raises(UnboundContextError, match="cannot report an overload"):
        ToolExecutionContext().report_overload()
