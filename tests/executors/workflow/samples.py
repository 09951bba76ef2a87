"""Tools for the tests of workflows."""

from __future__ import annotations

from typing import Any

from tool_engine import Tool, ToolConfigLoader


def make_tool(name: str, *parameters: str, **keys: Any) -> Tool:
    """A tool; a parameter is `name`, `name:type`, with `!` behind it when it is required."""
    declared = []
    for text in parameters:
        key, _, kind = text.rstrip("!").partition(":")
        declared.append(
            {
                "name": key,
                "type": kind or "string",
                "required": text.endswith("!"),
                "description": "A sample",
                "secret": key == "token",
            }
        )
    definition = {"name": name, "description": "A sample", "parameters": declared}
    return ToolConfigLoader().from_mapping({**definition, **keys})


def make_workflow(*steps: Any, params: tuple[str, ...] = (), **keys: Any) -> Tool:
    """A workflow called `flow`; `output` goes to its entry."""
    entry: dict[str, Any] = {"type": "workflow", "steps": list(steps)}
    if "output" in keys:
        entry["output"] = keys.pop("output")
    return make_tool(keys.pop("name", "flow"), *params, entry=entry, **keys)


def step(identifier: Any = "a", tool: Any = "t", **keys: Any) -> dict[str, Any]:
    """One step."""
    return {"id": identifier, "tool": tool, **keys}
