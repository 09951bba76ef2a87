"""Do spans reach a real receiver of OpenTelemetry's own protocol over HTTP?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SentSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.calls.audit import turns
from tests.observability.telemetry import BOUND, sample_engine
from tool_engine.observability.opentelemetry import instrument


class Collector:
    """Takes `POST /v1/traces` and `/v1/metrics`, as an OpenTelemetry collector does."""

    def __init__(self) -> None:
        self.spans: list[SentSpan] = []
        self.metrics: set[str] = set()
        self.services: set[str] = set()
        self.url = ""

    async def traces(self, request: web.Request) -> web.Response:
        sent = ExportTraceServiceRequest.FromString(await request.read())
        for resource in sent.resource_spans:
            self.services |= {
                each.value.string_value
                for each in resource.resource.attributes
                if each.key == "service.name"
            }
            for scope in resource.scope_spans:
                self.spans += scope.spans
        return web.Response(content_type="application/x-protobuf")

    async def meters(self, request: web.Request) -> web.Response:
        sent = ExportMetricsServiceRequest.FromString(await request.read())
        for resource in sent.resource_metrics:
            for scope in resource.scope_metrics:
                self.metrics |= {metric.name for metric in scope.metrics}
        return web.Response(content_type="application/x-protobuf")


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    made = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", made.traces)
    app.router.add_post("/v1/metrics", made.meters)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


def attributes_of(span: SentSpan) -> dict[str, str]:
    return {each.key: each.value.string_value for each in span.attributes}


async def test_export(collector: Collector) -> None:
    """Spans and metrics arrive whole, with their parents, status and attributes."""
    resource = Resource({"service.name": "my-agent"})
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{collector.url}/v1/traces")))
    exporter = OTLPMetricExporter(f"{collector.url}/v1/metrics")
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
    meters = MeterProvider([reader], resource=resource)
    engine, samples = sample_engine(max_concurrent=1)
    with instrument(engine, tracers, meters), tracers.get_tracer("t").start_as_current_span("run"):
        calls = [asyncio.create_task(engine.execute("waits")) for _ in range(2)]
        await turns(10)
        samples.gate.set()
        await asyncio.wait_for(asyncio.gather(*calls), BOUND)
        await engine.execute("fails")
    await engine.close()
    async with asyncio.timeout(BOUND):
        await asyncio.to_thread(tracers.shutdown)
        await asyncio.to_thread(meters.shutdown)
    spans = {span.name: span for span in collector.spans}
    assert len(collector.spans) == 5
    assert collector.services == {"my-agent"}
    run, failed, wait = spans["run"], spans["execute_tool fails"], spans["queue waits"]
    assert failed.parent_span_id == run.span_id
    assert failed.kind == SentSpan.SpanKind.SPAN_KIND_INTERNAL
    assert failed.status.code == Status.StatusCode.STATUS_CODE_ERROR
    assert attributes_of(failed)["error.type"] == "execution_error"
    assert wait.parent_span_id == spans["execute_tool waits"].span_id
    assert {"gen_ai.execute_tool.duration", "tool_engine.queue.wait"} <= collector.metrics
