"""How are settings read that have one value per name, such as those of buckets?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.settings.concurrency import ToolRate

_MEANINGS: Final = {
    "breakers": "breakers",
    "adaptive": "adaptive limits",
    "overload": "overload policies",
}


def copy_named(name: str, values: object, meaning: str) -> dict[str, Any]:
    """Return a read-only copy, so that later changes cannot bypass the check."""
    if not isinstance(values, Mapping):
        raise ConfigurationError(f"{name} must map names to {meaning}, got {values!r}")
    for key in values:
        if not isinstance(key, str) or not key:
            raise ConfigurationError(f"a name in {name} must be a non-empty string, got {key!r}")
    return dict(values)


def check_limits(name: str, values: object, *, minimum: int = 1) -> dict[str, int]:
    """Return a copy of whole numbers by name."""
    limits = copy_named(name, values, "limits")
    for key, limit in limits.items():
        check_count(f"{name}[{key!r}]", limit, minimum=minimum)
    return limits


def check_fields(name: str, values: Mapping[Any, Any], kind: type[msgspec.Struct]) -> None:
    """Refuse a mapping with what is no field of its kind."""
    for field in values:
        if field not in kind.__struct_fields__:
            known = kind.__struct_fields__
            hint = suggest_near(field, known) or f"; it has {', '.join(known)}"
            raise ConfigurationError(f"{name} has no field {field!r}{hint}")


def read_rates(values: object) -> dict[str, ToolRate]:
    """Return a copy of rates by bucket, read from text or fields where needed."""
    rates = copy_named("bucket_rates", values, "rates")
    for bucket, rate in rates.items():
        if not isinstance(rate, ToolRate):
            rates[bucket] = _read_rate(f"bucket_rates[{bucket!r}]", rate)
    return rates


def _read_rate(name: str, rate: Any) -> ToolRate:
    if isinstance(rate, Mapping):
        check_fields(name, rate, ToolRate)
        if "calls" in rate and "period" in rate:
            return ToolRate(**rate)
    try:
        return ToolRate.parse(rate)
    except ValueError as error:
        raise ConfigurationError(f"{name} is {error}") from None


def read_policies(name: str, values: object, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the settings of each bucket, built from mappings of their fields where needed."""
    policies = copy_named(name, values, _MEANINGS[name])
    for bucket, policy in policies.items():
        if not isinstance(policy, kind):
            policies[bucket] = _read_policy(f"{name}[{bucket!r}]", policy, kind)
    return policies


def _read_policy(name: str, policy: object, kind: type[msgspec.Struct]) -> msgspec.Struct:
    if not isinstance(policy, Mapping):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise ConfigurationError(
            f"{name} must be {article} {kind.__name__} or a mapping of its fields, got {policy!r}"
        )
    check_fields(name, policy, kind)
    try:
        return kind(**policy)
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}.{error}") from None
