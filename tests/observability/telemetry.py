"""An engine with sample tools, and the real SDK of OpenTelemetry that keeps what it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.calls.audit import make_engine
from tests.calls.samples import bare
from tool_engine import ToolEngine, ToolExecutionContext

BOUND = 20.0
"""Seconds after which a wait in a test has failed."""


class Telemetry:
    """Keeps spans and metrics in memory.

    Args:
        exporter: Keeps the spans; None: one that is quick.
    """

    def __init__(self, exporter: InMemorySpanExporter | None = None) -> None:
        self.exporter = exporter or InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader])
        self.tracer = self.tracers.get_tracer("test")

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        """The spans that have ended, in that order; of this name, or all."""
        found = self.exporter.get_finished_spans()
        return [span for span in found if name in (None, span.name)]

    def span(self, name: str) -> ReadableSpan:
        (found,) = self.spans(name)
        return found

    def points(self, name: str) -> dict[tuple[tuple[str, Any], ...], Any]:
        """The data points of a metric, by their sorted attributes."""
        data: Any = self._reader.get_metrics_data()
        scopes = [scope for each in data.resource_metrics for scope in each.scope_metrics]
        return {
            tuple(sorted((point.attributes or {}).items())): point
            for scope in scopes
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        }

    def values(self, name: str) -> dict[tuple[tuple[str, Any], ...], Any]:
        """The values of a counter, or how many values a histogram has, by attributes."""
        points = self.points(name).items()
        return {
            key: getattr(point, "value", getattr(point, "count", None)) for key, point in points
        }


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    return int(span.context.span_id)


def current_id() -> int:
    """The id of the current span; 0 when there is none."""
    return trace.get_current_span().get_span_context().span_id


def traceparent_of(span: ReadableSpan) -> str:
    """How the span is named in a header (W3C Trace Context, 3.2)."""
    context = span.context
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def seconds_of(span: ReadableSpan) -> float:
    return ((span.end_time or 0) - (span.start_time or 0)) / 1e9


class Samples:
    """Handlers, and what they saw."""

    def __init__(self, engine: ToolEngine) -> None:
        self.engine = engine
        self.seen: dict[str, int] = {}
        self.gate = asyncio.Event()
        self.failures = 1
        handlers: Mapping[str, Any] = {
            "plain": self.plain,
            "waits": self.waits,
            "fails": self.fails,
            "outer": self.outer,
            "in_thread": self.in_thread,
        }
        for name, handler in handlers.items():
            engine.register_tool(bare(name), handler)
        retry = {"attempts": 4, "backoff": 0.001, "on": ["execution_error"]}
        engine.register_tool(bare("flaky", effect="read", retry=retry), self.flaky)

    async def plain(self) -> str:
        self.seen["plain"] = current_id()
        return "done"

    async def waits(self) -> None:
        self.seen["waits"] = current_id()
        await self.gate.wait()

    async def fails(self) -> None:
        raise ValueError("no luck")

    async def outer(self, context: ToolExecutionContext) -> Any:
        self.seen["outer"] = current_id()
        result = await context.call("plain")
        assert current_id() == self.seen["outer"], "the call of a tool left its span behind"
        return result.output

    def in_thread(self) -> None:
        self.seen["in_thread"] = current_id()

    async def flaky(self) -> str:
        if self.failures:
            self.failures -= 1
            raise ValueError("not yet")
        return "done"


def sample_engine(max_concurrent: int = 10, **concurrency: Any) -> tuple[ToolEngine, Samples]:
    engine = make_engine(max_concurrent, **concurrency)
    return engine, Samples(engine)
