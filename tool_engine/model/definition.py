"""What may a definition file define?"""

from __future__ import annotations

from tool_engine.model.group import ToolGroup
from tool_engine.model.server import ServerDefinition
from tool_engine.model.tool import Tool

Definition = Tool | ToolGroup | ServerDefinition
KINDS = ("tool", "group", "server")


def kind_of(definition: Definition) -> str:
    """Return one of `KINDS`."""
    if isinstance(definition, Tool):
        return "tool"
    return "group" if isinstance(definition, ToolGroup) else "server"
