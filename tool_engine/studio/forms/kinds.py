"""Which control does a JSON Schema ask for?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

UNSET: Final = "-"
"""What a choice says that is not made: the value is left out."""
_MOST_OPTIONS: Final = 1_000
"""Values of an enumeration that a list shows; of more, one is written as JSON."""
_MOST_HOPS: Final = 32
_DEEPEST_UNION: Final = 8
_BRANCHES: Final = ("oneOf", "anyOf")
_OF_UNION: Final = (*_BRANCHES, "title", "description", "default", "examples")
"""What a union says of itself, and not of what it is one of."""
_BEYOND: Final = (
    "allOf",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "not",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
"""Keywords that no control can say: such a value is written as JSON."""
_SINGLE: Final = {
    "boolean": "boolean",
    "integer": "integer",
    "null": "null",
    "number": "number",
}
_FORMATS: Final = {"date": "date", "time": "time", "date-time": "moment"}
_UNSENDABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
"""What a browser changes in the names and values of a form."""
Schema = Mapping[str, Any]


class Kind(msgspec.Struct, frozen=True):
    """What is filled in at one place of a form."""

    name: str
    """`text`, `line`, `date`, `time`, `moment`, `file`, `integer`, `number`, `boolean`, `choice`,
    `list`, `object`, `union`, `null` or `json`."""
    schema: Schema
    """Without references."""
    options: tuple[Any, ...] = ()
    """The values of a choice, or the schemas of a union."""


def find_kind(schema: Any, root: Schema, depth: int = 0) -> Kind:
    """Return the kind of control for a schema.

    Args:
        schema: The schema of the place.
        root: The schema of all arguments, which references point into.
        depth: How many unions it stands in.
    """
    found = resolve_schema(schema, root)
    if not found or depth > _DEEPEST_UNION or any(word in found for word in _BEYOND):
        return Kind("json", found)
    if "const" in found:
        return Kind("choice", found, (found["const"],))
    if isinstance(found.get("enum"), list):
        options = tuple(found["enum"])
        return Kind("choice" if 0 < len(options) <= _MOST_OPTIONS else "json", found, options)
    branches = _list_branches(found)
    if branches:
        return _make_union(found, branches, root, depth)
    return _find_single(found.get("type"), found)


def resolve_schema(schema: Any, root: Schema) -> Schema:
    """Return a schema with what its reference says; one that leads nowhere says nothing."""
    for _ in range(_MOST_HOPS):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        target = _follow_reference(reference, root)
        if not isinstance(target, Mapping):
            return {}
        schema = {**target, **beside}
    return {}


def is_sendable(text: str) -> bool:
    """Return True if a browser sends a text as it is."""
    return _UNSENDABLE.search(text) is None


def join_pointer(pointer: str, name: str) -> str:
    """Return the pointer of a member, as RFC 6901 writes it."""
    return f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"


def _follow_reference(reference: str, root: Any) -> Any:
    if not reference.startswith("#"):
        return None
    found = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _list_branches(found: Schema) -> list[Schema]:
    """Return the schemas of which a value is one; none: it is of a single one."""
    kinds = found.get("type")
    if isinstance(kinds, list) and not any(word in found for word in _BRANCHES):
        return [{**found, "type": each} for each in kinds]
    for word in _BRANCHES:
        if isinstance(found.get(word), list):
            around = {name: value for name, value in found.items() if name not in _OF_UNION}
            return [
                {**around, **each} if isinstance(each, Mapping) else around for each in found[word]
            ]
    return []


def _make_union(found: Schema, branches: list[Schema], root: Schema, depth: int) -> Kind:
    options: list[Schema] = []
    for each in branches:
        # A union in a union is one: both would be chosen at the same place.
        kind = find_kind(each, root, depth + 1)
        options += kind.options if kind.name == "union" else [each]
    if len(options) == 1:
        return find_kind(options[0], root, depth + 1)
    return Kind("union", found, tuple(options[:_MOST_OPTIONS]))


def _find_single(kind: Any, found: Schema) -> Kind:
    if kind in _SINGLE:
        return Kind(_SINGLE[kind], found)
    if kind == "string":
        return Kind(_find_text(found), found)
    if kind == "array":
        return Kind("list", found)
    if kind == "object" or (kind is None and "properties" in found):
        names = found.get("properties", {})
        is_plain = isinstance(names, Mapping) and all(
            isinstance(each, str) and is_sendable(each) for each in names
        )
        # An object of which nothing is said is written as a whole.
        is_open = not names and not isinstance(found.get("additionalProperties"), Mapping)
        return Kind("object" if is_plain and not is_open else "json", found)
    return Kind("json", found)


def _find_text(found: Schema) -> str:
    if found.get("contentEncoding") == "base64" or found.get("format") in ("binary", "byte"):
        return "file"
    kind = _FORMATS.get(str(found.get("format")))
    if kind is not None:
        return kind
    longest = found.get("maxLength")
    is_short = isinstance(longest, int) and longest <= 200
    return "line" if is_short or "format" in found or "pattern" in found else "text"
