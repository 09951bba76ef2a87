"""Which Prometheus counters and histograms do calls feed?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric

from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.event import ToolEngineEvent
from tool_engine.observability.call_follower import FollowedCall

_EXECUTION: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_WAIT: Final = (0.0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60)


class CallCounters:
    """Counts and measures calls; see `CallListener`.

    Args:
        meet_loop: Called on the event loop of each call that starts.
    """

    def __init__(self, meet_loop: Callable[[], None]) -> None:
        self._meet_loop = meet_loop
        self._executions = _make_counter(
            "tool_executions", "Calls that ended, by how.", "tool_name", "status"
        )
        self._by_bucket = _make_counter(
            "tool_bucket_executions", "The same by bucket.", "bucket", "status"
        )
        self._errors = _make_counter(
            "tool_errors", "Calls that did not succeed, by why.", "tool_name", "error_type"
        )
        self._retries = _make_counter("tool_retries", "Attempts after the first.", "tool_name")
        self._events = _make_counter("tool_events", "Events of the engine, by name.", "event")
        self._running = _make_gauge("tool_running", "Calls that have a slot.", "tool_name")
        self._queued = _make_gauge("tool_queued", "Calls that wait for a slot.", "tool_name")
        self._execution = _make_histogram(
            "tool_execution_seconds",
            "How long tools ran.",
            "tool_name",
            _EXECUTION,
        )
        self._wait = _make_histogram(
            "tool_queue_wait_seconds",
            "How long calls waited for a slot, those that did not have to included.",
            "bucket",
            _WAIT,
        )

    def heard(self, event: ToolEngineEvent) -> None:
        """Count an event of any kind, under the name that it has in logs too."""
        self._events.labels(event.event_type.value).inc()

    def queued(self, call: FollowedCall, event: ToolEngineEvent) -> None:
        del event
        self._queued.labels(call.tool).inc()

    def started(self, call: FollowedCall, event: ToolEngineEvent, was_queued: bool) -> None:
        del event
        self._meet_loop()
        if was_queued:
            self._queued.labels(call.tool).dec()
        self._running.labels(call.tool).inc()

    def retried(self, call: FollowedCall, event: ToolEngineEvent) -> None:
        del event
        self._retries.labels(call.tool).inc()

    def ended(
        self,
        call: FollowedCall,
        event: ToolEngineEvent,
        result: ToolExecutionResult,
        now: int,
    ) -> None:
        del event, now
        if call.is_queued:
            self._queued.labels(call.tool).dec()
        if call.is_running:
            self._running.labels(call.tool).dec()
        status = result.outcome.value
        self._executions.labels(call.tool, status).inc()
        self._by_bucket.labels(call.bucket, status).inc()
        if call.error is not None:
            self._errors.labels(call.tool, call.error).inc()
        attempts: int = result.metadata["attempts"]
        if attempts:
            self._execution.labels(call.tool).observe(result.execution_time)
        if attempts or call.is_queued:
            self._wait.labels(call.bucket).observe(result.metadata["queue_wait"])

    def collect(self) -> Iterator[Metric]:
        return chain.from_iterable(metric.collect() for metric in self._list_metrics())

    def describe(self) -> Iterator[Metric]:
        """Return the metrics without values."""
        return chain.from_iterable(metric.describe() for metric in self._list_metrics())

    def _list_metrics(self) -> tuple[Counter | Gauge | Histogram, ...]:
        return (
            *(self._executions, self._by_bucket, self._errors, self._retries),
            *(self._events, self._running, self._queued, self._execution, self._wait),
        )


# None of them registers itself: the one collector of the engine does it for all.


def _make_counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(name, text, labels, registry=None)


def _make_gauge(name: str, text: str, label: str) -> Gauge:
    return Gauge(name, text, (label,), registry=None)


def _make_histogram(name: str, text: str, label: str, buckets: Sequence[float]) -> Histogram:
    return Histogram(name, text, (label,), registry=None, buckets=buckets)
