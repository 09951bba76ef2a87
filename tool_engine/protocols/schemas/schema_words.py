"""How is a rule of a schema put into words, where a provider takes no such keyword?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

_MAX_WORDS: Final = 400
"""The longest rule in words, in characters: a longer one would distract the model."""


def say_rule(keyword: str, value: Any) -> str | None:
    """Return a keyword's rule as words for a description.

    None where there is nothing to say (`$comment`), or where it would be too long.
    """
    if keyword in _SILENT:
        return None
    say = _WORDS.get(keyword)
    try:
        words = f"{keyword}: {_write_json(value)}" if say is None else say(value)
    except (TypeError, ValueError, RecursionError):
        # A schema made by hand may hold anything.
        return None
    return words if words is not None and len(words) <= _MAX_WORDS else None


def append_words(description: object, words: list[str]) -> str:
    """Return a description with rules in words behind it."""
    rules = "; ".join(words)
    text = description.rstrip() if isinstance(description, str) else ""
    return f"{text} ({rules})" if text else rules


def move_to_words(node: dict[str, Any], keyword: str) -> None:
    """Take a keyword out of a schema, whose description then says it."""
    rule = say_rule(keyword, node.pop(keyword))
    node["description"] = append_words(node.get("description"), [rule] if rule else [])


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _say_count(lead: str, noun: str) -> Callable[[Any], str]:
    return lambda value: f"{lead} {value} {noun}{'' if value == 1 else 's'}"


def _say_list(lead: str) -> Callable[[Any], str]:
    return lambda value: f"{lead}: {', '.join(_write_json(each) for each in value)}"


def _say_alternatives(lead: str) -> Callable[[Any], str]:
    def say(value: Any) -> str:
        if all(isinstance(each, Mapping) and each.keys() == {"required"} for each in value):
            sets = (" and ".join(each["required"]) for each in value)
            return f"{lead} must be there: {', or '.join(sets)}"
        return f"{lead} must hold: {'; '.join(_write_json(each) for each in value)}"

    return say


def _say_other_keys(value: Any) -> str | None:
    # A model sends no undeclared keys, with or without a word on it.
    return None if isinstance(value, bool) else f"the value of any other key: {_write_json(value)}"


_SILENT: Final = frozenset(
    {"$schema", "$comment", "$id", "$anchor", "$dynamicAnchor", "$vocabulary", "$defs"}
    | {"definitions", "title", "readOnly", "writeOnly"}
)
_WORDS: Final[Mapping[str, Callable[[Any], str | None]]] = {
    "minLength": _say_count("at least", "character"),
    "maxLength": _say_count("at most", "character"),
    "minItems": _say_count("at least", "item"),
    "maxItems": _say_count("at most", "item"),
    "minProperties": _say_count("at least", "key"),
    "maxProperties": _say_count("at most", "key"),
    "minimum": lambda value: f"at least {value}",
    "maximum": lambda value: f"at most {value}",
    "exclusiveMinimum": lambda value: f"more than {value}",
    "exclusiveMaximum": lambda value: f"less than {value}",
    "multipleOf": lambda value: f"a multiple of {value}",
    "uniqueItems": lambda value: "no item twice" if value else "items may repeat",
    "pattern": lambda value: f"pattern: {value}",
    "format": lambda value: f"format: {value}",
    "const": lambda value: f"always {_write_json(value)}",
    "enum": _say_list("one of"),
    "examples": _say_list("for example"),
    "default": lambda value: f"default: {_write_json(value)}",
    "deprecated": lambda value: "deprecated" if value else "not deprecated",
    "required": _say_list("required"),
    "additionalProperties": _say_other_keys,
    "not": lambda value: f"must not fit {_write_json(value)}",
    "anyOf": _say_alternatives("at least one of these"),
    "oneOf": _say_alternatives("exactly one of these"),
    "allOf": _say_alternatives("all of these"),
}
