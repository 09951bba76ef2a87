"""How is a large value split so that each part is processed in a moment?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from gc import get_referents
from itertools import islice
from typing import Any, Final

import msgspec

PIECE: Final = 65_536
"""Characters and values that are processed at once: a millisecond or two."""
_AT_ONCE: Final = 524_288
"""Bytes of its packed form."""
_PER_ENTRY: Final = 16
"""Bytes that each entry counts for where entries are many."""
_STEP: Final = 8_192
"""Entries that are looked at together."""
_TEXT_HEADS: Final = ((1, 31), (2, 255), (3, 65_535))
_ENTRY_HEADS: Final = ((1, 15), (3, 65_535))
_pack: Final = msgspec.msgpack.Encoder().encode
_CONTAINERS: Final = (dict, list, tuple)
_NUMBERS: Final = frozenset((int, float, bool, type(None)))
_TEXT: Final = frozenset((str,))
_PLAIN: Final = _NUMBERS | _TEXT
_SAMPLE: Final = 16
"""Parts of a level that are looked at."""
_DEEPEST: Final = 64
_OPEN: Final = -1
"""The weight of a container that is still being weighed."""


def packed_size(value: Any) -> int | None:
    """Return the bytes of a value's packed form; None: it has none.

    To weigh many small lists takes ten times as long as to write them.
    """
    try:
        return len(_pack(value))
    except Exception:  # noqa: BLE001 - what has no such form is weighed
        return None


def measure_packed(value: Any, levels: int = _DEEPEST) -> int:
    """Return the same, found in pieces, between which other threads have their turn.

    Args:
        value: The value.
        levels: How deep it may nest, as far as it is large.

    Raises:
        RecursionError: It nests deeper, or holds itself.
        Exception: It has no packed form; any that `msgspec` raises.
    """
    if levels < 0:
        raise RecursionError("it nests too deep")
    kind = type(value)
    if kind is str and len(value) > PIECE:
        if value.isascii():
            return len(value) + _head_of_text(len(value))
        size = sum([len(value[at : at + PIECE].encode()) for at in _list_steps(value)])
        return size + _head_of_text(size)
    if kind is not dict and kind is not list and kind is not tuple:
        return len(_pack(value))
    size = _measure_entries(value, levels - 1)
    if kind is dict:
        size += _measure_entries(value.values(), levels - 1)
    return size + _head_of_entries(len(value))


def _measure_entries(entries: Collection[Any], levels: int) -> int:
    remaining, size = iter(entries), 0
    while some := list(islice(remaining, _STEP)):
        size += _measure_some(some, levels)
    return size


def _measure_some(some: list[Any], levels: int) -> int:
    if _is_quick(some):
        return len(_pack(some)) - _head_of_entries(len(some))
    if len(some) == 1:
        return measure_packed(some[0], levels)
    # What may hold much is kept apart, and else looked for in ever smaller parts.
    one = [each for each in some if type(each) in _CONTAINERS]
    if 0 < len(one) < len(some):
        other = [each for each in some if type(each) not in _CONTAINERS]
    else:
        half = len(some) // 2
        one, other = some[:half], some[half:]
    return _measure_some(one, levels) + _measure_some(other, levels)


def _is_quick(level: list[Any]) -> bool:
    """Return True if what some values hold together is processed in a moment."""
    left = PIECE
    for _ in range(_DEEPEST):
        left -= len(level)
        kinds = set(map(type, level))
        if str in kinds:
            left -= sum([len(each) for each in level if type(each) is str])
        if not kinds.isdisjoint(_CONTAINERS):
            level = [each for each in level if type(each) in _CONTAINERS]
            left -= sum(map(len, level))
        else:
            level = []
        if left < 0 or not level:
            return left >= 0
        level = get_referents(*level)
    return False


def _head_of_text(size: int) -> int:
    """Return the bytes that MessagePack puts before a text of so many."""
    return next((head for head, most in _TEXT_HEADS if size <= most), 5)


def _head_of_entries(count: int) -> int:
    """Return the bytes that MessagePack puts before so many entries."""
    return next((head for head, most in _ENTRY_HEADS if count <= most), 5)


def pack_small(value: Any, most: int) -> bytes | None:
    """Return the packed form of a value, if that has at most `most` bytes.

    None also for what has no such form, and for many entries, which take longer to handle than
    their bytes say.
    """
    if not _seems_small(value, most // _PER_ENTRY):
        return None
    try:
        packed = _pack(value)
    except Exception:  # noqa: BLE001 - a foreign value may raise anything
        return None
    return packed if len(packed) <= most else None


def _seems_small(value: Any, most: int) -> bool:
    """Return True if a value has at most `most` entries, as far as some of its parts show.

    To pack a large one would take long, and of one that holds the same parts again and again for
    ever.
    """
    level, count, entries = [value], 1.0, 0.0
    for _ in range(_DEEPEST):
        # Of another object all is looked at that it refers to, but for its class.
        level = [each for each in level if type(each) not in _PLAIN and not isinstance(each, type)]
        if not level:
            return True
        some = level if len(level) <= _SAMPLE else level[:: len(level) // _SAMPLE]
        lengths = sum([len(each) if type(each) in _CONTAINERS else 1 for each in some])
        entries += lengths * count * len(level) / len(some)
        if entries > most:
            return False
        count *= len(level) / len(some)
        level = get_referents(*some)
    return False


def is_written_at_once(value: Any) -> bool:
    """Return True if a value is written and read as a whole in some ten milliseconds."""
    size = packed_size(value)
    return size is not None and size <= _AT_ONCE


class Weights:
    """The number of characters and values in a value and in each of its parts.

    All of it is weighed once, from the inside out: to weigh each level by itself would take as
    often as long as there are levels. They hold as long as the value stays as it is.

    Raises:
        ValueError: The value holds itself.
        TypeError: Keys of a mapping are no texts: two of them may be the same in JSON.
    """

    def __init__(self, value: Any) -> None:
        self._known: dict[int, int] = {}
        pending = [value] if isinstance(value, _CONTAINERS) else []
        while pending:
            item = pending[-1]
            known = self._known.get(id(item))
            if known is None or known == _OPEN:
                inside = item.values() if isinstance(item, dict) else item
                nested = _list_nested(inside)
                if known is None and nested:
                    self._known[id(item)] = _OPEN
                    if any(self._known.get(id(each)) == _OPEN for each in nested):
                        raise ValueError("it holds itself")
                    pending += nested
                    continue
                weights = [self._known.get(id(each), 0) for each in nested]
                keys = _length_of_keys(item) if isinstance(item, dict) else 0
                self._known[id(item)] = (
                    1 + 2 * len(item) + keys + _text_length(inside) + sum(weights)
                )
            pending.pop()

    def of(self, value: Any) -> int:
        """Return the weight of the value, or of one in it."""
        if isinstance(value, str):
            return 1 + len(value)
        return self._known.get(id(value), 1) if isinstance(value, _CONTAINERS) else 1

    def parts(self, value: Any) -> Iterator[Any]:
        """Return a list, tuple or mapping in parts of the same kind, of at most a piece each.

        An entry that is larger than a piece is a part of its own.
        """
        is_dict = isinstance(value, dict)
        few: Any = {} if is_dict else []
        total = 0
        for entry in value.items() if is_dict else value:
            weight = self.of(entry[0]) + self.of(entry[1]) if is_dict else self.of(entry)
            if few and total + weight > PIECE:
                yield few
                few, total = {} if is_dict else [], 0
            if is_dict:
                few[entry[0]] = entry[1]
            else:
                few.append(entry)
            total += weight
        if few:
            yield few


def write_in_pieces(value: Any, write: Callable[[Any], str], comma: str = ", ") -> Iterator[str]:
    """Write a value as JSON in pieces, each of which is made in a moment.

    Args:
        value: The value; what is no text, list, tuple or mapping is a piece of its own.
        write: Writes what is no larger than a piece on one line.
        comma: What `write` puts between two entries.

    Raises:
        ValueError: The value holds itself.
        TypeError: Keys of a mapping are no texts: two of them may be the same in JSON.
        RecursionError: It nests too deep.
    """
    if _weigh_part(value) <= PIECE:
        yield write(value)
    else:
        yield from _Pieces(write, comma).write_large(value)


class _Pieces:
    """What writes a value that is larger than a piece."""

    def __init__(self, write: Callable[[Any], str], comma: str) -> None:
        self._write = write
        self._comma = comma
        self._open: set[int] = set()
        """The containers that are being written, by their ids."""

    def write_large(self, value: Any) -> Iterator[str]:
        if isinstance(value, str):
            text = str.__str__(value)
            yield '"'
            yield from (self._write(text[at : at + PIECE])[1:-1] for at in _list_steps(text))
            yield '"'
            return
        if id(value) in self._open:
            raise ValueError("it holds itself")
        self._open.add(id(value))
        yield from self._write_dict(value) if isinstance(value, dict) else self._write_list(value)
        self._open.discard(id(value))

    def _write_list(self, value: Any) -> Iterator[str]:
        yield "["
        few: list[Any] = []
        before, total = "", 0
        for entry in value:
            weight = _weigh_part(entry)
            if few and total + weight > PIECE:
                yield before + self._write(few)[1:-1]
                before, few, total = self._comma, [], 0
            if weight > PIECE:
                yield before
                before = self._comma
                yield from self.write_large(entry)
            else:
                few.append(entry)
                total += weight
        if few:
            yield before + self._write(few)[1:-1]
        yield "]"

    def _write_dict(self, value: Any) -> Iterator[str]:
        yield "{"
        few: dict[str, Any] = {}
        before, total = "", 0
        for key, entry in value.items():
            if not isinstance(key, str):
                raise TypeError("two keys may be the same in JSON")
            weight = _weigh_part(entry)
            if few and total + weight + len(key) > PIECE:
                yield before + self._write(few)[1:-1]
                before, few, total = self._comma, {}, 0
            if weight > PIECE:
                yield before + self._write({key: 0})[1:-2]
                before = self._comma
                yield from self.write_large(entry)
            else:
                few[key] = entry
                total += weight + len(key)
        if few:
            yield before + self._write(few)[1:-1]
        yield "}"


def _list_steps(text: str) -> range:
    return range(0, len(text), PIECE)


def _weigh_part(value: Any) -> int:
    """Return the weight of a value; of one that is larger than a piece, any number above that.

    It is weighed level by level, as far as it is no larger.

    Raises:
        TypeError: Keys of a mapping are no texts.
    """
    if isinstance(value, str):
        return 1 + len(value)
    weight, level = 1, [value] if isinstance(value, _CONTAINERS) else []
    while level and weight <= PIECE:
        nested: list[Any] = []
        for item in level:
            weight += 1 + 2 * len(item)
            if weight > PIECE:
                break
            inside = item.values() if isinstance(item, dict) else item
            weight += _text_length(inside)
            if isinstance(item, dict):
                weight += _length_of_keys(item)
            nested += _list_nested(inside)
        level = nested
    return weight


def _list_nested(inside: Collection[Any]) -> list[Any]:
    # The kinds are looked at first, at once: most of what there is are rows without lists in them.
    if _PLAIN.issuperset(map(type, inside)):
        return []
    return [each for each in inside if isinstance(each, _CONTAINERS)]


def _length_of_keys(item: dict[Any, Any]) -> int:
    if _TEXT.issuperset(map(type, item)):
        return sum(map(len, item))
    if type(item) is dict:
        raise TypeError("two keys may be the same in JSON")
    return _text_length(item)


def _text_length(inside: Collection[Any]) -> int:
    if _NUMBERS.issuperset(map(type, inside)):
        return 0
    return sum([len(each) for each in inside if isinstance(each, str)])
