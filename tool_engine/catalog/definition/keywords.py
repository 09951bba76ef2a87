"""Which keywords and formats of JSON Schema may a definition use?"""

from __future__ import annotations

from typing import Final

KEYWORDS: Final = frozenset(
    {
        *("type", "enum", "const", "title", "description", "default", "examples", "deprecated"),
        *("readOnly", "writeOnly", "$comment", "pattern", "format", "minLength", "maxLength"),
        *(
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "uniqueItems",
        ),
        *("minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties"),
        *("required", "dependentRequired", "items", "prefixItems", "contains", "properties"),
        *("patternProperties", "additionalProperties", "propertyNames", "dependentSchemas"),
        *("unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else"),
        *("allOf", "anyOf", "oneOf", "$ref", "$defs", "definitions"),
    }
)
"""The keywords that may be used: those that are enforced, and plain annotations."""

FORMATS: Final = frozenset(
    {
        *("date-time", "date", "time", "duration", "email", "idn-email", "hostname"),
        *("idn-hostname", "ipv4", "ipv6", "uri", "uri-reference", "iri", "iri-reference", "uuid"),
        *("uri-template", "json-pointer", "relative-json-pointer", "regex"),
    }
)
"""The formats that are checked."""

_DRAFTS: Final = tuple(
    f"json-schema.org/{draft}/schema"
    for draft in ("draft-06", "draft-07", "draft/2019-09", "draft/2020-12")
)


def is_known_draft(draft: object) -> bool:
    """Return True for a `$schema` that is read as 2020-12."""
    return isinstance(draft, str) and draft.rstrip("#").endswith(_DRAFTS)
