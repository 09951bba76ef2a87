"""How much of an output do a caller and a model get under `result` limits?"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Final, Protocol

import msgspec

from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.result import CUT_KEY, ResultLimits
from tool_engine.output.measure import Measure, text_size
from tool_engine.output.part import CutPart, note_of
from tool_engine.output.truncate import Cutter

_MOST_NOTE: Final = 480
"""Characters of a note: enough for a few sentences."""
_LEAST_NOTE: Final = 68
"""Characters that are enough to name the call that has the rest."""
_SLACK: Final = 16
"""Characters by which the numbers of a note may grow when there is more room for the rest."""
_AROUND_NOTE: Final = len(f', "{CUT_KEY}": ')
_MOST_PARTS: Final = 50
"""Parts that the metadata lists."""


class Reader(msgspec.Struct, frozen=True):
    """A reader of an output."""

    call_id: str
    can_read: bool
    """True if it may call `read_result`."""


class CutOutput(msgspec.Struct, frozen=True):
    """An output that is only partly shown; each of its readers gets a note of its own."""

    body: dict[str, Any]
    """What is shown."""
    parts: list[CutPart]
    """What is left out, the outermost first."""
    room: int
    """Characters for the note."""

    def shown_to(self, reader: Reader, *, is_kept: bool) -> dict[str, Any]:
        """Return the output with the note, which counts in its `max_chars`."""
        note = note_of(
            self.parts,
            len(self.parts),
            reader.call_id,
            self.room,
            can_read=reader.can_read,
            is_kept=is_kept,
        )
        return {**self.body, CUT_KEY: note}

    def facts(self, reader: Reader, *, is_kept: bool) -> dict[str, Any]:
        """Return the cut for programs, as `metadata["cut"]`."""
        return {
            "call_id": reader.call_id,
            "is_kept_whole": is_kept,
            "count": len(self.parts),
            "parts": [part.to_dict() for part in self.parts[:_MOST_PARTS]],
        }


class Kept(Protocol):
    """The part of an output that a record keeps."""

    @property
    def result(self) -> bytes:
        """Return a snapshot of what the tool returned, as every record has it."""

    @property
    def whole(self) -> bytes | None:
        """Return a snapshot of the uncut output, where `result` does not have all of it."""

    @property
    def is_whole(self) -> bool:
        """True if nothing of the output was lost."""


class LimitedOutput(msgspec.Struct, frozen=True):
    """The value of a tool with limits, after they were applied."""

    output: dict[str, Any]
    """The whole output before cutting: what the tool returned, or the selected part."""
    kept: Kept
    """What the record has."""
    cut: CutOutput | None
    """None where nothing was cut."""
    has_reader: bool
    """True if there is a tool to read the rest with."""

    def shown_to(
        self, call_id: str, context: ToolExecutionContext
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the output of a call and its `metadata["cut"]`; None: nothing was cut.

        A call that a tool makes for itself gets all: it is a program that reads its result.
        """
        if self.cut is None or context.is_for_tool:
            return self.output, None
        is_kept = self.kept.is_whole and not any(part.kind == "level" for part in self.cut.parts)
        reader = Reader(call_id, self.has_reader and is_known(context))
        return (
            self.cut.shown_to(reader, is_kept=is_kept),
            self.cut.facts(reader, is_kept=is_kept),
        )


def is_known(context: ToolExecutionContext) -> bool:
    """True if the caller is identifiable, so that it may read its results."""
    names = (context.caller_id, context.conversation_id, context.workflow_id)
    return any(name is not None for name in names)


def cut_output(
    output: dict[Any, Any],
    limits: ResultLimits,
    splits: Callable[[str, int], bool],
    reader: Reader,
) -> CutOutput | None:
    """Return what is shown of `output`; None: all of it.

    Args:
        output: The mapping that a result would hold.
        limits: How much may be shown.
        splits: Finds where a text must not be cut, as half of a secret would be left.
        reader: The first of its readers, for whose note there must be room.
    """
    most = inf if limits.max_chars is None else limits.max_chars
    measure = Measure(limits)
    if measure.size(output, most) <= most and not measure.must_cut:
        return None
    if most == inf:
        return _cut_output(output, limits, splits, most, _MOST_NOTE)
    room = int(max(_LEAST_NOTE, min(_MOST_NOTE, most // 3)))
    cut = _cut_output(output, limits, splits, most, room)
    # What the note leaves of its room goes to the output.
    used = text_size(cut.shown_to(reader, is_kept=False)[CUT_KEY]) + _SLACK
    return _cut_output(output, limits, splits, most, used) if used < room else cut


def _cut_output(
    output: dict[Any, Any],
    limits: ResultLimits,
    splits: Callable[[str, int], bool],
    most: float,
    room: int,
) -> CutOutput:
    cutter = Cutter(limits, splits)
    body = cutter.cut(output, most - room - _AROUND_NOTE)
    # The outermost first: who reads on there finds the others on the way.
    return CutOutput(body, sorted(cutter.parts, key=lambda part: len(part.path)), room)
