"""How does a generated JSON Schema stand alone, reduced to what a definition may hold?

References are written out where they stand. One to what is being written out already, as in a
tree, is written as its type alone: what is deeper is checked where the value is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tool_engine.catalog.code.metadata import UnsupportedHintError
from tool_engine.catalog.definition.keywords import FORMATS, KEYWORDS
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
_COMBINE: Final = frozenset({"anyOf", "oneOf", "allOf", "not", "if"})
"""Keywords by which a schema may refuse null, whatever its type says."""
_DROPPED: Final = frozenset({"title", "$defs", "$ref"})
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs"})


def stand_alone(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` without references; UnsupportedHintError: it is too large."""
    definitions = schema.get("$defs", {})
    plain: dict[str, Any] = _Unfolding(definitions).unfold(schema, ())
    plain.setdefault("type", [*PARAMETER_TYPES, "null"])
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
        self._left = _MOST_PARTS

    def unfold(self, schema: Any, inside: tuple[str, ...]) -> Any:
        """Return `schema` without references; `inside` names those it stands in."""
        if isinstance(schema, list):
            return [self.unfold(item, inside) for item in schema]
        if not isinstance(schema, dict):
            return schema
        self._left -= 1
        if self._left < 0:
            raise UnsupportedHintError(
                f"its JSON Schema has more than {_MOST_PARTS} parts; take fewer or smaller classes"
            )
        if "$ref" in schema:
            return self._follow_reference(schema, inside)
        plain = {
            keyword: self._unfold_part(keyword, value, inside)
            for keyword, value in schema.items()
            if keyword in KEYWORDS and keyword not in _DROPPED
        }
        return _normalise_schema(plain)

    def _follow_reference(self, schema: dict[str, Any], inside: tuple[str, ...]) -> Any:
        name = schema["$ref"].rpartition("/")[2]
        target = self._definitions[name]
        own = {key: schema[key] for key in schema if key != "$ref"}
        if name not in inside:
            return self.unfold({**target, **own}, (*inside, name))
        stub: dict[str, Any] = {"description": f"again {_show_schema(name)}, as above"}
        stub |= {key: target[key] for key in ("type",) if key in target}
        if _holds_secret(self._definitions, name):
            # Its secrets cannot be named at each depth, so it is one as a whole.
            stub["writeOnly"] = True
        return _normalise_schema({**stub, **own})

    def _unfold_part(self, keyword: str, value: Any, inside: tuple[str, ...]) -> Any:
        if keyword in _VALUES:
            return value
        if keyword in _NAMED:
            return {name: self.unfold(item, inside) for name, item in value.items()}
        return self.unfold(value, inside)


def _show_schema(name: str) -> str:
    return name.rpartition(".")[2]


def _holds_secret(definitions: Mapping[str, Any], name: str) -> bool:
    """Return True if the definition has a secret, or one that it leads to."""
    pending, seen = [definitions[name]], {name}
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            if part.get("writeOnly") is True:
                return True
            reference = part.get("$ref")
            if isinstance(reference, str) and (to := reference.rpartition("/")[2]) not in seen:
                seen.add(to)
                pending.append(definitions[to])
            pending += part.values()
    return False


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
