"""U23: does Prometheus see what happens to calls, and how the controller stands?"""

from __future__ import annotations

import asyncio
import threading
import urllib.request
from collections import Counter
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse

from tests.calls.audit import make_engine, turns
from tests.calls.samples import bare
from tests.observability.telemetry import BOUND, Telemetry, sample_engine
from tool_engine import ConcurrencyMetrics, ToolEngine, ToolEngineEventType
from tool_engine.errors import ConfigurationError, EngineClosedError, ToolExecutionError
from tool_engine.observability import prometheus as scrape
from tool_engine.observability.opentelemetry import instrument as trace
from tool_engine.observability.prometheus import CONTROLLER_SERIES, instrument

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scraped(registry: CollectorRegistry) -> Samples:
    """All samples of an exposition, read with the official parser."""
    samples: Samples = {}
    for family in parse(generate_latest(registry).decode()):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in samples, f"{key} stands there twice"
            samples[key] = sample.value
    return samples


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


async def test_names_of_u23() -> None:
    """U23: tool_concurrent_count, tool_queue_length, tool_executions_total{tool_name,status}."""
    engine, samples = sample_engine(max_concurrent=1, queue_size=7)
    with instrument(engine) as metrics:
        calls = [asyncio.create_task(engine.execute("waits")) for _ in range(3)]
        await turns(10)
        seen = scraped(metrics.registry)
        assert value(seen, "tool_concurrent_count") == value(seen, "tool_concurrent_limit") == 1
        assert (value(seen, "tool_queue_length"), value(seen, "tool_queue_limit")) == (2, 7)
        assert value(seen, "tool_running", tool_name="waits") == 1
        assert value(seen, "tool_queued", tool_name="waits") == 2
        samples.gate.set()
        await asyncio.wait_for(asyncio.gather(*calls), BOUND)
        await engine.execute("fails")
        await engine.execute("nobody")
        seen = scraped(metrics.registry)
    await engine.close()
    assert value(seen, "tool_executions_total", tool_name="waits", status="succeeded") == 3
    assert value(seen, "tool_executions_total", tool_name="fails", status="failed") == 1
    assert value(seen, "tool_executions_total", tool_name="other", status="failed") == 1
    assert value(seen, "tool_bucket_executions_total", bucket="custom", status="succeeded") == 3
    assert value(seen, "tool_errors_total", tool_name="fails", error_type="execution_error") == 1
    assert value(seen, "tool_running", tool_name="waits") == 0
    assert value(seen, "tool_queued", tool_name="waits") == 0
    assert value(seen, "tool_execution_seconds_count", tool_name="waits") == 3
    assert value(seen, "tool_queue_wait_seconds_count", bucket="custom") == 4
    assert value(seen, "tool_catalog_tools") == len(engine.index)


async def test_all_of_the_controller() -> None:
    """U8: every field of `ConcurrencyMetrics` is exported with its value."""
    assert {series.field for series in CONTROLLER_SERIES} == set(
        ConcurrencyMetrics.__struct_fields__
    )
    engine, samples = sample_engine(max_concurrent=1, queue_size=1)
    with instrument(engine) as metrics:
        calls = [asyncio.create_task(engine.execute("waits")) for _ in range(4)]
        await turns(10)
        seen, now = scraped(metrics.registry), engine.controller.get_metrics()
        samples.gate.set()
        await asyncio.wait_for(asyncio.gather(*calls), BOUND)
    await engine.close()
    for series in CONTROLLER_SERIES:
        assert value(seen, series.name) == getattr(now, series.field), series
    assert value(seen, "tool_slots_rejected_total") == 2


async def test_buckets() -> None:
    """K40: each bucket has its figures; a limit only where there is one."""
    engine, samples = sample_engine(max_concurrent=5, bucket_limits={"custom": 2})

    async def ask() -> None:
        await samples.gate.wait()

    engine.register_tool(bare("asks", category="ai"), ask)
    with instrument(engine) as metrics:
        calls = [asyncio.create_task(engine.execute(name)) for name in ["waits"] * 3 + ["asks"]]
        await turns(10)
        seen = scraped(metrics.registry)
        samples.gate.set()
        await asyncio.wait_for(asyncio.gather(*calls), BOUND)
    await engine.close()
    for name, found in (("concurrent_count", 2), ("concurrent_limit", 2), ("queue_length", 1)):
        assert value(seen, f"tool_bucket_{name}", bucket="custom") == found
    assert value(seen, "tool_bucket_utilization_ratio", bucket="custom") == 1.0
    assert value(seen, "tool_bucket_concurrent_count", bucket="ai") == 1
    assert ("tool_bucket_concurrent_limit", (("bucket", "ai"),)) not in seen


async def test_bounded_labels() -> None:
    """However many tools and buckets there are, the number of series is bounded."""
    engine = make_engine(50, bucket_limits={f"b{n}": 1 for n in range(30)})

    async def handler() -> None: ...

    for number in range(40):
        concurrency = {"bucket": f"b{number % 30}"}
        engine.register_tool(bare(f"tool_{number}", concurrency=concurrency), handler)
    with instrument(engine, max_tools=5, max_buckets=3) as metrics:
        for number in range(40):
            await engine.execute(f"tool_{number}")
        for number in range(200):
            await engine.execute(f"invented_{number}")
        seen = scraped(metrics.registry)
    await engine.close()
    labels: dict[str, set[str]] = {}
    for _, pairs in seen:
        for name, text in pairs:
            labels.setdefault(name, set()).add(text)
    assert labels["tool_name"] == {"other", *(f"tool_{n}" for n in range(5))}
    assert len(labels["bucket"]) == 4
    assert "other" in labels["bucket"]
    assert len(seen) < 400
    total = [count for (name, _), count in seen.items() if name == "tool_executions_total"]
    assert sum(total) == 240
    assert ("tool_bucket_concurrent_limit", (("bucket", "other"),)) not in seen


async def test_bounded_kinds_of_errors(telemetry: Telemetry) -> None:
    """A tool that makes up a kind of error for each call makes no series for each."""
    engine = make_engine()
    number = 0

    class OwnError(ToolExecutionError):
        """Names its own kind."""

    async def handler() -> None:
        error = OwnError("no")
        error.error_type = f"kind_{number}"  # type: ignore[misc]
        raise error

    async def slow() -> None:
        raise TimeoutError

    engine.register_tool(bare("makes_up"), handler)
    engine.register_tool(bare("slow"), slow)
    with instrument(engine) as metrics, trace(engine, telemetry.tracers, telemetry.meters):
        for number in range(200):  # noqa: B007 - the handler reads it
            result = await engine.execute("makes_up")
        await engine.execute("slow")
        seen = scraped(metrics.registry)
    await engine.close()
    assert result.error_type == "kind_199"
    counted = {
        dict(pairs)["error_type"]: count
        for (name, pairs), count in seen.items()
        if name == "tool_errors_total"
    }
    assert sum(counted.values()) == 201
    assert len(counted) == 32
    assert counted["timeout"] == 1
    assert counted["other"] == 170
    assert len(telemetry.values("gen_ai.execute_tool.duration")) == 32


async def test_retries_and_waits() -> None:
    """Attempts after the first are counted; a call that waited in vain has its wait measured."""
    engine, samples = sample_engine(max_concurrent=1, queue_timeout=0.02)
    samples.failures = 2
    with instrument(engine) as metrics:
        await engine.execute("flaky")
        running = asyncio.create_task(engine.execute("waits"))
        await turns(5)
        late = await asyncio.wait_for(engine.execute("plain"), BOUND)
        samples.gate.set()
        await asyncio.wait_for(running, BOUND)
        seen = scraped(metrics.registry)
    await engine.close()
    assert value(seen, "tool_retries_total", tool_name="flaky") == 2
    assert value(seen, "tool_executions_total", tool_name="plain", status="rejected") == 1
    assert value(seen, "tool_queue_wait_seconds_count", bucket="custom") == 3
    assert value(seen, "tool_queue_wait_seconds_sum", bucket="custom") == pytest.approx(
        late.metadata["queue_wait"], rel=0.01
    )
    assert value(seen, "tool_queued", tool_name="plain") == 0
    assert not [
        key for key in seen if key[0].startswith("tool_execution_s") and "plain" in str(key)
    ]


@pytest.mark.parametrize("form", ["prometheus", "openmetrics"])
async def test_exposition(form: str) -> None:
    """Both text formats are read by the official parsers, each family once, with help."""
    engine, _ = sample_engine()
    with instrument(engine) as metrics:
        await engine.execute("plain")
        if form == "prometheus":
            families = list(parse(generate_latest(metrics.registry).decode()))
        else:
            text = generate_openmetrics(metrics.registry).decode()  # type: ignore[no-untyped-call] # of the client
            families = list(parse_openmetrics(text))  # type: ignore[no-untyped-call] # of the client
    await engine.close()
    names = [family.name for family in families]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    created = [family for family in families if family.name.endswith("_created")]
    assert all(family.documentation for family in families if family not in created)
    assert all(name.startswith("tool_") for name in names)


async def test_served() -> None:
    """The official client's server answers while calls run, from a thread of its own."""
    engine, samples = sample_engine()
    with instrument(engine) as metrics:
        server, thread = start_http_server(0, "127.0.0.1", metrics.registry)
        running = asyncio.create_task(engine.execute("waits"))
        await turns(5)

        def read() -> str:
            url = f"http://127.0.0.1:{server.server_port}/metrics"
            with urllib.request.urlopen(url, timeout=BOUND) as answer:
                return str(answer.read().decode())

        text = await asyncio.wait_for(asyncio.to_thread(read), BOUND)
        samples.gate.set()
        await asyncio.wait_for(running, BOUND)
        await asyncio.to_thread(server.shutdown)
        await asyncio.to_thread(thread.join, BOUND)
        server.server_close()
    await engine.close()
    assert "\ntool_engine_up 1.0\n" in text
    assert "\ntool_concurrent_count 1.0\n" in text


async def test_scraped_while_calls_run() -> None:
    """A scrape from another thread in the middle of a storm never fails, and adds up."""
    engine, _ = sample_engine(max_concurrent=3)
    stop, scrapes = threading.Event(), []

    def fetch(registry: CollectorRegistry) -> None:
        while not stop.is_set():
            scrapes.append(scraped(registry))

    with instrument(engine) as metrics:
        reading = asyncio.create_task(asyncio.to_thread(fetch, metrics.registry))
        async with asyncio.timeout(BOUND):
            while len(scrapes) < 5:
                names = ("plain", "outer", "fails") * 10
                await asyncio.gather(*(engine.execute(name) for name in names))
        stop.set()
        await asyncio.wait_for(reading, BOUND)
    await engine.close()
    for seen in scrapes:
        if value(seen, "tool_engine_up"):
            held = value(seen, "tool_slots_active") + value(seen, "tool_slots_zombie")
            released = value(seen, "tool_slots_released_total")
            assert value(seen, "tool_slots_acquired_total") == released + held


async def test_a_blocked_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the loop is blocked the answer says so, and has no figures that could be wrong."""
    monkeypatch.setattr(scrape, "_TIMEOUT", 0.01)
    engine, _ = sample_engine()
    found: list[Samples] = []
    with instrument(engine) as metrics:
        await engine.execute("plain")
        thread = threading.Thread(target=lambda: found.append(scraped(metrics.registry)))
        thread.start()
        thread.join(BOUND)  # blocks the loop
        after = scraped(metrics.registry)
    await engine.close()
    (seen,) = found
    assert (value(seen, "tool_engine_up"), value(after, "tool_engine_up")) == (0, 1)
    assert ("tool_concurrent_count", ()) not in seen
    assert value(seen, "tool_executions_total", tool_name="plain", status="succeeded") == 1


def test_instrumented_before_the_loop() -> None:
    """An engine that is instrumented outside of its loop is read on the loop that its calls use."""
    engine, _ = sample_engine()
    metrics = instrument(engine)

    async def run() -> None:
        await engine.execute("plain")
        assert metrics._reader._loop is asyncio.get_running_loop()
        seen = await asyncio.wait_for(asyncio.to_thread(scraped, metrics.registry), BOUND)
        assert value(seen, "tool_slots_released_total") == 1
        await engine.close()

    asyncio.run(run())
    metrics.close()


async def test_registry() -> None:
    """A registry of one's own is used; it takes one engine, and is empty again at the end."""
    registry = CollectorRegistry()
    one, _ = sample_engine()
    two, _ = sample_engine()
    metrics = instrument(one, registry)
    assert metrics.registry is registry
    with pytest.raises(ConfigurationError, match="has metrics of another engine"):
        instrument(two, registry)
    assert not two._bus.has_subscribers
    with pytest.raises(ConfigurationError, match="instrumented already; close"):
        instrument(one)
    metrics.close()
    metrics.close()
    assert not one._bus.has_subscribers
    assert generate_latest(registry) == b""
    with instrument(two, registry):
        assert generate_latest(registry) != b""
    await one.close()
    await two.close()
    with pytest.raises(EngineClosedError):
        instrument(one)


async def test_close_under_way() -> None:
    """`close()` while calls run fails none of them, and nobody listens when they have ended."""
    engine, samples = sample_engine()
    metrics = instrument(engine)
    running = asyncio.create_task(engine.execute("waits"))
    await turns(5)
    assert "1 calls under way" in repr(metrics)
    metrics.close()
    samples.gate.set()
    assert (await asyncio.wait_for(running, BOUND)).is_success
    assert not engine._bus.has_subscribers
    await engine.close()


@pytest.mark.parametrize("setting", ["max_tools", "max_buckets"])
async def test_wrong_limits(setting: str) -> None:
    """A limit that cannot be is refused, and leaves nothing behind."""
    engine, _ = sample_engine()
    with pytest.raises(ConfigurationError, match=setting):
        instrument(engine, **{setting: 0})  # type: ignore[arg-type]
    assert not engine._bus.has_subscribers
    await engine.close()


async def test_storm() -> None:
    """After many calls that end in every way the counters are those of the results."""
    engine, samples = sample_engine(max_concurrent=3, queue_size=20, queue_timeout=0.05)
    samples.failures = 100
    ends: Counter[tuple[str, str]] = Counter()

    def count(event: Any) -> None:
        known = event.tool_name if event.tool is not None else "other"
        ends[known, event.execution_result.outcome.value] += 1

    engine.subscribe(count, _FINALS)
    names = ("plain", "fails", "outer", "waits", "flaky", "nobody", "in_thread")
    with instrument(engine) as metrics:
        tasks = [asyncio.create_task(engine.execute(names[n % len(names)])) for n in range(210)]
        await turns(20)
        for task in [task for task in tasks if not task.done()][::3]:
            task.cancel()
        await asyncio.sleep(0)
        samples.gate.set()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), BOUND)
        seen = scraped(metrics.registry)
    await engine.close()
    counted = {
        (dict(labels)["tool_name"], dict(labels)["status"]): found
        for (name, labels), found in seen.items()
        if name == "tool_executions_total"
    }
    assert counted == dict(ends)
    assert {status for _, status in ends} >= {"succeeded", "failed", "rejected", "cancelled"}
    for (name, labels), found in seen.items():
        assert name not in ("tool_running", "tool_queued") or found == 0, labels
    assert engine._bus.failed == 0


_FINALS = [
    ToolEngineEventType.EXECUTION_COMPLETED,
    ToolEngineEventType.EXECUTION_FAILED,
    ToolEngineEventType.EXECUTION_CANCELLED,
    ToolEngineEventType.VALIDATION_ERROR,
]


async def test_events() -> None:
    """Every event is counted by the name that it has on the bus and in logs."""
    engine, _ = sample_engine()
    heard: Counter[str] = Counter()
    with instrument(engine) as metrics:
        engine.subscribe(lambda event: heard.update([event.event_type.value]))
        for name in ("plain", "outer", "fails", "nobody"):
            await engine.execute(name)
        await engine.reload()
        engine.register_tool(bare("new"), lambda: None)
        seen = scraped(metrics.registry)
    await engine.close()
    counted = {
        dict(labels)["event"]: found
        for (name, labels), found in seen.items()
        if name == "tool_events_total"
    }
    assert counted == dict(heard)
    assert counted["execution_started"] == 4
    assert counted["tool_added"] == 1


async def test_a_broken_definition_shows(tmp_path: Any) -> None:
    """Definitions that could not be loaded are a gauge."""
    from tool_engine import ToolEngineConfig

    (tmp_path / "broken.yaml").write_text("name: [")
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:
        with instrument(engine) as metrics:
            assert value(scraped(metrics.registry), "tool_catalog_load_errors") == 1
