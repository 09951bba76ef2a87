"""Do the records of an engine tell what really happened?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tool_engine import (
    ConcurrencyConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolSubAgent,
)

BOUND = 20.0


def definition(name: str, **keys: Any) -> dict[str, Any]:
    return {
        "name": name,
        "version": "1.2.0",
        "description": "A sample",
        "category": "ai",
        "entry": {"type": "custom", "handler": name},
        **keys,
    }


async def fail() -> None:
    raise ValueError("no")


async def wait() -> None:
    await asyncio.Event().wait()


@pytest.fixture
async def engine(tmp_path: Any) -> AsyncIterator[ToolEngine]:
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    limits = ConcurrencyConfig(strategy="reject", bucket_limits={"ai": 2})
    async with asyncio.timeout(BOUND), ToolEngine(config, concurrency=limits) as made:
        made.register_tool(definition("fail"), fail)
        made.register_tool(definition("wait"), wait)
        parameters = [{"name": "a", "type": "integer", "required": True, "description": "x"}]

        async def double(a: int) -> int:
            return a * 2

        made.register_tool(definition("double", parameters=parameters), double)
        yield made


async def test_every_outcome_is_recorded(engine: ToolEngine) -> None:
    """K28, K41, U15: success, failures of each step, timeout, refusal, cancellation."""
    me = ToolExecutionContext.for_conversation("agent", "conv")
    short = ToolExecutionContext.for_conversation("agent", "conv", timeout=0.01)
    await engine.execute("double", {"a": 2}, me)
    await engine.execute("double", {"a": "x"}, me)
    await engine.execute("missing", {}, me)
    await engine.execute("fail", {}, me)
    await engine.execute("wait", {}, short)
    held = [asyncio.create_task(engine.execute("wait", {}, me)) for _ in range(2)]
    await asyncio.sleep(0)
    await engine.execute("double", {"a": 2}, me)
    for call in held:
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    records = list(reversed(await engine.query_call_records(conversation_id="conv")))
    assert [(record.tool_name, record.error_type) for record in records] == [
        ("double", None),
        ("double", "validation_error"),
        ("missing", "tool_not_found"),
        ("fail", "execution_error"),
        ("wait", "timeout"),
        ("double", "rejected"),
        ("wait", "cancelled"),
        ("wait", "cancelled"),
    ]
    reached = [record.reached_executor for record in records]
    assert reached == [True, False, False, True, True, False, True, True]
    first = records[0]
    assert (first.params, first.result, first.is_success) == ({"a": 2}, {"result": 4}, True)
    assert (first.tool_version, first.bucket, first.attempts) == ("1.2.0", "ai", 1)
    assert datetime.now(UTC) - first.created_at < timedelta(minutes=1)
    assert len({record.record_id for record in records}) == len(records)
    summary = await engine.get_call_summary("conv")
    assert (summary.total_calls, summary.successful_calls) == (8, 1)
    assert summary.success_rate == 12.5
    assert summary.tool_usage == {"double": 3, "missing": 1, "fail": 1, "wait": 3}


async def test_queries(engine: ToolEngine) -> None:
    """U21: newest first, with limit and offset, by time, by failure, by caller."""
    start = datetime.now(UTC)
    for number in range(4):
        context = ToolExecutionContext(caller_id=f"caller{number % 2}")
        await engine.execute("double", {"a": number}, context)
    await engine.execute("fail")
    query = engine.query_call_records
    assert [record.params for record in await query(tool_name="double", limit=2, offset=1)] == [
        {"a": 2},
        {"a": 1},
    ]
    assert len(await query(caller_id="caller1")) == 2
    assert [record.tool_name for record in await query(is_success=False)] == ["fail"]
    assert len(await query(start=start)) == 5
    assert await query(end=start) == []


async def test_agents_and_records_agree(engine: ToolEngine) -> None:
    """K19, K43: the sub-agent's own summary and the store's say the same."""
    agent = ToolSubAgent("agent", engine, conversation_id="conv")
    await agent.execute_batch([("double", {"a": 1}), ("fail", {}), ("missing", {})], parallel=True)
    mine = agent.get_execution_summary()
    kept = await engine.get_call_summary("conv")
    assert mine["total_calls"] == kept.total_calls == 3
    assert mine["success_rate"] == kept.success_rate == 33.33
    assert mine["tool_usage"] == kept.tool_usage
    ids = {each["call_id"] for each in mine["call_details"]}
    assert ids == {record.call_id for record in await engine.query_call_records()}


async def test_nested_calls_are_recorded_with_their_parent(engine: ToolEngine) -> None:
    """K41, C23: the record of a nested call names the call that made it."""

    async def outer(context: ToolExecutionContext) -> Any:
        return (await context.call("double", {"a": 5})).output["result"]

    engine.register_tool(definition("outer"), outer)
    result = await engine.execute("outer")
    assert result.output == {"result": 10}
    (inner,) = await engine.query_call_records(parent_call_id=result.call_id)
    assert (inner.tool_name, inner.result) == ("double", {"result": 10})


async def test_statistics(engine: ToolEngine) -> None:
    """K44, U21: the totals of all calls."""
    await engine.execute("double", {"a": 1})
    await engine.execute("fail")
    statistics = await engine.get_call_statistics()
    assert statistics["total_records"] == 2
    assert (statistics["success_count"], statistics["failure_count"]) == (1, 1)
    assert statistics["tool_distribution"] == {"double": 1, "fail": 1}
