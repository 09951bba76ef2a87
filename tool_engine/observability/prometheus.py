"""How are an engine's figures reported to Prometheus?

Calls are counted as they happen; the controller's state is read when Prometheus asks. Importing
this module sets nothing up, and nothing is served: see `start_http_server` of the official client.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self
from weakref import WeakSet

from tool_engine.errors import ConfigurationError, MissingExtraError
from tool_engine.observability.call_follower import CallFollower, ObservedEngine
from tool_engine.observability.labels import OTHER, LabelLimit

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

    def __exit__(self, *exc_info: object) -> None:
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
        engine = (*CONTROLLER_SERIES, *LIMIT_SERIES, *ENGINE_SERIES, *BUCKET_SERIES)
        for series in (*engine, *FLEET_SERIES, *CLUSTER_SERIES):
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
        if figures.fleet is not None:
            for series in FLEET_SERIES:
                yield _make_family(series, getattr(figures.fleet, series.field))
        for series in CLUSTER_SERIES if figures.cluster else ():
            yield _make_family(series, figures.cluster[series.field])
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


# A table per source, so that a figure which a later version adds is missing in one place only.
class Series(NamedTuple):
    """One metric that is read when Prometheus asks."""

    field: str
    """The field that its value comes from."""
    name: str
    """Its name; that of a counter ends in `_total`."""
    help: str

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")


CONTROLLER_SERIES: Final = (
    Series("current_concurrent", "tool_concurrent_count", "Slots in use, by weight."),
    Series("queue_length", "tool_queue_length", "Calls that wait for a slot."),
    Series("total_acquired", "tool_slots_acquired_total", "Slots given."),
    Series("total_released", "tool_slots_released_total", "Slots given back."),
    Series("total_rejected", "tool_slots_rejected_total", "Calls refused without waiting."),
    Series("total_timeout", "tool_slots_timeout_total", "Calls out of time, waiting or running."),
    Series("avg_execution_time", "tool_slot_held_avg_seconds", "Mean time a slot was held."),
    Series("total_execution_time", "tool_slot_held_seconds_total", "Time slots were held."),
    Series("active", "tool_slots_active", "Slots whose call runs in time."),
    Series("parked", "tool_slots_parked", "Slots lent out by calls that wait for their own."),
    Series("zombies", "tool_slots_zombie", "Slots whose work outlives its call."),
    Series("bypass_active", "tool_slots_bypass", "Running calls that limits do not apply to."),
    Series("overdue", "tool_slots_overdue", "Slots held for longer than they should be."),
    Series("total_enqueued", "tool_queue_enqueued_total", "Calls that had to wait."),
    Series("total_dequeued", "tool_queue_dequeued_total", "Calls that no longer wait."),
    Series("total_granted", "tool_queue_granted_total", "Waiting calls that got a slot."),
    Series("total_queue_timeout", "tool_queue_timeout_total", "Waiting calls out of time."),
    Series("total_cancelled", "tool_queue_cancelled_total", "Waiting calls that were cancelled."),
    Series(
        "total_rejected_in_queue", "tool_queue_rejected_total", "Waiting calls that were refused."
    ),
    Series("max_concurrent_observed", "tool_concurrent_count_max", "Most slots in use at once."),
    Series("max_queue_length_observed", "tool_queue_length_max", "Most calls waiting at once."),
)
"""By the fields of `ConcurrencyMetrics`."""

LIMIT_SERIES: Final = (
    Series("max_concurrent", "tool_concurrent_limit", "Slots in all."),
    Series("queue_size", "tool_queue_limit", "The most calls that may wait."),
)
"""By the fields of `ConcurrencyConfig`."""

BUCKET_SERIES: Final = (
    Series("current", "tool_bucket_concurrent_count", "Slots of the bucket in use."),
    Series("limit", "tool_bucket_concurrent_limit", "Slots of the bucket, where it is limited."),
    Series("queue", "tool_bucket_queue_length", "Calls that wait for the bucket."),
    Series("leased", "tool_bucket_leased_count", "Units of the cluster that this process has."),
    Series("utilization", "tool_bucket_utilization_ratio", "Slots in use per slot there is."),
)
"""By the keys of `get_bucket_metrics()`; each has the label `bucket`."""

ENGINE_SERIES: Final = (
    Series("tools", "tool_catalog_tools", "Tools that are loaded."),
    Series("load_errors", "tool_catalog_load_errors", "Definitions that could not be loaded."),
)
"""Of the engine itself."""

FLEET_SERIES: Final = (
    Series("node_count", "tool_fleet_nodes", "Machines that the fleet has."),
    Series("workers", "tool_fleet_workers", "Workers of this engine there."),
    Series("waiting", "tool_fleet_waiting_calls", "Calls with a slot that wait for a worker."),
    Series("running", "tool_fleet_running_calls", "Calls that are with a worker."),
)
"""By the fields of `FleetSnapshot`, where the engine has a fleet."""

CLUSTER_SERIES: Final = (
    Series("connected", "tool_cluster_connected", "1: this process has its cluster's database."),
    Series("waiting", "tool_cluster_waiting", "Calls that wait for units of other processes."),
    Series("statements", "tool_cluster_statements_total", "Statements sent to coordinate."),
    Series("lost", "tool_cluster_lost_total", "Calls that ended as `lease_lost`."),
)
"""Of an engine that shares limits: see `ClusterView.count`."""

UP_SERIES: Final = Series(
    "up", "tool_engine_up", "1: the engine could be read; 0: its event loop is blocked."
)


_TIMEOUT: Final = 1.0
"""Seconds for which a reader waits for the event loop."""


class Figures(NamedTuple):
    """The state of an engine at one moment."""

    metrics: Any
    """The controller's `ConcurrencyMetrics`."""
    buckets: dict[str, dict[str, Any]]
    """Its `get_bucket_metrics()`."""
    limits: Any
    """Its `ConcurrencyConfig`."""
    loaded: dict[str, int]
    """`tools` and `load_errors`: how many there are."""
    fleet: Any = None
    """Its `FleetSnapshot`; None: it has no fleet."""
    cluster: Mapping[str, Any] = MappingProxyType({})
    """What this process does in its cluster; empty: it is in none."""


# A controller lives on one event loop and must not be read from elsewhere while that runs.
class EngineReader:
    """Reads an engine from any thread.

    Args:
        engine: What is read.
    """

    def __init__(self, engine: ObservedEngine) -> None:
        self._engine = engine
        self._loop: asyncio.AbstractEventLoop | None = None
        self.meet_loop()

    def meet_loop(self) -> None:
        """Remember the engine's event loop, if it is unknown or was closed."""
        if self._loop is None or self._loop.is_closed():
            self._loop = _running_loop()

    def read(self) -> Figures | None:
        """Return the figures; None if the loop does not answer within a second."""
        loop = self._loop
        if loop is None or not loop.is_running() or loop is _running_loop():
            return self._read_figures()
        answer: concurrent.futures.Future[Figures] = concurrent.futures.Future()
        try:
            loop.call_soon_threadsafe(_fill_answer, answer, self._read_figures)
        except RuntimeError:  # the loop was closed just now
            return self._read_figures()
        try:
            return answer.result(_TIMEOUT)
        except concurrent.futures.TimeoutError:
            answer.cancel()
            return None

    def _read_figures(self) -> Figures:
        engine = self._engine
        # As the engine asks it: what breaks its contract is an error that says so.
        controller = getattr(engine, "_admission", engine.controller)
        loaded = {"tools": len(engine.index), "load_errors": len(engine.load_errors)}
        fleet, view = getattr(engine, "fleet", None), getattr(engine, "cluster", None)
        buckets, cluster = controller.get_bucket_metrics(), {} if view is None else view.count()
        for name, values in buckets.items():
            values["leased"] = cluster.get("units", {}).get(f"bucket:{name}")
        return Figures(
            controller.get_metrics(),
            buckets,
            controller.config,
            loaded,
            None if fleet is None else fleet.snapshot(),
            cluster,
        )


def _fill_answer(
    answer: concurrent.futures.Future[Figures], figures: Callable[[], Figures]
) -> None:
    if not answer.set_running_or_notify_cancel():
        return  # the reader has stopped waiting
    try:
        answer.set_result(figures())
    except Exception as error:  # noqa: BLE001 - raised where it was asked for
        answer.set_exception(error)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
