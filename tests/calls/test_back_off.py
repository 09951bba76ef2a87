"""Does a bucket rest for as long as the service behind it asks?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.calls.audit import Audit, make_engine, turns
from tests.calls.samples import bare
from tool_engine import ToolEngine, ToolExecutionContext, ToolExecutionResult, UnboundContextError

BOUND = 10_000.0
SECONDS = [{"name": "seconds", "type": "number", "required": True, "description": "How long"}]


async def ask(seconds: float, context: ToolExecutionContext) -> float:
    """A tool whose service asks for a pause."""
    context.back_off(seconds)
    await asyncio.sleep(1)
    return asyncio.get_running_loop().time() - 1000.0


async def tell() -> float:
    return asyncio.get_running_loop().time() - 1000.0


@pytest.fixture
def served(engine: ToolEngine) -> ToolEngine:
    """An engine with two tools in one bucket, and one in another."""
    register(engine)
    return engine


def register(engine: ToolEngine) -> None:
    engine.register_tool(bare("ask", parameters=SECONDS), ask)
    engine.register_tool(bare("tell"), tell)
    engine.register_tool(bare("elsewhere", concurrency={"bucket": "elsewhere"}), tell)


def start(engine: ToolEngine, name: str, seconds: Any = None) -> asyncio.Task[ToolExecutionResult]:
    params = None if seconds is None else {"seconds": seconds}
    return asyncio.create_task(engine.execute(name, params))


async def at(*calls: asyncio.Task[ToolExecutionResult]) -> list[Any]:
    """When each call ran, or why it did not."""
    async with asyncio.timeout(BOUND):
        ended = [await call for call in calls]
    return [each.output.get("result", each.error_type) for each in ended]


async def test_later_calls_of_the_bucket_wait(served: ToolEngine, audit: Audit) -> None:
    """C17: the tool that asked goes on, those after it wait, other buckets know nothing of it."""
    asking = start(served, "ask", 20)
    await turns()
    calls = [start(served, "tell"), start(served, "elsewhere"), start(served, "tell")]
    await turns()
    snapshot = served.controller.snapshot()
    assert snapshot.buckets["custom"]["paused_for"] == 20.0
    explained = served.controller.explain(str(snapshot.waiting[0].call_id))
    assert "pause" in explained.reason
    assert await at(asking, *calls) == [1.0, 20.0, 0.0, 20.0]
    assert calls[0].result().metadata["queue_wait"] == 20.0
    assert await at(start(served, "tell")) == [20.0]
    await audit.check()


async def test_the_longest_pause_wins(served: ToolEngine, audit: Audit) -> None:
    """C17: a shorter request does not end a longer pause; a later one makes it longer."""

    async def ask_twice(context: ToolExecutionContext) -> None:
        for seconds in pauses:
            context.back_off(seconds)

    served.register_tool(bare("ask_twice"), ask_twice)
    pauses = (20, 5)
    assert await at(start(served, "ask_twice"), start(served, "tell")) == [None, 20.0]
    pauses = (5, 20)
    assert await at(start(served, "ask_twice"), start(served, "tell")) == [None, 40.0]
    await audit.check()


async def test_a_pause_is_capped() -> None:
    """C17: no server stops a bucket for longer than max_bucket_pause."""
    engine = make_engine(max_bucket_pause=7.0)
    register(engine)
    audit = Audit(engine)
    asking = start(engine, "ask", 1e9)
    await turns()
    assert await at(asking, start(engine, "tell")) == [1.0, 7.0]
    await audit.check()
    await engine.close()


async def test_who_waited_already_waits_on() -> None:
    """C17: those who stand in line when the pause comes are not let through either."""
    engine = make_engine(1)
    register(engine)
    audit = Audit(engine)
    asking = start(engine, "ask", 10)
    calls = [start(engine, name) for name in ("tell", "elsewhere", "tell")]
    assert await at(asking, *calls) == [1.0, 10.0, 1.0, 10.0]
    await audit.check()
    await engine.close()


async def test_a_call_waits_no_longer_than_it_may(audit: Audit) -> None:
    """C7, C17: the queue timeout bounds the wait; the refusal names the pause and its end."""
    engine = make_engine(queue_timeout=4.0)
    register(engine)
    heard = Audit(engine)
    asking = start(engine, "ask", 10)
    await turns()
    refused = start(engine, "tell")
    assert await at(asking, refused) == [1.0, "rate_limited"]
    result = refused.result()
    assert result.metadata["error_details"] == {"retry_after": 6.0}
    assert "pause of bucket 'custom'" in (result.error or "")
    await heard.check()
    await engine.close()


async def test_the_strategy_reject(audit: Audit) -> None:
    """C17: who does not wait is refused, and told when to come again."""
    engine = make_engine(strategy="reject")
    register(engine)
    heard = Audit(engine)
    asking = start(engine, "ask", 10)
    await turns()
    refused = start(engine, "tell")
    assert await at(refused, asking) == ["rate_limited", 1.0]
    assert refused.result().metadata["error_details"] == {"retry_after": 10.0}
    await asyncio.sleep(9)
    assert await at(start(engine, "tell")) == [10.0]
    await heard.check()
    await engine.close()


async def test_a_pause_ends_on_its_own_clock(served: ToolEngine, audit: Audit) -> None:
    """C17: a call that comes at the very end of the pause runs at once."""
    asking = start(served, "ask", 10)
    await at(asking)
    await asyncio.sleep(9)
    assert await at(start(served, "tell"), start(served, "tell")) == [10.0, 10.0]
    assert "execution_queued" not in audit.kinds()
    await audit.check()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "10", None, True])
async def test_no_such_pause(engine: ToolEngine, audit: Audit, seconds: Any) -> None:
    """C17: what is no time to wait is the mistake of the tool, and pauses nothing."""

    async def wrong(context: ToolExecutionContext) -> None:
        context.back_off(seconds)

    register(engine)
    engine.register_tool(bare("wrong"), wrong)
    long = start(engine, "ask", 20)
    await at(long)
    bypassing = ToolExecutionContext(caller_type="workflow_node")
    result = await engine.execute("wrong", None, bypassing)
    assert result.error_type == "execution_error"
    assert "seconds" in (result.error or "")
    assert await at(start(engine, "tell")) == [20.0]
    await audit.check()


async def test_a_context_of_no_call() -> None:
    """A context that no call is bound to has no bucket."""
    with pytest.raises(UnboundContextError, match="not bound to a running call"):
        ToolExecutionContext().back_off(1.0)


async def test_a_retry_waits_for_the_end_of_the_pause_that_it_asked_for(
    engine: ToolEngine, audit: Audit
) -> None:
    """C17: no attempt is made before the service wants one, and none that is too late."""
    runs: list[float] = []

    async def flaky(context: ToolExecutionContext) -> None:
        runs.append(asyncio.get_running_loop().time() - 1000.0)
        if len(runs) == 1:
            context.back_off(10)
            raise ConnectionError("too many requests")

    retry = {"attempts": 2, "backoff": 2}
    engine.register_tool(bare("flaky", effect="read", retry=retry), flaky)
    register(engine)
    calls = [start(engine, "flaky"), start(engine, "tell")]
    assert await at(*calls) == [None, 10.0]
    assert runs == [0.0, 10.0]
    runs.clear()
    impatient = ToolExecutionContext(timeout=5)
    assert (await engine.execute("flaky", None, impatient)).error_type == "execution_error"
    assert runs == [10.0]
    await audit.check()


async def test_nested_calls_wait_too(engine: ToolEngine, audit: Audit) -> None:
    """C17, C23: a call that a tool makes is a new one, and waits for the end of the pause."""

    async def outer(context: ToolExecutionContext) -> Any:
        context.back_off(10)
        return (await context.call("tell")).output["result"]

    register(engine)
    engine.register_tool(bare("outer"), outer)
    assert await at(start(engine, "outer")) == [10.0]
    await audit.check()


async def test_a_pause_outlives_its_call_and_ends_with_the_engine() -> None:
    """C24: closing does not wait for the end of a pause."""
    engine = make_engine(queue_timeout=None)
    register(engine)
    audit = Audit(engine)
    asking = start(engine, "ask", 50)
    await at(asking)
    waiting = start(engine, "tell")
    await turns()
    async with asyncio.timeout(BOUND):
        await engine.close()
    assert await at(waiting) == ["engine_closed"]
    assert asyncio.get_running_loop().time() < 1010.0
    await audit.check()


async def test_a_breaker_and_a_pause() -> None:
    """C17, C20: who waits for the end of a pause is refused when the breaker opens."""
    engine = make_engine(breakers={"custom": {"failures": 1, "reset_after": 30}})
    audit = Audit(engine)

    async def failing(context: ToolExecutionContext) -> None:
        context.back_off(10)
        await asyncio.sleep(1)
        raise ConnectionError("down")

    engine.register_tool(bare("failing"), failing)
    register(engine)
    calls = [start(engine, "failing")]
    await turns()
    calls += [start(engine, "tell") for _ in range(3)]
    assert await at(*calls) == ["execution_error", *["circuit_open"] * 3]
    assert asyncio.get_running_loop().time() == 1001.0
    await asyncio.sleep(30)
    assert await at(start(engine, "tell")) == [31.0]
    await audit.check()
    await engine.close()
