"""Does a definition have the right keys, with the right values?

`definition.schema.json` says what is right, for this module and for editors alike. jsonschema-rs
decides in a few microseconds; only a definition that it refuses pays for an explanation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import islice
from pkgutil import get_data
from typing import Any, Final

import jsonschema_rs
import msgspec

from tool_engine.catalog.definition.examples import CALL_ERRORS
from tool_engine.catalog.definition.fault import Fault
from tool_engine.catalog.definition.foreign_words import (
    DOCUMENTS,
    MISPLACED_SCHEMA,
    SCHEMA_KEYS,
    are_definitions,
    entry_type_cure,
    find_foreign_form,
    find_split_texts,
    is_root_schema,
    key_cure,
    meant_in_entry,
    meant_key,
    meant_type,
    meant_value_type,
    meant_word,
    missing_type_cure,
    schema_cure,
)
from tool_engine.catalog.definition.keywords import KEYWORDS
from tool_engine.catalog.definition.type_cures import shape_cure, type_cure
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.yaml.document import Path
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.model.json.error_path import find_error
from tool_engine.model.parameter import PARAMETER_TYPES
from tool_engine.redaction import describe_value

RULES_BY_TYPE: Final[dict[str, tuple[str, ...]]] = {
    "string": ("pattern", "min_length", "max_length", "enum"),
    "number": ("min", "max", "enum"),
    "integer": ("min", "max", "enum"),
    "boolean": (),
    "array": ("items", "min_items", "max_items"),
    "object": ("properties", "required"),
    "any": ("enum",),
}
"""The keys of a `validation` block that apply to each type."""

_KIND_NAMES: Final = {
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}
_DEFINITION: Final = "a mapping with name, description, …"
_NO_SERVER: Final = frozenset({"kind", "entry", "description", "parameters"})
"""Keys that say what a definition is, if it is no server."""
_ENTRY_TYPE: Final = ("entry", "type")
# Read at import: the first definition may come from code on the event loop.
_SCHEMA: Final = get_data("tool_engine.catalog", "definition.schema.json") or b""


@cache
def definition_schema() -> dict[str, Any]:
    """The JSON Schema of a definition, as it is shipped for editors.

    `$defs` holds the two kinds: `tool` and `group`.
    """
    schema: dict[str, Any] = msgspec.json.decode(_SCHEMA)
    return schema


def structure_faults(definition: Any) -> list[Fault]:
    if _compile_validator().is_valid(definition):
        return []
    if not isinstance(definition, dict):
        got, cure = describe_value(definition), DOCUMENTS if isinstance(definition, list) else ""
        message = f"a definition is {_DEFINITION}; got {got}"
        return [Fault((), message, expected=_DEFINITION, got=got, cure=cure)]
    key, cure = find_foreign_form(definition)
    if key:
        # All else is a consequence: what it says is right, and stands where another API has it.
        message = "this is the form of another API"
        return [Fault((key,), message, at_key=True, cure=cure)]
    if "command" in definition and _NO_SERVER.isdisjoint(definition):
        message, cure = "command is a key of servers", "add kind: mcp_server"
        return [Fault(("command",), message, at_key=True, cure=cure)]
    faults: dict[Fault, None] = {}
    for error in islice(_compile_validator().iter_errors(definition), MAX_PROBLEMS):
        faults.update(dict.fromkeys(_explain_error(error, definition)))
    return list(faults)


@cache
def _compile_validator() -> jsonschema_rs.Validator:
    return jsonschema_rs.Draft202012Validator(
        definition_schema(), pattern_options=jsonschema_rs.RegexOptions(), offline=True
    )


def _explain_error(error: jsonschema_rs.ValidationError, definition: Any) -> Iterable[Fault]:
    rule = tuple(error.schema_path[:-1])
    found = _list_faults(find_error(error, definition)[0], error, definition)
    return [fault if fault.rule else fault._replace(rule=rule) for fault in found]


def _list_faults(
    path: Path, error: jsonschema_rs.ValidationError, definition: Any
) -> Iterable[Fault]:
    keyword = error.kind.name
    if keyword == "additionalProperties":
        return _unknown_keys(path, error, definition)
    if keyword == "required":
        return [_missing_key(path, error)]
    if keyword == "falseSchema":
        return [_inapplicable_fault(path, definition)]
    if keyword == "not":
        cure = "give one"
        return [Fault(("returns",), "output and returns say the same", at_key=True, cure=cure)]
    if keyword == "propertyNames":
        return [_wrong_name(path, error)]
    return [_EXPLAINED.get(keyword, _other_fault)(path, error)]


def _unknown_keys(
    path: Path, error: jsonschema_rs.ValidationError, definition: Any
) -> Iterable[Fault]:
    known = list(schema_at(error.schema_path[:-1])["properties"])
    listing = f"the keys here are {', '.join(known)}"
    holder = find_error(error, definition)[1]
    rests = find_split_texts(holder)
    for key in islice(error.kind.as_dict()["unexpected"], MAX_PROBLEMS):
        if (fault := _read_habit(path, key, holder, rests)) is not None:
            yield fault
            continue
        if not path and key in SCHEMA_KEYS and isinstance(definition.get(key), dict):
            cure = "rename it to parameters"
            if not is_root_schema(definition[key]):
                cure += f", and {schema_cure(definition[key])}"
            message = f"unknown key {key!r}"
            yield Fault((key,), message, at_key=True, cure=cure, key="parameters")
            continue
        if path and key in SCHEMA_KEYS:
            yield Fault((*path, key), f"unknown key {key!r}", at_key=True, cure=MISPLACED_SCHEMA)
            continue
        near = meant_key(key, known)
        if not near and key in KEYWORDS and "schema" in known and path:
            # In other formats it stands here.
            cure = f"write it in schema, as in `schema: {{{key}: ...}}`"
            yield Fault((*path, key), f"unknown key {key!r}", at_key=True, cure=cure)
            continue
        if not near and not path and key in definition_schema()["$defs"]["group"]["properties"]:
            cure = "add kind: group if this is a group of tools, or remove it"
            if key == "tools" and are_definitions(definition[key]):
                cure = DOCUMENTS
            yield Fault((key,), f"{key} is a key of groups", at_key=True, cure=cure, key="kind")
            continue
        # What is a key elsewhere was meant more likely than one that is written alike.
        if key not in near and (places := _find_places(key, path, definition)):
            cure = " or ".join(map(_show_place, places))
            place = places[0] if len(places) == 1 else ()
            message = f"unknown key {key!r}"
            yield Fault((*path, key), message, at_key=True, cure=cure, place=place)
            continue
        yield Fault(
            (*path, key),
            f"unknown key {key[:80]!r}",
            at_key=True,
            expected=f"one of {', '.join(known)}",
            got=f"the key {key[:80]!r}",
            nearest=near,
            cure="" if near else key_cure(key) or listing,
            key=near,
        )


def _read_habit(
    path: Path, key: str, holder: Mapping[str, Any], rests: Mapping[str, str]
) -> Fault | None:
    """Return the fault of a key that is part of a text, or another's word."""
    near, cure = meant_in_entry(key, holder) if path == ("entry",) else ("", "")
    place: Path = ("entry", near, key) if near == "config" else ()
    if place:
        near, cure = "", _show_place(place)
    cure = rests.get(key, cure)
    if not near and not cure:
        return None
    path, got = (*path, key), f"the key {key[:80]!r}"
    message = f"unknown key {key[:80]!r}"
    return Fault(
        path, message, at_key=True, got=got, nearest=near, cure=cure, key=near, place=place
    )


def _find_places(key: str, path: Path, definition: Any) -> list[Path]:
    """Return where in the definition of a tool a key belongs that is unknown at `path`."""
    is_tool = definition.get("kind", "tool") == "tool"
    if not is_tool or not all(isinstance(part, str) for part in path):
        return []
    holder = definition
    for part in path:
        holder = holder[part]
    # A mapping is no setting of one mapping that stands in another's place under another name.
    meant = key if isinstance(holder[key], dict | list) else meant_word(key)
    known = _list_places().get(meant, ())
    free = [place for place in known if place[:-1] != path and not _is_given(place, definition)]
    # Further inside it says less of the tool.
    return [place for place in free if len(place) == min(map(len, free))]


def _is_given(place: Path, definition: Any) -> bool:
    value = definition
    for part in place:
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return True


@cache
def _list_places() -> dict[str, list[Path]]:
    """Return the keys of the mappings of a tool's definition -> where they may stand."""
    places: dict[str, list[Path]] = {}
    _note_places(schema_at(("$defs", "tool")), (), places)
    return places


def _note_places(schema: Any, path: Path, places: dict[str, list[Path]]) -> None:
    if "$ref" in schema:
        schema = schema_at(schema["$ref"].split("/")[1:])
    for key, value in schema.get("properties", {}).items():
        places.setdefault(key, []).append((*path, key))
        _note_places(value, (*path, key), places)
    for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        _note_places(each, path, places)


def _show_place(place: Path) -> str:
    *outer, key = place
    if not outer:
        return f"move it to the top of the definition, as `{key}: ...`"
    written = f"{{{key}: ...}}"
    for each in reversed(outer[1:]):
        written = f"{{{each}: {written}}}"
    return f"write it in {outer[0]}, as in `{outer[0]}: {written}`"


def _missing_key(path: Path, error: jsonschema_rs.ValidationError) -> Fault:
    name = error.kind.as_dict()["property"]
    rule: Path = (*error.schema_path[:-1], "properties", name)
    about = schema_at(rule).get("description", "")
    cure = missing_type_cure(error.instance) if (*path, name) == ("entry", "type") else ""
    cure = cure or f"add it{': ' + about if about else ''}"
    expected = f"the key {name!r}"
    return Fault(path, f"{expected} is missing", expected=expected, cure=cure, key=name, rule=rule)


def _wrong_name(path: Path, error: jsonschema_rs.ValidationError) -> Fault:
    name = error.kind.as_dict()["error"].instance
    cure = _as_cure(schema_at(error.schema_path[:-1]).get("description", "Change it."))
    return Fault((*path, name), f"the name {name[:80]!r} is not allowed", at_key=True, cure=cure)


def _inapplicable_fault(path: Path, definition: Any) -> Fault:
    key = path[-1]
    owner_path = path[:-2] if len(path) > 1 and path[-2] == "validation" else path[:-1]
    owner = definition
    for part in owner_path:
        owner = owner[part]
    kind = owner.get("type", "any")
    if "type" not in owner:
        return Fault(path, f"{key} needs a type", at_key=True, cure="add one beside it")
    rules = ", ".join(RULES_BY_TYPE[kind])
    cure = f"the rules for it are {rules}" if rules else "it has no rules"
    return Fault(path, f"{key} does not apply to the type {kind}", at_key=True, cure=cure)


def _wrong_type(path: Path, error: jsonschema_rs.ValidationError) -> Fault:
    value = error.instance
    types = error.kind.as_dict()["types"]
    expected = " or ".join(_KIND_NAMES[name] for name in types)
    cure = _form_cure(error, value) or type_cure(types, value, path[-1] if path else "")
    cure = cure or shape_cure(schema_at(error.schema_path[:-1]), path, value)
    return Fault(path, expected=expected, got=describe_value(value), cure=cure)


def _form_cure(error: jsonschema_rs.ValidationError, value: Any) -> str:
    """Return the required form, if even a quoted number lacks it."""
    rule = schema_at(error.schema_path[:-1])
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or re.search(rule.get("pattern", ""), str(value)):
        return ""
    return _as_cure(rule["description"])


def _wrong_choice(path: Path, error: jsonschema_rs.ValidationError) -> Fault:
    options = error.kind.as_dict()["options"]
    value = error.instance
    # `ask-once` is only another way to write `ask_once`.
    listing = ", ".join(word for word in options if "-" not in word)
    if set(PARAMETER_TYPES) <= set(options) and not isinstance(value, str | dict):
        listing += ", or a mapping with a type" if error.schema_path[-2] == "else" else ""
    near, cure = "", 'write "null", in quotes' if value is None and "null" in options else ""
    if isinstance(value, str):
        cure = entry_type_cure(value, options) if path == _ENTRY_TYPE else ""
        near = "" if cure else _meant_word(value, options, path)
    return Fault(
        path, expected=f"one of {listing}", got=describe_value(value), nearest=near, cure=cure
    )


def _meant_word(value: str, options: list[str], path: Path) -> str:
    meant = meant_type(value) if path == _ENTRY_TYPE else meant_value_type(value)
    return meant if meant in options else find_nearest(value, options)


def _wrong_form(path: Path, error: jsonschema_rs.ValidationError) -> Fault:
    rule = schema_at(error.schema_path[:-1])
    if rule["pattern"] == r"\S":
        return _empty_fault(path, error)
    got = describe_value(error.instance)
    is_error = path[-1] in ("expect_error", "error_type")
    near = find_nearest(error.instance, CALL_ERRORS) if is_error else ""
    cure = "" if near else _as_cure(rule["description"])
    return Fault(path, f"{got} is not allowed", got=got, nearest=near, cure=cure)


def _as_cure(description: str) -> str:
    return f"{description[0].lower()}{description[1:].removesuffix('.')}"


def _too_small(path: Path, error: jsonschema_rs.ValidationError) -> Fault:
    word = "more than" if error.kind.name == "exclusiveMinimum" else "at least"
    return _out_of_bounds(path, error, word)


def _too_large(path: Path, error: jsonschema_rs.ValidationError) -> Fault:
    return _out_of_bounds(path, error, "at most")


def _out_of_bounds(path: Path, error: jsonschema_rs.ValidationError, word: str) -> Fault:
    limit = error.kind.as_dict()["limit"]
    return Fault(path, expected=f"{word} {limit}", got=describe_value(error.instance))


def _empty_fault(path: Path, error: jsonschema_rs.ValidationError) -> Fault:
    what = "an empty list" if error.instance == [] else "nothing in it"
    return Fault(path, "must not be empty", got=what, cure="give it a value or remove the key")


def _other_fault(path: Path, error: jsonschema_rs.ValidationError) -> Fault:
    return Fault(path, error.message[:300], got=describe_value(error.instance), cure="change it")


_EXPLAINED: Final[Mapping[str, Callable[[Path, jsonschema_rs.ValidationError], Fault]]] = {
    "type": _wrong_type,
    "enum": _wrong_choice,
    "pattern": _wrong_form,
    "minimum": _too_small,
    "exclusiveMinimum": _too_small,
    "maximum": _too_large,
    "minLength": _empty_fault,
    "minItems": _empty_fault,
    "minProperties": _empty_fault,
}


def schema_at(path: Iterable[str | int]) -> Any:
    schema: Any = definition_schema()
    for part in path:
        schema = schema[part]
    return schema
