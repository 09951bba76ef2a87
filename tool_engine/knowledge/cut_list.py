"""Where is the one long list of an output cut, whose packed form is there already?

To copy what is kept value by value takes many times as long as to pack all of it. Most long outputs
are one list of rows, of which whole rows can be kept as they are packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from tool_engine.knowledge.snapshot import MAX_SNAPSHOT, TRUNCATED, keep_beginning, pack_plain

_FOR_NOTES: Final = 4_096
"""Bytes of a snapshot reserved for the notes about what is missing."""
_MOST_KEYS: Final = 15
"""The most keys whose number is packed in the first byte."""
_FEWEST_ROWS: Final = 16
_MOST_BESIDE: Final = 16_384
"""The most bytes of what stands beside the list."""
_TRIES: Final = 4
_LESS: Final = 0.98
"""The part that is taken of an estimate that was too much."""


def keep_packed_beginning(output: dict[str, Any], packed: bytes) -> bytes:
    """Do the same as `keep_beginning`, of an output whose packed form is there.

    Args:
        output: The output.
        packed: All of it, as `pack_plain` packs it.
    """
    kept = _keep_first_rows(output, packed)
    return keep_beginning(output, len(packed)) if kept is None else kept


def _keep_first_rows(output: dict[str, Any], packed: bytes) -> bytes | None:
    """Return the output with the first rows of its one long list; None: it has another form."""
    names = [*output] if len(output) <= _MOST_KEYS else []
    long = [at for at, name in enumerate(names) if _is_long(output[name])]
    if len(long) != 1:
        return None
    at = long[0]
    before, after = _pack_pairs(output, 0, at), _pack_pairs(output, at + 1, len(names))
    rows: list[Any] = output[names[at]]
    head = bytes((0x80 + len(names),)) + before + pack_plain(names[at]) + _begin_list(len(rows))
    room = MAX_SNAPSHOT - _FOR_NOTES - len(head) - len(after)
    if not packed.startswith(head) or len(before) + len(after) > _MOST_BESIDE:
        return None
    found = _find_cut(rows, packed, len(head), len(packed) - len(after), room)
    # Where a few rows have nearly all of it, a part of one is worth more than none.
    if found is None or found[1] - len(head) < room // 2:
        return None
    count, end = found
    note = pack_plain(f"[{len(rows) - count:,} more]")
    cut = _begin_list(count + 1) + packed[len(head) : end] + note
    kept = {**output, names[at]: msgspec.Raw(cut), TRUNCATED: {"size": len(packed)}}
    return pack_plain(kept)


def _find_cut(
    rows: Sequence[Any], packed: bytes, start: int, end: int, room: int
) -> tuple[int, int] | None:
    """Return how many of the rows fit into `room` bytes, and where they end in `packed`.

    None if their sizes differ much, or another thread has changed them since they were packed.
    """
    count = len(rows) * room // (end - start)
    for _ in range(_TRIES):
        # Only the smaller part is packed again, to see how long it is.
        if count * 2 < len(rows):
            first = _pack_rows(rows[:count])
            stop, is_same = start + len(first), packed.startswith(first, start)
        else:
            last = _pack_rows(rows[count:])
            stop = end - len(last)
            is_same = packed.startswith(last, stop)
        if not (is_same and count):
            return None
        if stop - start <= room:
            return count, stop
        count = int(count * room / (stop - start) * _LESS)
    return None


def _is_long(value: Any) -> bool:
    return type(value) is list and len(value) >= _FEWEST_ROWS


def _pack_pairs(output: dict[str, Any], start: int, stop: int) -> bytes:
    return pack_plain(dict(islice(output.items(), start, stop)))[1:]


def _pack_rows(rows: Sequence[Any]) -> bytes:
    return pack_plain(rows)[len(_begin_list(len(rows))) :]


def _begin_list(length: int) -> bytes:
    """Return the bytes with which MessagePack begins a list."""
    if length < 16:
        return bytes((0x90 + length,))
    wide = length >= 1 << 16
    return b"\xdd" + length.to_bytes(4) if wide else b"\xdc" + length.to_bytes(2)
