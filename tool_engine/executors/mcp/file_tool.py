"""How does a tool run that a file defines, and a server has?

The file says what a model reads of the tool and what holds for it; `entry` names the server and
the server's own name of the tool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.entry_reader import EntryReader
from tool_engine.executors.mcp.server_settings import MCPServerSettings, find_permission
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.permission import ExecutionPolicy, Permission, ResultPolicy
from tool_engine.model.tool import Tool

if TYPE_CHECKING:
    from tool_engine.executors.mcp.mcp_source import MCPSource

_NEEDED: Final = {
    "server": "the name of the server",
    "tool": "the server's own name of the tool",
}
_KEYS: Final = ("type", "server", "tool", "handler", "config")


class FileToolExecutor(ToolExecutor):
    """Runs tools of files by the servers that they name.

    Args:
        find_server: Returns the server of a name, or None; takes the server's own name of the tool
            as well, and raises `ToolExecutionError` where that is held back.
    """

    leaves_on_cancel = True  # as `MCPExecutor`

    def __init__(self, find_server: Callable[[str, str], MCPSource | None] | None = None) -> None:
        self._find_server = find_server

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        """Call the tool of the server; see `MCPExecutor.execute`.

        Raises:
            ToolExecutionError: There is no such server, or as with its own tools.
        """
        name, own_name = (tool.implementation_config[key] for key in _NEEDED)
        source = None if self._find_server is None else self._find_server(name, own_name)
        executor = None if source is None else source.executor
        if source is None or executor is None:
            raise ToolExecutionError(
                f"the server {name!r} is not there; name it in mcp_servers, or in a file with "
                "kind: mcp_server"
            )
        self._check_settings(tool, source.settings)
        return await executor.execute(tool, params, context)

    def _check_settings(self, tool: Tool, settings: MCPServerSettings) -> None:
        """Raise `ToolExecutionError` where the server's settings ask more than the file does."""
        own_name = tool.implementation_config["tool"]
        wanted, own = find_permission(settings, own_name), tool.permission or Permission()
        for kind, stricter, said in (
            (ExecutionPolicy, wanted.execution, own.execution),
            (ResultPolicy, wanted.result, own.result),
        ):
            order: list[Any] = list(kind)
            is_denied = stricter is ExecutionPolicy.DENY
            given = order.index(said or order[0])
            if stricter is not None and (is_denied or given < order.index(stricter)):
                raise ToolExecutionError(
                    f"the settings of the server {settings.name!r} say "
                    f"{stricter.value!r} for {own_name!r}, and its file says less; write the same "
                    "permission into the file"
                )


class _Reader(EntryReader[bool]):
    def read(self) -> bool:
        entry = self.tool.implementation_config
        self.keys(entry, _KEYS, "entry")
        for key, what in _NEEDED.items():
            if not isinstance(entry.get(key), str) or not entry[key].strip():
                self.problem(f"entry.{key}", f"it needs {what}; write entry.{key}")
        self.config(())
        return True


check_entry = _Reader.check
