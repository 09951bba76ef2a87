"""Which limits would have served recorded calls better, and how sure is that?

Each limit that comes into question is simulated on the recorded calls, with services that behave
as the records show. Proposed is the smallest under which calls hardly wait longer than under the
best, and services refuse no more than they must.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.record import ToolCallRecord
from tool_engine.model.settings.limit_proposal import (
    Certainty,
    LimitPoint,
    LimitProposal,
    LimitProposals,
    show_wait,
)
from tool_engine.testing.figures import NO_BUCKET, Figures, most_at_once
from tool_engine.testing.services import Service, Services, learn_services
from tool_engine.testing.simulation import simulate
from tool_engine.testing.trace import Trace, TraceCall

FEWEST_CALLS: Final = 50
"""Calls of a bucket that must have run for a proposal; of fewer a percentile is luck."""
_MANY_CALLS: Final = 200
_MOST_TIMES_NOW: Final = 2
"""Times the limit of now, beyond which nothing is proposed: into the unknown goes a step a time."""
_JITTER: Final = 0.001
"""Shorter overlaps in seconds are not certain: records are dated to the millisecond."""
_NEAR: Final = 0.15
"""A limit whose calls take longer by less than this share, and by less than this part of a call's
time, is as good: many more slots for a twentieth less is a bad bargain."""
_OFF: Final = 0.1
"""A replay of the present limits that is further from what was recorded is not trusted."""


def propose_limits(
    trace: Trace | Iterable[TraceCall | ToolCallRecord],
    config: ConcurrencyConfig | None = None,
    *,
    buckets: Iterable[str] | None = None,
    seed: int = 0,
) -> LimitProposals:
    """Propose limits for the buckets of recorded calls.

    It takes processor time, about that of ten simulations for each bucket: in a coroutine, call it
    with `await asyncio.to_thread(propose_limits, ...)`.

    Args:
        trace: Calls or records of one engine.
        config: The limits under which they were made. None: what they show of them, which is the
            most calls at once.
        buckets: Those that a limit is wanted for; None: all with enough calls.
        seed: As for `simulate`.

    Raises:
        ConfigurationError: A bucket is not there, or too few calls of it, or of any, ran.

    Example:
        >>> found = propose_limits(await engine.query_call_records(limit=1000))
        >>> print(found.proposals[0])
        http 8 -> 12: p95 wait 1.9 -> 0.3 s, provider refusals +0
    """
    found = trace if isinstance(trace, Trace) else Trace.of(trace)
    ran = _group_ran(found)
    wanted = _choose_buckets(ran, buckets)
    present = infer_limits(found) if config is None else config
    services = learn_services(found.calls)
    bench = _Bench(found, present, services, seed)
    proposals = tuple(
        _propose_limit(bench, bucket, ran[bucket], is_known=config is not None) for bucket in wanted
    )
    left = {bucket: len(calls) for bucket, calls in ran.items() if len(calls) < FEWEST_CALLS}
    return LimitProposals(
        proposals=proposals,
        calls=len(found.calls),
        notes=tuple(_list_notes(found, left if buckets is None else {}, is_known=bool(config))),
    )


def _choose_buckets(ran: Mapping[str, list[TraceCall]], buckets: Iterable[str] | None) -> list[str]:
    enough = sorted(name for name, calls in ran.items() if len(calls) >= FEWEST_CALLS)
    cure = "record more calls, or take more of them"
    if buckets is None:
        if not enough:
            counts = ", ".join(f"{name} {len(calls)}" for name, calls in sorted(ran.items()))
            raise ConfigurationError(
                f"too few calls ran for a proposal ({counts or 'none of a bucket'}), and "
                f"a bucket needs {FEWEST_CALLS}; {cure}"
            )
        return enough
    wanted = [*dict.fromkeys(buckets)]
    for name in wanted:
        if name not in ran:
            hint = suggest_near(name, ran) or f"; there are {', '.join(sorted(ran)) or 'none'}"
            raise ConfigurationError(f"no recorded call of the bucket {name!r} ran{hint}")
        if name not in enough:
            raise ConfigurationError(
                f"{len(ran[name])} recorded calls of the bucket {name!r} ran, too few for a "
                f"proposal, which needs {FEWEST_CALLS}; {cure}"
            )
    return wanted


def infer_limits(trace: Trace) -> ConcurrencyConfig:
    """Return what recorded calls show of their limits: the most of each bucket at once.

    They do not show the limit of all, nor when a call was refused for want of room in the queue.
    """
    limits = {bucket: max(1, _find_peak(calls)) for bucket, calls in _group_ran(trace).items()}
    return ConcurrencyConfig(
        max_concurrent=max(1, _find_peak(trace.calls), sum(limits.values())),
        bucket_limits=limits,
        queue_size=1_000_000,
        queue_timeout=None,
    )


def _group_ran(trace: Trace) -> dict[str, list[TraceCall]]:
    """Return the calls that ran, by bucket."""
    ran: dict[str, list[TraceCall]] = {}
    for call in trace.calls:
        if call.bucket is not None and call.started_at is not None:
            ran.setdefault(call.bucket, []).append(call)
    return ran


def _find_peak(calls: Iterable[TraceCall]) -> int:
    held = [
        (each.started_at, each.ended_at, each.weight)
        for each in calls
        if each.started_at is not None
    ]
    return most_at_once(held, _JITTER)


class _Bench:
    """Simulates one limit after the other, each once."""

    def __init__(
        self, trace: Trace, config: ConcurrencyConfig, services: Services, seed: int
    ) -> None:
        self.trace, self.config, self.services, self._seed = trace, config, services, seed
        self._points: dict[tuple[str, int | None], LimitPoint] = {}

    def limit_of(self, bucket: str) -> int:
        """Return the limit of now: of an adaptive one, the largest."""
        config = self.config
        adaptive = config.adaptive.get(bucket)
        limit = config.bucket_limits.get(bucket, config.max_concurrent)
        return min(adaptive.max if adaptive else limit, config.max_concurrent)

    def try_now(self, bucket: str) -> LimitPoint:
        """Return what comes of the present configuration."""
        return self._try_config(bucket, None, self.limit_of(bucket), self.config)

    def try_limit(self, bucket: str, limit: int) -> LimitPoint:
        """Return what comes of a limit that stays, where all else is as now."""
        config = self.config
        others = {name: each for name, each in config.adaptive.items() if name != bucket}
        changed = msgspec.structs.replace(
            config,
            max_concurrent=max(config.max_concurrent, limit),
            bucket_limits={**config.bucket_limits, bucket: limit},
            adaptive=others,
        )
        return self._try_config(bucket, limit, limit, changed)

    def list_points(self, bucket: str) -> list[LimitPoint]:
        found = (each for (name, limit), each in self._points.items() if name == bucket and limit)
        return sorted(found, key=lambda each: each.limit)

    def _try_config(
        self, bucket: str, key: int | None, limit: int, config: ConcurrencyConfig
    ) -> LimitPoint:
        if (bucket, key) not in self._points:
            report = simulate(self.trace, config, seed=self._seed, services=self.services)
            calls = [each for each in report.simulated_calls if each.bucket == bucket]
            self._points[bucket, key] = _describe_point(calls, limit)
        return self._points[bucket, key]


def _describe_point(calls: list[TraceCall], limit: int) -> LimitPoint:
    figures = Figures.of(calls, limit)
    refused = sum(each.was_refused for each in calls)
    served = figures.ran - refused
    times = sorted(
        each.ended_at - each.enqueued_at
        for each in calls
        if each.started_at is not None and not each.was_refused
    )
    return LimitPoint(
        limit=limit,
        wait_p50=figures.wait_p50,
        wait_p95=figures.wait_p95,
        time_p95=round(times[math.ceil(0.95 * len(times)) - 1], 6) if times else 0.0,
        throughput=round(served / figures.makespan, 3) if figures.makespan else 0.0,
        refused_by_service=refused,
        rejected=figures.calls - figures.ran,
    )


def _propose_limit(
    bench: _Bench, bucket: str, ran: list[TraceCall], *, is_known: bool
) -> LimitProposal:
    service, limit = bench.services.by_bucket[bucket], bench.limit_of(bucket)
    calls = [each for each in bench.trace.calls if each.bucket == bucket]
    demand = most_at_once([(each.enqueued_at, each.ended_at, each.weight) for each in calls])
    most = max(min(demand, _MOST_TIMES_NOW * limit), 1)
    now = bench.try_now(bucket)
    typical = max(service.works.values(), default=0.0)
    for each in _list_candidates(limit, most, service):
        bench.try_limit(bucket, each)
    then = _choose_point(bench.list_points(bucket), limit, typical)
    if limit < then.limit:
        then = _shrink_step(bench, bucket, then, typical)
    if _is_as_good(now, then, typical):
        then = now
    unknown = tuple(_list_unknown(bench, bucket, now, then, ran, is_known=is_known))
    return LimitProposal(
        bucket=bucket,
        limit=then.limit,
        now=now,
        then=then,
        calls=len(ran),
        reason=_explain_choice(now, then, service, demand, most),
        certainty=_judge_certainty(service, then.limit, now.limit, len(ran), len(unknown)),
        unknown=unknown,
        curve=tuple(bench.list_points(bucket)),
    )


def _list_candidates(limit: int, most: int, service: Service) -> list[int]:
    """Return limits from one to the most that makes a difference, closer around those of note."""
    found = {1, min(limit, most), most}
    step = 1
    while step < most:
        found |= {step, min(most, step + step // 2)}
        step *= 2
    known = (service.places, service.speed_limit)
    return sorted(found | {each for each in known if each is not None and each <= most})


def _choose_point(points: list[LimitPoint], limit: int, typical: float) -> LimitPoint:
    """Return the limit nearest to the one of now that is as good as the best."""
    least = min(each.refused_by_service + each.rejected for each in points)
    kept = [each for each in points if each.refused_by_service + each.rejected == least]
    best = min(kept, key=lambda each: each.time_p95)
    good = [each for each in kept if _is_as_good(each, best, typical)]
    return min(good, key=lambda each: abs(each.limit - limit))


def _shrink_step(bench: _Bench, bucket: str, then: LimitPoint, typical: float) -> LimitPoint:
    """Return the smallest limit between the one found and the one tried before it."""
    below = max(
        (each.limit for each in bench.list_points(bucket) if each.limit < then.limit), default=0
    )
    while then.limit - below > 1:
        middle = bench.try_limit(bucket, (below + then.limit) // 2)
        if _is_as_good(middle, then, typical):
            then = middle
        else:
            below = middle.limit
    return then


def _is_as_good(one: LimitPoint, other: LimitPoint, typical: float) -> bool:
    lost = one.refused_by_service + one.rejected - other.refused_by_service - other.rejected
    return lost <= 0 and one.time_p95 <= other.time_p95 * (1 + _NEAR) + _NEAR * typical


def _explain_choice(
    now: LimitPoint, then: LimitPoint, service: Service, demand: int, most: int
) -> str:
    if then is now:
        return f"another limit serves no call sooner; at most {demand} were there at once"
    if then.limit < now.limit:
        if service.places is not None:
            return (
                f"the service takes {service.places} at once: more are refused, and each refusal "
                f"stops the bucket for {show_wait(service.pause)} s"
            )
        return "more at once lose calls, and serve none sooner"
    if then.limit == most < demand:
        return (
            f"calls wait that this many more serve; up to {demand} were there at once, and further "
            "than this the records say nothing"
        )
    if service.speed_limit is not None and then.limit >= service.speed_limit:
        return f"from {service.speed_limit} at once on the service is not faster in all"
    return f"calls wait for slots while the service would take more; up to {demand} were there"


def _list_unknown(
    bench: _Bench,
    bucket: str,
    now: LimitPoint,
    then: LimitPoint,
    ran: list[TraceCall],
    *,
    is_known: bool,
) -> Iterator[str]:
    service, recorded = bench.services.by_bucket[bucket], Figures.of(ran)
    if not is_known:
        yield f"the limit of now: taken for {now.limit}, the most that ran at once"
    off = abs(now.wait_p95 - recorded.wait_p95)
    if off > _OFF * max(recorded.wait_p95, now.wait_p95) + _JITTER * 20:
        yield (
            f"what else held calls up: under {now.limit} they would have waited "
            f"{show_wait(now.wait_p95)} s (95 %), and did {show_wait(recorded.wait_p95)} s"
        )
    if then.limit > service.most and then is not now:
        yield (
            f"how fast {then.limit} at once are, and whether the service takes them: the records "
            f"show {service.fewest} to {service.most}"
        )
    elif service.fewest == service.most > then.limit:
        yield f"how fast fewer at once are: the records show {service.most} only"
    if service.refusals and service.places is None:
        yield (
            f"when the service refuses: {service.refusals} calls were, and not from one number at "
            "once on; the simulation has none"
        )
    if bucket in bench.config.adaptive:
        adaptive = bench.config.adaptive[bucket]
        yield (
            f"what the adaptive limit ({adaptive.min} to {adaptive.max}) would have learned; it "
            "was simulated, and the proposal is the best that stays"
        )
    if any(each.parent_call_id is not None for each in ran):
        yield "that calls made by others come when those run: they come when they came"
    yield "whether callers would ask sooner, or again"


def _judge_certainty(service: Service, limit: int, now: int, calls: int, unknown: int) -> Certainty:
    is_seen = limit == now or limit <= service.most
    if calls < _MANY_CALLS or not (is_seen or limit <= 2 * service.most):
        return "low"
    if is_seen:
        return "high" if unknown <= 1 else "medium"
    # Times that did not grow with the number of calls hardly begin to just now.
    return "medium" if service.fewest * 2 <= service.most else "low"


def _list_notes(trace: Trace, few: Mapping[str, int], *, is_known: bool) -> Iterator[str]:
    for bucket, count in sorted(few.items()):
        yield f"too few calls of {bucket} ran for a proposal: {count}, and it needs {FEWEST_CALLS}"
    if any(call.bucket is None for call in trace.calls):
        yield f"calls without a bucket ({NO_BUCKET}) only count against the limit of all"
    if not is_known:
        yield "the limit of all buckets together is not known, and taken for no bound"
