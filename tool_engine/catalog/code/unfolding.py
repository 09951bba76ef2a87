"""How does a generated JSON Schema stand alone, reduced to what a definition may hold?

References are written out where they stand, so that short keys can say most of it. What leads back
to itself, as a tree does, stays a definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tool_engine.catalog.code.metadata import UnsupportedHintError
from tool_engine.catalog.definition.keywords import FORMATS, KEYWORDS
from tool_engine.model.json.references import copy_schemas
from tool_engine.model.parameter import PARAMETER_TYPES

_MOST_PARTS: Final = 5_000
"""Schemas in one that is written out; classes that name each other twice double it each time."""
_LONGEST_DEFAULT: Final = 200
_TYPE_NAMES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
    (type(None), "null"),
)
_VALUES: Final = frozenset({"default", "examples", "enum", "const"})
"""Keywords that hold values, not schemas."""
_COMBINE: Final = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "$ref"})
"""Keywords by which a schema may refuse null, whatever its type says."""
_DROPPED: Final = frozenset({"title", "$defs", "$ref"})
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs"})


def stand_alone(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` as a definition holds it; UnsupportedHintError: it is too large."""
    definitions = schema.get("$defs", {})
    while "$ref" in schema:
        # What a parameter is as a whole is written out: its type is then known.
        schema = {**definitions[schema["$ref"].rpartition("/")[2]], **schema}
        del schema["$ref"]
    unfolding = _Unfolding(definitions)
    plain: dict[str, Any] = unfolding.unfold(schema)
    plain.setdefault("type", [*PARAMETER_TYPES, "null"])
    if unfolding.kept:
        plain["$defs"] = unfolding.kept
    return plain


def without_defaults(schema: Any) -> Any:
    """Return `schema` with its defaults in words, as nothing may fill them in.

    A model of pydantic knows which of its fields were sent, and that must stay so.
    """
    return _map_schema(schema, _describe_default)


def _describe_default(schema: dict[str, Any]) -> dict[str, Any]:
    default = schema.pop("default", None)
    if default not in (None, [], {}, "") and schema.get("writeOnly") is not True:
        text = msgspec.json.encode(default).decode()
        if len(text) <= _LONGEST_DEFAULT:
            words = schema.get("description")
            schema["description"] = f"{words} (default: {text})" if words else f"Default: {text}"
    return schema


def _map_schema(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    if isinstance(schema, list):
        return [_map_schema(item, change) for item in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {}
    for keyword, value in schema.items():
        if keyword in _NAMED and isinstance(value, dict):
            changed[keyword] = {name: _map_schema(item, change) for name, item in value.items()}
        else:
            changed[keyword] = value if keyword in _VALUES else _map_schema(value, change)
    return change(changed)


class _Unfolding:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._endless = _find_endless(definitions)
        self._left = _MOST_PARTS
        self.kept: dict[str, Any] = {}
        """The definitions that cannot be written out."""

    def unfold(self, schema: Any) -> Any:
        """Return `schema` with references to what has no end alone."""
        if isinstance(schema, list):
            return [self.unfold(item) for item in schema]
        if not isinstance(schema, dict):
            return schema
        self._left -= 1
        if self._left < 0:
            raise UnsupportedHintError(
                f"its JSON Schema has more than {_MOST_PARTS} parts; take fewer or smaller classes"
            )
        if "$ref" in schema:
            return self._follow_reference(schema)
        plain = {
            keyword: self._unfold_part(keyword, value)
            for keyword, value in schema.items()
            if keyword in KEYWORDS and keyword not in _DROPPED
        }
        return _normalise_schema(plain)

    def _follow_reference(self, schema: dict[str, Any]) -> Any:
        name = schema["$ref"].rpartition("/")[2]
        target = self._definitions[name]
        own = {key: schema[key] for key in schema if key != "$ref"}
        if name not in self._endless:
            return self.unfold({**target, **own})
        if name not in self.kept:
            self.kept[name] = {}
            self.kept[name] = without_defaults(self.unfold(target))
        kind = {"type": target["type"]} if "type" in target else {}
        return {"$ref": f"#/$defs/{name}", **kind, **own}

    def _unfold_part(self, keyword: str, value: Any) -> Any:
        if keyword in _VALUES:
            return value
        if keyword in _NAMED:
            return {name: self.unfold(item) for name, item in value.items()}
        return self.unfold(value)


def _find_endless(definitions: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the definitions that lead back to themselves."""
    leads = {name: _list_references(each) for name, each in definitions.items()}
    found = set()
    for name in definitions:
        pending, seen = list(leads[name]), set[str]()
        while pending:
            to = pending.pop()
            if to not in seen:
                seen.add(to)
                pending += leads.get(to, ())
        if name in seen:
            found.add(name)
    return frozenset(found)


def _list_references(schema: dict[str, Any]) -> set[str]:
    pointers = (node.get("$ref") for _, node in copy_schemas(schema))
    return {each.rpartition("/")[2] for each in pointers if isinstance(each, str)}


def _normalise_schema(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("format", "date") not in FORMATS:
        del schema["format"]
    if schema.get("properties"):
        # A declared object is closed, so that a misspelt key is found.
        schema.setdefault("additionalProperties", False)
    if "enum" in schema and "type" not in schema:
        schema["type"] = _one_or_many([_type_name(value) for value in schema["enum"]])
    if "anyOf" in schema:
        return _merge_branches(schema)
    if "oneOf" in schema and "type" not in schema:
        named = [_as_list(branch.get("type")) for branch in schema["oneOf"]]
        if all(named):
            schema["type"] = _one_or_many([name for names in named for name in names])
    return schema


def _merge_branches(schema: dict[str, Any]) -> dict[str, Any]:
    """Write `T | None` or a plain union as several types."""
    branches = schema["anyOf"]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    named = [_as_list(branch.get("type")) for branch in branches]
    if not all(named):
        return schema
    merged = _one_or_many([name for names in named for name in names])
    rules = [branch for branch in branches if branch.keys() - {"type"}]
    if not rules:
        return {**rest, "type": merged}
    if len(rules) == 1 and len(branches) == 2 and {"type": "null"} in branches:
        branch = dict(rules[0])
        if "const" in branch:
            branch["enum"] = [branch.pop("const")]
        if "enum" in branch:
            branch["enum"] = [*branch["enum"], None]
        if _COMBINE.isdisjoint(branch):
            return {**branch, **rest, "type": merged}
    return {**schema, "type": merged}


def _as_list(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value] if value else []


def _one_or_many(names: list[str]) -> str | list[str]:
    unique = list(dict.fromkeys(names))
    return unique[0] if len(unique) == 1 else unique


def _type_name(value: Any) -> str:
    return next(name for kind, name in _TYPE_NAMES if isinstance(value, kind))
