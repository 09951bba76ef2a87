"""Do OpenTelemetry's metrics say what happened to calls, by tool and bucket?"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.calls.audit import turns
from tests.calls.samples import bare
from tests.observability.telemetry import BOUND, Telemetry, sample_engine, seconds_of
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.observability.opentelemetry import instrument

BUCKET = ("tool_engine.bucket", "custom")


def tool(name: str) -> tuple[str, str]:
    return ("gen_ai.tool.name", name)


def failed(error_type: str) -> tuple[str, str]:
    return ("error.type", error_type)


def key(*attributes: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(attributes))


async def test_counters(telemetry: Telemetry) -> None:
    """Every call is counted once, by tool, bucket, outcome and error."""
    engine, samples = sample_engine()
    samples.failures = 2
    with instrument(engine, None, telemetry.meters):
        for name in ("plain", "plain", "fails", "flaky", "nobody"):
            await engine.execute(name)
    await engine.close()
    outcome = "tool_engine.outcome"
    assert telemetry.values("gen_ai.execute_tool.duration") == {
        key(tool("plain"), BUCKET, (outcome, "succeeded")): 2,
        key(tool("fails"), BUCKET, (outcome, "failed"), failed("execution_error")): 1,
        key(tool("flaky"), BUCKET, (outcome, "succeeded")): 1,
        key(
            tool("other"),
            ("tool_engine.bucket", "other"),
            (outcome, "failed"),
            failed("tool_not_found"),
        ): 1,
    }
    assert telemetry.values("tool_engine.retries") == {key(tool("flaky"), BUCKET): 2}
    assert telemetry.values("tool_engine.execution.duration") == {
        key(tool("plain"), BUCKET): 2,
        key(tool("fails"), BUCKET, failed("execution_error")): 1,
        key(tool("flaky"), BUCKET): 1,
    }


async def test_now(telemetry: Telemetry) -> None:
    """Running and waiting calls are counted while they run and wait."""
    engine, samples = sample_engine(max_concurrent=1)
    with instrument(engine, None, telemetry.meters):
        calls = [asyncio.create_task(engine.execute("waits")) for _ in range(3)]
        await turns(10)
        place = key(tool("waits"), BUCKET)
        assert telemetry.values("tool_engine.calls.running") == {place: 1}
        assert telemetry.values("tool_engine.calls.queued") == {place: 2}
        samples.gate.set()
        await asyncio.wait_for(asyncio.gather(*calls), BOUND)
        assert telemetry.values("tool_engine.calls.running") == {place: 0}
        assert telemetry.values("tool_engine.calls.queued") == {place: 0}
        assert telemetry.values("tool_engine.queue.wait") == {place: 3}
    await engine.close()


async def test_rejected(telemetry: Telemetry) -> None:
    """Refused calls are counted by why; one that waited in vain has its wait measured."""
    engine, samples = sample_engine(max_concurrent=1, queue_size=1, queue_timeout=0.02)
    with instrument(engine, None, telemetry.meters):
        running = asyncio.create_task(engine.execute("waits"))
        await turns(5)
        waiting = asyncio.create_task(engine.execute("plain"))
        await turns(5)
        full = await engine.execute("plain")
        late = await asyncio.wait_for(waiting, BOUND)
        samples.gate.set()
        await asyncio.wait_for(running, BOUND)
    await engine.close()
    assert (full.error_type, late.error_type) == ("queue_full", "queue_timeout")
    assert telemetry.values("tool_engine.calls.rejected") == {
        key(tool("plain"), BUCKET, failed("queue_full")): 1,
        key(tool("plain"), BUCKET, failed("queue_timeout")): 1,
    }
    waits = telemetry.points("tool_engine.queue.wait")
    assert waits[key(tool("plain"), BUCKET)].sum == pytest.approx(late.metadata["queue_wait"])
    assert waits[key(tool("plain"), BUCKET)].count == 1


async def test_duration_is_that_of_the_span(telemetry: Telemetry) -> None:
    """`gen_ai.execute_tool.duration` is the span's, with the boundaries that are advised."""
    engine, samples = sample_engine(max_concurrent=1)
    with instrument(engine, telemetry.tracers, telemetry.meters):
        calls = [asyncio.create_task(engine.execute("waits")) for _ in range(2)]
        await turns(10)
        samples.gate.set()
        await asyncio.wait_for(asyncio.gather(*calls), BOUND)
    await engine.close()
    (point,) = telemetry.points("gen_ai.execute_tool.duration").values()
    spans = telemetry.spans("execute_tool waits")
    assert point.sum == pytest.approx(sum(map(seconds_of, spans)), abs=1e-9)
    assert point.explicit_bounds[:3] == (0.01, 0.02, 0.04)
    assert point.explicit_bounds[-1] == 81.92
    sampled = {exemplar.span_id for exemplar in point.exemplars}
    assert sampled <= {span.context.span_id for span in spans}
    assert sampled, "an exemplar leads from the metric to a span"


async def test_a_clock_that_is_set(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    """It jumps while a call runs, whose duration it does not change."""
    engine, samples = sample_engine(max_concurrent=1)
    with instrument(engine, telemetry.tracers, telemetry.meters):
        calls = [asyncio.create_task(engine.execute("waits")) for _ in range(2)]
        await turns(10)
        for module in ("call_follower", "spans"):
            monkeypatch.setattr(
                f"tool_engine.observability.{module}.time_ns", lambda: 0, raising=False
            )
        samples.gate.set()
        await asyncio.wait_for(asyncio.gather(*calls), BOUND)
    await engine.close()
    (point,) = telemetry.points("gen_ai.execute_tool.duration").values()
    assert 0 < point.sum < 2 * BOUND
    spans = (*telemetry.spans("execute_tool waits"), *telemetry.spans("queue waits"))
    assert all(0 <= seconds_of(each) < BOUND for each in spans)


async def test_bounded_names(telemetry: Telemetry) -> None:
    """Beyond the limits, tools and buckets are counted as `other`; known ones keep their name."""
    engine, _ = sample_engine()
    with instrument(engine, None, telemetry.meters, max_tools=1):
        for name in ("plain", "outer", "plain", "in_thread"):
            await engine.execute(name)
    await engine.close()
    counted = telemetry.values("gen_ai.execute_tool.duration")
    assert {dict(labels)["gen_ai.tool.name"]: count for labels, count in counted.items()} == {
        "plain": 3,  # one of them was made by "outer"
        "other": 2,
    }


async def test_events(telemetry: Telemetry, tmp_path: Path) -> None:
    """What is not about a call is counted by the name that it has on the bus and in logs."""
    (tmp_path / "broken.yaml").write_text("name: [")
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    engine = ToolEngine(config)
    with instrument(engine, None, telemetry.meters):
        await engine.load()
        engine.register_tool(bare("new"), lambda: None)
        await engine.execute("new")
    await engine.close()
    counted = telemetry.values("tool_engine.events")
    assert counted[key(("event.name", "load_error"))] == 1
    assert counted[key(("event.name", "tool_added"))] == 1
    assert not [labels for labels in counted if "execution" in str(labels)]
