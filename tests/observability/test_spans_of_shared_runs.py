"""Which span has a call that ran nothing and got the result of another one?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.calls.audit import make_engine, turns
from tests.calls.samples import bare
from tests.observability.telemetry import BOUND, Telemetry, id_of, parent_of, seconds_of
from tool_engine import ToolExecutionContext
from tool_engine.observability.opentelemetry import instrument


async def test_shared_runs(telemetry: Telemetry) -> None:
    """A call that got the result of another is below its own caller, and linked to the other."""
    engine = make_engine()
    gate = asyncio.Event()

    async def report() -> str:
        await gate.wait()
        await asyncio.sleep(0.05)  # a time to be told from none, and from twice as much
        return "once"

    shared = {"collision": "single_flight"}
    engine.register_tool(bare("report", effect="read", concurrency=shared), report)

    async def agent(name: str) -> None:
        with telemetry.tracer.start_as_current_span(name):
            await engine.execute("report", {}, ToolExecutionContext(caller_id=name))

    with instrument(engine, telemetry.tracers):
        tasks = [asyncio.create_task(agent(name)) for name in ("leads", "follows")]
        await turns(20)
        gate.set()
        await asyncio.wait_for(asyncio.gather(*tasks), BOUND)
    await engine.close()
    by_caller = {
        (span.attributes or {})["tool_engine.caller.id"]: span
        for span in telemetry.spans("execute_tool report")
    }
    leader, follower = by_caller["leads"], by_caller["follows"]
    assert parent_of(leader) == id_of(telemetry.span("leads"))
    assert parent_of(follower) == id_of(telemetry.span("follows"))
    assert follower.context.trace_id == telemetry.span("follows").context.trace_id
    assert [link.context.span_id for link in follower.links] == [id_of(leader)]
    assert (follower.attributes or {})["tool_engine.shared_with"] == (leader.attributes or {})[
        "gen_ai.tool.call.id"
    ]
    assert (follower.attributes or {})["tool_engine.attempts"] == 0
    assert seconds_of(follower) == pytest.approx(seconds_of(leader), rel=0.5)


async def test_shared_runs_of_nested_calls(telemetry: Telemetry) -> None:
    """A nested call that got the result of another is still below the call that made it."""
    engine = make_engine()
    gate = asyncio.Event()

    async def report() -> str:
        await gate.wait()
        return "once"

    async def asks(context: ToolExecutionContext) -> Any:
        return (await context.call("report")).output

    shared = {"collision": "single_flight"}
    engine.register_tool(bare("report", effect="read", concurrency=shared), report)
    engine.register_tool(bare("asks"), asks)
    with instrument(engine, telemetry.tracers):
        tasks = [asyncio.create_task(engine.execute("asks")) for _ in range(2)]
        await turns(20)
        gate.set()
        await asyncio.wait_for(asyncio.gather(*tasks), BOUND)
    await engine.close()
    outer = {id_of(span) for span in telemetry.spans("execute_tool asks")}
    assert {parent_of(span) for span in telemetry.spans("execute_tool report")} == outer


async def test_newest_leaders_only(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept for links is bounded: a call whose leader was forgotten has none."""
    monkeypatch.setattr("tool_engine.observability.spans._MAX_LEADERS", 1)
    engine = make_engine()
    gates = {"a": asyncio.Event(), "b": asyncio.Event()}

    async def report(key: str) -> str:
        await gates[key].wait()
        return key

    key = {"name": "key", "type": "string", "required": True, "description": "Which"}
    definition = bare(
        "report", effect="read", parameters=[key], concurrency={"collision": "single_flight"}
    )
    engine.register_tool(definition, report)
    with instrument(engine, telemetry.tracers):
        tasks = [asyncio.create_task(engine.execute("report", {"key": k})) for k in "aabb"]
        await turns(20)
        for gate in gates.values():
            gate.set()
        await asyncio.wait_for(asyncio.gather(*tasks), BOUND)
    await engine.close()
    assert [len(span.links) for span in telemetry.spans("execute_tool report")].count(1) == 1
