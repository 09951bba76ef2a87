"""What does a record keep of an output that is not shown whole?"""

from __future__ import annotations

from typing import Any

from tool_engine.knowledge.keeping import keep_output
from tool_engine.knowledge.snapshot import MAX_SNAPSHOT, TRUNCATED, restore
from tool_engine.model.result import MOST_KEPT


def fits(_value: Any) -> bool:
    return True


def too_large(_value: Any) -> bool:
    return False


def test_a_small_output_is_kept_once() -> None:
    """What every record has is the whole: nothing is kept twice."""
    output = {"a": "x" * 1_000}
    kept = keep_output(output, output, fits)
    assert (restore(kept.result), kept.whole, kept.is_whole) == (output, None, True)


def test_a_large_output_is_kept_whole_beside_its_beginning() -> None:
    """U39: records stay small to list, and the whole can be had."""
    output = {"a": "x" * 200_000}
    kept = keep_output(output, output, fits)
    assert TRUNCATED in restore(kept.result)
    assert len(kept.result) <= 2 * MAX_SNAPSHOT
    assert kept.whole is not None
    assert restore(kept.whole) == output
    assert kept.is_whole


def test_of_a_huge_output_the_beginning_is_kept() -> None:
    """Memory is bounded: what is known to be too large is not even copied, and it is said."""
    output = {"a": "x" * (MOST_KEPT + 1)}
    for look in (fits, too_large):
        kept = keep_output(output, output, look)
        assert (kept.whole, kept.is_whole) == (None, False)
        assert TRUNCATED in restore(kept.result)


def test_what_was_picked_is_kept_apart() -> None:
    """What `select` leaves out stands in the record, and never in the place of what it picked."""
    kept = keep_output({"a": 1, "private": 2}, {"a": 1}, fits)
    assert restore(kept.result) == {"a": 1, "private": 2}
    assert kept.whole is not None
    assert restore(kept.whole) == {"a": 1}
    lost = keep_output({"a": 1, "private": 2}, {"a": "x" * (MOST_KEPT + 1)}, fits)
    assert lost.whole is not None
    assert "private" not in restore(lost.whole)
    assert not lost.is_whole
    huge = keep_output({"p": "x" * MOST_KEPT}, {"a": 1}, lambda value: "a" in value)
    assert TRUNCATED in restore(huge.result)
    assert huge.is_whole


def test_values_that_have_no_plain_form_are_kept_whole_too() -> None:
    """Long texts beside a number beyond 64 bits, which has no place in MessagePack."""
    output = {"n": 2**70, "t": "x" * 100_000}
    kept = keep_output(output, output, fits)
    assert kept.whole is not None
    assert restore(kept.whole) == {"n": str(2**70), "t": "x" * 100_000}
    assert kept.is_whole
    broken = {"n": 2**70, "t": "x" * (MOST_KEPT + 1)}
    assert not keep_output(broken, broken, fits).is_whole
