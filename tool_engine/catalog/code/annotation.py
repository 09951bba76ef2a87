"""How does a Python type hint become a JSON Schema without references?"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Union

import msgspec

from tool_engine.catalog.code.metadata import UnsupportedHintError, readable_hint
from tool_engine.catalog.definition.keywords import FORMATS, KEYWORDS
from tool_engine.model.parameter import PARAMETER_TYPES

__all__ = ["UnsupportedHintError", "annotation_schema", "described_as", "is_native"]

_NATIVE: Final = frozenset({str, int, float, bool, type(None), Any, object, dict, list})
_CONTAINERS: Final = frozenset({list, dict, Union, types.UnionType, Annotated})
_TYPE_NAMES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
    (type(None), "null"),
)


def annotation_schema(hint: Any) -> dict[str, Any]:
    """Return a hint's JSON Schema without references; UnsupportedHintError: it has none."""
    if hint is Any or hint is object:
        return {"type": [*PARAMETER_TYPES, "null"]}
    readable = readable_hint(hint)
    try:
        schema = msgspec.json.schema(readable)
    except (TypeError, NameError, RecursionError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        # The rest of msgspec's message is advice about its own hooks, which do not exist here.
        reason = "" if reason.endswith(":") else f": {reason}"
        raise UnsupportedHintError(
            f"the type {hint!r} has no JSON form{reason}; take a str, int, float, bool, list, dict,"
            " dataclass, TypedDict or msgspec.Struct, and make of it in the function what you need"
        ) from error
    plain: dict[str, Any] = _stand_alone(schema, schema.pop("$defs", {}), ())
    plain.setdefault("type", [*PARAMETER_TYPES, "null"])
    return plain


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
        return is_native(hint.__origin__)
    if origin in _CONTAINERS:
        arguments = typing.get_args(hint)
        if origin is dict and arguments[0] is not str:
            return False
        return all(map(is_native, arguments))
    try:
        return hint in _NATIVE
    except TypeError:  # an unhashable hint is a foreign one
        return False


def _stand_alone(schema: Any, definitions: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    """Return `schema` without references, reduced to what a definition may hold."""
    if isinstance(schema, list):
        return [_stand_alone(item, definitions, inside) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in inside:
            raise UnsupportedHintError(f"the type {name} refers to itself; give it a fixed depth")
        target = {**definitions[name], **{key: schema[key] for key in schema if key != "$ref"}}
        return _stand_alone(target, definitions, (*inside, name))
    plain = {
        keyword: _inline_part(keyword, value, definitions, inside)
        for keyword, value in schema.items()
        if keyword in KEYWORDS and keyword != "title"
    }
    return _normalise_schema(plain)


def _inline_part(
    keyword: str, value: Any, definitions: Mapping[str, Any], inside: tuple[str, ...]
) -> Any:
    if keyword in ("default", "examples", "enum", "const"):
        return value
    if keyword == "properties":
        return {name: _stand_alone(item, definitions, inside) for name, item in value.items()}
    return _stand_alone(value, definitions, inside)


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
        if "enum" in branch:
            branch["enum"] = [*branch["enum"], None]
        return {**branch, **rest, "type": merged}
    return {**schema, "type": merged}


def _as_list(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value] if value else []


def _one_or_many(names: list[str]) -> str | list[str]:
    unique = list(dict.fromkeys(names))
    return unique[0] if len(unique) == 1 else unique


def _type_name(value: Any) -> str:
    return next(name for kind, name in _TYPE_NAMES if isinstance(value, kind))
