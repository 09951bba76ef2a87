"""Whatever is called with whatever, in whatever order: every call ends once, in agreement."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.calls.audit import Audit, make_engine
from tests.calls.samples import Stubborn, bare, forever
from tests.calls.virtual_loop import VirtualLoop
from tests.effort import share_of
from tool_engine import ErrorType, Outcome, ToolExecutionContext, ToolExecutionResult

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
NAMES = ("echo", "wait", "nest", "fail", "stubborn", "flaky", "missing")

CALL = st.fixed_dictionaries(
    {
        "name": st.sampled_from(NAMES),
        "params": st.one_of(st.none(), st.dictionaries(st.sampled_from(["a", "b"]), JSON), JSON),
        "start": st.floats(0, 5),
        "timeout": st.sampled_from([0.5, 2.0, None]),
        "cancel": st.none() | st.floats(0, 5),
        "caller_type": st.sampled_from(["direct", "workflow_node"]),
    }
)


async def echo(a: Any, b: Any) -> Any:
    return {"a": a, "b": b}


async def nest(context: ToolExecutionContext) -> Any:
    await asyncio.sleep(0.1)
    return (await context.call("wait", timeout=1.5)).error_type


async def fail() -> None:
    await asyncio.sleep(0.2)
    raise ValueError("no")


async def play(limit: int, strategy: str, calls: list[dict[str, Any]]) -> None:
    engine = make_engine(limit, strategy=strategy, queue_size=3, queue_timeout=1.0)
    async with engine:
        audit = Audit(engine)
        parameters = [
            {
                "name": "a",
                "type": "array",
                "default": [],
                "schema": {"type": ["array", "object", "number", "string", "null"]},
                "description": "x",
            },
            {"name": "b", "type": "integer", "default": 0, "description": "x"},
        ]
        engine.register_tool(bare("echo", parameters=parameters), echo)
        engine.register_tool(bare("wait"), forever)
        engine.register_tool(bare("nest"), nest)
        engine.register_tool(bare("fail"), fail)
        engine.register_tool(bare("stubborn"), Stubborn(seconds=1))
        retry = {"attempts": 3, "backoff": 0.3}
        engine.register_tool(bare("flaky", effect="read", retry=retry), fail)
        results: list[ToolExecutionResult] = []

        async def caller(call: dict[str, Any]) -> None:
            await asyncio.sleep(call["start"])
            context = ToolExecutionContext(timeout=call["timeout"], caller_type=call["caller_type"])
            task = asyncio.ensure_future(engine.execute(call["name"], call["params"], context))
            if call["cancel"] is not None:
                asyncio.get_running_loop().call_later(call["cancel"], task.cancel)
            try:
                results.append(await task)
            except asyncio.CancelledError:
                assert call["cancel"] is not None

        async with asyncio.timeout(10_000), asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(caller(call))
        await asyncio.sleep(1_000)
        await audit.check(results)
        for result in results:
            assert result.outcome in Outcome
            assert result.is_success == (result.error_type is None)
            assert result.is_success or (result.error and result.error_type in set(ErrorType))


@settings(max_examples=share_of(40), suppress_health_check=[HealthCheck.too_slow])
@given(
    limit=st.integers(1, 3),
    strategy=st.sampled_from(["fifo", "priority", "reject"]),
    calls=st.lists(CALL, min_size=1, max_size=10),
)
def test_every_call_ends_once(limit: int, strategy: str, calls: list[dict[str, Any]]) -> None:
    """K28, K29, C26: one result, record and final event per call; never an exception; nothing
    left."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(play(limit, strategy, calls))
