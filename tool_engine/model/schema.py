"""How do a tool's parameters read as JSON Schema 2020-12?

The schema made here is the only source for validation, model formats and forms. The short keys of
a definition map onto it one to one; a mapping that declares `properties` is closed, so that an
unknown key in it is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tool_engine.model.parameter import ToolParameter

SHORT_KEYS: Final = {
    "enum": "enum",
    "pattern": "pattern",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min": "minimum",
    "max": "maximum",
    "min_items": "minItems",
    "max_items": "maxItems",
}
"""Short keys of a `validation` block whose value is the value of a JSON Schema keyword."""
VALIDATION_KEYS: Final = frozenset((*SHORT_KEYS, "items", "properties", "required"))
"""Every key that a `validation` block may have."""


def parameters_schema(parameters: Iterable[ToolParameter]) -> dict[str, Any]:
    """Return the schema of a tool's arguments: a closed object, a property per parameter."""
    listed = list(parameters)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {parameter.name: _parameter_schema(parameter) for parameter in listed},
    }
    required = [parameter.name for parameter in listed if parameter.required]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema


def value_schema(spec: str | Mapping[str, Any], *, is_open: bool = False) -> dict[str, Any]:
    """Return the schema of one value, from a type name or a mapping of short keys.

    `any` puts no constraint on the value. A mapping has `type`, `description`, `default`, and the
    short keys either beside them or in a `validation` block.

    Args:
        spec: What the definition says of the value.
        is_open: Whether an object may carry more than the properties that are declared.
    """
    if isinstance(spec, str):
        return {} if spec == "any" else {"type": spec}
    schema: dict[str, Any] = {}
    if spec.get("type", "any") != "any":
        schema["type"] = spec["type"]
    if spec.get("description"):
        schema["description"] = spec["description"]
    rules = {**spec, **spec.get("validation", {})}
    schema.update(_rules_schema(rules, is_open=is_open))
    if "default" in spec:
        schema["default"] = spec["default"]
    schema.update(spec.get("schema") or {})
    return schema


def short_rules(spec: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return the short keys of `spec`; none where it has a `schema`, which may add rules."""
    if isinstance(spec, str) or spec.get("schema"):
        return {}
    return {**spec, **spec.get("validation", {})}


def output_schema(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's output, from the key `output` or `returns`.

    Unlike arguments, an output may carry more than was declared.
    """
    return value_schema(spec, is_open=True)


def _parameter_schema(parameter: ToolParameter) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "type": parameter.type,
        "description": parameter.description,
        "validation": parameter.validation,
        "schema": parameter.schema,
    }
    if parameter.has_default and not parameter.secret:
        # The schema is sent to models; the default of a secret is not for them.
        spec["default"] = parameter.default
    return value_schema(spec)


def _rules_schema(rules: Mapping[str, Any], *, is_open: bool) -> dict[str, Any]:
    schema = {keyword: rules[key] for key, keyword in SHORT_KEYS.items() if key in rules}
    if "items" in rules:
        schema["items"] = value_schema(rules["items"], is_open=is_open)
    properties = rules.get("properties")
    if properties:
        schema["properties"] = {
            name: value_schema(spec, is_open=is_open) for name, spec in properties.items()
        }
        if not is_open:
            schema["additionalProperties"] = False
    required = _required_names(rules.get("required"), properties or {})
    if required:
        schema["required"] = required
    return schema


def _required_names(declared: Any, properties: Mapping[str, Any]) -> list[str]:
    names = list(declared) if isinstance(declared, list | tuple) else []
    for name, spec in properties.items():
        if isinstance(spec, Mapping) and spec.get("required") is True and name not in names:
            names.append(name)
    return names
