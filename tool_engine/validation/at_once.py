"""Which arguments can be read and judged in one step?

Those of schemas of plain scalars, which most are. msgspec reads their MessagePack as the types of
the schema, about as fast as reading alone. It may refuse what the schema allows, such as 1.0 as an
integer, but never accepts what the schema refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

import msgspec

# No numbers with fractions: infinity is one to msgspec, and none in JSON.
_TYPES: Final[dict[Any, Any]] = {"string": str, "integer": int, "boolean": bool, "null": None}
_NOTES: Final = frozenset(("title", "description", "default", "examples", "deprecated"))
_ABOUT_OBJECT: Final = _NOTES | {"type", "properties", "required", "additionalProperties"}
_ABOUT_VALUE: Final = _NOTES | {"type", "enum", "minimum", "maximum"}
_BOUNDS: Final = (("minimum", "ge"), ("maximum", "le"))
_LARGEST_BOUND: Final = 2**63 - 1
"""The largest bound that msgspec can compare with."""
_UNKNOWN: Final[Any] = object()


def reader_of(schema: Mapping[str, Any]) -> Callable[[bytes], dict[str, Any]] | None:
    """Return a function that decodes and judges the arguments; None: use a validator.

    It leaves out what the schema does not name, so that the arguments are no longer what was sent,
    and raises for all that it cannot vouch for.

    Args:
        schema: JSON Schema of the arguments.
    """
    properties = schema.get("properties", {})
    if schema.get("type") != "object" or not _ABOUT_OBJECT.issuperset(schema):
        return None
    required = schema.get("required", ())
    fields: dict[str, Any] = {}
    for name, about in properties.items():
        kind = _type_of(about)
        if kind is _UNKNOWN:
            return None
        fields[name] = kind if name in required else NotRequired[kind]
    if not fields or not fields.keys() >= set(required):
        return None
    return msgspec.msgpack.Decoder(TypedDict("Arguments", fields)).decode  # type: ignore[operator]


def _type_of(about: Mapping[str, Any]) -> Any:
    kind = about.get("type")
    if not isinstance(kind, str) or kind not in _TYPES or not _ABOUT_VALUE.issuperset(about):
        return _UNKNOWN
    bounds = {short: about[name] for name, short in _BOUNDS if name in about}
    if "enum" in about:
        chosen = about["enum"]
        if kind != "string" or bounds or {type(each) for each in chosen} != {str}:
            return _UNKNOWN
        return Literal[tuple(chosen)]
    if not bounds:
        return _TYPES[kind]
    if kind != "integer" or not all(_is_small(each) for each in bounds.values()):
        return _UNKNOWN
    return Annotated[int, msgspec.Meta(**bounds)]


def _is_small(number: Any) -> bool:
    return type(number) is int and abs(number) <= _LARGEST_BOUND
