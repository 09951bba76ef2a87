"""How does each rule of JSON Schema read as a sentence that a model can act on?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import jsonschema_rs

from tool_engine.model.checks.nearness import find_nearest
from tool_engine.validation.shape import Path
from tool_engine.validation.wording import (
    json_text,
    list_values,
    name_subject,
    path_text,
    text_of,
    type_of,
    write_noun,
)

_MOST_COMPARED: Final = 2_000
"""Options that are compared by their letters."""
_Kind = jsonschema_rs.ValidationErrorKind
_Error = jsonschema_rs.ValidationError


class Reading(NamedTuple):
    """One broken rule in words."""

    error_type: str
    expected: Any
    rule: str
    """What follows `must`, such as `be an integer`."""
    got: str | None = None
    """What was found, if not the value itself."""
    cure: str = ""
    """What to do, such as `: did you mean "GET"?`."""


def read_rule(error: _Error, value: Any, declared: Any = None) -> Reading:
    """Put the rule that `value` breaks into words.

    Args:
        error: What the validator says.
        value: The value that it says it about.
        declared: The type that the schema declares for the value, if it declares one.
    """
    kind = error.kind
    if isinstance(kind, _Kind.Type):
        return read_type(kind.types, value)
    if isinstance(kind, _Kind.Enum):
        return read_options(kind.options, value)
    if isinstance(kind, _Kind.Constant):
        return read_options([kind.expected_value], value)
    if isinstance(kind, _Kind.AnyOf | _Kind.OneOfNotValid):
        return _read_forms(error, kind.context, value)
    return _read_bound(kind, value, declared) or _read_other(error, kind)


def _read_bound(kind: Any, value: Any, declared: Any) -> Reading | None:
    if type(kind) in _COMPARED:
        bound = f"{_COMPARED[type(kind)]} {text_of(kind.limit)}"
        what = "an integer" if declared == "integer" else "a number"
        return broken_rule(f"be {what} {bound}", bound)
    if type(kind) in _COUNTED:
        return _count_against(*_COUNTED[type(kind)], kind.limit, value)
    return None


def _read_other(error: _Error, kind: Any) -> Reading:
    if isinstance(kind, _Kind.Pattern | _Kind.Format):
        return _read_text_rule(kind)
    if isinstance(kind, _Kind.MultipleOf):
        return broken_rule(
            f"be a multiple of {kind.multiple_of}", f"multiple of {kind.multiple_of}"
        )
    phrase = _PHRASES.get(type(kind))
    if phrase is not None:
        return broken_rule(phrase, phrase)
    return _read_keys(kind) or phrase_of(
        str(error.schema_path[-1]) if error.schema_path else "schema"
    )


def _read_keys(kind: Any) -> Reading | None:
    if isinstance(kind, _Kind.PropertyNames):
        inner = read_rule(kind.error, kind.error.instance)
        return broken_rule(f"have keys that each {inner.rule}", inner.expected)
    if isinstance(kind, _Kind.Required):
        return broken_rule(f"have the key '{path_text((kind.property,))}'", kind.property)
    if isinstance(kind, _Kind.AdditionalProperties | _Kind.UnevaluatedProperties):
        key = kind.unexpected[0]
        return broken_rule(f"not have the key '{path_text((key,))}'", key)
    return None


def _read_text_rule(kind: Any) -> Reading:
    if isinstance(kind, _Kind.Pattern):
        return broken_rule(f"match the pattern {kind.pattern}", kind.pattern)
    return broken_rule(f"be {_FORMATS[kind.format]}", kind.format)


def read_type(types: list[str], value: Any) -> Reading:
    """Put into words that `value` has none of `types`."""
    words = " or ".join(map(write_noun, types))
    found = type_of(value)
    got = text_of(value) if found in ("null", "boolean") else None
    cure = ""
    if found == "string":
        cure = _describe_unquoted(types, value.strip())
    elif types == ["string"] and found in ("number", "integer", "boolean"):
        cure = ": send it in quotes"
    expected = types[0] if len(types) == 1 else types
    return Reading("type_mismatch", expected, f"be {words}", got, cure)


def _describe_unquoted(types: list[str], text: str) -> str:
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


def read_options(options: list[Any], value: Any) -> Reading:
    """Put into words that `value` is none of `options`."""
    rule = f"be one of {list_values(options)}" if len(options) > 1 else f"be {list_values(options)}"
    cure = ""
    wanted = _bare_text(value)
    same = (option for option in options if wanted is not None and _bare_text(option) == wanted)
    if (meant := next(same, same)) is not same:
        cure = f": send {json_text(meant)}"
    elif isinstance(value, str):
        texts = (option for option in options if isinstance(option, str))
        near = find_nearest(value, islice(texts, _MOST_COMPARED))
        cure = f": did you mean {json_text(near)}?" if near else ""
    return Reading("invalid_enum", options, rule, None, cure)


def _bare_text(value: Any) -> str | None:
    # What is left of a value when its quotes are: the usual way to miss an option.
    if isinstance(value, str):
        return value.strip('"').lower()
    return text_of(value).strip('"').lower() if type_of(value) not in ("array", "object") else None


def _read_forms(error: _Error, forms: list[list[_Error]], value: Any) -> Reading:
    declared = [
        form[0].kind.types if len(form) == 1 and isinstance(form[0].kind, _Kind.Type) else None
        for form in forms
    ]
    firsts = [((), read_rule(form[0], form[0].instance)) for form in forms]
    return first_of_forms(value, declared, firsts)


def first_of_forms(
    value: Any, declared: Sequence[Any], firsts: Sequence[tuple[Path, Reading] | None]
) -> Reading:
    """Put into words that a value fits none of several forms.

    Args:
        value: The value.
        declared: The type or types that each form declares, if it declares any.
        firsts: The first thing wrong by each form, with its place in the value.
    """
    types = [[each] if isinstance(each, str) else list(each or ()) for each in declared]
    if all(types) and not any(_is_of(value, each) for each in types):
        return read_type(list(dict.fromkeys(name for names in types for name in names)), value)
    said = []
    for number, found in enumerate(firsts, 1):
        if found is not None:
            path, inner = found
            what = f"{name_subject(path)} must {inner.rule}" if path else f"it must {inner.rule}"
            said.append(f"({number}) {what}")
    forms = f"{len(firsts)} forms"
    more = f", or {len(said) - _MAX_FORMS} more" if len(said) > _MAX_FORMS else ""
    return broken_rule(f"fit one of {forms}: {', or '.join(said[:_MAX_FORMS])}{more}", forms)


def _is_of(value: Any, types: list[str]) -> bool:
    kind = type_of(value)
    is_whole = isinstance(value, float) and value.is_integer()
    return (
        kind in types
        or (kind == "integer" and "number" in types)
        or (is_whole and "integer" in types)
    )


def read_counted(keyword: str, limit: Any, value: Any) -> Reading:
    """Put into words that a list or an object has too many or too few parts."""
    return _count_against(*COUNTED_KEYWORDS[keyword], limit, value)


def _count_against(bound: str, word: str, limit: Any, value: Any) -> Reading:
    expected = f"{bound} {limit} {word}{'' if limit == 1 else 's'}"
    return broken_rule(f"have {expected}", expected, got=f"{len(value)}")


def phrase_of(keyword: str) -> Reading:
    """Put a broken rule into words that needs no detail."""
    phrase = _PHRASES_OF_KEYWORDS.get(keyword, f"keep to the rule {keyword!r}")
    return broken_rule(phrase, phrase)


def broken_rule(rule: str, expected: Any, got: str | None = None) -> Reading:
    """Return the reading of a rule about neither type nor choice."""
    return Reading("constraint_violation", expected, rule, got)


_MAX_JSON: Final = 100_000
_MAX_FORMS: Final = 10
"""Forms whose demands are listed."""
_COMPARED: Final[dict[Any, str]] = {
    _Kind.Minimum: ">=",
    _Kind.Maximum: "<=",
    _Kind.ExclusiveMinimum: ">",
    _Kind.ExclusiveMaximum: "<",
}
COUNTED_KEYWORDS: Final = {
    "minItems": ("at least", "item"),
    "maxItems": ("at most", "item"),
    "minProperties": ("at least", "key"),
    "maxProperties": ("at most", "key"),
}
"""The keywords that bound how many parts a list or an object has."""
_COUNTED: Final[dict[Any, tuple[str, str]]] = {
    _Kind.MinLength: ("at least", "character"),
    _Kind.MaxLength: ("at most", "character"),
    _Kind.MinItems: COUNTED_KEYWORDS["minItems"],
    _Kind.MaxItems: COUNTED_KEYWORDS["maxItems"],
    _Kind.MinProperties: COUNTED_KEYWORDS["minProperties"],
    _Kind.MaxProperties: COUNTED_KEYWORDS["maxProperties"],
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
_PHRASES_OF_KEYWORDS: Final = {
    "oneOf": "fit exactly one of the allowed forms, not several",
    "uniqueItems": "not hold the same item twice",
    "contains": "hold the items that 'contains' asks for",
    "false": "be left out",
    "not": "not have the form that 'not' excludes",
}
_PHRASES: Final[dict[Any, str]] = {
    _Kind.OneOfMultipleValid: _PHRASES_OF_KEYWORDS["oneOf"],
    _Kind.UniqueItems: _PHRASES_OF_KEYWORDS["uniqueItems"],
    _Kind.Contains: _PHRASES_OF_KEYWORDS["contains"],
    _Kind.FalseSchema: _PHRASES_OF_KEYWORDS["false"],
    _Kind.Not: _PHRASES_OF_KEYWORDS["not"],
}
