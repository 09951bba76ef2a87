"""How does a Python type hint become a JSON Schema without references?"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import PurePath
from typing import Annotated, Any, Final, Literal, NamedTuple, Union

import msgspec

from tool_engine.catalog.code.metadata import (
    NeedsPydanticError,
    NotForMsgspecError,
    UnsupportedHintError,
    readable_hint,
)
from tool_engine.catalog.definition.keywords import FORMATS, KEYWORDS
from tool_engine.model.json.references import copy_schemas
from tool_engine.model.parameter import PARAMETER_TYPES

_NATIVE: Final = frozenset({str, int, float, bool, type(None), Any, object, dict, list})
_CONTAINERS: Final = frozenset({list, dict, Union, types.UnionType, Annotated})
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


class HintReading(NamedTuple):
    """A hint's JSON Schema without references, and what pydantic makes of it."""

    schema: dict[str, Any]
    typed: Any
    """A `PydanticType`; None where msgspec converts to the hint."""


def read_hint(hint: Any) -> HintReading:
    """Read a hint with msgspec, or with pydantic what only that reads.

    Raises:
        UnsupportedHintError: It has no JSON Schema, or holds a rule that is not understood.
    """
    if hint is Any or hint is object:
        return HintReading({"type": [*PARAMETER_TYPES, "null"]}, None)
    try:
        schema, typed = _msgspec_schema(hint), None
    except NotForMsgspecError as error:
        typed = _read_with_pydantic(hint, error)
        schema = without_defaults(typed.schema)
    return HintReading(stand_alone(schema), typed)


def _msgspec_schema(hint: Any) -> dict[str, Any]:
    readable = readable_hint(hint)
    try:
        return msgspec.json.schema(readable, schema_hook=_path_schema)
    except (TypeError, NameError, RecursionError, ValueError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        # The rest of msgspec's message is advice about its own hooks, which do not exist here.
        reason = "" if reason.endswith(":") or not reason else f": {reason}"
        raise NotForMsgspecError(
            f"the type {hint!r} has no JSON form{reason}; take a str, int, float, bool, list, dict,"
            " dataclass, TypedDict, msgspec.Struct or a model of pydantic, and make of it in the"
            " function what you need"
        ) from error


def _path_schema(kind: type) -> dict[str, Any]:
    if issubclass(kind, PurePath):
        return {"type": "string"}
    # The word by which msgspec's hooks say that a type is none of theirs.
    raise NotImplementedError


def _read_with_pydantic(hint: Any, unread: UnsupportedHintError) -> Any:
    try:
        pydantic_type = import_module("tool_engine.catalog.code.pydantic_type")
    except ImportError:
        raise unread from None
    try:
        return pydantic_type.PydanticType(hint)
    except UnsupportedHintError:
        raise
    except Exception as error:  # pydantic and classes of a user may raise anything
        if (
            not isinstance(unread, NeedsPydanticError)
            and "SchemaGeneration" in type(error).__name__
        ):
            raise unread from error
        reason = str(error).partition("\n")[0]
        raise UnsupportedHintError(f"pydantic cannot read {hint!r}: {reason}; mend it") from error


def described_as(hint: Any) -> str | None:
    """Return the description of `Annotated[T, "text"]` or `Annotated[T, Meta(...)]`."""
    if typing.get_origin(hint) is not Annotated:
        return None
    for part in hint.__metadata__:
        text = part if isinstance(part, str) else getattr(part, "description", None)
        if isinstance(text, str):
            return text
    return None


def is_native(hint: Any) -> bool:
    """Return True if decoded JSON already fits the hint, as with `list[int]`."""
    origin = typing.get_origin(hint)
    if origin is Literal:
        return True
    if origin is Annotated:
        return is_native(hint.__origin__) and _has_plain_rules(hint)
    if origin in _CONTAINERS:
        arguments = typing.get_args(hint)
        if origin is dict and arguments[0] is not str:
            return False
        return all(map(is_native, arguments))
    try:
        return hint in _NATIVE
    except TypeError:  # an unhashable hint is a foreign one
        return False


def _has_plain_rules(hint: Any) -> bool:
    """Return True if JSON Schema says all that the rules of `hint` say."""
    try:
        readable_hint(hint)
    except NotForMsgspecError:
        return False
    return True


def stand_alone(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` as a definition holds it; UnsupportedHintError: it is too large.

    References are written out where they stand, so that short keys can say most of it. What leads
    back to itself, as a tree does, stays a definition.
    """
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
