"""How are an engine's figures reported to Prometheus?

Calls are counted as they happen; the controller's state is read when Prometheus asks. Importing
this module sets nothing up, and nothing is served: see `start_http_server` of the official client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self
from weakref import WeakSet

from tool_engine.errors import ConfigurationError, MissingExtraError
from tool_engine.observability.calls import CallFollower, ObservedEngine
from tool_engine.observability.labels import OTHER, LabelLimit
from tool_engine.observability.scrape import EngineReader, Figures
from tool_engine.observability.series import (
    BUCKET_SERIES,
    CONTROLLER_SERIES,
    ENGINE_SERIES,
    LIMIT_SERIES,
    UP_SERIES,
    Series,
)

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

    from tool_engine.observability.counters import CallCounters
except ImportError as error:
    raise MissingExtraError(
        f"prometheus_client is not installed ({error.name}): pip install 'tool-engine[prometheus]'"
    ) from error

_ADDED_UP: Final = ("current", "queue")
"""Figures that can be added up for buckets that share a name."""
_instrumented: Final[WeakSet[Any]] = WeakSet()


class PrometheusMetrics:
    """Returned by `instrument`: a collector, registered until `close()` or the end of `with`."""

    def __init__(
        self,
        engine: ObservedEngine,
        registry: CollectorRegistry,
        *,
        max_tools: int,
        max_buckets: int,
    ) -> None:
        self.registry = registry
        """Where the metrics are; for `start_http_server` or `generate_latest`."""
        self._engine = engine
        self._is_closed = False
        self._reader = EngineReader(engine)
        self._counters = CallCounters(self._reader.meet_loop)
        self._tools = LabelLimit("max_tools", max_tools)
        self._buckets = LabelLimit("max_buckets", max_buckets)
        self._follower = CallFollower(engine, [self._counters], self._tools, self._buckets)
        self._unsubscribe = engine.subscribe(self._counters.heard)
        try:
            registry.register(self)
        except ValueError as duplicate:
            self._stop_listening()
            raise ConfigurationError(
                "the registry has metrics of another engine already; give this one a registry of "
                "its own"
            ) from duplicate

    def __repr__(self) -> str:
        return f"<PrometheusMetrics, {self._follower.open_calls} calls under way>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the metrics from the registry, and count no more; idempotent."""
        self._stop_listening()
        if not self._is_closed:
            self._is_closed = True
            self.registry.unregister(self)
            _instrumented.discard(self._engine)

    def collect(self) -> Iterable[Metric]:
        """Return all metrics as they are now; Prometheus's client calls it, from any thread."""
        yield from self._counters.collect()
        figures = self._reader.read()
        yield _make_family(UP_SERIES, 0 if figures is None else 1)
        if figures is not None:
            yield from self._make_families(figures)

    def describe(self) -> Iterable[Metric]:
        """Return the metrics without values, reading nothing."""
        yield from self._counters.describe()
        for series in (*CONTROLLER_SERIES, *LIMIT_SERIES, *ENGINE_SERIES, *BUCKET_SERIES):
            yield _make_family(series)
        yield _make_family(UP_SERIES)

    def _stop_listening(self) -> None:
        self._unsubscribe()
        self._follower.close()

    def _make_families(self, figures: Figures) -> Iterator[Metric]:
        for series in CONTROLLER_SERIES:
            yield _make_family(series, getattr(figures.metrics, series.field))
        for series in LIMIT_SERIES:
            yield _make_family(series, getattr(figures.limits, series.field))
        for series in ENGINE_SERIES:
            yield _make_family(series, figures.loaded[series.field])
        buckets = self._merge_labels(figures.buckets)
        for series in BUCKET_SERIES:
            family = _make_family(series)
            for name, values in buckets.items():
                if values.get(series.field) is not None:
                    family.add_metric([name], values[series.field])
            yield family

    def _merge_labels(self, buckets: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the figures of buckets by label; buckets that share one are added up."""
        named: dict[str, dict[str, Any]] = {}
        for name, values in buckets.items():
            label = self._buckets.label(name)
            if label != OTHER:
                named[label] = dict(values)
            else:
                others = named.setdefault(OTHER, dict.fromkeys(_ADDED_UP, 0))
                for key in _ADDED_UP:
                    others[key] += values[key]
        return named


def instrument(
    engine: ObservedEngine,
    registry: CollectorRegistry | None = None,
    *,
    max_tools: int = 200,
    max_buckets: int = 50,
) -> PrometheusMetrics:
    """Count and measure the calls of an engine, from now on.

    Args:
        engine: A `ToolEngine`.
        registry: Where the metrics go; None: a new one. A registry takes one engine.
        max_tools: The most tools that have a name of their own; others are counted as `other`.
        max_buckets: The same for buckets.

    Returns:
        What has the `registry`, and ends it: `close()`, or `with`.

    Raises:
        ConfigurationError: The engine is instrumented already, the registry has metrics of another
            one, or a limit is not a whole number of 1 or more.
        EngineClosedError: The engine is closed.

    Example:
        >>> metrics = instrument(engine)
        >>> server, thread = start_http_server(9464, "127.0.0.1", metrics.registry)
    """
    if engine in _instrumented:
        raise ConfigurationError(
            f"{engine!r} is instrumented already; close() the first instrumentation before"
        )
    metrics = PrometheusMetrics(
        engine,
        CollectorRegistry() if registry is None else registry,
        max_tools=max_tools,
        max_buckets=max_buckets,
    )
    _instrumented.add(engine)
    return metrics


def _make_family(
    series: Series, value: float | None = None
) -> CounterMetricFamily | GaugeMetricFamily:
    """Return one metric, labelled by bucket where it is a bucket's."""
    labels = ("bucket",) if series in BUCKET_SERIES else None
    if series.is_counter:
        return CounterMetricFamily(series.name, series.help, value, labels)
    return GaugeMetricFamily(series.name, series.help, value, labels)
