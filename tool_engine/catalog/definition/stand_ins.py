"""Which values would be right at a place of a definition, if the one there is not?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tool_engine.catalog.definition.structure import definition_schema
from tool_engine.model.json.references import resolve_pointer

_TEXTS: Final = ("1/s", "https://example.com", "params.x")
"""Texts of forms that a plain word does not have."""


def stand_ins(rule: Any, word: str) -> list[Any]:
    """Return values that a rule of `definition.schema.json` allows, of each kind at least one.

    Args:
        rule: The rule.
        word: Stands for what may be any text.
    """
    if "$ref" in rule:
        rule = resolve_pointer(definition_schema(), rule["$ref"])
    if "enum" in rule:
        return list(rule["enum"])
    if "else" in rule:
        others = [kind for kind in rule.get("type", ["string"]) if kind != "object"]
        return stand_ins({"type": others, **rule["else"]}, word)
    kinds = rule.get("type", "string")
    return [
        value
        for kind in ([kinds] if isinstance(kinds, str) else kinds)
        for value in _STAND_INS[kind](rule, word)
    ]


def _find_text(rule: Mapping[str, Any], word: str) -> list[Any]:
    pattern = re.compile(rule.get("pattern", ""))
    return [next((text for text in (word, *_TEXTS) if pattern.search(text)), word)]


def _find_number(rule: Mapping[str, Any], _: str) -> list[Any]:
    least = rule.get("minimum", rule.get("exclusiveMinimum", 0) + 1)
    return [min(least, rule.get("maximum", least))]


def _find_list(rule: Mapping[str, Any], word: str) -> list[Any]:
    return [stand_ins(rule.get("items", {}), word)[:1] if "minItems" in rule else []]


def _find_mapping(rule: Mapping[str, Any], word: str) -> list[Any]:
    properties = rule.get("properties", {word: rule.get("additionalProperties", {})})
    needed = rule.get("required", ())
    if not needed and "minProperties" in rule:
        needed = list(properties)[:1]
    return [{key: stand_ins(properties[key], word)[0] for key in needed}]


_STAND_INS: Final = {
    "string": _find_text,
    "number": _find_number,
    "integer": _find_number,
    "boolean": lambda *_: [False, True],
    "array": _find_list,
    "object": _find_mapping,
    "null": lambda *_: [None],
}
