"""Which defaults inside objects and lists does a call get?

Those of the optional keys that a schema declares with `properties`, at every depth to which
`properties`, `items` and `additionalProperties` alone lead. What stands in a branch (`anyOf`, `if`,
`patternProperties` and so on) may or may not apply, so its defaults are never filled in. Filling
comes after the sent value was judged: a default takes no part in that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from tool_engine.validation.effort import find_errors
from tool_engine.validation.shape import Path, count_values, fresh

_MOST_SAMPLES: Final = 100
MAX_FILLED: Final = 200_000
"""How many values are filled in for one call: a few bytes for each item would make any number."""
_LEADS_INSIDE: Final = frozenset({"properties", "items", "additionalProperties"})
ANY: Final = "*"
"""The path step for every item, or for every undeclared key."""


class Place(NamedTuple):
    """Where a default stands, and the schema that it must fit."""

    path: Path
    schema: Mapping[str, Any]
    default: Any


class TooManyDefaultsError(Exception):
    """More values than `MAX_FILLED` would be filled in."""


class Room:
    """How many more values one call may have filled in."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_FILLED

    def take(self, values: int) -> None:
        self.left -= values
        if self.left < 0:
            raise TooManyDefaultsError


Judge = Callable[[Place], Any]
"""Returns a default as plain JSON, or raises."""


class Filling:
    """The defaults to fill in below one place.

    Args:
        defaults: The defaults of the keys of an object there.
        keys: What is filled in below its keys.
        rest: The same for each key that is not declared.
        items: The same for each item of a list there.
        declared: The keys that are declared.
        written: `defaults` without what is filled in inside of them.
    """

    __slots__ = ("_costs", "_declared", "_defaults", "_items", "_keys", "_rest", "_written")

    def __init__(
        self,
        defaults: dict[str, Any],
        keys: dict[str, Filling],
        rest: Filling | None = None,
        items: Filling | None = None,
        declared: frozenset[str] = frozenset(),
        written: dict[str, Any] | None = None,
    ) -> None:
        self._defaults = defaults
        self._keys = keys
        self._rest = rest
        self._items = items
        self._declared = declared
        self._written = written or {}
        self._costs = {name: count_values([default]) for name, default in defaults.items()}

    @classmethod
    def of(cls, schema: Any, judge: Judge, path: Path = ()) -> Filling | None:
        """Return the defaults that `schema` fills in below its place; None: none.

        Args:
            schema: JSON Schema.
            judge: Asked for each default, before it is kept.
            path: The place.
        """
        if not isinstance(schema, Mapping) or _LEADS_INSIDE.isdisjoint(schema):
            return None
        properties = schema.get("properties", {})
        keys = {
            name: below
            for name, value in properties.items()
            if (below := cls.of(value, judge, (*path, name))) is not None
        }
        rest = items = None
        if "patternProperties" not in schema:
            rest = cls.of(schema.get("additionalProperties"), judge, (*path, ANY))
        if "prefixItems" not in schema:
            items = cls.of(schema.get("items"), judge, (*path, ANY))
        written = {name: judge(place) for name, place in _find_defaults(schema, path)}
        defaults = {name: fresh(value) for name, value in written.items()}
        for name in defaults.keys() & keys.keys():
            keys[name].fill(defaults[name])
        if not (defaults or keys or rest or items):
            return None
        return cls(defaults, keys, rest, items, frozenset(properties), written)

    def fill(self, value: Any, room: Room | None = None) -> None:
        """Fill in, in place, the defaults that a valid `value` leaves out.

        Raises:
            TooManyDefaultsError: It has very many places for them; some are filled in.
        """
        room = Room() if room is None else room
        if type(value) is dict:
            self._fill_object(value, room)
        elif type(value) is list and self._items is not None:
            for item in value:
                self._items.fill(item, room)

    def fill_as_written(self, value: Any) -> None:
        """Fill in the same defaults as `fill`, without those inside of them."""
        if type(value) is dict:
            for name, item in value.items():
                below = self._keys.get(name, None if name in self._declared else self._rest)
                if below is not None:
                    below.fill_as_written(item)
            for name, default in self._written.items():
                if name not in value:
                    value[name] = fresh(default)
        elif type(value) is list and self._items is not None:
            for item in value:
                self._items.fill_as_written(item)

    def samples(self) -> Iterator[Any]:
        """Yield the least values that have a place where a default is filled in."""
        if self._defaults:
            yield {}
        for name, below in self._keys.items():
            for each in below.samples():
                yield {name: each}
        if self._items is not None:
            for each in self._items.samples():
                yield [each]

    def _fill_object(self, value: dict[str, Any], room: Room) -> None:
        for name, default in self._defaults.items():
            if name not in value:
                room.take(self._costs[name])
                value[name] = fresh(default)
        for name, below in self._keys.items():
            if name in value:
                below.fill(value[name], room)
        if self._rest is not None:
            for name in value.keys() - self._declared:
                self._rest.fill(value[name], room)


def _find_defaults(schema: Mapping[str, Any], path: Path) -> Iterator[tuple[str, Place]]:
    required = schema.get("required", ())
    for name, value in schema.get("properties", {}).items():
        if name not in required and _has_usable_default(value):
            yield name, Place((*path, name), value, value["default"])


def _has_usable_default(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or "default" not in schema:
        return False
    # Inside an object, a default of null for a value that may not be null means: leave it out.
    types = schema.get("type", "null")
    return schema["default"] is not None or "null" in ([types] if isinstance(types, str) else types)


def misfits(filling: Filling, rules: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the errors of defaults that fit their own schema but break the whole.

    Judged are the least values that the rules accept as they are sent. What a rule says of how many
    keys there are, or which, is no error of a default: it is held by what was sent, or written.

    Args:
        filling: What is filled in.
        rules: The validator of the whole value.
        schema: Its schema.
    """
    for sample in islice(filling.samples(), _MOST_SAMPLES):
        if rules.is_valid(sample):
            written, filled = fresh(sample), fresh(sample)
            filling.fill_as_written(written)
            filling.fill(filled)
            for value, before in ((written, sample), (filled, written)):
                for error in find_errors(rules, schema, value):
                    if not _is_in(before, error.instance_path):
                        yield error


def _is_in(value: Any, path: Iterable[Any]) -> bool:
    for step in path:
        if isinstance(value, dict) and step not in value:
            return False
        value = value[step]
    return True
