"""How are sent values read, and copied, without running the sender's code?

A subclass of dict, list or str may raise, or answer differently, whenever it is read. It is read
once as the plain type that it extends, so that all later readers see the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from itertools import chain, islice
from typing import Any, Final

import msgspec

from tool_engine.model.json.unpacking import LARGE, unpack_value
from tool_engine.model.json.weighing import PIECE

_MOST: Final = 1_000_001
"""Keys of a mapping that are read: one more than a call may carry."""
_MOST_ANEW: Final = 500_000
"""Values that are looked at before those that stand in several places are distinguished."""
_DEEPEST: Final = 200
"""Levels that are read; validation refuses long before."""
_SCALARS: Final = frozenset((str, int, float, bool, type(None)))
_CONTAINERS: Final = frozenset((dict, list))
_EXACT: Final = _SCALARS | _CONTAINERS
_TEXT: Final = frozenset((str,))
_Known = dict[int, tuple[Any, Any]]
"""id of an original -> its copy and the original, kept alive so that its id stays unique."""
_CLASS_NAME: Final = type.__dict__["__name__"]
_pack: Final = msgspec.msgpack.Encoder().encode
_SHORT: Final = 2**64
"""A number whose digits are counted is below it."""
_IMMUTABLE: Final = frozenset((str, int, float, bool, type(None)))


class Unreadable:
    """Stands in place of a value that cannot be read; never valid JSON."""

    __slots__ = ("words",)

    def __init__(self, words: str) -> None:
        self.words = words
        """What stood there, and why it cannot be read."""

    def __repr__(self) -> str:
        return f"<{self.words}>"


def name_of(value: object) -> str:
    """Return the name of a value's class without running its metaclass."""
    return str(_CLASS_NAME.__get__(type(value)))


def read_plain(params: Any) -> Any:
    """Return `params` if all of it is plain, else a plain copy. Never raises.

    Subclasses of text, numbers, lists and dicts become the plain type with what that holds,
    whatever their own methods say; a tuple becomes a list, another mapping a dict. What raises
    while it is read becomes an `Unreadable`, which no tool accepts. Other objects stay.
    """
    try:
        if is_flat(params) or is_exact(params):
            return params
    except Exception:  # noqa: BLE001, S110 - a metaclass may raise anything
        pass  # it is read again below, where what raises becomes an `Unreadable`
    return _make_plain(params, 0, {})


def is_flat(value: Any) -> bool:
    """Return True for a plain dict with plain keys, which holds no dict or list."""
    return (
        type(value) is dict
        and _SCALARS.issuperset(map(type, value.values()))
        and _TEXT.issuperset(map(type, value))
    )


def is_exact(value: Any) -> bool:
    """Return True if all of a value is plain JSON, in dicts, lists and no class made from them.

    False for what nests deeper than is looked.
    """
    if type(value) not in _CONTAINERS:
        return type(value) in _SCALARS
    # A level at a time, for a million small lists. What stands in many places is read in each,
    # up to a bound: finding out that it is the same takes longer.
    level, seen, visited = [value], set[int](), 0
    for _ in range(_DEEPEST):
        visited += sum(map(len, level))
        if visited > _MOST_ANEW:
            places = set(map(id, level))
            if len(places) < len(level) or not seen.isdisjoint(places):
                level = list({id(each): each for each in level if id(each) not in seen}.values())
            seen |= places
        inside = _list_inside(level)
        if not inside:
            return inside is not None
        level = inside
    return False


def _list_inside(level: list[Any]) -> list[Any] | None:
    """Return the dicts and lists in dicts and lists, but empty ones; None: what is not plain."""
    mappings = [each for each in level if type(each) is dict]
    if not _TEXT.issuperset(map(type, chain.from_iterable(mappings))):
        return None
    lists = [each for each in level if type(each) is list] if mappings else level
    held = [*chain.from_iterable(map(dict.values, mappings)), *chain.from_iterable(lists)]
    kinds = set(map(type, held))
    if not kinds <= _EXACT:
        return None
    if kinds <= _SCALARS:
        return []
    if not kinds <= _CONTAINERS:
        held = [each for each in held if type(each) in _CONTAINERS]
    return list(filter(None, held))


def _make_plain(value: Any, depth: int, known: _Known) -> Any:
    if id(value) in known:
        return known[id(value)][1]
    try:
        if not isinstance(value, list | tuple | Mapping):
            return _plain_scalar(value)
        return _copy_container(value, depth, known) if depth < _DEEPEST else value
    except Exception as error:  # noqa: BLE001 - foreign code
        words = f"a value of type {name_of(value)} that cannot be read"
        copy = Unreadable(f"{words} ({name_of(error)})")
        known[id(value)] = value, copy
        return copy


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int.__int__(value)
    return float.__float__(value) if isinstance(value, float) else value


def _copy_container(value: Any, depth: int, known: _Known) -> Any:
    if not isinstance(value, Mapping):
        items: list[Any] = []
        known[id(value)] = value, items
        items += list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
        if not _SCALARS.issuperset(map(type, items)):
            items[:] = [_make_plain(each, depth + 1, known) for each in items]
        return items
    mapping: dict[Any, Any] = {}
    known[id(value)] = value, mapping
    held = dict.items(value) if isinstance(value, dict) else islice(value.items(), _MOST)
    for read, (key, item) in enumerate(held, 1):
        mapping[_plain_scalar(key)] = _make_plain(item, depth + 1, known)
        if len(mapping) < read:
            raise ValueError("one key is there twice")
    return mapping


def copy_json(value: Any) -> Any:
    """Return a deep copy; for JSON values several times as quick as `deepcopy`.

    Raises:
        RecursionError: It nests too deep.
    """
    if type(value) is dict and _IMMUTABLE.issuperset(map(type, value.values())):
        # As the arguments of most calls.
        return value.copy()
    try:
        packed = _pack(value)
        if len(packed) >= LARGE and is_exact(value):
            return unpack_value(packed)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        pass  # it holds what MessagePack has no form for
    return _copied_one_by_one(value)


def _copied_one_by_one(value: Any) -> Any:
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is dict:
        return {
            key: item if type(item) in _IMMUTABLE else _copied_one_by_one(item)
            for key, item in value.items()
        }
    if kind is list:
        return [item if type(item) in _IMMUTABLE else _copied_one_by_one(item) for item in value]
    return deepcopy(value)


def write_short(value: Any) -> str | None:
    """Return the text of a plain text or number, else None."""
    kind = type(value)
    if kind is str and len(value) <= PIECE and value.isascii():
        return value  # type: ignore[no-any-return] # of exactly this type
    return str(value) if kind is int and -_SHORT < value < _SHORT else None
