"""Does a list hold the same item twice, as JSON Schema understands it?

The compiled validator compares each number of more than 64 bits with each other one, and a whole
list in one step, while no other thread runs. Here a list is looked through once and in parts, and
other threads have their turn between them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import msgspec

_PART: Final = 512
_Written = bytes | str
_FLOAT: Final = 0xCB
"""The byte that stands before a float in MessagePack."""
_LARGEST: Final = 2**63
_pack: Final = msgspec.msgpack.Encoder(order="deterministic").encode


class UniqueItems:
    """The keyword `uniqueItems` of a validator, in place of its own.

    Args:
        schema: Where the keyword stands.
        value: Its value.
        path: Its place.
    """

    def __init__(self, schema: Any, value: Any, path: Any) -> None:
        del schema, path
        self._is_held = value is True

    def validate(self, value: Any) -> None:
        """Raise `ValueError` where an item is there twice."""
        if self._is_held and type(value) is list and has_twice(value):
            raise ValueError("an item is there twice")


LINEAR: Final[dict[str, Any]] = {"uniqueItems": UniqueItems}
"""The keywords of a validator that take its own more than linear time."""


def has_twice(items: list[Any]) -> bool:
    """Return whether two items are equal: 1 and 1.0 are, 1 and true are not.

    Args:
        items: Plain JSON.
    """
    seen: set[_Written] = set()
    is_twice = False
    for start in range(0, len(items), _PART):
        part = items[start : start + _PART]
        seen.update(_write_items(part))
        if is_twice := len(seen) < start + len(part):
            break
    # To give back the memory of many at once would take long, too.
    while seen:
        seen.pop()
    return is_twice


def _write_items(items: list[Any]) -> Iterable[_Written]:
    """Return the same for what is the same, and never a number.

    A number hashes to what its sender can choose, so that a set of them may take its square.
    """
    kinds = set(map(type, items))
    if kinds == {str}:
        return items
    if kinds == {int} and max(items) < _LARGEST and min(items) > -_LARGEST:
        return map(_pack, items)
    return map(_write_item, items)


def _write_item(item: Any) -> _Written:
    if type(item) is str:
        return item
    try:
        packed = _pack(item)
        return _pack(_as_integers(item)) if _FLOAT in packed else packed
    except OverflowError:
        # No packed value begins with this byte.
        return b"\xc1" + json.dumps(_as_integers(item), sort_keys=True).encode()


def _as_integers(value: Any) -> Any:
    """Return a copy in which numbers without a fraction are integers."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is dict:
        return {key: _as_integers(item) for key, item in value.items()}
    return [_as_integers(item) for item in value] if type(value) is list else value
