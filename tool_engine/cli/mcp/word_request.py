"""What do the words of `mcp` say that is not about serving?"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from tool_engine.cli.failures import CommandError, suggest_name
from tool_engine.cli.logs import hide_load_errors
from tool_engine.cli.settings import Settings
from tool_engine.cli.slow_servers import warn_of_slow_servers
from tool_engine.engine import ToolEngine
from tool_engine.mcp_servers.state import MCPServerState
from tool_engine.model.tool import Tool, server_of


class Request(msgspec.Struct, frozen=True):
    """The arguments and options behind `mcp list` and its like."""

    words: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """What `--tool` names."""
    output: str | None = None
    as_json: bool = False
    force: bool = False
    """Whether what was written before is written again."""


@contextlib.asynccontextmanager
async def open_servers(settings: Settings, **changes: Any) -> AsyncIterator[ToolEngine]:
    """Open an engine with its servers, and no records.

    Raises:
        CommandError: There are no servers.
    """
    engine = ToolEngine(settings.engine_config(**changes))
    async with contextlib.AsyncExitStack() as stack:
        with hide_load_errors("mcp_server_down"), warn_of_slow_servers(engine):
            await stack.enter_async_context(engine)
        if not engine.list_mcp_servers() and not engine.list_mcp_errors():
            raise CommandError(
                "no server is named: name a file such as .mcp.json with --mcp-config FILE, or "
                f"write a file with kind: mcp_server into {settings.tools}",
                error_type="no_servers",
            )
        yield engine


def find_server(engine: ToolEngine, name: str) -> MCPServerState:
    """Return the server of a name, or raise a CommandError."""
    states = {each.name: each for each in engine.list_mcp_servers()}
    if name not in states:
        raise CommandError(
            f"there is no server {name!r}{suggest_name(name, states)}", error_type="no_server"
        )
    return states[name]


def own_name(tool: Tool) -> str:
    """Return what the server of a tool calls it."""
    entry = tool.implementation_config
    return str(entry.get("tool", tool.name)) if server_of(tool) is not None else tool.name


def is_down(state: MCPServerState) -> bool:
    """Return True for a server that is wanted, and whose tools are not known now."""
    return state.is_enabled and not state.is_connected
