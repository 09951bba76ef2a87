"""What is one declared parameter of a tool?"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.json.data import Data

PARAMETER_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object")


class _ParameterFields(msgspec.Struct, Data, frozen=True, gc=False, metaclass=KnownFields):
    """The fields of the founding document, in its order."""

    name: str
    type: str
    required: bool = False
    default: Any = None
    """The value of a call that leaves the parameter out, if `has_default`."""
    description: str = ""
    validation: dict[str, Any] = {}
    """The definition's `validation` block: pattern, min_length, max_length, enum, min, max, items,
    min_items, max_items, properties, required."""


class ToolParameter(_ParameterFields, frozen=True, gc=False, kw_only=True):
    """One declared parameter of a tool."""

    schema: dict[str, Any] | None = None
    """Raw JSON Schema 2020-12 from the definition's `schema` key, added to the rest."""
    has_default: bool | None = None
    """Distinguishes a default of null from none; None: true when `default` is not None."""
    secret: bool = False
    """The value is hidden in records, events and logs."""

    def __post_init__(self) -> None:
        if self.has_default is None:
            msgspec.structs.force_setattr(self, "has_default", self.default is not None)
