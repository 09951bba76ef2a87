"""How is a JSON Schema written in a definition's short keys?

The way back from `model/schema.py`. What the short keys cannot say stays under `schema`, so nothing
is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tool_engine.catalog.definition.structure import RULES_BY_TYPE
from tool_engine.model.json.references import DEFINITIONS
from tool_engine.model.parameter import PARAMETER_TYPES
from tool_engine.model.schema import SHORT_KEYS

_SHORT_NAMES: Final = {keyword: key for key, keyword in SHORT_KEYS.items()}


def short_form(schema: Mapping[str, Any], *, is_output: bool = False) -> dict[str, Any]:
    """Write a schema in short keys; one with definitions stays a schema.

    `value_schema` (`output_schema` with `is_output`) turns the result into `schema` again: an
    output's objects may carry more than was declared.
    """
    rest = dict(schema)
    spec: dict[str, Any] = {}
    kind = rest.get("type", "any")
    if isinstance(kind, str) and kind in (*PARAMETER_TYPES, "any"):
        spec["type"] = kind
        rest.pop("type", None)
    for key in ("description", "default"):
        if key in rest and (key == "default" or isinstance(rest[key], str)):
            spec[key] = rest.pop(key)
    # References begin at the schema that they stand in: it stays whole.
    is_whole = not rest.keys().isdisjoint(DEFINITIONS)
    rules = {} if is_whole else _take_rules(spec.get("type", "any"), rest, is_output=is_output)
    if rules:
        spec["validation"] = rules
    if rest:
        spec["schema"] = rest
    return spec


def _take_rules(kind: str, rest: dict[str, Any], *, is_output: bool) -> dict[str, Any]:
    """Take out of `rest` what the short keys for `kind` can say."""
    applicable = RULES_BY_TYPE[kind]
    rules = {
        key: rest.pop(keyword)
        for keyword, key in _SHORT_NAMES.items()
        if key in applicable and keyword in rest
    }
    if kind == "array" and isinstance(rest.get("items"), dict):
        rules["items"] = _shorten_nested(rest.pop("items"), is_output=is_output)
    if kind == "object":
        rules.update(_object_rules(rest, is_output=is_output))
    return rules


def _object_rules(rest: dict[str, Any], *, is_output: bool) -> dict[str, Any]:
    properties = rest.get("properties")
    required = rest.get("required", [])
    is_closed = rest.get("additionalProperties") is False
    if not properties:
        return {}
    # An output's objects are open, a parameter's closed; any other form has no short key.
    has_own_form = is_closed if not is_output else "additionalProperties" not in rest
    if not has_own_form or not all(name in properties for name in required):
        return {}
    rules: dict[str, Any] = {
        "properties": {
            name: _shorten_nested(item, is_output=is_output)
            for name, item in rest.pop("properties").items()
        }
    }
    rest.pop("additionalProperties", None)
    if rest.pop("required", None):
        rules["required"] = required
    return rules


def _shorten_nested(schema: Mapping[str, Any], *, is_output: bool) -> str | dict[str, Any]:
    spec = short_form(schema, is_output=is_output)
    if spec.keys() == {"type"}:
        return str(spec["type"])
    return spec
