"""Which type of msgspec reads and judges arguments as their schema does?

MessagePack is read as the types of the schema about as fast as without them. The reader may refuse
what the schema allows, such as 1.0 as an integer, but never accepts what the schema refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, floor
from types import GenericAlias
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

import msgspec

from tool_engine.model.json.references import split_pointer

_NOTES: Final = frozenset(("type", "title", "description", "default", "examples", "deprecated"))
_LENGTHS: Final = {
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
}
_BOUNDS: Final = {
    "minimum": ("ge", ceil),
    "exclusiveMinimum": ("gt", floor),
    "maximum": ("le", floor),
    "exclusiveMaximum": ("lt", ceil),
}
"""For each bound its name in msgspec, and how the bound of integers is made of it."""
_ABOUT: Final[dict[str, frozenset[str]]] = {
    "object": _NOTES | {"properties", "required", "additionalProperties"},
    "array": _NOTES | {"items", "minItems", "maxItems"},
    "string": _NOTES | {"enum", "minLength", "maxLength"},
    "integer": _NOTES | _BOUNDS.keys(),
    "number": _NOTES | _BOUNDS.keys(),
    "boolean": _NOTES,
    "null": _NOTES,
}
"""For each type what may be said of it; more is for the validator."""
_ABOUT_REFERENCE: Final = _NOTES - {"type"} | {"$ref"}
_DEFINITIONS: Final = "#/$defs/"
_LARGEST_FLOAT: Final = 1.7976931348623157e308
_LARGEST_BOUND: Final = 2**53
"""Up to here each integer is a float, too."""
_LONGEST: Final = 2**31
_DEEP: Final = 8
"""Levels of objects and lists that get types: they are made when a tool is compiled."""
_UNKNOWN: Final[Any] = object()
"""In place of a type: msgspec does not judge as JSON Schema does."""


def reader_of(schema: Mapping[str, Any]) -> Callable[[bytes], dict[str, Any]] | None:
    """Return a function that decodes and judges the arguments; None: use a validator.

    It leaves out what the schema does not name, so that the arguments are no longer what was sent,
    and raises for all that it cannot vouch for.

    Args:
        schema: JSON Schema of the arguments.
    """
    if schema.get("type") != "object":
        return None
    about = {name: each for name, each in schema.items() if name not in ("$defs", "$schema")}
    arguments = _Types(schema.get("$defs", {})).find_type(about, _DEEP)
    return None if arguments is _UNKNOWN else msgspec.msgpack.Decoder(arguments).decode


class _Types:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._referred: dict[str, Any] = {}

    def find_type(self, about: Any, levels: int) -> Any:
        if not isinstance(about, Mapping) or levels <= 0:
            return _UNKNOWN
        if "$ref" in about:
            return self._find_referred(about, levels)
        kind = about.get("type")
        if isinstance(kind, list):
            return self._find_optional(about, levels)
        if not isinstance(kind, str) or not _ABOUT.get(kind, frozenset()).issuperset(about):
            return _UNKNOWN
        find = {"object": self._find_object, "array": self._find_list}.get(kind)
        return find(about, levels) if find else _scalar_of(kind, about)

    def _find_referred(self, about: Mapping[str, Any], levels: int) -> Any:
        place = about["$ref"]
        if not isinstance(place, str) or not _ABOUT_REFERENCE.issuperset(about):
            return _UNKNOWN
        if place not in self._referred:
            # What refers to itself finds this, and is left to the validator as a whole.
            self._referred[place] = _UNKNOWN
            steps = split_pointer(place) if place.startswith(_DEFINITIONS) else ()
            if len(steps) == 2:
                self._referred[place] = self.find_type(self._definitions.get(steps[1]), levels)
        return self._referred[place]

    def _find_object(self, about: Mapping[str, Any], levels: int) -> Any:
        required, properties = set(about.get("required", ())), about.get("properties", {})
        if not properties.keys() >= required:
            return _UNKNOWN
        kinds = {name: self.find_type(each, levels - 1) for name, each in properties.items()}
        if not kinds or any(kind is _UNKNOWN for kind in kinds.values()):
            return _UNKNOWN
        fields = {
            name: each if name in required else NotRequired[each] for name, each in kinds.items()
        }
        return TypedDict("Arguments", fields)  # type: ignore[operator]

    def _find_list(self, about: Mapping[str, Any], levels: int) -> Any:
        item = self.find_type(about.get("items"), levels - 1)
        return item if item is _UNKNOWN else _bound_length(GenericAlias(list, item), about)

    def _find_optional(self, about: Mapping[str, Any], levels: int) -> Any:
        others = [kind for kind in about["type"] if kind != "null"]
        if "enum" in about or len(others) != 1 or len(about["type"]) != 2:
            return _UNKNOWN
        kind = self.find_type({**about, "type": others[0]}, levels)
        return kind if kind is _UNKNOWN else kind | None


def _scalar_of(kind: str, about: Mapping[str, Any]) -> Any:
    if kind == "boolean":
        return bool
    if kind == "null":
        return None
    if kind != "string":
        return _number_of(kind, about)
    if "enum" not in about:
        return _bound_length(str, about)
    chosen = about["enum"]
    if about.keys() & _LENGTHS or {type(each) for each in chosen} != {str}:
        return _UNKNOWN
    return Literal[tuple(chosen)]


def _bound_length(kind: Any, about: Mapping[str, Any]) -> Any:
    """Return the type of texts or lists that are as long as the schema says."""
    lengths: dict[str, Any] = {
        short: about[name] for name, short in _LENGTHS.items() if name in about
    }
    if not all(type(each) is int and 0 <= each <= _LONGEST for each in lengths.values()):
        return _UNKNOWN
    return Annotated[kind, msgspec.Meta(**lengths)] if lengths else kind


def _number_of(kind: str, about: Mapping[str, Any]) -> Any:
    said = [(*_BOUNDS[name], about[name]) for name in _BOUNDS if name in about]
    if not all(_is_exact(bound) for *_, bound in said):
        return _UNKNOWN
    names = {short for short, *_ in said}
    if names >= {"ge", "gt"} or names >= {"le", "lt"}:
        return _UNKNOWN
    whole: dict[str, Any] = {short: round_bound(bound) for short, round_bound, bound in said}
    integers: Any = Annotated[int, msgspec.Meta(**whole)] if whole else int
    if kind == "integer":
        return integers
    bounds: dict[str, Any] = {short: float(bound) for short, _, bound in said}
    # JSON has no infinity, and msgspec takes it for a number.
    if "gt" not in bounds:
        bounds.setdefault("ge", -_LARGEST_FLOAT)
    if "lt" not in bounds:
        bounds.setdefault("le", _LARGEST_FLOAT)
    return integers | Annotated[float, msgspec.Meta(**bounds)]


def _is_exact(bound: Any) -> bool:
    return type(bound) in (int, float) and abs(bound) <= _LARGEST_BOUND
