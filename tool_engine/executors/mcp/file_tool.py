"""How does a tool run that a file defines, and a server has?

The file says what a model reads of the tool and what holds for it; `entry` names the server and
the server's own name of the tool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.entry_reader import EntryReader
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

if TYPE_CHECKING:
    from tool_engine.executors.mcp.mcp_source import MCPSource

_KEYS: Final = ("type", "server", "tool", "handler", "config")


class FileToolExecutor(ToolExecutor):
    """Runs tools of files by the servers that they name.

    Args:
        find_server: Returns the server of a name, or None.
    """

    def __init__(self, find_server: Callable[[str], MCPSource | None] | None = None) -> None:
        self._find_server = find_server

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        """Call the tool of the server; see `MCPExecutor.execute`.

        Raises:
            ToolExecutionError: There is no such server, or as with its own tools.
        """
        name = tool.implementation_config["server"]
        source = None if self._find_server is None else self._find_server(name)
        executor = None if source is None else source.executor
        if executor is None:
            raise ToolExecutionError(
                f"the server {name!r} is not there; name it in mcp_servers, or in a file with "
                "kind: mcp_server"
            )
        return await executor.execute(tool, params, context)


class _Reader(EntryReader[bool]):
    def read(self) -> bool:
        self.keys(self.tool.implementation_config, _KEYS, "entry")
        self.config(())
        return True


check_entry = _Reader.check
