"""Which concurrency does a definition describe, and does it make sense?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tool_engine.catalog.definition.fault import Fault, list_names
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.model.settings.concurrency import (
    SINGLE_FLIGHT_LIMIT,
    BreakerPolicy,
    ToolConcurrency,
    ToolRate,
    key_limit_too_small,
)


def concurrency_faults(definition: Mapping[str, Any]) -> list[Fault]:
    spec = definition.get("concurrency")
    if not isinstance(spec, dict):
        return []
    return [
        *_key_faults(spec.get("key"), definition.get("parameters", [])),
        *_limit_faults(spec),
        *_sharing_faults(spec.get("collision"), definition),
    ]


def rate_faults(rate: Any) -> list[Fault]:
    try:
        ToolRate.parse(rate)
    except ValueError as error:
        return [Fault(("rate",), str(error))]
    return []


def build_concurrency(spec: Mapping[str, Any]) -> ToolConcurrency:
    values = _whole_numbers(
        spec, whole=("priority", "weight", "key_limit"), seconds="queue_timeout"
    )
    if "breaker" in spec:
        policy = _whole_numbers(
            spec["breaker"], whole=("failures", "probes"), seconds="reset_after"
        )
        values["breaker"] = BreakerPolicy(**policy)
    return ToolConcurrency(**values)


def _whole_numbers(
    spec: Mapping[str, Any], *, whole: tuple[str, ...], seconds: str
) -> dict[str, Any]:
    """Return a copy with 2.0, whole in JSON, as 2."""
    values = {key: int(value) if key in whole else value for key, value in spec.items()}
    if seconds in values:
        values[seconds] = float(values[seconds])
    return values


def _key_faults(key: Any, parameters: Any) -> list[Fault]:
    if (
        not isinstance(key, str)
        or not key.startswith("params.")
        or not isinstance(parameters, list)
    ):
        return []
    name = key.removeprefix("params.")
    names = [each.get("name") for each in parameters if isinstance(each, dict)]
    declared = [each for each in names if isinstance(each, str)]
    if name in declared or not name:
        return []
    near = find_nearest(name, declared)
    known = f"the parameters are {list_names(declared)}" if declared else "the tool has none"
    message = f"the key names the parameter {name[:80]!r}, which is not declared"
    cure = "" if near else known
    return [Fault(("concurrency", "key"), message, nearest=near, cure=cure)]


def _limit_faults(spec: Mapping[str, Any]) -> list[Fault]:
    limit, weight = spec.get("key_limit"), spec.get("weight", 1)
    place = ("concurrency", "key_limit")
    if limit is None:
        return []
    if spec.get("collision") == "single_flight":
        return [Fault(place, SINGLE_FLIGHT_LIMIT, at_key=True)]
    if _is_count(limit) and _is_count(weight) and limit < weight:
        return [Fault(place, key_limit_too_small(int(limit), int(weight)))]
    return []


def _sharing_faults(collision: Any, definition: Mapping[str, Any]) -> list[Fault]:
    may_share = definition.get("effect") == "read" or definition.get("idempotent") is True
    if collision != "single_flight" or may_share:
        return []
    message = (
        "single_flight gives several callers the result of one run, so two callers would share "
        "one effect"
    )
    cure = "add effect: read or idempotent: true, or choose another collision"
    return [Fault(("concurrency", "collision"), message, cure=cure)]


def _is_count(value: Any) -> bool:
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return is_whole and not isinstance(value, bool) and value >= 1
