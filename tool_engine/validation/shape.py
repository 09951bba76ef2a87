"""Are the arguments plain JSON, and how do they read in the schema's own form?

Shaping copies what `read_plain` read: 1.0 becomes 1 where the schema says integer, and unknown keys
are left out where short keys alone declare the others, or the tool takes no others. What JSON
cannot hold is noted with its place; nothing is ever raised.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any, Final, NamedTuple

from tool_engine.model.json.plain import Unreadable, name_of
from tool_engine.validation.position import Position

MAX_DEPTH: Final = 64
"""How deep lists and objects may be nested, the arguments themselves included."""
MAX_VALUES: Final = 1_000_000
"""How many values one call may carry; a list that is shared a million times counts each time."""
LARGEST: Final = 10**4200
SMALLEST: Final = -LARGEST
"""The limit of integers: past 4,300 digits Python writes none, and the validator misjudges them."""
MAX_NOTES: Final = 100
"""How many places are noted with their path; further ones are counted."""

_BEGINNING: Final = 2_000
"""Values that are read of what is wrong as a whole."""
_FEW: Final = 16
"""Below this many values a loop is cheaper than the check by compiled code."""
_SIMPLE: Final = frozenset((int, str, bool, float, type(None)))
_NESTED: Final[dict[Any, str]] = {dict: "object", list: "array"}
_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

Path = tuple[str | int, ...]


class Refusal(NamedTuple):
    """A value that JSON cannot hold."""

    path: Path
    rule: str
    """What it must do instead, such as `be a finite number`."""
    got: str
    """What was found, in words."""
    error_type: str
    is_key: bool = False
    """True if a key was refused; `path` is then the object that had it."""


class Unknown(NamedTuple):
    """An undeclared key that was left out."""

    path: Path
    key: str


class _OverflowError(Exception):
    """The value is too deep or too large to go on."""


class Shaper:
    """Copies one call's arguments and notes what prevents it."""

    __slots__ = (
        "_room",
        "_trail",
        "_values",
        "more_refusals",
        "more_unknown",
        "refusals",
        "unknown",
    )

    def __init__(self) -> None:
        self.refusals: list[Refusal] = []
        self.unknown: list[Unknown] = []
        self.more_refusals = 0
        """Refusals beyond the first hundred."""
        self.more_unknown = 0
        """Unknown keys beyond the first hundred."""
        self._trail: list[str | int] = []
        self._values = 0
        self._room: int | None = None
        """How many more values are read of what is wrong as a whole; None: it may be right."""

    @property
    def is_clean(self) -> bool:
        """True if all could be copied."""
        return not self.refusals and not self.unknown

    def arguments(self, params: dict[Any, Any], root: Position) -> dict[str, Any]:
        """Return the shaped arguments, without the defaults of omitted parameters.

        Args:
            params: What was sent, as `read_plain` reads it.
            root: The position of the arguments.
        """
        shaped: dict[str, Any] = {}
        declared = root.properties
        for raw, item in params.items():
            key = self._shape_key(raw)
            if key is None:
                continue
            if key not in declared and root.is_closed:
                self._note_unknown(key)
                continue
            self._trail.append(key)
            try:
                self._count_values()
                shaped[key] = self.value(item, root.child(key))
            except _OverflowError:
                # The parameter is given up as a whole: each further branch could take as long.
                shaped[key] = None
            self._trail.clear()
        return shaped

    def value(self, value: Any, position: Position) -> Any:
        """Return the shaped form of `value`; None where it was refused."""
        kind = type(value)
        if kind is str:
            return value if value.isascii() or is_encodable(value) else self._refuse_surrogate()
        if kind is int:
            return self._shape_integer(value, position)
        if kind is bool or value is None:
            return value
        if kind is float:
            return self._shape_float(value, position)
        if kind is dict or kind is list:
            return self._shape_nested(value, position, "object" if kind is dict else "array")
        is_lost = type(value) is Unreadable
        got = value.words if is_lost else f"a value of type {name_of(value)}"
        return self._refuse_value("be a JSON value", got)

    def _shape_nested(self, value: Any, position: Position, kind: str) -> Any:
        shape: Any = self._shape_object if kind == "object" else self._shape_list
        if self._room is not None or position.takes(kind):
            return shape(value, position)
        # Whatever it holds, it is wrong: its beginning is enough for the message.
        self._room = _BEGINNING
        try:
            return shape(value, position)
        finally:
            self._room = None

    def _shape_object(self, value: dict[Any, Any], position: Position) -> dict[str, Any]:
        self._go_down()
        declared = position.properties if position.drops_unknown else None
        if declared is None or value.keys() <= declared.keys():
            is_plain = len(value) > _FEW and _are_plain_texts(value)
            if is_plain and _are_plain(value.values(), with_floats=position.is_open):
                self._count_values(len(value))
                return dict(value)
        shaped: dict[str, Any] = {}
        trail = self._trail
        for raw, item in value.items():
            if self._is_enough():
                break
            key = self._shape_key(raw)
            if key is None:
                continue
            if declared is not None and key not in declared:
                self._note_unknown(key)
                continue
            trail.append(key)
            self._count_values()
            shaped[key] = self.value(item, position.child(key))
            trail.pop()
        return shaped

    def _shape_list(self, value: list[Any], position: Position) -> list[Any]:
        self._go_down()
        below = position.item
        if len(value) > _FEW and _are_plain(value, with_floats=not below.is_integer):
            self._count_values(len(value))
            return list(value)
        shaped: list[Any] = []
        trail = self._trail
        for index, item in enumerate(value):
            if self._is_enough():
                break
            if index == _BEGINNING and _are_refused(value, position):
                # Whatever they hold, all are wrong: only the first are described.
                self._count_values(len(value) - index)
                empty: dict[type, Any] = {dict: {}, list: []}
                return shaped + [empty[kind] for kind in map(type, value[index:])]
            trail.append(index)
            self._count_values()
            shaped.append(self.value(item, below))
            trail.pop()
        return shaped

    def _is_enough(self) -> bool:
        if self._room is None:
            return False
        self._room -= 1
        return self._room < 0

    def _shape_key(self, key: Any) -> str | None:
        if type(key) is str and key.isascii():
            return key
        if type(key) is not str:
            got = f"a key of type {name_of(key)}"
            self._refuse_value("have only text as keys", got, is_key=True)
            return None
        if not is_encodable(key):
            got = "a key with half of a surrogate pair"
            self._refuse_value("have keys of valid Unicode", got, is_key=True)
            return None
        return key

    def _shape_integer(self, value: int, position: Position) -> Any:
        if SMALLEST < value < LARGEST or not position.is_bounded:
            return value
        return self._refuse_value("have at most 4,200 digits", "more", "constraint_violation")

    def _shape_float(self, value: float, position: Position) -> Any:
        if not math.isfinite(value):
            return self._refuse_value("be a finite number", _NOT_FINITE[str(value)])
        return int(value) if position.is_integer and value.is_integer() else value

    def _refuse_surrogate(self) -> Any:
        return self._refuse_value("be valid Unicode text", "half of a surrogate pair")

    def _go_down(self) -> None:
        if len(self._trail) >= MAX_DEPTH:
            rule = f"have at most {MAX_DEPTH} levels of nesting"
            self._refuse_overflow(rule, "more, or a value that holds itself")

    def _count_values(self, values: int = 1) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            self._refuse_overflow(f"have at most {MAX_VALUES:,} values inside", "more")

    def _refuse_value(
        self, rule: str, got: str, error_type: str = "type_mismatch", *, is_key: bool = False
    ) -> None:
        if len(self.refusals) < MAX_NOTES:
            self.refusals.append(Refusal(tuple(self._trail), rule, got, error_type, is_key))
        else:
            self.more_refusals += 1

    def _refuse_overflow(self, rule: str, got: str) -> None:
        path = tuple(self._trail[:1])
        self.refusals.append(Refusal(path, rule, got, "constraint_violation"))
        raise _OverflowError

    def _note_unknown(self, key: str) -> None:
        if len(self.unknown) < MAX_NOTES:
            self.unknown.append(Unknown(tuple(self._trail), key))
        else:
            self.more_unknown += 1


def _are_refused(values: list[Any], position: Position) -> bool:
    """Return True if all are lists or objects, of which none is right at its place."""
    kinds = set(map(type, values))
    return (
        kinds <= _NESTED.keys()
        and not any(position.item.takes(_NESTED[kind]) for kind in kinds)
        and "uniqueItems" not in position.certain
    )


def _are_plain(values: Collection[Any], *, with_floats: bool) -> bool:
    """True if all `values` can be used unchanged, found without a Python loop."""
    kinds = set(map(type, values))
    if not kinds <= _SIMPLE or (float in kinds and not with_floats):
        return False
    if str in kinds and not _are_plain_texts(_of_kind(str, values, kinds)):
        return False
    if int in kinds:
        whole = _of_kind(int, values, kinds)
        if min(whole) <= SMALLEST or max(whole) >= LARGEST:
            return False
    return float not in kinds or all(map(math.isfinite, _of_kind(float, values, kinds)))


def _of_kind(kind: type, values: Collection[Any], kinds: set[type]) -> Collection[Any]:
    return values if len(kinds) == 1 else [value for value in values if type(value) is kind]


def _are_plain_texts(texts: Iterable[Any]) -> bool:
    """True if all of `texts` are Unicode texts, found by compiled code only."""
    if set(map(type, texts)) != {str}:
        return False
    joined = "".join(texts)
    return joined.isascii() or is_encodable(joined)


def count_values(value: list[Any] | dict[str, Any]) -> int:
    """Return how many values plain JSON holds; in time that compiled code takes."""
    level, found = [value], 0
    while level:
        found += sum(map(len, level))
        held = chain.from_iterable(each.values() if type(each) is dict else each for each in level)
        level = [each for each in held if type(each) is dict or type(each) is list]
    return found


def copy_plain(value: Any) -> Any:
    """Return a deep copy of plain JSON."""
    if type(value) is dict:
        return {key: copy_plain(item) for key, item in value.items()}
    return [copy_plain(item) for item in value] if type(value) is list else value


def is_encodable(text: str) -> bool:
    """True if `text` has no lone surrogates, which neither encodings nor JSON can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
