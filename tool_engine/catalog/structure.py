"""Does a definition have the right keys, with values of the right kind?

`definition.schema.json` says what is right, for this module and for editors alike. jsonschema-rs
decides in a few microseconds; only a definition that it refuses pays for being explained.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any, Final, NamedTuple

import jsonschema_rs
import msgspec

from tool_engine.catalog.document import Path
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.model.parameter import PARAMETER_TYPES
from tool_engine.model.schema import SHORT_KEYS

__all__ = ["RULES_BY_TYPE", "Fault", "definition_schema", "did_you_mean", "structure_faults"]

RULES_BY_TYPE: Final[dict[str, tuple[str, ...]]] = {
    "string": ("pattern", "min_length", "max_length", "enum"),
    "number": ("min", "max", "enum"),
    "integer": ("min", "max", "enum"),
    "boolean": (),
    "array": ("items", "min_items", "max_items"),
    "object": ("properties", "required"),
    "any": ("enum",),
}
"""Which keys of a `validation` block apply to which type."""

_OTHER_NAMES: Final = {
    **{keyword: key for key, keyword in SHORT_KEYS.items() if keyword != key},
    "returns_schema": "output",
    "title": "description",
    "params": "parameters",
    "executor": "handler",
}
"""What people write out of habit, and the key that they mean."""
_KIND_NAMES: Final = {
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}
_BOOLEAN_WORDS: Final = {"yes": "true", "on": "true", "no": "false", "off": "false"}
# Read with the module: the first definition may come from code that runs on the event loop.
_SCHEMA: Final = (
    resources.files("tool_engine.catalog").joinpath("definition.schema.json").read_bytes()
)


class Fault(NamedTuple):
    """One thing that is wrong with a definition, before its place in a file is known."""

    path: Path
    message: str
    at_key: bool = False
    """The place is the key at `path`, not its value."""


@cache
def definition_schema() -> dict[str, Any]:
    """The JSON Schema of a definition, as it is shipped for editors."""
    schema: dict[str, Any] = msgspec.json.decode(_SCHEMA)
    return schema


def structure_faults(definition: Any) -> list[Fault]:
    """Everything that is wrong with the form of `definition`; empty when it is right."""
    if _validator().is_valid(definition):
        return []
    if not isinstance(definition, dict):
        return [
            Fault(
                (),
                f"a definition is a mapping with name, description, …; got {_describe(definition)}",
            )
        ]
    faults: dict[Fault, None] = {}
    for error in islice(_validator().iter_errors(definition), MAX_PROBLEMS):
        faults.update(dict.fromkeys(_explain(error, definition)))
    return list(faults)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` when a known word is near, else nothing."""
    listed = list(known)
    meant = _OTHER_NAMES.get(word)
    near = [meant] if meant in listed else difflib.get_close_matches(word[:80], listed, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


@cache
def _validator() -> jsonschema_rs.Validator:
    return jsonschema_rs.Draft202012Validator(
        definition_schema(), pattern_options=jsonschema_rs.RegexOptions(), offline=True
    )


def _explain(error: jsonschema_rs.ValidationError, definition: Any) -> Iterable[Fault]:
    path: Path = tuple(error.instance_path)
    keyword = error.kind.name
    if keyword == "additionalProperties":
        return _unknown_keys(path, error)
    if keyword == "required":
        return [Fault(path, _missing_key(error))]
    if keyword == "falseSchema":
        return [Fault(path, _inapplicable(path, definition), at_key=True)]
    if keyword == "not":
        return [Fault(("returns",), "output and returns say the same; give one", at_key=True)]
    message = _MESSAGES.get(keyword, _own_message)(error)
    return [Fault(path, message)]


def _unknown_keys(path: Path, error: jsonschema_rs.ValidationError) -> Iterable[Fault]:
    known = list(_schema_at(error.schema_path[:-1])["properties"])
    for key in error.kind.as_dict()["unexpected"]:
        hint = did_you_mean(key, known)
        listing = "" if hint else f"; the keys here are {', '.join(known)}"
        yield Fault((*path, key), f"unknown key {key[:80]!r}{hint}{listing}", at_key=True)


def _missing_key(error: jsonschema_rs.ValidationError) -> str:
    name = error.kind.as_dict()["property"]
    about = _schema_at(error.schema_path[:-1])["properties"][name].get("description", "")
    return f"the key {name!r} is missing; add it{': ' + about if about else ''}"


def _inapplicable(path: Path, definition: Any) -> str:
    key = path[-1]
    owner_path = path[:-2] if len(path) > 1 and path[-2] == "validation" else path[:-1]
    owner = definition
    for part in owner_path:
        owner = owner[part]
    kind = owner.get("type", "any")
    if kind == "any":
        return f"{key} needs a type; add one beside it"
    rules = RULES_BY_TYPE[kind]
    listing = f"the rules for it are {', '.join(rules)}" if rules else "it has no rules"
    return f"{key} does not apply to the type {kind}; {listing}"


def _wrong_type(error: jsonschema_rs.ValidationError) -> str:
    value = error.instance
    types = error.kind.as_dict()["types"]
    expected = " or ".join(_KIND_NAMES[name] for name in types)
    return f"expected {expected}, got {_describe(value)}{_type_cure(types, value)}"


def _type_cure(types: list[str], value: Any) -> str:
    if value is None:
        return "; give it a value or remove the key"
    if isinstance(value, str):
        return _cure_for_text(types, value)
    if "string" in types and isinstance(value, int | float):
        return "; quote it"
    if isinstance(value, list) and types == ["boolean"]:
        return "; the names of required properties belong into validation.required"
    return ""


def _cure_for_text(types: list[str], text: str) -> str:
    if "boolean" in types and text.lower() in _BOOLEAN_WORDS:
        return f"; write {_BOOLEAN_WORDS[text.lower()]}"
    if "array" in types:
        return f"; write it as a list: [{text[:80]}]"
    if {"number", "integer"} & set(types):
        return "; write a plain number without quotes or unit"
    return ""


def _wrong_choice(error: jsonschema_rs.ValidationError) -> str:
    options = error.kind.as_dict()["options"]
    value = error.instance
    hint = did_you_mean(value, options) if isinstance(value, str) else ""
    listing = ", ".join(options)
    if set(PARAMETER_TYPES) <= set(options) and not isinstance(value, str | dict):
        listing += ", or a mapping with a type" if error.schema_path[-2] == "else" else ""
    return f"expected one of {listing}; got {_describe(value)}{hint}"


def _wrong_form(error: jsonschema_rs.ValidationError) -> str:
    rule = _schema_at(error.schema_path[:-1])
    if rule["pattern"] == r"\S":
        return "must not be empty"
    cure = rule["description"].removesuffix(".")
    return f"{_describe(error.instance)} is not allowed; {cure[0].lower()}{cure[1:]}"


def _too_small(error: jsonschema_rs.ValidationError) -> str:
    limit = error.kind.as_dict()["limit"]
    word = "more than" if error.kind.name == "exclusiveMinimum" else "at least"
    return f"must be {word} {limit}, got {_describe(error.instance)}"


def _too_large(error: jsonschema_rs.ValidationError) -> str:
    return f"must be at most {error.kind.as_dict()['limit']}, got {_describe(error.instance)}"


def _too_few(error: jsonschema_rs.ValidationError) -> str:
    return "must not be empty; give it a value or remove the key"


def _own_message(error: jsonschema_rs.ValidationError) -> str:
    return error.message[:300]


_MESSAGES: Final[Mapping[str, Callable[[jsonschema_rs.ValidationError], str]]] = {
    "type": _wrong_type,
    "enum": _wrong_choice,
    "pattern": _wrong_form,
    "minimum": _too_small,
    "exclusiveMinimum": _too_small,
    "maximum": _too_large,
    "minLength": _too_few,
    "minItems": _too_few,
    "minProperties": _too_few,
}


def _schema_at(path: Iterable[str | int]) -> Any:
    schema: Any = definition_schema()
    for part in path:
        schema = schema[part]
    return schema


def _describe(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {value[:80]!r}"
    return "a list" if isinstance(value, list) else "a mapping"
