"""How does a person who has just begun to serve call a tool?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from shlex import quote
from typing import Any, Final

from tool_engine.cli.console import safe_text
from tool_engine.model.tool import Tool

_VALUES: Final = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
_TYPE: Final = "-H 'Content-Type: application/json'"


def announce_call(tools: Iterable[Tool], url: str, *, has_tokens: bool) -> None:
    """Say at a terminal how a tool is called, and how the server ends; elsewhere nothing.

    Args:
        tools: Those that are served.
        url: Where.
        has_tokens: Whether a call needs one.
    """
    if not sys.stderr.isatty():
        return
    tool = _choose_tool(tools)
    if tool is not None:
        token = '-H "Authorization: Bearer $TOKEN" ' if has_tokens else ""
        sent = quote(json.dumps({"arguments": _write_arguments(tool)}, ensure_ascii=False))
        line = f"curl -s {quote(f'{url}/v1/tools/{tool.name}/calls')} {token}{_TYPE} -d {sent}"
        sys.stderr.write(f"call one: {safe_text(line)}\n")
    sys.stderr.write(f"{url}/openapi.json has all paths; Ctrl-C ends it\n")


def _choose_tool(tools: Iterable[Tool]) -> Tool | None:
    """Return a tool to try out: best one that only reads and has an example."""
    usable = [each for each in tools if not (each.secret_names or each.secret_parts)]
    return min(
        usable, key=lambda tool: (tool.effect != "read", not tool.examples, tool.name), default=None
    )


def _write_arguments(tool: Tool) -> dict[str, Any]:
    for example in tool.examples[:1]:
        return dict(example.get("params", {}))
    return {each.name: _VALUES.get(each.type, "...") for each in tool.parameters if each.required}
