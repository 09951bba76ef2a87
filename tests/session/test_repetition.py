"""Does a conversation go on?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tool_engine.errors import ConfigurationError
from tool_engine.session.repetition import Advice, RepetitionGuard

GO_ON, HINT, STOP = Advice.GO_ON, Advice.HINT, Advice.STOP


def call(tool: str = "look", result: Any = "nothing", **params: Any) -> tuple[str, Any, Any]:
    return tool, params, result


def test_hint_then_stop() -> None:
    """U47: the same call and result is told at the second time, and over at the fourth."""
    guard = RepetitionGuard()
    assert [guard.see([call(q="x")]) for _ in range(5)] == [GO_ON, HINT, HINT, STOP, STOP]
    assert repr(guard) == "RepetitionGuard(5 turns, the most often 5 times)"


def test_progress() -> None:
    """Another result, another argument, another tool or more calls are progress."""
    guard = RepetitionGuard()
    turns = [
        [call(q="x")],
        [call(q="x", result="something")],
        [call(q="y")],
        [call("other", q="x")],
    ]
    turns += [[call(q="x"), call(q="y")], []]
    assert [guard.see(turn) for turn in turns] == [GO_ON] * 6
    assert guard.see([]) is GO_ON


def test_back_and_forth() -> None:
    """Two turns in alternation are as little progress as one."""
    guard = RepetitionGuard()
    advice = [guard.see([call(q=each)]) for each in "abababab"]
    assert advice == [GO_ON, GO_ON, HINT, HINT, HINT, HINT, STOP, STOP]


def test_order_does_not_matter() -> None:
    """The calls of a turn, and the arguments of a call, are the same in any order."""
    guard = RepetitionGuard()
    guard.see([call(a=1, b=2), call("other")])
    assert guard.see([call("other"), call(b=2, a=1)]) is HINT


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("at 2026-01-05T10:00:00Z", "at 2026-01-05T10:00:07.123+02:00"),
        ("on 2026-01-05", "on 2026-02-06"),
        ("10:15:00 ok", "10:15:42,5 ok"),
        (
            {"id": "0b5c5f8e-8f0a-4c77-9f6e-111111111111"},
            {"id": "a" * 8 + "-bbbb-cccc-dddd-" + "e" * 12},
        ),
        ({"ts": 1767600000}, {"ts": 1767600031}),
        ({"ts": 1767600000123}, {"ts": 1767600000999}),
        ("1767600000.25", "1767600001.5"),
        ("0b5c5f8e8f0a4c779f6e111111111111", "a" * 12 + "7bbb8ccc" + "d" * 12),
        ("at 20260105T100000Z", "at 20260105T100107.25Z"),
        ({"elapsed_ms": 3, "n": 1}, {"elapsed_ms": 14.5, "n": 1}),
        ({"durationMs": 3}, {"durationMs": 4}),
        ("done in 0.31 s", "done in 1.2 s"),
        ("took 14ms", "took 9 ms"),
    ],
)
def test_what_changes_by_itself_is_no_progress(first: Any, second: Any) -> None:
    """U47: times and random ids in a result are ignored."""
    guard = RepetitionGuard()
    guard.see([call(result=first)])
    assert guard.see([call(result=second)]) is HINT


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, 2),
        ("12:15", "12:16"),
        ("a1", "a2"),
        (10**9 * 3, 10**9 * 4),
        ("30 s", "20 s"),
        ("c" * 32, "d" * 32),
    ],
)
def test_what_may_be_an_answer_is_progress(first: Any, second: Any) -> None:
    """Numbers and words that are no times are what was asked for."""
    guard = RepetitionGuard()
    guard.see([call(result=first)])
    assert guard.see([call(result=second)]) is GO_ON


def test_long_results() -> None:
    """What changes by itself is found at both ends; of what is between, every letter counts."""
    guard = RepetitionGuard()
    middle = "x" * 100_000
    guard.see([call(result=f"10:15:00 {middle} 10:15:01")])
    assert guard.see([call(result=f"10:16:00 {middle} 10:17:00")]) is HINT
    guard.see([call(result=f"in 9.5 s {middle} 80 ms")])
    assert guard.see([call(result=f"in 12.25 s {middle} 125 ms")]) is HINT, "of another length"
    other = f"{middle[:50_000]}y{middle[50_001:]}"
    assert guard.see([call(result=f"10:15:00 {other} 10:15:01")]) is GO_ON


def test_arguments_count_as_they_are() -> None:
    """To ask for another day is another question, even with the same answer."""
    guard = RepetitionGuard()
    guard.see([call(day="2026-01-05")])
    assert guard.see([call(day="2026-01-06")]) is GO_ON


def test_the_guard_survives_its_process() -> None:
    """What was seen goes on to count after `to_dict` and `restore`."""
    guard = RepetitionGuard()
    for _ in range(3):
        guard.see([call()])
    again = RepetitionGuard()
    again.restore(json.loads(json.dumps(guard.to_dict())))
    assert again.see([call()]) is STOP


@pytest.mark.parametrize(("hint", "stop"), [(1, 4), (3, 2), (2, 1)])
def test_limits_that_make_no_sense(hint: int, stop: int) -> None:
    """A guard that stops at the first call, or before it hints, is a mistake."""
    with pytest.raises(ConfigurationError, match=r"hint_at|stop_at"):
        RepetitionGuard(hint, stop)
