"""How does each rule of JSON Schema read as a sentence that a model can act on?"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import jsonschema_rs

from tool_engine.validation.wording import (
    json_text,
    listed,
    nearest,
    noun,
    path_text,
    subject,
    text_of,
    type_of,
)

__all__ = ["Reading", "read"]

_Kind = jsonschema_rs.ValidationErrorKind
_Error = jsonschema_rs.ValidationError


class Reading(NamedTuple):
    """One broken rule in words."""

    error_type: str
    expected: Any
    rule: str
    """What follows `must`, such as `be an integer`."""
    got: str | None = None
    """What was found, where that is not the value itself."""
    cure: str = ""
    """What to do, such as `: did you mean "GET"?`."""


def read(error: _Error, value: Any, declared: Any = None) -> Reading:
    """Puts the rule that `value` breaks into words.

    Args:
        error: What the validator says.
        value: The value that it says it about.
        declared: The type that the schema declares for the value, if it declares one.
    """
    kind = error.kind
    if isinstance(kind, _Kind.Type):
        return _read_type(kind.types, value)
    if isinstance(kind, _Kind.Enum):
        return _read_options(kind.options, value)
    if isinstance(kind, _Kind.Constant):
        return _read_options([kind.expected_value], value)
    if isinstance(kind, _Kind.AnyOf | _Kind.OneOfNotValid):
        return _read_forms(error, kind.context, value)
    return _read_bound(kind, value, declared) or _read_other(error, kind)


def _read_bound(kind: Any, value: Any, declared: Any) -> Reading | None:
    if type(kind) in _COMPARED:
        bound = f"{_COMPARED[type(kind)]} {text_of(kind.limit)}"
        what = "an integer" if declared == "integer" else "a number"
        return _broken(f"be {what} {bound}", bound)
    if type(kind) in _COUNTED:
        bound, word = _COUNTED[type(kind)]
        expected = f"{bound} {kind.limit} {word}{'' if kind.limit == 1 else 's'}"
        return _broken(f"have {expected}", expected, got=f"{len(value)}")
    return None


def _read_other(error: _Error, kind: Any) -> Reading:
    if isinstance(kind, _Kind.Pattern | _Kind.Format):
        return _read_text_rule(kind)
    if isinstance(kind, _Kind.MultipleOf):
        return _broken(f"be a multiple of {kind.multiple_of}", f"multiple of {kind.multiple_of}")
    if isinstance(kind, _Kind.PropertyNames):
        inner = read(kind.error, kind.error.instance)
        return _broken(f"have keys that each {inner.rule}", inner.expected)
    if isinstance(kind, _Kind.Required):
        return _broken(f"have the key '{path_text((kind.property,))}'", kind.property)
    phrase = _PHRASES.get(type(kind))
    if phrase is not None:
        return _broken(phrase, phrase)
    keyword = str(error.schema_path[-1]) if error.schema_path else "schema"
    return _broken(f"keep to the rule {keyword!r}", keyword)


def _read_text_rule(kind: Any) -> Reading:
    if isinstance(kind, _Kind.Pattern):
        return _broken(f"match the pattern {kind.pattern}", kind.pattern)
    return _broken(f"be {_FORMATS[kind.format]}", kind.format)


def _read_type(types: list[str], value: Any) -> Reading:
    words = " or ".join(map(noun, types))
    found = type_of(value)
    got = text_of(value) if found in ("null", "boolean") else None
    cure = ""
    if found == "string":
        cure = _unquoted(types, value.strip())
    elif types == ["string"] and found in ("number", "integer", "boolean"):
        cure = ": send it in quotes"
    expected = types[0] if len(types) == 1 else types
    return Reading("type_mismatch", expected, f"be {words}", got, cure)


def _unquoted(types: list[str], text: str) -> str:
    try:
        held = type_of(json.loads(text)) if len(text) <= _MAX_JSON else None
    except (ValueError, RecursionError):
        held = None
    if held is None:
        return ""
    if held in types or (held == "integer" and "number" in types):
        if held in ("array", "object"):
            return f": send the {held} itself, not a string that holds it"
        return ": send it without quotes"
    return ""


def _read_options(options: list[Any], value: Any) -> Reading:
    rule = f"be one of {listed(options)}" if len(options) > 1 else f"be {listed(options)}"
    cure = ""
    same = [option for option in options if _bare(option) == _bare(value)]
    if same:
        cure = f": send {json_text(same[0])}"
    elif isinstance(value, str):
        near = nearest(value, [option for option in options if isinstance(option, str)])
        cure = f": did you mean {json_text(near)}?" if near else ""
    return Reading("invalid_enum", options, rule, None, cure)


def _bare(value: Any) -> str | None:
    # What is left of a value when its quotes are: the usual way to miss an option.
    return text_of(value).strip('"').lower() if type_of(value) not in ("array", "object") else None


def _read_forms(error: _Error, forms: list[list[_Error]], value: Any) -> Reading:
    only_types = [
        name
        for form in forms
        if len(form) == 1
        and isinstance(form[0].kind, _Kind.Type)
        and form[0].instance_path == error.instance_path
        for name in form[0].kind.types
    ]
    if len(only_types) == len(forms):
        return _read_type(only_types, value)
    told = []
    for number, form in enumerate(forms, 1):
        first = form[0]
        inner = read(first, first.instance)
        rest = tuple(first.instance_path[len(error.instance_path) :])
        what = f"{subject(rest)} must {inner.rule}" if rest else f"it must {inner.rule}"
        told.append(f"({number}) {what}")
    return _broken(f"fit one of {len(forms)} forms: {', or '.join(told)}", f"{len(forms)} forms")


def _broken(rule: str, expected: Any, got: str | None = None) -> Reading:
    return Reading("constraint_violation", expected, rule, got)


_MAX_JSON: Final = 100_000
_COMPARED: Final[dict[Any, str]] = {
    _Kind.Minimum: ">=",
    _Kind.Maximum: "<=",
    _Kind.ExclusiveMinimum: ">",
    _Kind.ExclusiveMaximum: "<",
}
_COUNTED: Final[dict[Any, tuple[str, str]]] = {
    _Kind.MinLength: ("at least", "character"),
    _Kind.MaxLength: ("at most", "character"),
    _Kind.MinItems: ("at least", "item"),
    _Kind.MaxItems: ("at most", "item"),
    _Kind.MinProperties: ("at least", "key"),
    _Kind.MaxProperties: ("at most", "key"),
}
_FORMATS: Final = {
    "date": "a date, such as 2026-01-31",
    "date-time": "a date and time with its offset, such as 2026-01-31T09:30:00Z",
    "duration": "a duration, such as PT1H30M",
    "email": "an email address, such as ann@example.com",
    "hostname": "a host name, such as api.example.com",
    "idn-email": "an email address, such as ann@example.com",
    "idn-hostname": "a host name, such as api.example.com",
    "ipv4": "an IPv4 address, such as 192.0.2.1",
    "ipv6": "an IPv6 address, such as 2001:db8::1",
    "iri": "an absolute address, such as https://example.com/path",
    "iri-reference": "an address, absolute or relative, such as ../path",
    "json-pointer": "a JSON Pointer, such as /items/0",
    "regex": "a regular expression",
    "relative-json-pointer": "a relative JSON Pointer, such as 1/items",
    "time": "a time with its offset, such as 09:30:00Z",
    "uri": "an absolute address, such as https://example.com/path",
    "uri-reference": "an address, absolute or relative, such as ../path",
    "uri-template": "a URI template, such as /users/{id}",
    "uuid": "a UUID, such as 123e4567-e89b-12d3-a456-426614174000",
}
_PHRASES: Final[dict[Any, str]] = {
    _Kind.OneOfMultipleValid: "fit exactly one of the allowed forms, not several",
    _Kind.UniqueItems: "not hold the same item twice",
    _Kind.Contains: "hold the items that 'contains' asks for",
    _Kind.FalseSchema: "be left out",
    _Kind.Not: "not have the form that 'not' excludes",
}
