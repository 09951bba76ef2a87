"""How do clients of the Model Context Protocol use the tools of an engine?

The names are imported when they are first used: they need the extra `mcp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tool_engine.errors import MissingExtraError
from tool_engine.late_names import find_later

if TYPE_CHECKING:
    from tool_engine.mcp_server.asking import ClientRequest, find_request
    from tool_engine.mcp_server.offers.prompts import PromptArgument
    from tool_engine.mcp_server.selection import ToolSelection
    from tool_engine.mcp_server.server import MCPServer

__all__ = ["ClientRequest", "MCPServer", "PromptArgument", "ToolSelection", "find_request"]

_MODULES = {
    "asking": "ClientRequest find_request",
    "offers.prompts": "PromptArgument",
    "selection": "ToolSelection",
    "server": "MCPServer",
}
"""Module -> the names that it defines."""


_NEEDED = ("cryptography", "mcp", "mcp_types", "pydantic", "starlette", "uvicorn")
"""The packages that the extra `mcp` brings."""
_find = find_later(__name__, _MODULES)


def _find_name(name: str) -> Any:
    try:
        return _find(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        raise MissingExtraError(
            f"the SDK of MCP is not installed ({error.name}): pip install 'tool-engine[mcp]'"
        ) from error


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name
    __getattr__ = _find_name


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
