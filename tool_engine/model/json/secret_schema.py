"""Which parts of its arguments does a schema call secret, by `writeOnly`?"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from tool_engine.model.json.references import split_pointer

_NAMELESS: Final = frozenset(
    {
        *("allOf", "anyOf", "oneOf", "if", "then", "else"),
        *("items", "prefixItems", "contains", "unevaluatedItems"),
        *("additionalProperties", "unevaluatedProperties", "propertyNames"),
    }
)
"""Keywords that lead to a form of the value, or to a part of it without a name in the schema."""
_NAMELESS_BY_KEY: Final = frozenset({"patternProperties", "dependentSchemas"})
UNNAMED: Final = ""
"""Stands among the names of secrets for all arguments that the schema has no name for."""


def write_only_names(schema: Any) -> Iterator[str]:
    """Yield the names of the properties that are `writeOnly`, wherever in `schema`.

    Also those that are so by a `$ref`.
    What is `writeOnly` where nothing has a name in the schema, such as the items of a list or the
    values of a mapping, makes all of the property secret that it belongs to.
    """
    named = _name_schemas(schema)
    for part in mappings_in(schema) if named else ():
        properties = part.get("properties")
        for name, each in properties.items() if isinstance(properties, dict) else ():
            if _is_write_only(each, named):
                yield name


def is_write_only(schema: Any) -> bool:
    """True if a value of the schema is secret, or parts of it that have no name."""
    return _is_write_only(schema, _name_schemas(schema))


def mark_secrets(schema: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the schema of a tool's arguments in which the named ones are `writeOnly`.

    A list of parameters says it in a word of its own, `secret`, which no other program knows.
    """
    properties = schema.get("properties")
    if not names or not isinstance(properties, dict):
        return schema
    marked = {
        name: {**each, "writeOnly": True} if name in names and isinstance(each, dict) else each
        for name, each in properties.items()
    }
    return {**schema, "properties": marked}


def _name_schemas(schema: Any) -> dict[str, list[Any]]:
    """Return what references may lead to, by their last step; nothing where nothing is secret."""
    parts = list(mappings_in(schema))
    if not any(part.get("writeOnly") is True for part in parts):
        return {}
    named: dict[str, list[Any]] = {"#": [schema]}
    for part in parts:
        for key, found in part.items():
            named.setdefault(key, []).append(found)
            for number, each in enumerate(found if isinstance(found, list) else ()):
                named.setdefault(str(number), []).append(each)
    return named


def mappings_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all mappings in a JSON value, itself among them."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


def _is_write_only(schema: Any, named: dict[str, list[Any]]) -> bool:
    waiting, known = [schema], set()
    while waiting:
        each = waiting.pop()
        if not isinstance(each, dict):
            continue
        if each.get("writeOnly") is True:
            return True
        for key in _NAMELESS & each.keys():
            below = each[key]
            waiting += below if isinstance(below, list) else [below]
        for key in _NAMELESS_BY_KEY & each.keys():
            waiting += each[key].values() if isinstance(each[key], dict) else ()
        place = each.get("$ref")
        if isinstance(place, str) and place not in known:
            known.add(place)
            waiting += named.get((split_pointer(place) or "#")[-1], ())
    return False
