"""How is a large value split so that each part is processed in a moment?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from gc import get_referents, is_tracked
from sys import getsizeof
from typing import Any, Final

import msgspec

PIECE: Final = 65_536
"""Characters and values that are processed at once: a millisecond or two."""
_AT_ONCE: Final = 524_288
"""Bytes of its packed form."""
_PER_ENTRY: Final = 16
"""Bytes that each entry counts for where entries are many."""
_pack: Final = msgspec.msgpack.Encoder().encode
_CONTAINERS: Final = (dict, list, tuple)
_NUMBERS: Final = frozenset((int, float, bool, type(None)))
_TEXT: Final = frozenset((str,))
_PLAIN: Final = _NUMBERS | _TEXT
HOLDING: Final = frozenset((dict, list, tuple, set, frozenset))
_FIELDS: Final = ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__", "model_dump")
"""What the classes of values with fields have."""
LONG_TEXT: Final = 10_000
"""Bytes of a text that is worth a look at whether it is held again."""
_SAMPLE: Final = 4
"""Parts of a level that are looked at."""
_FEW: Final = 64
"""Values of a level of which none need be looked at."""
_WIDE: Final = 100
"""So many times the entries that are counted may stand in rows of texts and numbers."""
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


def pack_small(value: Any, most: int) -> bytes | None:
    """Return the packed form of a value, if that has at most `most` bytes.

    None also for what has no such form, and for many entries, which take longer to handle than
    their bytes say.
    """
    if not seems_small(value, most // _PER_ENTRY):
        return None
    try:
        packed = _pack(value)
    except Exception:  # noqa: BLE001 - a foreign value may raise anything
        return None
    return packed if len(packed) <= most else None


def seems_small(value: Any, most: int) -> bool:
    """Return True if a value has at most `most` entries, each counted as often as it is held.

    To pack a large one would take long, and of one that holds the same parts again and again for
    ever. Of many entries a few are looked at for long texts.
    """
    level, left = [value if type(value) in HOLDING else get_referents(value)], most
    while level:
        left -= sum(map(len, level))
        if left < 0:
            return False
        found = get_referents(*level)
        if len(found) > _FEW and not _seem_short(found, most):
            return False
        level = _list_inside(found)
    return True


def _list_inside(found: list[Any]) -> list[Any]:
    """Return what holds others among some values; of those with fields, what they hold."""
    # What the garbage collector does not track holds texts and numbers alone.
    tracked = list(filter(is_tracked, found))
    inside = [each for each in tracked if type(each) in HOLDING]
    if len(inside) < len(tracked):
        held = get_referents(*(each for each in tracked if has_fields(type(each))))
        # Each of them refers to its class as well.
        inside.append([each for each in held if not isinstance(each, type)])
    return inside


def _seem_short(found: list[Any], most: int) -> bool:
    """Return True if a few of some values are neither long texts nor wide rows."""
    for each in found[:: len(found) // _SAMPLE]:
        inside = get_referents(each) if type(each) in HOLDING else [each]
        if len(inside) * len(found) > _WIDE * most:
            return False
        if inside and max(map(getsizeof, inside)) > LONG_TEXT:
            return False
    return True


def has_fields(kind: type) -> bool:
    """Return True for a class whose values are written as their fields."""
    return not issubclass(kind, type) and any(hasattr(kind, name) for name in _FIELDS)


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


def write_in_pieces(
    value: Any, weights: Weights, write: Callable[[Any], str], comma: str = ", "
) -> Iterator[str]:
    """Write a value as JSON, piece by piece.

    Args:
        value: The value.
        weights: The weights of it.
        write: Writes what is no larger than a piece on one line.
        comma: What `write` puts between two entries.
    """
    if weights.of(value) <= PIECE or not isinstance(value, str | dict | list | tuple):
        yield write(value)
    elif isinstance(value, str):
        text = str.__str__(value)
        yield '"'
        yield from (write(text[at : at + PIECE])[1:-1] for at in range(0, len(text), PIECE))
        yield '"'
    else:
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        yield opening
        before = ""
        for part in weights.parts(value):
            yield before
            before = comma
            if len(part) > 1:
                yield write(part)[1:-1]
                continue
            entry = part[0] if isinstance(part, list) else None
            if isinstance(part, dict):
                ((key, entry),) = part.items()
                yield write({key: 0})[1:-2]
            yield from write_in_pieces(entry, weights, write, comma)
        yield closing


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
