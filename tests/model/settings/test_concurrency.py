"""Are the limits of a tool right together, whoever writes them?"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tool_engine import (
    BreakerPolicy,
    CollisionPolicy,
    ConfigurationError,
    ToolConcurrency,
    ToolRate,
)
from tool_engine.model.settings.concurrency import LARGEST


def test_no_limits() -> None:
    """C22: a tool that asks for nothing has no key, so nothing collides."""
    limits = ToolConcurrency()
    assert (limits.key, limits.key_limit, limits.collision) == (None, None, CollisionPolicy.QUEUE)
    assert (limits.queue_timeout, limits.breaker) == (None, None)


@pytest.mark.parametrize(
    ("given", "key", "key_limit"),
    [
        ({"key": "caller_id"}, "caller_id", 1),
        ({"key": "params.url", "weight": 3}, "params.url", 3),
        ({"key_limit": 4}, "tool", 4),
        ({"key_limit": 4, "key": "params"}, "params", 4),
        ({"collision": "reject"}, "tool", 1),
        ({"collision": "cancel_in_progress", "key_limit": 2}, "tool", 2),
        ({"collision": "cancel_newest", "key": "params"}, "params", 1),
        ({"collision": "keep_newest_queued", "weight": 2}, "tool", 2),
        ({"collision": "single_flight"}, "params", None),
        ({"collision": "single_flight", "key": "tool", "weight": 2}, "tool", None),
        ({"collision": "queue"}, None, None),
    ],
)
def test_what_is_left_out(given: dict[str, Any], key: str | None, key_limit: int | None) -> None:
    """C22: a limit or a collision has a key, and a key lets one call run, however it weighs."""
    limits = ToolConcurrency(**given)
    assert (limits.key, limits.key_limit) == (key, key_limit)
    assert msgspec.structs.replace(limits, priority=1).key == key


def test_collision_may_be_text() -> None:
    """C22: a policy by its name is the policy, so that `is` tells them apart."""
    limits = ToolConcurrency(collision="reject")  # type: ignore[arg-type]
    assert limits.collision is CollisionPolicy.REJECT


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bucket": ""}, "bucket must be a non-empty text, got ''"),
        ({"bucket": 3}, "bucket must be a non-empty text, got 3"),
        ({"priority": 1.5}, "priority must be a whole number from -9007199254740991 to"),
        ({"priority": LARGEST + 1}, "priority must be a whole number from"),
        ({"weight": 0}, "weight must be a whole number from 1 to 9007199254740991, got 0"),
        ({"weight": True}, "weight must be a whole number"),
        ({"weight": LARGEST + 1}, "weight must be a whole number"),
        ({"queue_timeout": 0}, "queue_timeout must be a positive, finite number of seconds, got 0"),
        ({"key": "convrsation_id"}, "key must be one of tool, .*; did you mean 'conversation_id'"),
        ({"key": "params."}, "key must be one of .*params, params.NAME, got 'params.'"),
        ({"key": "params..x"}, "key must be one of"),
        ({"key": ""}, "key must be one of"),
        ({"key": 5}, "key must be one of .*, got 5"),
        ({"key_limit": 0}, "key_limit must be a whole number from 1 to"),
        (
            {"key_limit": 1, "weight": 2},
            "key_limit 1 is less than the weight 2.*key_limit: 2 or more",
        ),
        ({"key_limit": 2, "collision": "single_flight"}, "key_limit has no meaning with single_fl"),
        ({"collision": "rejct"}, "collision must be one of queue, .*; did you mean 'reject'"),
        ({"collision": None}, "collision must be one of .*, got None"),
        ({"breaker": 3}, "breaker must be a BreakerPolicy, got 3"),
        ({"breaker": {"failure": 1}}, "has no field 'failure'; did you mean 'failures'"),
    ],
)
def test_impossible_limits(given: dict[str, Any], message: str) -> None:
    """C22, U4: a tool made in code keeps the rules of a definition; the message says which."""
    with pytest.raises(ConfigurationError, match=message):
        ToolConcurrency(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"failures": 0}, "failures must be a whole number from 1 to"),
        ({"failures": "5"}, "failures must be a whole number"),
        ({"reset_after": float("inf")}, "reset_after must be a positive, finite number of seconds"),
        ({"probes": 0}, "probes must be a whole number from 1 to"),
    ],
)
def test_impossible_breakers(given: dict[str, Any], message: str) -> None:
    """C20: a breaker opens after at least one failure, for some time, and lets a probe through."""
    with pytest.raises(ConfigurationError, match=message):
        BreakerPolicy(**given)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/s", ToolRate(10, 1.0)),
        ("100/min", ToolRate(100, 60.0)),
        ("1000/h", ToolRate(1000, 3600.0)),
        ("1/d", ToolRate(1, 86400.0)),
        ("5/2s", ToolRate(5, 2.0)),
        ("5/0.5min", ToolRate(5, 30.0)),
    ],
)
def test_rates(text: str, rate: ToolRate) -> None:
    """C17: a rate is a number of calls and a period, and reads as it was written."""
    assert ToolRate.parse(text) == rate
    assert ToolRate.parse(str(rate)) == rate


@pytest.mark.parametrize(
    "text",
    [
        *("", "10", "10/", "/s", "0/s", "1/0s", "-1/s", "1/-1s", "1/1.2.3s", "1/.s", "1/.5s"),
        *("10/x", "10 /s", "10/s ", "10/s\n", "1e3/s", "\u0661/s", 10, None),
        *(f"{'9' * 5000}/s", f"1/{'9' * 400}d"),
    ],
)
def test_no_rates(text: Any) -> None:
    """C17: what is no rate, or allows no call, is told how a rate is written."""
    with pytest.raises(ValueError, match="write it as 10/s, 100/min, 1000/h or 5/2s") as caught:
        ToolRate.parse(text)
    assert str(caught.value).startswith("not a rate: ")
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("calls", "period", "message"),
    [
        (0, 1.0, "calls must be a whole number >= 1, got 0"),
        (1, 0.0, "period must be a positive, finite number of seconds, got 0.0"),
        (1, float("nan"), "period must be a positive"),
    ],
)
def test_impossible_rates(calls: int, period: float, message: str) -> None:
    """C17: a rate that allows nothing is refused in code, too."""
    with pytest.raises(ConfigurationError, match=message):
        ToolRate(calls, period)
