"""How does a protocol bind a model to the schemas of tools, where its provider can?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.tool import Tool
from tool_engine.protocols.model_protocol import ModelProtocol
from tool_engine.protocols.schemas.fitting import FittedSchema, SchemaChange
from tool_engine.protocols.tool_names import ToolCatalog


class UnstrictError(ValueError):
    """A schema that strict mode cannot express; says where, and why."""

    def note_in(self, fitted: FittedSchema) -> FittedSchema:
        """Return the schema sent instead, with a change that reports this."""
        message = f"strict mode cannot express it ({self}): it is sent without"
        change = SchemaChange("dropped", "/strict", message)
        return FittedSchema(fitted.schema, [change, *fitted.changes])


class StrictProtocol(ModelProtocol):
    """A protocol that can bind models to the schemas of tools.

    Args:
        tools: As of `ModelProtocol`.
        repair: As of `ModelProtocol`.
        strict: Whether models are bound. A tool with a schema that strict mode cannot express is
            sent without, and `definition_findings` says so.
    """

    def __init__(
        self,
        *,
        tools: Iterable[Tool] | ToolCatalog | None = None,
        repair: bool = True,
        strict: bool = False,
    ) -> None:
        super().__init__(tools=tools, repair=repair)
        check_switch("strict", strict)
        self.strict = strict

    @abstractmethod
    def _make_strict(self, schema: Mapping[str, Any]) -> FittedSchema:
        """Return a tool's schema for strict mode, or raise `UnstrictError`."""

    def fitted_schema(self, tool: Tool) -> FittedSchema:
        """Return the arguments' schema as the provider takes it, with its changes."""
        if not self.strict:
            return super().fitted_schema(tool)
        try:
            return self._make_strict(tool.parameters_schema)
        except UnstrictError as error:
            return error.note_in(super().fitted_schema(tool))

    def _find_strict(self, tool: Tool) -> FittedSchema | None:
        """Return the schema that binds a model, or None."""
        try:
            return self._make_strict(tool.parameters_schema) if self.strict else None
        except UnstrictError:
            return None

    def _describe_tool(self, tool: Tool, schema_key: str) -> dict[str, Any]:
        described = super()._describe_tool(tool, schema_key)
        return described if self._find_strict(tool) is None else {**described, "strict": True}
