"""Does instrumentation begin and end cleanly, reach what it should, and nothing else?"""

from __future__ import annotations

import asyncio
import gc
import runpy
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult

from tests.calls.audit import make_engine, turns
from tests.calls.samples import bare
from tests.observability.telemetry import (
    BOUND,
    Telemetry,
    current_id,
    id_of,
    parent_of,
    sample_engine,
)
from tool_engine import ToolEngineEventType
from tool_engine.errors import ConfigurationError, EngineClosedError, MissingExtraError
from tool_engine.observability import opentelemetry, prometheus
from tool_engine.observability.instruments import CallInstruments
from tool_engine.observability.opentelemetry import instrument


async def test_nothing_is_left(telemetry: Telemetry) -> None:
    """After `close()` nobody listens, calls make no spans, and the engine can go."""
    engine, _ = sample_engine()
    instrumentation = instrument(engine, telemetry.tracers, telemetry.meters)
    await engine.execute("plain")
    instrumentation.close()
    instrumentation.close()
    assert not engine._bus.has_subscribers
    await engine.execute("plain")
    assert len(telemetry.spans()) == 1
    await engine.close()
    gone = weakref.ref(engine)
    del engine, instrumentation, _
    gc.collect()
    assert gone() is None


async def test_calls_under_way_are_completed(telemetry: Telemetry) -> None:
    """`close()` while calls run or wait: they keep their spans to the end; later calls get none."""
    engine, samples = sample_engine(max_concurrent=1)
    instrumentation = instrument(engine, telemetry.tracers, telemetry.meters)
    calls = [asyncio.create_task(engine.execute("waits")) for _ in range(2)]
    await turns(10)
    instrumentation.close()
    assert "2 calls under way" in repr(instrumentation)
    late = asyncio.create_task(engine.execute("plain"))
    await turns(10)
    samples.gate.set()
    await asyncio.wait_for(asyncio.gather(*calls, late), BOUND)
    assert not engine._bus.has_subscribers
    await engine.close()
    assert [span.name for span in telemetry.spans()] == [
        "execute_tool waits",
        "queue waits",
        "execute_tool waits",
    ]
    assert samples.seen["plain"] == 0
    assert set(telemetry.values("tool_engine.calls.running").values()) == {0}
    assert set(telemetry.values("tool_engine.calls.queued").values()) == {0}


async def test_a_call_from_before(telemetry: Telemetry) -> None:
    """A call that began before `instrument` and ends after `close()` is told of to nobody."""
    engine, samples = sample_engine()
    early = asyncio.create_task(engine.execute("waits"))
    await turns(5)
    instrumentation = instrument(engine, telemetry.tracers)
    later = asyncio.create_task(engine.execute("waits"))
    await turns(5)
    instrumentation.close()
    samples.gate.set()
    await asyncio.wait_for(asyncio.gather(early, later), BOUND)
    await engine.close()
    assert len(telemetry.spans()) == 1


async def test_once_at_a_time(telemetry: Telemetry) -> None:
    """An engine is instrumented once; after `close()` it can be again."""
    engine, _ = sample_engine()
    with instrument(engine, telemetry.tracers):
        with pytest.raises(ConfigurationError, match="instrumented already; close"):
            instrument(engine, telemetry.tracers)
        await engine.execute("plain")
    with instrument(engine, telemetry.tracers):
        await engine.execute("plain")
    await engine.close()
    assert len(telemetry.spans()) == 2


async def test_two_engines(telemetry: Telemetry) -> None:
    """A tool that uses an engine of its own: both have their spans, one below the other."""
    inner, _ = sample_engine()
    outer = make_engine()

    async def asks() -> None:
        await inner.execute("plain")

    outer.register_tool(bare("asks"), asks)
    with instrument(inner, telemetry.tracers), instrument(outer, telemetry.tracers):
        await outer.execute("asks")
    await inner.close()
    await outer.close()
    below, above = telemetry.span("execute_tool plain"), telemetry.span("execute_tool asks")
    assert parent_of(below) == id_of(above)


async def test_a_closed_engine(telemetry: Telemetry) -> None:
    """A closed engine cannot be instrumented; one that closes ends its spans."""
    engine, _ = sample_engine(close_timeout=0.01)
    instrumentation = instrument(engine, telemetry.tracers)
    running = asyncio.create_task(engine.execute("waits"))
    await turns(5)
    await engine.close()
    result = await asyncio.wait_for(running, BOUND)
    instrumentation.close()
    assert result.error_type == "engine_closed"
    attributes = telemetry.span("execute_tool waits").attributes or {}
    assert attributes["error.type"] == "engine_closed"
    with pytest.raises(EngineClosedError):
        instrument(engine, telemetry.tracers)


class BrokenSampler(Sampler):
    """A part of somebody's set-up that fails."""

    def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
        raise RuntimeError("broken")

    def get_description(self) -> str:
        return "broken"


async def test_a_broken_sdk(telemetry: Telemetry) -> None:
    """Whatever fails in the tracing of a call, the call does not, and metrics go on."""
    engine, _ = sample_engine()
    with instrument(engine, TracerProvider(sampler=BrokenSampler()), telemetry.meters):
        results = [await engine.execute(name) for name in ("plain", "fails", "nobody")]
    await engine.close()
    assert [result.error_type for result in results] == [None, "execution_error", "tool_not_found"]
    assert sum(telemetry.values("gen_ai.execute_tool.duration").values()) == 3
    assert set(telemetry.values("tool_engine.calls.running").values()) == {0}
    assert current_id() == 0


async def test_broken_metrics(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails in the metrics of a call does not cost it its span, or its caller its context."""

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    for step in ("queued", "started", "ended"):
        monkeypatch.setattr(CallInstruments, step, broken)
    engine, samples = sample_engine()
    with instrument(engine, telemetry.tracers, telemetry.meters):
        result = await engine.execute("plain")
    assert engine._bus.failed == 2
    await engine.close()
    assert result.is_success
    assert samples.seen["plain"] == id_of(telemetry.span("execute_tool plain"))
    assert current_id() == 0


async def test_global_providers() -> None:
    """Without providers the program's global ones are used; where there are none, nothing fails."""
    engine, samples = sample_engine()
    with instrument(engine):
        result = await engine.execute("plain")
    await engine.close()
    assert result.is_success
    assert samples.seen["plain"] == 0


def test_import_sets_nothing_up() -> None:
    """Importing the module configures no provider, and the package alone loads nothing of it."""
    code = """
import sys, tool_engine
assert not [name for name in sys.modules if name.startswith(("opentelemetry", "prometheus"))]
import tool_engine.observability.opentelemetry
from opentelemetry import metrics, trace
assert type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider"
assert "opentelemetry.sdk" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, timeout=BOUND, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [
        (opentelemetry, "opentelemetry.metrics", "otel"),
        (prometheus, "prometheus_client", "prometheus"),
    ],
)
def test_missing_extra(
    module: ModuleType, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the library the import says which extra to install."""
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError) as caught:
        runpy.run_path(str(module.__file__))
    assert f"({library}): pip install 'tool-engine[{extra}]'" in str(caught.value)


@pytest.mark.parametrize("setting", ["max_tools", "max_buckets"])
@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "2"])
async def test_wrong_limits(setting: str, limit: Any) -> None:
    """A limit that cannot be is refused, and leaves nothing behind."""
    engine, _ = sample_engine()
    with pytest.raises(ConfigurationError, match=setting):
        instrument(engine, **{setting: limit})
    assert not engine._bus.has_subscribers
    await engine.close()


async def test_storm(telemetry: Telemetry) -> None:
    """After many calls that end in every way: spans = results, and counters agree with them."""
    engine, samples = sample_engine(max_concurrent=3, queue_size=20, queue_timeout=0.05)
    samples.failures = 100
    events: list[str] = []
    engine.subscribe(lambda event: events.append(event.event_type.value), _FINALS)
    names = ("plain", "fails", "outer", "waits", "flaky", "nobody", "in_thread")
    with instrument(engine, telemetry.tracers, telemetry.meters) as instrumentation:
        tasks = [asyncio.create_task(engine.execute(names[n % len(names)])) for n in range(210)]
        await turns(20)
        for task in [task for task in tasks if not task.done()][::3]:
            task.cancel()
        await asyncio.sleep(0)
        samples.gate.set()
        done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), BOUND)
    await instrumentation.flush()  # a busy machine may have made it slow
    await engine.close()
    spans = [span for span in telemetry.spans() if not span.name.startswith("queue")]
    assert len(spans) == len(events)
    assert len({(span.attributes or {})["gen_ai.tool.call.id"] for span in spans}) == len(events)
    assert sum(telemetry.values("gen_ai.execute_tool.duration").values()) == len(events)
    results = [result for result in done if not isinstance(result, BaseException)]
    assert {result.outcome.value for result in results} >= {"succeeded", "failed", "rejected"}
    assert len(results) < len(done)
    for name in ("running", "queued"):
        assert set(telemetry.values(f"tool_engine.calls.{name}").values()) == {0}
    assert "0 calls under way" in repr(instrumentation)
    assert engine._bus.failed == 0


_FINALS = [
    ToolEngineEventType.EXECUTION_COMPLETED,
    ToolEngineEventType.EXECUTION_FAILED,
    ToolEngineEventType.EXECUTION_CANCELLED,
    ToolEngineEventType.VALIDATION_ERROR,
]


async def test_beside_prometheus(telemetry: Telemetry) -> None:
    """Both instrumentations of one engine work side by side, and end apart."""
    engine, samples = sample_engine()
    metrics = prometheus.instrument(engine)
    with instrument(engine, telemetry.tracers):
        await engine.execute("plain")
    await engine.execute("plain")
    counted = metrics.registry.get_sample_value(
        "tool_executions_total", {"tool_name": "plain", "status": "succeeded"}
    )
    metrics.close()
    assert not engine._bus.has_subscribers
    await engine.close()
    assert counted == 2
    assert len(telemetry.spans()) == 1
    assert samples.seen["plain"] == 0


class SlowExporter(InMemorySpanExporter):
    """As one that asks a far server, which is slow at first."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        until = time.monotonic() + 0.025
        while len(self.get_finished_spans()) < 3 and time.monotonic() < until:
            pass
        return super().export(spans)


async def test_a_slow_provider_misses_nothing() -> None:
    """It is called in a thread, and has what was published before the end of `with`."""
    telemetry = Telemetry(SlowExporter())
    engine, samples = sample_engine(max_concurrent=30)
    with instrument(engine, telemetry.tracers) as instrumentation:
        for _ in range(30):
            await engine.execute("plain")
        waiting = asyncio.create_task(engine.execute("waits"))
        await turns(5)
        assert engine.get_event_statistics()["slow"] == 1
    await engine.execute("plain")  # not seen any more
    samples.gate.set()
    await waiting
    await instrumentation.flush()
    assert [span.name for span in telemetry.spans()] == [
        *["execute_tool plain"] * 30,
        "execute_tool waits",
    ]
    await engine.execute("plain")
    assert engine.get_event_statistics()["subscribers"] == 0
    await engine.close()
