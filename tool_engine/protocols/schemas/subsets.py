"""Which part of JSON Schema does each provider take in the definition of a tool?

Every entry is a fact of the provider's documents or of its error messages, with its source. What no
document mentions is taken: a private server behind the same format may know it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tool_engine.protocols.schemas.fitting import Place, SchemaSubset

ANY_SCHEMA: Final = SchemaSubset(provider="MCP")
"""JSON Schema as it is: MCP's `inputSchema`, of which only the root is given.
https://modelcontextprotocol.io/specification/2025-11-25/schema#tool
"""

OPENAI: Final = SchemaSubset(
    provider="OpenAI",
    # https://developers.openai.com/api/docs/guides/function-calling, and its answer 400: "schema
    # must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top
    # level" and "array schema missing items".
    not_at_root=frozenset({"oneOf", "anyOf", "allOf", "enum", "const", "not"}),
    needs_items=True,
)
"""Chat Completions and Responses, not strict."""

ANTHROPIC: Final = SchemaSubset(
    provider="Anthropic",
    # https://platform.claude.com/docs/en/api/messages#body-tools, and its answers 400:
    # "input_schema does not support oneOf, allOf, or anyOf at the top level", "Property keys should
    # match pattern '^[a-zA-Z0-9_.-]{1,64}$'".
    not_at_root=frozenset({"oneOf", "anyOf", "allOf"}),
    property_name=re.compile(r"[a-zA-Z0-9_.-]{1,64}"),
)
"""The `input_schema` of Messages."""

GEMINI: Final = SchemaSubset(
    provider="Gemini",
    # https://ai.google.dev/api/generate-content#GenerationConfig lists under `responseJsonSchema`
    # what of JSON Schema is supported; `parametersJsonSchema` is read by the same reader.
    keywords=frozenset(
        {
            *("$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum"),
            *("items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf"),
            *("oneOf", "properties", "additionalProperties", "required", "propertyOrdering"),
        }
    ),
    # https://ai.google.dev/gemini-api/docs/structured-output#json_schema_support
    formats=frozenset({"date-time", "date", "time"}),
    has_lone_references=True,
    enum_types=(str, int, float),
)
"""The `parametersJsonSchema` of a function declaration."""

_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object"})


def _write_openapi(node: dict[str, Any], place: Place) -> dict[str, Any]:
    """Write types one at a time, `nullable`, and enums of texts."""
    kinds = node.pop("type", None)
    listed = list(kinds) if isinstance(kinds, list | tuple) else [kinds]
    named = [kind for kind in listed if isinstance(kind, str) and kind in _TYPES]
    made: dict[str, Any] = {"type": named[0]} if len(named) == 1 else {}
    if len(named) > 1 and "anyOf" not in node:
        made["anyOf"] = [{"type": kind} for kind in named]
        place.note("rewritten", "type", "Gemini takes one type: there is an anyOf of them")
    if "null" in listed:
        made["nullable"] = True
        place.note("rewritten", "type", "Gemini takes no type 'null': it is nullable")
    elif "enum" in node and "type" not in made:
        # Only texts are listed: see `enum_types`.
        made["type"] = "string"
    made.update(node)
    _unite_nullable(made, place)
    return made


def _unite_nullable(node: dict[str, Any], place: Place) -> None:
    alternatives = node.get("anyOf")
    if not isinstance(alternatives, list) or {"nullable": True} not in alternatives:
        return
    rest = [each for each in alternatives if each != {"nullable": True}]
    del node["anyOf"]
    node["nullable"] = True
    if len(rest) == 1 and not rest[0].keys() & node.keys() - {"nullable"}:
        node.update({**rest[0], "nullable": True})
    elif rest:
        node["anyOf"] = rest
    place.note("rewritten", "anyOf", "Gemini takes no type 'null': it is nullable")


GEMINI_OPENAPI: Final = SchemaSubset(
    provider="Gemini",
    # https://ai.google.dev/api/caching#Schema; an unknown name anywhere fails the whole request:
    # 'Unknown name "additionalProperties" at tools[0].function_declarations[0].parameters'.
    keywords=frozenset(
        {
            *("type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems"),
            *("properties", "required", "minProperties", "maxProperties", "minLength", "maxLength"),
            *("pattern", "example", "anyOf", "propertyOrdering", "default", "items", "minimum"),
            "maximum",
        }
    ),
    # "only 'enum' and 'date-time' are supported for STRING type"
    formats=frozenset({"date-time", "enum", "float", "double", "int32", "int64"}),
    keeps_references=False,
    enum_types=(str,),
    needs_items=True,
    # https://ai.google.dev/api/caching#FunctionDeclaration: "Parameter names must start with a
    # letter or an underscore and must only contain chars a-z, A-Z, 0-9, or underscores with a
    # maximum length of 64."
    property_name=re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}"),
    finish=_write_openapi,
)
"""The older `parameters` of a function declaration: a part of OpenAPI 3.0."""

SUBSETS: Final[Mapping[str, SchemaSubset]] = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "gemini, schema='openapi'": GEMINI_OPENAPI,
}
"""Every subset, by its name in the documents."""
