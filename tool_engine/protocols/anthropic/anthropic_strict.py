"""Which schema makes Anthropic's models follow a tool's parameters exactly?

With `strict` a model cannot write anything that the schema excludes. Such a schema is closed; what
a grammar cannot express goes into the descriptions.
https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tool_engine.model.reply import ReplyFinding
from tool_engine.protocols.schemas.fitting import FittedSchema, Place, SchemaSubset, fit_schema
from tool_engine.protocols.schemas.schema_words import move_to_words
from tool_engine.protocols.schemas.subsets import ANTHROPIC
from tool_engine.protocols.strict_protocol import UnstrictError

_MAX_TOOLS: Final = 20
_MAX_OPTIONAL: Final = 24
_SAYS_WHAT: Final = ("type", "enum", "const", "anyOf")


def _close_object(node: dict[str, Any], place: Place) -> dict[str, Any]:
    if not any(keyword in node for keyword in _SAYS_WHAT):
        raise UnstrictError(f"parameters{place.path}: any value is allowed there")
    least = node.get("minItems", 0)
    if least not in (0, 1):
        move_to_words(node, "minItems")
        place.note("rewritten", "minItems", "strict: only 0 and 1 are taken")
    kind = node.get("type")
    if "object" not in (kind if isinstance(kind, list) else [kind]):
        return node
    if node.get("additionalProperties") not in (None, False) or "properties" not in node:
        raise UnstrictError(f"parameters{place.path}: any keys are allowed there")
    if node.get("additionalProperties") is None:
        place.note("rewritten", "additionalProperties", "strict: no keys but these are allowed")
    return {**node, "additionalProperties": False}


_SUBSET: Final = SchemaSubset(
    provider="Anthropic's strict mode",
    keywords=frozenset(
        {
            *("type", "title", "description", "default", "enum", "const", "anyOf", "properties"),
            *("required", "additionalProperties", "items", "minItems", "format"),
        }
    ),
    not_at_root=frozenset({"anyOf"}),
    formats=frozenset(
        {
            *("date-time", "time", "date", "duration", "email", "hostname", "uri"),
            *("ipv4", "ipv6", "uuid"),
        }
    ),
    keeps_references=False,
    enum_types=(str, int, float, bool, type(None)),
    property_name=ANTHROPIC.property_name,
    finish=_close_object,
)


def make_strict(schema: Mapping[str, Any]) -> FittedSchema:
    """Convert a tool's schema for `strict`, and list the changes.

    Raises:
        UnstrictError: Strict mode cannot express it, as with objects of any keys.
    """
    return fit_schema(schema, _SUBSET)


def check_limits(schemas: Iterable[Mapping[str, Any]]) -> list[ReplyFinding]:
    """Report more strict tools than the API takes in one request.

    https://platform.claude.com/docs/en/build-with-claude/structured-outputs
    """
    listed = list(schemas)
    optional = sum(map(_count_optional, listed))
    return [
        ReplyFinding(
            error_type="limit",
            level="error",
            message=f"anthropic takes {most} strict {what} in a request, these are {count}: tell "
            "of fewer tools, or leave strict out",
        )
        for what, count, most in (
            ("tools", len(listed), _MAX_TOOLS),
            ("tools' optional parameters", optional, _MAX_OPTIONAL),
        )
        if count > most
    ]


def _count_optional(schema: Any) -> int:
    if isinstance(schema, list):
        return sum(map(_count_optional, schema))
    if not isinstance(schema, Mapping):
        return 0
    properties = schema.get("properties", {})
    own = len(properties) - len(schema.get("required", ()))
    inner = [*properties.values(), schema.get("items"), schema.get("anyOf")]
    return own + sum(map(_count_optional, inner))
