"""What would have happened to recorded calls under other limits?

The calls of a trace ask for slots at their recorded times and run as long as they ran; the
controller is the real one, on a virtual clock.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from tool_engine.admission.controller import ToolConcurrencyController
from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.config import ConcurrencyConfig, checked_concurrency
from tool_engine.errors import AdmissionError, ConfigurationError
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.checks.setting_kinds import check_object
from tool_engine.model.record import ToolCallRecord
from tool_engine.testing.figures import RunFigures
from tool_engine.testing.services import Service, Services, Station
from tool_engine.testing.trace import Trace, TraceCall
from tool_engine.testing.virtual_loop import run

_OUTCOMES: Final[Mapping[str | None, bool]] = {
    None: True,
    "execution_error": False,
    "timeout": False,
}
"""Call ends that breakers count; other ends are not reported to them."""


class SimulationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded run beside the simulated one."""

    config: ConcurrencyConfig
    """The limits of the simulation."""
    seed: int
    original: RunFigures
    simulated: RunFigures
    original_calls: tuple[TraceCall, ...]
    """The recorded calls; the first one asks at 0.0 seconds."""
    simulated_calls: tuple[TraceCall, ...]
    """The same calls, in the same order, under the limits of the simulation."""
    notes: tuple[str, ...] = ()
    """Limits of the figures, such as service times that had to be estimated."""

    def to_dict(self) -> dict[str, Any]:
        """Return limits, figures and notes as JSON values, without the single calls."""
        config = msgspec.to_builtins(self.config)
        config["bypass_caller_types"] = sorted(self.config.bypass_caller_types)
        return {
            "config": config,
            "seed": self.seed,
            "original": self.original.to_dict(),
            "simulated": self.simulated.to_dict(),
            "notes": list(self.notes),
        }


def simulate(
    trace: Trace | Iterable[TraceCall | ToolCallRecord],
    config: ConcurrencyConfig | None = None,
    *,
    seed: int = 0,
    services: Services | None = None,
) -> SimulationReport:
    """Replay recorded calls under other limits, on a virtual clock.

    The same trace, limits and seed give the same report. It takes processor time: in a coroutine,
    call it with `await asyncio.to_thread(simulate, ...)`.

    Args:
        trace: Calls or records.
        config: The limits and the strategy.
        seed: 0: what happens at the same instant happens in the order of the trace. Any other
            number shuffles it: a figure that changes with the seed depends on luck.
        services: What `learn_services` found in these calls: each runs as the service behind it
            would run it beside those of the simulation. None: as long as it ran.

    Raises:
        ConfigurationError: The trace holds no calls, or none that ran, or an argument is of the
            wrong kind.

    Example:
        >>> report = simulate(read_trace("calls.jsonl"), ConcurrencyConfig(max_concurrent=4))
        >>> report.simulated.total.wait_p90
    """
    limits = ConcurrencyConfig() if config is None else checked_concurrency(config, "config")
    check_object("seed", seed, int, "seed=1")
    if services is not None:
        check_object("services", services, Services, "learn_services(trace)")
    if not isinstance(trace, Trace):
        check_object("trace", trace, Iterable, "calls, records or read_trace(FILE)")
    found = trace if isinstance(trace, Trace) else Trace.of(trace)
    if not found.calls:
        raise ConfigurationError("the trace holds no calls; nothing can be simulated")
    begin = found.calls[0].enqueued_at
    calls = tuple(_shift_call(call, begin) for call in found.calls)
    medians = _median_services(calls)
    replay = _Replay(calls, medians, limits, services)
    replayed = run(replay.run(), seed=seed or None)
    unlimited = limits.bypass_caller_types
    return SimulationReport(
        config=limits,
        seed=seed,
        original=RunFigures.of(calls, None, unlimited),
        simulated=RunFigures.of(replayed, partial(_slots_of, limits), unlimited),
        original_calls=calls,
        simulated_calls=tuple(replayed),
        notes=tuple(_list_notes(found, medians, limits, services)),
    )


class _Replay:
    """The calls of a trace under other limits, on the clock of the running loop."""

    def __init__(
        self,
        calls: tuple[TraceCall, ...],
        medians: Mapping[str | None, float],
        config: ConcurrencyConfig,
        services: Services | None,
    ) -> None:
        self._calls, self._medians = calls, medians
        self._config = msgspec.structs.replace(config, cluster=None)  # one process alone
        self._works = (None,) * len(calls) if services is None else services.works
        known = {} if services is None else services.by_bucket
        self._stations = {bucket: Station(service) for bucket, service in known.items()}

    async def run(self) -> list[TraceCall]:
        loop = asyncio.get_running_loop()
        self._controller = ToolConcurrencyController(self._config, clock=loop.time)
        async with asyncio.TaskGroup() as group:
            tasks = []
            for call, work in zip(self._calls, self._works, strict=True):
                if call.enqueued_at > loop.time():
                    # Not `sleep`, which adds up rounding errors: the very time of the trace.
                    due = loop.create_future()
                    loop.call_at(call.enqueued_at, due.set_result, None)
                    await due
                tasks.append(group.create_task(self._run_call(call, work)))
        self._controller.close()
        return [task.result() for task in tasks]

    async def _run_call(self, call: TraceCall, work: float | None) -> TraceCall:
        loop, controller = asyncio.get_running_loop(), self._controller
        asked = loop.time()
        options: dict[str, Any] = {} if call.key is None else {"key": call.key}
        if call.caller_type in controller.config.bypass_caller_types:
            options["context"] = ToolExecutionContext(caller_type=call.caller_type)
        try:
            slot = await controller.acquire(
                call.bucket, priority=call.priority, weight=call.weight, **options
            )
        except AdmissionError as error:
            return _replace_times(call, asked, None, loop.time(), error.error_type)
        started = loop.time()
        station = self._stations.get(call.bucket)
        was_refused = station is not None and station.is_full
        # A call that was refused then and runs now has no error that is known of.
        is_new = call.service is None or (station is not None and call.was_refused)
        kept = None if is_new else call.error_type
        if station is None:
            service = call.service
            await asyncio.sleep(self._medians[call.bucket] if service is None else service)
        elif was_refused:
            kept = "execution_error"
            await self._refuse_call(slot, call.bucket, station.service)
        else:
            await station.work(self._estimate_work(call, station) if work is None else work)
        controller.release(slot, outcome=_OUTCOMES.get(kept))
        ended = _replace_times(call, asked, started, loop.time(), kept)
        return msgspec.structs.replace(ended, was_refused=was_refused) if station else ended

    def _estimate_work(self, call: TraceCall, station: Station) -> float:
        """Return how long a call would have run that had no slot, or was refused."""
        known = station.service.works
        if call.tool_name in known:
            return known[call.tool_name]
        return statistics.median(known.values()) if known else self._medians.get(call.bucket, 0.0)

    async def _refuse_call(
        self, slot: ConcurrencySlot, bucket: str | None, service: Service
    ) -> None:
        """Let the service refuse a call, and ask for the pause that it is known to ask for."""
        await asyncio.sleep(service.refusal_time)
        self._controller.note_overload(slot)
        if bucket is not None and service.pause:
            self._controller.pause_bucket(bucket, service.pause)


def _replace_times(
    call: TraceCall,
    enqueued_at: float,
    started_at: float | None,
    ended_at: float,
    error_type: str | None,
) -> TraceCall:
    return msgspec.structs.replace(
        call,
        enqueued_at=enqueued_at,
        started_at=started_at,
        ended_at=ended_at,
        error_type=error_type,
        was_refused=call.was_refused and started_at is not None,
    )


def _shift_call(call: TraceCall, begin: float) -> TraceCall:
    started = call.started_at
    return _replace_times(
        call,
        round(call.enqueued_at - begin, 6),
        None if started is None else round(started - begin, 6),
        round(call.ended_at - begin, 6),
        call.error_type,
    )


def _slots_of(config: ConcurrencyConfig, bucket: str | None) -> int:
    most = config.max_concurrent
    return most if bucket is None else min(config.bucket_limits.get(bucket, most), most)


def _median_services(calls: Iterable[TraceCall]) -> dict[str | None, float]:
    """Return the estimated run time of calls that never ran, per bucket."""
    services: dict[str | None, list[float]] = {}
    unknown: dict[str | None, None] = {}
    for call in calls:
        if call.service is None:
            unknown[call.bucket] = None
        else:
            services.setdefault(call.bucket, []).append(call.service)
    everything = [service for each in services.values() for service in each]
    if unknown and not everything:
        raise ConfigurationError(
            "no call of the trace ever ran, so that nothing says how long one takes; record calls "
            "while the limits let some of them through"
        )
    return {bucket: statistics.median(services.get(bucket, everything)) for bucket in unknown}


def _list_notes(
    trace: Trace,
    medians: Mapping[str | None, float],
    config: ConcurrencyConfig,
    services: Services | None,
) -> Iterable[str]:
    calls = trace.calls
    if medians:
        never = sum(call.started_at is None for call in calls)
        each_median = ", ".join(
            f"{bucket or 'no bucket'} {each:g} s" for bucket, each in medians.items()
        )
        yield (
            f"recorded calls that never ran: {never}; how long they would have run is estimated as "
            f"the median of their bucket: {each_median}"
        )
    if any(call.error_type == "queue_timeout" and not call.wait for call in calls):
        yield (
            "the trace does not say how long the calls that ended as queue_timeout had waited; "
            "they ask when they gave up"
        )
    nested = sum(call.parent_call_id is not None for call in calls)
    if nested:
        yield (
            f"calls made by other calls: {nested}; they are replayed on their own, and those that "
            "made them keep their slots meanwhile"
        )
    if trace.left_out:
        yield f"recorded calls that never asked for a slot and are left out: {trace.left_out}"
    if config.adaptive and services is None:
        yield (
            f"adaptive limits ({', '.join(sorted(config.adaptive))}) learn from times as they were "
            "recorded, which do not grow with the limit as those of a busy service do"
        )
    yield from _unused_limits(trace, config)


def _unused_limits(trace: Trace, config: ConcurrencyConfig) -> Iterable[str]:
    buckets = {call.bucket for call in trace.calls if call.bucket is not None}
    for name in sorted(config.bucket_limits.keys() - buckets):
        hint = suggest_near(name, buckets) or f"; it has {', '.join(sorted(buckets)) or 'none'}"
        yield f"no call of the trace has the bucket {name!r}{hint}"
    is_keyed = config.strategy == "fair" or config.key_limits is not None
    if is_keyed and all(call.key is None for call in trace.calls):
        yield "no call of the trace has a key, so that limits and shares of keys change nothing"
