"""Keeping a value as it was, whatever it is."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from tool_engine.knowledge.snapshot import (
    MAX_SNAPSHOT,
    TRUNCATED,
    bounded_text,
    keep_beginning,
    keep_output,
    restore_value,
    take_snapshot,
)
from tool_engine.model.result import MOST_KEPT
from tool_engine.redaction import remember_secret


@dataclass
class Point:
    x: int
    y: int


class Unprintable:
    def __repr__(self) -> str:
        raise ValueError("no repr")


class Strange(Mapping[str, int]):
    """A mapping that is no dict, and that cannot be read when `is_broken`."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self.is_broken = is_broken

    def __getitem__(self, key: str) -> int:
        if self.is_broken:
            raise RuntimeError("changed while it was read")
        return {"a": 1}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": 1, "b": [1.5, None, True, "text", {"c": "中文"}]},
        [],
        "text",
        None,
        -(2**63),
        2**64 - 1,
    ],
)
def test_json_values_come_back_as_they_were(value: Any) -> None:
    """What JSON can hold reads back equal."""
    assert restore_value(take_snapshot(value)) == value


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (2**64, "18446744073709551616"),
        (-(2**70), "-1180591620717411303424"),
        (1 << 100_000, "<whole number of 100,001 bits>"),
        ("a\ud800b", "a\\ud800b"),
        (b"\x00\xff", "b'\\x00\\xff'"),
        (datetime(2025, 1, 2, 3, tzinfo=UTC), "2025-01-02T03:00:00+00:00"),
        (Decimal("1.10"), "1.10"),
        (uuid.UUID(int=7), str(uuid.UUID(int=7))),
        ((1, 2), [1, 2]),
        ({3}, [3]),
        (Point(1, 2), {"x": 1, "y": 2}),
        (Point(2**80, 2), f"Point(x={2**80}, y=2)"),
        (Strange(), {"a": 1}),
        (int, "<class 'int'>"),
        (Unprintable(), "<unprintable Unprintable>"),
        ({b"k": 1, None: 2, (1, 2): 3}, {"b'k'": 1, "None": 2, "[1, 2]": 3}),
        ({1: "number", "1": "text"}, {"1": "text", "1'": "number"}),
    ],
    ids=lambda value: ascii(value) if isinstance(value, str) else type(value).__name__,
)
def test_documented_forms(value: Any, kept: Any) -> None:
    """What JSON cannot hold is kept in the form that `snapshot` documents, alone and inside."""
    assert restore_value(take_snapshot(value)) == kept
    assert restore_value(take_snapshot({"inside": [value]})) == {"inside": [kept]}


def test_a_value_that_cannot_be_encoded_costs_only_itself() -> None:
    """One odd value changes the form of nothing beside it."""
    value = {
        "huge": 2**80,
        "\ud800": "odd key",
        "at": datetime(2025, 1, 2, tzinfo=UTC),
        "point": Point(1, 2),
        "flags": [True, None, 0.5, math.nan, -3],
        "set": frozenset({1}),
        "broken": Unprintable(),
    }
    assert restore_value(take_snapshot(value)) == {
        "huge": str(2**80),
        "\\ud800": "odd key",
        "at": "2025-01-02T00:00:00+00:00",
        "point": {"x": 1, "y": 2},
        "flags": [True, None, 0.5, "NaN", -3],
        "set": [1],
        "broken": "<unprintable Unprintable>",
    }


def test_clashing_keys_are_both_kept() -> None:
    """Two keys that read the same as text do not overwrite each other."""
    assert restore_value(take_snapshot({1: "a", "1": "b", "huge": 2**80})) == {
        "1'": "a",
        "1": "b",
        "huge": str(2**80),
    }


def test_value_that_changes_while_it_is_read() -> None:
    """A value that cannot be read now is kept as a note, and never fails the call."""
    kept = restore_value(take_snapshot({"a": Strange(is_broken=True), "b": 1}))
    assert kept["b"] == 1
    assert "changed while it was read" in kept["a"]


def test_value_that_contains_itself() -> None:
    """A value that contains itself is kept down to a depth."""
    value: dict[str, Any] = {"name": "loop"}
    value["self"] = [value, value]
    kept = restore_value(take_snapshot(value))
    assert kept["name"] == "loop"
    assert kept["self"][0]["name"] == "loop"
    assert "[too deep]" in str(kept)
    assert len(take_snapshot(value)) < 4 * MAX_SNAPSHOT


def test_deep_value_is_cut_on_reading() -> None:
    """A value nested deeper than 64 levels reads back to that depth."""
    value: Any = "bottom"
    for _ in range(100):
        value = [value]
    assert "[too deep]" in str(restore_value(take_snapshot(value)))


def test_snapshot_does_not_follow_changes() -> None:
    """K41: what a caller changes afterwards does not change what was kept."""
    value = {"items": [1]}
    data = take_snapshot(value)
    value["items"].append(2)
    kept = restore_value(data)
    assert kept == {"items": [1]}
    kept["items"].append(3)
    assert restore_value(data) == {"items": [1]}


@pytest.mark.parametrize(
    "value",
    [
        {"body": "x" * 1_000_000, "status": 200},
        {"rows": [{"id": number, "text": "row"} for number in range(50_000)]},
        {str(number): number for number in range(50_000)},
        {"k" * 200_000: "v" * 200_000},
        {"raw": b"\x00" * 300_000, "other": 1},
        ["x" * 100] * 10_000,
    ],
    ids=["text", "rows", "keys", "long key", "bytes", "list"],
)
def test_large_value_keeps_its_beginning_and_tells_its_size(value: Any) -> None:
    """A large output is kept in part, with its full size beside it."""
    data = take_snapshot(value)
    assert len(data) < 2 * MAX_SNAPSHOT
    kept = restore_value(data)
    assert kept[TRUNCATED] == {"size": len(msgspec.msgpack.encode(value))}
    assert "more" in str(kept) or "characters in all" in str(kept)


def test_large_text_keeps_what_is_beside_it() -> None:
    """A long text is cut on its own: the short values beside it stay whole."""
    kept = restore_value(take_snapshot({"body": "x" * 1_000_000, "status_code": 200}))
    assert kept["status_code"] == 200
    assert kept["body"].startswith("xxxx")
    assert kept["body"].endswith("… [1,000,000 characters in all]")


def test_large_value_of_unknown_size_says_so() -> None:
    """Where the whole could not be measured, the note says that it is not all."""
    kept = restore_value(take_snapshot({"huge": 2**80, "body": "x" * 1_000_000}))
    assert kept["huge"] == str(2**80)
    assert kept[TRUNCATED] == {"size": None}


def test_small_value_has_no_note() -> None:
    """A value that is kept whole carries no note, also where it was hard to encode."""
    assert restore_value(take_snapshot({"huge": 2**80})) == {"huge": str(2**80)}


def test_cut_does_not_split_a_secret() -> None:
    """A secret that lies across the cut is hidden whole, not shown in half."""
    secret = "hunter2-" * 8
    remember_secret(secret)
    for start in range(16_384 - 80, 16_384 + 10, 7):
        text = "a" * start + secret + "b" * 100_000
        assert "hunter2-" not in bounded_text(text)
        assert "hunter2-" not in restore_value(take_snapshot({"text": text}))["text"]


def test_cut_does_not_split_a_secret_that_hiding_moved() -> None:
    """Where hidden secrets make a text shorter, what moves up to the cut is whole or gone."""
    secret = "hunter3-" * 8
    remember_secret(secret)
    for start in range(16_384 + 4_096 - 60, 16_384 + 4_096, 7):
        text = secret * 100 + "a" * (start - 100 * len(secret)) + secret + "b" * 100_000
        assert "hunter3-" not in bounded_text(text)


def test_bounded_text() -> None:
    """A short message stays as it is; a long one keeps its beginning and tells its length."""
    assert bounded_text("short") == "short"
    assert bounded_text("x" * 20_000) == "x" * 16_384 + "… [20,000 characters in all]"


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x81\x80\x01", b"\x92\x01"])
def test_damaged_snapshot_reads_as_a_note(data: bytes) -> None:
    """What cannot be read back is said, not raised."""
    assert "unreadable" in restore_value(data)[TRUNCATED]["reason"]


@given(value=JSON_VALUES)
def test_any_json_value_survives(value: Any) -> None:
    """Whatever is kept reads back as JSON values, equal wherever JSON can hold it."""
    kept = restore_value(take_snapshot(value))
    text = json.dumps(kept, allow_nan=False)
    if msgspec.json.decode(text) == value:
        assert kept == value
    assert restore_value(take_snapshot(kept)) == kept


@pytest.mark.parametrize(
    "value",
    [
        "\u4f60" * 100_000,
        ["\U0001f600" * 9_000] * 50,
        ["\ud800" * 16_000] * 10,
        {"\u4f60\U0001f600" * 50 + str(number): number for number in range(9_000)},
        [[[["\u4f60" * 3_000]]]] * 3_000,
        [1.5] * 100_000,
    ],
    ids=["chinese", "emoji", "surrogates", "keys", "nested", "numbers"],
)
def test_what_is_kept_of_a_long_value_fits(value: Any) -> None:
    """The limit is one of bytes, however many a character takes, the words about the cut included.

    What was cut once is not cut again, and so tells its true size.
    """
    data = keep_beginning(value, 10**9)
    assert MAX_SNAPSHOT // 4 < len(data) <= MAX_SNAPSHOT
    assert restore_value(data)[TRUNCATED] == {"size": 10**9}


def fits(_value: Any) -> bool:
    return True


def too_large(_value: Any) -> bool:
    return False


def test_a_small_output_is_kept_once() -> None:
    """What every record has is the whole: nothing is kept twice."""
    output = {"a": "x" * 1_000}
    kept = keep_output(output, output, fits)
    assert (restore_value(kept.result), kept.whole, kept.is_whole) == (output, None, True)


def test_a_large_output_is_kept_whole_beside_its_beginning() -> None:
    """U39: records stay small to list, and the whole can be had."""
    output = {"a": "x" * 200_000}
    kept = keep_output(output, output, fits)
    assert TRUNCATED in restore_value(kept.result)
    assert len(kept.result) <= 2 * MAX_SNAPSHOT
    assert kept.whole is not None
    assert restore_value(kept.whole) == output
    assert kept.is_whole


def test_of_a_huge_output_the_beginning_is_kept() -> None:
    """Memory is bounded: what is known to be too large is not even copied, and it is said."""
    output = {"a": "x" * (MOST_KEPT + 1)}
    for look in (fits, too_large):
        kept = keep_output(output, output, look)
        assert (kept.whole, kept.is_whole) == (None, False)
        assert TRUNCATED in restore_value(kept.result)


def test_what_was_picked_is_kept_apart() -> None:
    """What `select` leaves out stands in the record, and never in the place of what it picked."""
    kept = keep_output({"a": 1, "private": 2}, {"a": 1}, fits)
    assert restore_value(kept.result) == {"a": 1, "private": 2}
    assert kept.whole is not None
    assert restore_value(kept.whole) == {"a": 1}
    lost = keep_output({"a": 1, "private": 2}, {"a": "x" * (MOST_KEPT + 1)}, fits)
    assert lost.whole is not None
    assert "private" not in restore_value(lost.whole)
    assert not lost.is_whole
    huge = keep_output({"p": "x" * MOST_KEPT}, {"a": 1}, lambda value: "a" in value)
    assert TRUNCATED in restore_value(huge.result)
    assert huge.is_whole


def test_values_that_have_no_plain_form_are_kept_whole_too() -> None:
    """Long texts beside a number beyond 64 bits, which has no place in MessagePack."""
    output = {"n": 2**70, "t": "x" * 100_000}
    kept = keep_output(output, output, fits)
    assert kept.whole is not None
    assert restore_value(kept.whole) == {"n": str(2**70), "t": "x" * 100_000}
    assert kept.is_whole
    broken = {"n": 2**70, "t": "x" * (MOST_KEPT + 1)}
    assert not keep_output(broken, broken, fits).is_whole
