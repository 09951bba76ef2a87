"""How do a tool's parameters read as JSON Schema 2020-12?

The schema made here is the only source for validation, model formats and forms. The short keys of
a definition map onto it one to one; a mapping that declares `properties` is closed, so that an
unknown key in it is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tool_engine.model.json.references import embed_schema, resolve_schema
from tool_engine.model.parameter import PARAMETER_TYPES, ToolParameter

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
_BRANCHES: Final = frozenset(("$ref", "allOf", "anyOf", "oneOf", "then", "else"))
"""Keywords that give an object further forms."""
_OPENING: Final = frozenset(("patternProperties", "unevaluatedProperties"))
"""Keywords that speak of keys which are not declared."""


def parameters_schema(parameters: Iterable[ToolParameter]) -> dict[str, Any]:
    """Return the schema of a tool's arguments: a closed object, a property per parameter."""
    listed, definitions = list(parameters), dict[str, Any]()
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {each.name: _parameter_schema(each, definitions) for each in listed},
    }
    required = [parameter.name for parameter in listed if parameter.required]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return _with_definitions(schema, definitions)


def parameters_of(schema: Mapping[str, Any]) -> list[ToolParameter]:
    """Return the parameters that the schema of a tool's arguments declares.

    Those of the object itself, and of all forms that it may have; each has its own part of the
    schema as `ToolParameter.schema`.

    Args:
        schema: JSON Schema of an object.
    """
    declared: dict[str, Any] = {}
    required: set[str] = set()
    is_one_form = _BRANCHES.isdisjoint(schema)
    for form, is_certain in ((schema, True),) if is_one_form else _list_forms(schema):
        for name, each in form.get("properties", {}).items():
            declared.setdefault(name, each)
        required.update(form.get("required", ()) if is_certain else ())
    return [_parameter_of(schema, name, each, name in required) for name, each in declared.items()]


def takes_others(schema: Mapping[str, Any]) -> bool:
    """Return True if the schema of a tool's arguments says what others than the declared are.

    A schema that is silent about them takes none, as a list of parameters does: most schemas are,
    and an argument that is not declared is most often misspelt.
    """
    forms = (schema,) if _BRANCHES.isdisjoint(schema) else [form for form, _ in _list_forms(schema)]
    return any(
        form.get("additionalProperties", False) is not False or not _OPENING.isdisjoint(form)
        for form in forms
    )


def closed_schema(schema: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the schema by which arguments are judged where models see `schema`."""
    if takes_others(schema):
        return schema
    properties = {**dict.fromkeys(names, True), **schema.get("properties", {})}
    return {**schema, "properties": properties, "additionalProperties": False}


def value_schema(spec: str | Mapping[str, Any], *, is_open: bool = False) -> dict[str, Any]:
    """Return the schema of one value, from a type name or a mapping of short keys.

    `any` puts no constraint on the value. A mapping has `type`, `description`, `default`, and the
    short keys either beside them or in a `validation` block.

    Args:
        spec: What the definition says of the value.
        is_open: Whether an object may carry more than the properties that are declared.
    """
    definitions: dict[str, Any] = {}
    return _with_definitions(_value_schema(spec, definitions, is_open=is_open), definitions)


def _value_schema(
    spec: str | Mapping[str, Any], definitions: dict[str, Any], *, is_open: bool = False
) -> dict[str, Any]:
    if isinstance(spec, str):
        return {} if spec == "any" else {"type": spec}
    schema: dict[str, Any] = {}
    if spec.get("type", "any") != "any":
        schema["type"] = spec["type"]
    if spec.get("description"):
        schema["description"] = spec["description"]
    rules = {**spec, **spec.get("validation", {})}
    schema.update(_rules_schema(rules, definitions, is_open=is_open))
    if "default" in spec:
        schema["default"] = spec["default"]
    schema.update(embed_schema(spec.get("schema") or {}, definitions))
    return schema


def _with_definitions(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "$defs": definitions} if definitions else schema


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


def _list_forms(schema: Any) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Yield what an object must be, and what it may be, with whether it must."""
    waiting, known = [(schema, True)], set[int]()
    while waiting:
        each, is_certain = waiting.pop(0)
        each = resolve_schema(schema, each) if each is not schema else each
        if not isinstance(each, Mapping) or id(each) in known:
            continue
        known.add(id(each))
        yield each, is_certain
        waiting += [(each.get("$ref") and {"$ref": each["$ref"]}, is_certain)]
        waiting += [(form, is_certain) for form in each.get("allOf", ())]
        waiting += [(form, False) for key in ("anyOf", "oneOf") for form in each.get(key, ())]
        waiting += [(each.get(key), False) for key in ("then", "else")]


def _parameter_of(
    whole: Mapping[str, Any], name: str, schema: Any, is_required: bool
) -> ToolParameter:
    if schema.__class__ is dict or isinstance(schema, Mapping):
        own = dict(schema)
    else:
        own = {} if schema else {"not": {}}
    is_secret, said = own.get("writeOnly") is True, own
    if "$ref" in own and isinstance(meant := resolve_schema(whole, own), Mapping):
        said = {**meant, **own}
        is_secret = is_secret or meant.get("writeOnly") is True
    kind, description = said.get("type"), said.get("description", "")
    return ToolParameter(
        name=name,
        type=kind if isinstance(kind, str) and kind in PARAMETER_TYPES else "any",
        required=is_required,
        default=own.get("default"),
        description=description if isinstance(description, str) else "",
        schema=own,
        has_default="default" in own,
        secret=is_secret,
    )


def _parameter_schema(parameter: ToolParameter, definitions: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "type": parameter.type,
        "description": parameter.description,
        "validation": parameter.validation,
        "schema": parameter.schema,
    }
    if parameter.has_default and not parameter.secret:
        # The schema is sent to models; the default of a secret is not for them.
        spec["default"] = parameter.default
    return _value_schema(spec, definitions)


def _rules_schema(
    rules: Mapping[str, Any], definitions: dict[str, Any], *, is_open: bool
) -> dict[str, Any]:
    schema = {keyword: rules[key] for key, keyword in SHORT_KEYS.items() if key in rules}
    if "items" in rules:
        schema["items"] = _value_schema(rules["items"], definitions, is_open=is_open)
    properties = rules.get("properties")
    if properties:
        schema["properties"] = {
            name: _value_schema(each, definitions, is_open=is_open)
            for name, each in properties.items()
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
