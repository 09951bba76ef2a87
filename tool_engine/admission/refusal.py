"""Why is a call refused instead of made to wait, and what can be done about it?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tool_engine.admission.breaker import CircuitBreaker
from tool_engine.admission.key import name_key
from tool_engine.admission.lines import Lane, ToolLine
from tool_engine.admission.reasons import GOES_ON, Reason
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.waiting import Waiter
from tool_engine.config import ConcurrencyConfig, checked_concurrency
from tool_engine.errors import (
    AdmissionError,
    CircuitOpenError,
    ConfigurationError,
    ControllerClosedError,
    QueueFullError,
    QueueTimeoutError,
    RateLimitedError,
    SlotRejectedError,
    SupersededError,
    ToolEngineError,
)
from tool_engine.interfaces.checking import check_part
from tool_engine.interfaces.lease_source import LeaseSource
from tool_engine.model.checks.setting_kinds import check_function
from tool_engine.model.settings.concurrency import CollisionPolicy, OverloadPolicy

_CLOSED: Final = {
    "closed": "the controller is closed and gives no more slots",
    "draining": "the controller is draining and takes no new calls; call resume() to go on",
}


def checked_parts(given: object, clock: object, leases: object) -> ConcurrencyConfig:
    """Return the limits of a new controller; None: as in a new configuration.

    Raises:
        ConfigurationError: An argument is of the wrong kind, or as `checked_limits`.
    """
    check_function("clock", clock, "that returns seconds")
    if leases is not None:
        check_part("leases", leases, LeaseSource)
    return checked_limits(ConcurrencyConfig() if given is None else given, leases)


def checked_limits(given: object, leases: object) -> ConcurrencyConfig:
    """Return the limits of a controller.

    Raises:
        ConfigurationError: They are none, or of a cluster where nothing shares them.
    """
    config = checked_concurrency(given, "config")
    if config.cluster is not None and leases is None:
        raise ConfigurationError(
            "a controller without an engine shares no limits, and its config has a cluster; give "
            "the config to an engine, ToolEngine(concurrency=config), and use engine.controller, "
            "or leave cluster out"
        )
    return config


def make_attached_error() -> ConfigurationError:
    """It has an engine already."""
    return ConfigurationError(
        "the controller admits the calls of another engine, which would close it; make one for "
        "each engine"
    )


def make_accounting_error(slot: object) -> ToolEngineError:
    """More was given back than was taken: a counter that were clamped would hide the leak."""
    return ToolEngineError(f"{slot!r} was given back twice: the accounting is broken")


def make_closed_error(because: str) -> AdmissionError:
    """The controller gives no slots to new calls; it says any other reason as it is."""
    return ControllerClosedError(_CLOSED.get(because, because))


def make_flooded_error(zombies: int) -> AdmissionError:
    """Too many slots are held by work that did not stop at its deadline."""
    return SlotRejectedError(
        f"{zombies} calls ended but their work still runs and holds their slots; let the tools "
        "react to cancellation, or raise max_zombies"
    )


def find_impossible(
    request: AdmissionRequest, lane: Lane, max_concurrent: int
) -> AdmissionError | None:
    """The call is heavier than a limit, so that no wait would ever end."""
    if request.weight == 1:
        return None
    limits = {"max_concurrent": max_concurrent}
    if (largest := lane.bucket.largest) is not None:
        limits[f"the limit of bucket {lane.bucket.name!r}"] = largest
    if lane.bucket.lease is not None and (shared := lane.bucket.lease.shared_limit) is not None:
        limits[f"the limit of bucket {lane.bucket.name!r} in its cluster"] = shared
    keys = {name_key(key.name): key.limit for key in lane.keys}
    limits |= {f"the limit of {name}": limit for name, limit in keys.items() if limit is not None}
    for name, limit in limits.items():
        if request.weight > limit:
            return SlotRejectedError(
                f"a call of weight {request.weight} can never run: {name} is {limit}; "
                "lower the weight or raise the limit"
            )
    return None


def find_open_breaker(lane: Lane, now: float) -> AdmissionError | None:
    """A breaker is open, or its probes are out."""
    for breaker in lane.breakers:
        delay = breaker.delay(now)
        if delay > 0:
            return CircuitOpenError(
                f"the circuit breaker of {_describe_breaker(lane, breaker)} is open: calls failed "
                f"{breaker.policy.failures} times in a row; the next one may be tried in "
                f"{delay:.3g} s",
                retry_after=delay,
            )
    return None


def make_probe_error(lane: Lane, breaker: CircuitBreaker) -> AdmissionError:
    """A breaker that processes share is being tried by as many calls as may."""
    delay = breaker.policy.reset_after
    return CircuitOpenError(
        f"the circuit breaker of {_describe_breaker(lane, breaker)} is open in all processes that "
        f"share it, and as many calls try it as may; the next one may be tried in {delay:.3g} s",
        retry_after=delay,
    )


def make_late_error(
    lane: Lane, waited: float, policy: OverloadPolicy, wait: float
) -> AdmissionError:
    """The bucket has been overloaded for a while, and the call's turn comes too late."""
    return SlotRejectedError(
        f"bucket {lane.bucket.name!r} is overloaded: for {policy.interval:g} s no call has waited "
        f"less than {policy.target:g} s, and this one has waited {waited:.3g} s; try again later, "
        "make fewer calls at once, or raise the limits, or the target of its overload policy",
        retry_after=wait,
    )


def make_collision_error(request: AdmissionRequest) -> AdmissionError:
    """Another call with the same key runs or waits, and the policy is not to wait."""
    message = (
        f"another call of {request.tool_name!r} with the same key runs or waits, and its collision "
        f"policy is {request.collision.value!r}; wait for that call, or use the policy 'queue'"
    )
    if request.collision is CollisionPolicy.REJECT:
        return SlotRejectedError(message)
    return SupersededError(message)


def make_superseded_error(request: AdmissionRequest) -> AdmissionError:
    """A newer call with the same key takes the place of one that waits."""
    return SupersededError(
        f"a newer call of {request.tool_name!r} with the same key took the place of this one, as "
        f"its collision policy {request.collision.value!r} says"
    )


def find_delay(waiter: Waiter, now: float) -> float:
    """Return for how many seconds rates and pauses let a call not start, also shared ones."""
    delay: float = waiter.lane.delay_of(waiter, now)
    lease = waiter.lane.bucket.lease
    return delay if delay > 0 or lease is None else lease.desk.source.find_delay(waiter)


def make_too_fast_error(waiter: Waiter, delay: float) -> AdmissionError:
    """Rate or pause allow no call now, and the strategy is not to wait."""
    return RateLimitedError(
        f"{_describe_pace(waiter)} allows no call for another {delay:.2f} s; call less often, "
        "or use the "
        "strategy 'fifo' to wait",
        retry_after=delay,
    )


def make_expired_error(
    waiter: Waiter, delay: float, reason: Reason, others: tuple[int, int], wait: float | None
) -> AdmissionError:
    """Rate, pause or limits let the call not start as long as it may wait.

    Args:
        waiter: The call.
        delay: Seconds for which rate or pause go on to hold it up.
        reason: What holds it up otherwise.
        others: How many calls wait more, and how many slots outlived their calls.
        wait: Seconds that the next one is likely to wait.
    """
    waited, bucket = waiter.timeout, waiter.lane.bucket.name
    if delay > 0:
        return RateLimitedError(
            f"waited {waited:g} s in bucket {bucket!r}, but {_describe_pace(waiter)} allows no "
            f"call for another {delay:.2f} s; call less often or raise the rate",
            retry_after=delay,
        )
    waiting, zombies = others
    held = f", {zombies} slots are held by work that outlived its call" if zombies else ""
    cause = "" if reason.text is GOES_ON else f": {reason.describe_cause(waiter)}"
    return QueueTimeoutError(
        f"waited {waited:g} s for a slot in bucket {bucket!r} ({waiting} more waiting{held})"
        f"{cause}; raise queue_timeout or the limit that is full, or make fewer calls at once",
        retry_after=wait,
    )


def make_no_room_error(
    lane: Lane, used: int, max_concurrent: int, wait: float | None
) -> AdmissionError:
    """No slot is free, and the strategy is not to wait."""
    bucket = lane.bucket
    limit, is_shared = max_concurrent if bucket.limit is None else bucket.limit, False
    if bucket.lease is not None and bucket.lease.is_shared:
        limit, is_shared = bucket.lease.shared_limit, True
    keys = "".join(
        f", {_count_used(each.used, each.limit, is_shared=each.resource is not None)} for "
        f"{name_key(each.name)}"
        for each in lane.keys
        if each.limit is not None
    )
    in_use = _count_used(bucket.used, limit, is_shared=is_shared)
    return SlotRejectedError(
        f"no slot is free in bucket {bucket.name!r} ({in_use} in use, "
        f"{used} of {max_concurrent} in all{keys}) and the strategy is 'reject'; try again later, "
        "raise the limit, or use the strategy 'fifo' to wait",
        retry_after=wait,
    )


def _count_used(used: int, limit: int, *, is_shared: bool) -> str:
    return f"{used} here of {limit} of all processes" if is_shared else f"{used} of {limit}"


def make_full_error(
    lane: Lane, waiting: int, size: int, of_bucket: int, wait: float | None
) -> AdmissionError:
    """As many calls wait as may."""
    return QueueFullError(
        f"the queue is full ({waiting} of {size} waiting, {of_bucket} of them for bucket "
        f"{lane.bucket.name!r}); try again later, raise queue_size, or raise the limits",
        retry_after=wait,
    )


def make_crowded_error(
    owner: str, waiting: int, size: int, setting: str, wait: float | None
) -> AdmissionError:
    """As many calls of a bucket or a key wait as may."""
    return QueueFullError(
        f"the queue of {owner} is full ({waiting} of {size} waiting); try again later, raise "
        f"{setting}, or raise the limits",
        retry_after=wait,
    )


def is_strict(waiter: Waiter, config: ConcurrencyConfig, queued: int) -> bool:
    """Whether `to_wait` could refuse: a cheap look for what nearly never is."""
    lane: Lane = waiter.lane
    return bool(
        queued > config.queue_size
        or config.strategy == "reject"
        or lane.bucket.queue_size is not None
        or lane.keys
    )


def refuse_to_wait(
    waiter: Waiter,
    config: ConcurrencyConfig,
    queued: int,
    used: int,
    now: float,
    estimate: Callable[[], float | None],
    asking: Callable[[object], int],
) -> AdmissionError | None:
    """Why a call that cannot run now may not wait either; it stands in line already.

    Args:
        waiter: The call.
        config: The limits.
        queued: How many stand in line, itself among them.
        used: How many units of the limit in all are in use.
        now: The time on the controller's clock.
        estimate: Returns the seconds until it may have a slot, as far as that can be known.
        asking: How many of those that ask for units of a bucket or a key count as waiting.
    """
    lane: Lane = waiter.lane
    bucket = lane.bucket
    if config.strategy == "reject":
        delay = find_delay(waiter, now)
        if delay > 0:
            return make_too_fast_error(waiter, delay)
        return make_no_room_error(lane, used, config.max_concurrent, estimate())
    if queued > config.queue_size:
        of_bucket = bucket.waiting - bucket.aside - 1
        return make_full_error(lane, queued - 1, config.queue_size, of_bucket, estimate())
    if bucket.queue_size is not None:
        waiting = bucket.waiting - bucket.aside + asking(bucket.name)
        if waiting > bucket.queue_size:
            owner, most = f"bucket {bucket.name!r}", bucket.queue_size
            return make_crowded_error(owner, waiting - 1, most, "bucket_queue_sizes", estimate())
    size = None if config.key_limits is None else config.key_limits.queue_size
    for key in lane.keys:
        scope, value = key.name
        if size is None or scope or value is None:
            continue
        if (waiting := key.waiting - key.aside + asking(key.name)) > size:
            owner = f"key {value!r}"
            return make_crowded_error(owner, waiting - 1, size, "key_limits.queue_size", estimate())
    return None


def _describe_breaker(lane: Lane, breaker: CircuitBreaker) -> str:
    above = lane.above
    if isinstance(above, ToolLine) and above.breaker is breaker:
        return f"tool {above.counts.name!r}"
    return f"bucket {lane.bucket.name!r}"


def _describe_pace(waiter: Waiter) -> str:
    lane, lease = waiter.lane, waiter.lane.bucket.lease
    throttles = list(lane.throttles)
    if lease is not None and lease.throttle is not None:
        throttles.append(lease.throttle)
    rates = " and ".join(dict.fromkeys(str(throttle.rate) for throttle in throttles))
    if lane.bucket.paused_until is not None or not rates:
        return f"the pause of bucket {lane.bucket.name!r}"
    return f"the rate of {rates} in bucket {lane.bucket.name!r}"
