"""How long is the text that a model would read of a value?

Nothing is written to find out, and counting stops at the limit: a larger size is only known to be
larger, so that the cost is that of the limit and not of the value.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring
from typing import Any, Final

from tool_engine.model.json.free_key import free_key, text_key
from tool_engine.model.json.returned_value import as_output, safe_repr, spell_number, stand_in
from tool_engine.model.result import CutStrategy, ResultLimits

MAX_DEPTH: Final = 64
"""Levels that are looked into; deeper values are shown as an ellipsis."""
_MAX_BITS: Final = 2_048
"""Python refuses to write integers of more than 4,300 digits."""
_MAX_BYTES: Final = 1_048_576
_PLAIN: Final = frozenset((str, dict, list, bool, type(None)))


def read_shallow(value: Any) -> Any:
    """Return `value` as a text, number, bool, None, dict or list; its items unchanged."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int | float):
        return _fit_number(value)
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    return _replace_foreign(value)


def _replace_foreign(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return repr(bytes(value[:_MAX_BYTES]))
    if isinstance(value, Mapping):
        return dict(value)
    output = as_output(value)
    plain = stand_in(value) if output.get("result") is value else output
    return plain if type(plain) in _PLAIN else read_shallow(plain)


def make_plain(value: Any) -> Any:
    """Return `value` as JSON values: itself where it is made of them, else a copy.

    Raises:
        RecursionError: It holds itself, or nests too deep.
    """
    return value if _is_plain(value) else _copy_value(value)


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    if kind is list:
        return all(map(_is_plain, value))
    return kind in _PLAIN or kind is int or (kind is float and math.isfinite(value))


def _copy_value(value: Any) -> Any:
    value = read_shallow(value)
    if isinstance(value, dict):
        copy: dict[str, Any] = {}
        for key, item in value.items():
            copy[free_key(key_of(text_key(key, value, key_of)), copy)] = _copy_value(item)
        return copy
    return [_copy_value(item) for item in value] if isinstance(value, list) else value


def _fit_number(value: float) -> float | str:
    if isinstance(value, int):
        bits = int.bit_length(value)
        return int(value) if bits <= _MAX_BITS else f"<whole number of {bits:,} bits>"
    if math.isfinite(value):
        return float(value)
    return spell_number(value)


def text_size(text: str, most: float = sys.maxsize) -> int:
    """Return the characters of `text` in quotes, escaped as JSON asks for.

    Escapes are counted only where they matter: not for a text that is longer than `most`, nor
    where `most` is endless.
    """
    if len(text) + 2 > most or most == math.inf:
        return len(text) + 2
    quoted = encode_basestring(text)
    if quoted.isascii():
        return len(quoted)
    return len(quoted.encode("utf-8", "backslashreplace").decode())


class Measure:
    """Measures values as they are shown under the `max_items` of `limits`.

    Args:
        limits: What is shown of lists.
        overhead: Characters that each list and each mapping counts for, beside its text.
    """

    def __init__(self, limits: ResultLimits, *, overhead: int = 0) -> None:
        self._overhead = overhead
        self._most_items = limits.max_items
        self.strategy = limits.strategy
        self.must_cut = False
        """True after a value that cannot be shown whole, whatever room there is."""

    def ends(self, count: int) -> tuple[int, int]:
        """Return how many entries of `count` may be shown of a list's beginning and end."""
        shown = count if self._most_items is None else min(count, self._most_items)
        if self.strategy is CutStrategy.TAIL:
            return (0, shown) if shown < count else (count, 0)
        if self.strategy is CutStrategy.HEAD or shown == count:
            return shown, 0
        return shown - shown // 2, shown // 2

    def size(self, value: Any, most: float, depth: int = 0) -> int:
        """Return the characters of the text of `value`; anything above `most` if longer."""
        value = read_shallow(value)
        if isinstance(value, str):
            return text_size(value, most)
        if depth >= MAX_DEPTH and isinstance(value, dict | list):
            self.must_cut = True
            return 3
        if isinstance(value, dict):
            return self._size_of_mapping(value, most, depth + 1)
        if isinstance(value, list):
            return self._size_of_list(value, most, depth + 1)
        return len(repr(value))  # as long as in JSON: None is null, True is true

    def _size_of_mapping(self, value: dict[Any, Any], most: float, depth: int) -> int:
        total = 2 if value else 4
        for key, item in value.items():
            total += self.key_size(key, most) + 2
            if total - 2 > most:
                break
            total += self.size(item, most - total + 2, depth)
        return total - 2 + self._overhead

    def _size_of_list(self, value: list[Any], most: float, depth: int) -> int:
        total = 2 if value else 4
        for item in self._list_shown(value):
            total += 2 + self.size(item, most - total, depth)
            if total - 2 > most:
                break
        return total - 2 + self._overhead

    def key_size(self, key: Any, most: float) -> int:
        """Return the characters of a key, with the colon and the space behind it."""
        return text_size(key_of(key), most) + 2

    def _list_shown(self, value: list[Any]) -> Iterator[Any]:
        head, tail = self.ends(len(value))
        if head + tail == len(value):
            return iter(value)
        self.must_cut = True
        return (value[i] for i in (*range(head), *range(len(value) - tail, len(value))))


def key_of(key: Any) -> str:
    """Return the text that represents a mapping's key."""
    if isinstance(key, str):
        return str.__str__(key)
    return str(read_shallow(key)) if isinstance(key, int | float) else safe_repr(key)
