"""What was cut, and how does a note describe it?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tool_engine.model.json.result_path import ResultPath, write_path
from tool_engine.output.measure import text_size

_UNITS: Final = {"text": "characters", "list": "entries", "mapping": "keys", "level": "levels"}
_LONGEST_PATH: Final = 200
"""Characters of a path in a note; a longer one would leave no room for others."""


class CutPart(msgspec.Struct, frozen=True):
    """One place in an output that is only partly shown."""

    path: ResultPath
    kind: str
    """`text`, `list`, `mapping`, or `level` where it is nested too deep to be shown."""
    first: int
    """How much is shown from its beginning: characters, entries or keys."""
    last: int
    """How much is shown from its end."""
    shown: int
    """How much is shown in all."""
    of: int
    """How much there is."""

    def to_dict(self) -> dict[str, Any]:
        """Return the part as it stands in `metadata["cut"]["parts"]`."""
        return {
            "path": write_path(self.path),
            "kind": self.kind,
            "first": self.first,
            "last": self.last,
            "shown": self.shown,
            "of": self.of,
        }

    def words(self) -> str:
        """Describe the part for a model."""
        place = write_path(self.path) or "the output"
        if self.kind == "level":
            return f"{place} is nested too deep"
        unit = _UNITS[self.kind]
        if self.first + self.last < self.shown:
            what = f"{self.shown:,}"
        elif self.last == 0:
            what = f"the first {self.first:,}"
        elif self.first == 0:
            what = f"the last {self.last:,}"
        else:
            what = f"the first {self.first:,} and the last {self.last:,}"
        return f"{place} shows {what} of {self.of:,} {unit}"


def note_of(
    parts: Sequence[CutPart], count: int, call_id: str, room: int, *, can_read: bool, is_kept: bool
) -> str:
    """Return a note on what was cut and how to get the rest, within `room` characters.

    Args:
        parts: What was cut, the most informative first.
        count: How many parts there are in all.
        call_id: The call whose output it is.
        room: At least what `LEAST_CHARS` leaves for a note.
        can_read: Whether the reader may call `read_result`.
        is_kept: Whether the record has the whole.
    """
    rest = next(
        (
            text
            for text in _describe_rests(parts, call_id, can_read, is_kept)
            if text_size(text) <= room
        ),
        "",
    )
    part_words = [part.words() for part in parts if len(write_path(part.path)) <= _LONGEST_PATH]
    for number in range(min(len(part_words), 8), 0, -1):
        more = f"; and {count - number:,} more" if count > number else ""
        note = f"Shortened: {'; '.join(part_words[:number])}{more}. {rest}"
        if text_size(note) <= room:
            return note
    general = f"Shortened. {rest}"
    return general if text_size(general) <= room else rest


def _describe_rests(
    parts: Sequence[CutPart], call_id: str, can_read: bool, is_kept: bool
) -> list[str]:
    """Return wordings of how to get the rest, the most helpful first."""
    if not can_read:
        kept = "whole" if is_kept else "beginning"
        return [f"The record of {call_id} has the {kept}.", f"See {call_id}."]
    part = parts[0]
    place, offset = write_path(part.path), part.first
    call = f"read_result(call_id={call_id!r}, path={place!r}, offset={offset})"
    only = "" if is_kept else ", but only the beginning was kept"
    return [
        f"For the rest call {call}{only}.",
        f"For the rest call read_result(call_id={call_id!r}){only}.",
        f"Rest: read_result(call_id={call_id!r})",
    ]
