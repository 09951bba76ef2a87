"""How much of an output do a caller and a model get under `result` limits?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Any, Final

import msgspec

from tool_engine.model.json.free_key import free_key, text_key
from tool_engine.model.json.result_path import ResultPath
from tool_engine.model.result import CUT_KEY, CutStrategy, ResultLimits
from tool_engine.output.cut_note import CutPart, note_of
from tool_engine.output.cut_places import Splits, place_to_cut
from tool_engine.output.limited import Reader
from tool_engine.output.measure import MAX_DEPTH, Measure, key_of, read_shallow, text_size

_MOST_NOTE: Final = 480
"""Characters of a note: enough for a few sentences."""
_LEAST_NOTE: Final = 68
"""Characters that are enough to name the call that has the rest."""
_SLACK: Final = 16
"""Characters by which the numbers of a note may grow when there is more room for the rest."""
_AROUND_NOTE: Final = len(f', "{CUT_KEY}": ')
_MOST_PARTS: Final = 50
"""Parts that the metadata lists."""


class CutOutput(msgspec.Struct, frozen=True):
    """An output that is only partly shown; each of its readers gets a note of its own."""

    body: dict[str, Any]
    """What is shown."""
    parts: list[CutPart]
    """What is left out, the outermost first."""
    room: int
    """Characters for the note."""

    @property
    def has_levels_left_out(self) -> bool:
        return any(part.kind == "level" for part in self.parts)

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


ELLIPSIS: Final = "…"
_SHORT: Final = 40
"""The least characters that each key of a record-like mapping gets."""
_RECORD: Final = 32
"""The most keys of a mapping that counts as a record, whose keys matter more than values."""


# Its structure stays: a text is cut within, a list loses entries, a mapping its last keys. The room
# is shared equally among all that need it, so that a long text takes nothing from its neighbours.
# The cost is that of what is shown, not of the whole value.
class Cutter:
    """Shortens values, and notes in `parts` what it left out.

    Args:
        limits: What stays, and how many entries of a list.
        splits: Says where a text must not be cut.
    """

    def __init__(self, limits: ResultLimits, splits: Splits) -> None:
        self.parts: list[CutPart] = []
        self.measure = Measure(limits)
        self._strategy = limits.strategy
        self._splits = splits

    def cut(self, output: dict[Any, Any], room: float) -> dict[str, Any]:
        """Return `output` in at most `room` characters of text."""
        # A note will stand there: what a tool wrote must not be taken for one.
        return self._fit_mapping(output, room, (), hidden=CUT_KEY)

    def _fit_value(self, value: Any, room: float, path: ResultPath) -> Any:
        value = read_shallow(value)
        if room != inf and self.measure.size(value, room, len(path)) <= room:
            room = inf
        if isinstance(value, str):
            return value if room == inf else self._fit_text(value, int(room), path)
        if isinstance(value, dict | list):
            if len(path) >= MAX_DEPTH:
                self.parts.append(CutPart(path, "level", 0, 0, 0, 0))
                return ELLIPSIS
            if isinstance(value, dict):
                return self._fit_mapping(value, room, path)
            return self._fit_list(value, room, path)
        return value if room == inf else self._fit_text(repr(value), int(room), path)

    # Lists and mappings.

    def _fit_list(self, value: list[Any], room: float, path: ResultPath) -> list[Any]:
        count = len(value)
        head, tail = self.measure.ends(count)
        if room != inf:
            head, tail = self._count_affordable(value, head, tail, room, len(path) + 1)
        if head + tail < count:
            self.parts.append(CutPart(path, "list", head, tail, head + tail, count))
        places = [*range(head), *range(count - tail, count)]
        items = [value[place] for place in places]
        rooms = self._share_room(items, room - 2 * max(1, len(items)), len(path) + 1)
        return [
            self._fit_value(item, each, (*path, place))
            for item, each, place in zip(items, rooms, places, strict=True)
        ]

    def _count_affordable(
        self, value: list[Any], head: int, tail: int, room: float, depth: int
    ) -> tuple[int, int]:
        """Return how many entries of both ends fit if long ones get a quarter of the room."""
        enough = max(room // 4, _least_room(room))
        if head == len(value) and self._strategy is not CutStrategy.HEAD:
            is_tail = self._strategy is CutStrategy.TAIL
            head, tail = (0, head) if is_tail else (head - head // 2, head // 2)
        ends = [0, 0]
        for side in _take_turns(head, tail):
            item = value[ends[0]] if side == 0 else value[-1 - ends[1]]
            room -= 2 + min(self.measure.size(item, enough, depth), enough)
            if room < 0:
                break
            ends[side] += 1
        return ends[0], ends[1]

    def _fit_mapping(
        self, value: dict[Any, Any], room: float, path: ResultPath, hidden: str | None = None
    ) -> dict[str, Any]:
        named, skipped = self._fit_entries(value, room, len(path) + 1, hidden)
        if len(named) < len(value):
            self.parts.append(CutPart(path, "mapping", skipped, 0, len(named), len(value)))
        spent = sum(text_size(name) + 4 for name in named)
        rooms = self._share_room(list(named.values()), room - spent, len(path) + 1)
        return {
            name: self._fit_value(item, each, (*path, name))
            for (name, item), each in zip(named.items(), rooms, strict=True)
        }

    def _fit_entries(
        self, value: dict[Any, Any], room: float, depth: int, hidden: str | None
    ) -> tuple[dict[str, Any], int]:
        """Return the entries that fit, and how many precede the first that does not."""
        is_record = len(value) <= _RECORD
        enough = _least_room(room) if is_record else max(room // 4, _least_room(room))
        named: dict[str, Any] = {}
        skipped = -1
        for number, (key, item) in enumerate(value.items()):
            name = free_key(key_of(text_key(key, value, key_of)), named)
            cost = text_size(name, room) + 4.0
            if room != inf and cost <= room:
                cost += min(self.measure.size(item, enough, depth), enough)
            if name == hidden or cost > room:
                skipped = number if skipped < 0 else skipped
                if name == hidden or is_record or len(name) > enough:
                    continue
                break
            room -= cost
            named[name] = item
        return named, len(named) if skipped < 0 else skipped

    def _share_room(self, values: list[Any], room: float, depth: int) -> list[float]:
        """Return the share of `room` of each value: what it needs, or an equal part."""
        if room == inf or not values:
            return [inf] * len(values)
        level = room // len(values)
        sizes = [self.measure.size(value, level, depth) for value in values]
        # The sizes are learnt step by step, as to learn all of them may take long.
        while level < room and sum(min(size, level) for size in sizes) < room:
            if max(sizes) <= level:
                break
            known, level = level, min(2 * level, room)
            sizes = [
                size if size <= known else self.measure.size(value, level, depth)
                for size, value in zip(sizes, values, strict=True)
            ]
        rooms: list[float] = [0] * len(values)
        for rank, place in enumerate(sorted(range(len(values)), key=sizes.__getitem__)):
            rooms[place] = min(sizes[place], room // (len(values) - rank))
            room -= rooms[place]
        return rooms

    # Texts.

    def _fit_text(self, text: str, room: int, path: ResultPath) -> str:
        mark = f"{ELLIPSIS} [{len(text):,} characters left out]"
        if self._strategy is CutStrategy.HEAD_TAIL:
            mark += f" {ELLIPSIS}"
        if room < len(mark) + 2 + _SHORT // 2:
            mark = ELLIPSIS
        left = max(0, room - 2 - len(mark))
        head = 0 if self._strategy is CutStrategy.TAIL else left
        if self._strategy is CutStrategy.HEAD_TAIL:
            head = left - left // 2
        first = place_to_cut(text, _prefix_length(text, head), -1, self._splits)
        last = place_to_cut(text, _suffix_start(text, left - head), 1, self._splits)
        last = max(first, last)
        behind = len(text) - last
        self.parts.append(CutPart(path, "text", first, behind, first + behind, len(text)))
        if mark != ELLIPSIS:
            mark = mark.replace(f"{len(text):,}", f"{last - first:,}", 1)
            if self._strategy is CutStrategy.TAIL:
                mark = f"{mark.removeprefix(ELLIPSIS + ' ')} {ELLIPSIS}"
        return text[:first] + mark + text[last:]


def _least_room(room: float) -> float:
    """Return the fewest characters for which an entry is worth showing."""
    return max(min(_SHORT, room // 3), _SHORT // 5)


def _take_turns(head: int, tail: int) -> Iterator[int]:
    """Yield in turns 0 for each entry of the beginning and 1 for each of the end."""
    for number in range(max(head, tail)):
        if number < head:
            yield 0
        if number < tail:
            yield 1


def _prefix_length(text: str, room: int) -> int:
    return _longest_fit(len(text), room, lambda count: text[:count])


def _suffix_start(text: str, room: int) -> int:
    return len(text) - _longest_fit(len(text), room, lambda count: text[len(text) - count :])


def _longest_fit(count: int, room: int, piece: Callable[[int], str]) -> int:
    """Return how many characters of a text fit into `room`, escapes counted."""
    low, high = 0, min(count, room)
    while low < high:
        middle = (low + high + 1) // 2
        if text_size(piece(middle)) - 2 <= room:
            low = middle
        else:
            high = middle - 1
    return low
