"""How is a value written right that is of the wrong type?"""

from __future__ import annotations

from typing import Any, Final

from tool_engine.catalog.definition.foreign_words import DOCUMENTS, are_definitions, list_cure
from tool_engine.catalog.yaml.document import Path
from tool_engine.catalog.yaml.scalars import UnreadableScalarError, resolve_plain

_MAIN_KEYS: Final[dict[str | int, str]] = {"retry": "attempts", "concurrency": "key_limit"}
"""A mapping -> its key that a lone number stands for."""
_BOOLEAN_WORDS: Final = {"yes": "true", "on": "true", "no": "false", "off": "false"}


def type_cure(types: list[str], value: Any, key: object = "") -> str:
    """Return the cure for a wrongly typed value, if one is obvious."""
    if value is None:
        return "give it a value or remove the key"
    if isinstance(value, str):
        return _cure_for_text(types, value, key)
    if "string" in types:
        return _cure_for_no_text(value)
    if isinstance(value, list) and types == ["boolean"]:
        return "the names of required properties belong into validation.required"
    return ""


def _cure_for_no_text(value: Any) -> str:
    if isinstance(value, int | float):
        return "quote it"
    if isinstance(value, dict) and list(value.values()) == [None]:
        # `{q}` without quotes is a mapping with a key and no value.
        return f"quote it: '{{{next(iter(value))}}}'"
    if are_definitions([value]):
        return f"write its name here; {DOCUMENTS}"
    return "write one text: lines of a list below a |, what begins with [ or { in quotes"


def _cure_for_text(types: list[str], text: str, key: object) -> str:
    if "boolean" in types and text in ("true", "false"):
        return f"write {text} without quotes"
    if "boolean" in types and text.lower() in _BOOLEAN_WORDS:
        return f"write {_BOOLEAN_WORDS[text.lower()]}"
    if "array" in types:
        return list_cure(key, text)
    if {"number", "integer"} & set(types):
        return _cure_for_number(text)
    return ""


def _cure_for_number(text: str) -> str:
    try:
        resolve_plain(text)
    except UnreadableScalarError as error:
        return error.number_cure
    return "write a plain number without quotes or unit"


def shape_cure(rule: Any, path: Path, value: Any) -> str:
    """Return how a list or a mapping is written where something else stands."""
    if rule.get("type") == "array" and isinstance(value, dict):
        return "write a dash before it: it is the first entry of a list"
    if rule.get("type") != "object" or not path:
        return ""
    main = _MAIN_KEYS.get(path[-1]) if isinstance(value, int) else None
    if main is not None:
        return f"write a mapping: {{{main}: {value}}}"
    if path[-1] == "auth":
        return "write a mapping of type and what it needs, such as token: '${env:NAME}'"
    known = list(rule.get("properties", ()))
    listed = ", ".join(known[:4]) + (" and so on" if len(known) > 4 else "")
    return f"write a mapping, of {listed}" if listed else "write a mapping: {NAME: VALUE}"
