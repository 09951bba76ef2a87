"""Which servers does the setting `mcp_servers` name, now and at its last good reading?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tool_engine.catalog.definition_files import FileStamp, stamp_of
from tool_engine.catalog.kinds import ServerDefinition
from tool_engine.catalog.servers.config_file import Servers, read_config_file, read_entries
from tool_engine.executors.mcp.server_settings import MCPServerSettings
from tool_engine.mcp_servers.settings import describe_settings

Server = ServerDefinition | MCPServerSettings
Setting = str | Mapping[str, Any] | Iterable[Any] | None
_PLACE = "mcp_servers"


class Configured(NamedTuple):
    """The servers in their order, and what is wrong."""

    servers: tuple[Server, ...]
    errors: tuple[tuple[str, str], ...]
    broken: tuple[tuple[str, str], ...] = ()
    """The names of entries that are wrong and were never right, and where they stand."""


class ConfiguredServers:
    """The servers of the configuration; one that breaks stays as it was.

    Args:
        setting: `ToolEngineConfig.mcp_servers`.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._known: dict[str, ServerDefinition] = {}
        self._stamp: FileStamp | None = None

    def read(self) -> Configured:
        """Return the servers as they are now; blocks for a file."""
        if self._setting is None:
            return Configured((), ())
        if isinstance(self._setting, str):
            self._stamp = stamp_of(self._setting)
            return self._keep_good(read_config_file(self._setting), self._setting)
        if isinstance(self._setting, Mapping):
            return self._keep_good(read_entries(self._setting, _PLACE), _PLACE)
        servers: tuple[Server, ...] = tuple(self._setting)  # type: ignore[arg-type] # the setting is checked
        return Configured(servers, ())

    @property
    def is_file(self) -> bool:
        return isinstance(self._setting, str)

    def has_changed(self) -> bool:
        """Return True if the file is another one than at the last reading; blocks."""
        return isinstance(self._setting, str) and stamp_of(self._setting) != self._stamp

    def _keep_good(self, found: Servers, place: str) -> Configured:
        if found.is_read:
            kept = {name: self._known[name] for name in found.broken if name in self._known}
            self._known = {server.name: server for server in found.servers} | kept
        broken = tuple((name, place) for name in found.broken if name not in self._known)
        return Configured(tuple(self._known.values()), tuple(found.errors), broken)


def define_server(server: Server) -> ServerDefinition:
    """Return a server as what is approved of it."""
    return server if isinstance(server, ServerDefinition) else describe_settings(server)


def read_definitions(setting: Setting) -> list[ServerDefinition]:
    """Return the servers that a setting names now; blocks for a file."""
    return list(map(define_server, ConfiguredServers(setting).read().servers))
