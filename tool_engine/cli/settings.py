"""What do the global options say, and which folder of tools follows?"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tool_engine.cli.failures import CommandError
from tool_engine.errors import ConfigurationError

if TYPE_CHECKING:
    from tool_engine.catalog.kinds import ServerDefinition
    from tool_engine.cli.settings_file import SettingsFile
    from tool_engine.config import ToolEngineConfig

DEFAULT_TOOLS = "tools"
LOCK_VARIABLE: Final = "TOOL_ENGINE_LOCK"
PROCESS_VARIABLE: Final = "TOOL_ENGINE_PROCESS"

_AS_LONG_AS_IT_TAKES: Final = 86_400.0
VARIABLES: Final[Mapping[str, str]] = {
    "tools": "TOOL_ENGINE_TOOLS",
    "path": "TOOL_ENGINE_PATH",
    "records": "TOOL_ENGINE_RECORDS",
    "sources": "TOOL_ENGINE_SOURCES",
    "mcp_servers": "TOOL_ENGINE_MCP_CONFIG",
    "cluster": "TOOL_ENGINE_CLUSTER",
    "lock": LOCK_VARIABLE,
    "process": PROCESS_VARIABLE,
}
"""The variables of the environment, by the setting that each says."""
VARIABLE_PREFIX: Final = "TOOL_ENGINE_"
OPTIONS: Final[Mapping[str, str]] = {
    **{key: f"--{key}" for key in ("tools", "path", "records", "cluster")},
    "sources": "--source",
    "mcp_servers": "--mcp-config",
}
"""The options of all commands that say a setting."""


class Settings(NamedTuple):
    """The global options, and behind them the settings of the project."""

    chosen: str | None = None
    """The folder named on the command line or in the environment."""
    is_recursive: bool = False
    is_flat: bool = False
    """Whether sub-folders are left out, whatever the project's settings say."""
    sources: tuple[str, ...] = ()
    """The databases of SQL tools, as `NAME=URL`."""
    records: str | None = None
    """The database named for records of calls, or `none`."""
    cluster: str | None = None
    """The database named for limits that processes share, or `none`."""
    path: str | None = None
    """The named folder of the project's Python modules."""
    mcp_config: str | None = None
    """The named file of servers of tools, such as `.mcp.json`."""
    file: SettingsFile | None = None
    """The settings of the project, which hold where no option and no variable says more."""
    origins: Mapping[str, str] = {}
    """The option or the variable that says a setting, by its name."""

    def origin_of(self, key: str) -> str:
        """Return what says a setting: `--records`, `TOOL_ENGINE_RECORDS`, `tool-engine.toml:3`."""
        if key in self.origins:
            return self.origins[key]
        is_in_file = self.file is not None and key in self.file.values
        return self.file.place(key) if self.file is not None and is_in_file else ""

    @contextlib.contextmanager
    def placed_errors(self) -> Iterator[None]:
        """Have an error about a setting, which begins with its name, say what says it.

        Raises:
            CommandError: The block has raised a `ConfigurationError`.
        """
        try:
            yield
        except ConfigurationError as error:
            found = re.match(r"\w+", str(error))
            place = self.origins.get(found[0], "") if found is not None else ""
            text = f"{place}: {error}" if place else str(error)
            raise CommandError(text, error_type=error.error_type) from error

    @property
    def tools(self) -> str:
        """The folder to read, whether it exists or not."""
        return self.chosen or self.read_file("tools", DEFAULT_TOOLS)

    @property
    def mcp_servers(self) -> str | tuple[ServerDefinition, ...] | None:
        """The servers of tools: the path of a file, or what the project's settings define."""
        servers: str | tuple[ServerDefinition, ...] | None
        servers = self.mcp_config or self.read_file("mcp_servers")
        return servers

    def _read_servers(self) -> str | tuple[ServerDefinition, ...] | None:
        if self.mcp_config and not Path(self.mcp_config).exists():
            from tool_engine.named_file import explain_missing

            raise CommandError(
                f"{self.origin_of('mcp_servers') or OPTIONS['mcp_servers']}: the file "
                f"{self.mcp_config!r} {explain_missing(self.mcp_config)}; name the one with "
                "your servers, such as .mcp.json",
                error_type="no_such_file",
            )
        return self.mcp_servers

    @property
    def lock_file(self) -> str:
        """The lock file of the folder, whether it exists or not."""
        from tool_engine.catalog.approval.lock import default_lock_file

        return self.read_file("lock_file") or default_lock_file(self.tools)

    def read_file(self, key: str, default: Any = None) -> Any:
        """Return what the project's settings say, or else the default."""
        return default if self.file is None else self.file.values.get(key, default)

    def folder(self) -> str:
        """Return the folder to read."""
        path = Path(self.tools)
        if path.is_dir() or self.is_without_folder:
            return self.tools
        from tool_engine.named_file import explain_missing

        state = "is not a folder" if path.exists() else explain_missing(path)
        said = self.origin_of("tools")
        above = next((each for each in ("..", "../..") if _is_own_folder(Path(each, path))), None)
        if above is not None:
            raise CommandError(
                f"the tools folder {self.tools!r} {state} here, but in {above!r}; write "
                f"`tool-engine -C {above} ...`",
                error_type="no_tools_folder",
            )
        raise CommandError(
            f"{f'{said}: ' if said else ''}the tools folder {self.tools!r} {state}; name another "
            "with `tool-engine --tools DIR ...` or the variable TOOL_ENGINE_TOOLS, or begin a "
            "project with `tool-engine init`",
            error_type="no_tools_folder",
        )

    @property
    def is_without_folder(self) -> bool:
        """True if the tools of servers are all there is: no folder is named, and none is there."""
        is_named = self.chosen is not None or self.read_file("tools") is not None
        return self.mcp_servers is not None and not is_named and not Path(self.tools).exists()

    @property
    def project(self) -> str:
        """The folder that Python modules of tools are imported from."""
        return os.path.abspath(self.path or os.path.join(self.tools, os.pardir))  # noqa: PTH100, PTH118 - follows no link

    @property
    def lock(self) -> str:
        """`enforce` where only approved tools may be called."""
        lock: str = os.environ.get(LOCK_VARIABLE) or self.read_file("lock", "off")
        return lock

    def engine_config(self, **changes: Any) -> ToolEngineConfig:
        """Return the configuration of an engine on the folder, without automatic reload.

        Its tools find the modules of the project, as they do in a program in that folder.
        """
        from tool_engine.config import ToolEngineConfig

        put_first(self.project)
        fields = {**self.engine_fields(), **changes}
        if not (fields.get("watch_for_changes") or fields.get("auto_reload")):
            # Tools that come later come too late for a command that ends: each server has its
            # `connect_timeout`.
            fields.setdefault("mcp_start_timeout", _AS_LONG_AS_IT_TAKES)
        with self.placed_errors():
            return ToolEngineConfig(tools_directory=self.folder(), **fields)

    def named_sources(self) -> dict[str, str]:
        """Return the databases that options or a variable name."""
        return dict(read_source(each, self.origin_of("sources")) for each in self.sources)

    @property
    def concurrency(self) -> dict[str, Any]:
        """The limits, with the database of the cluster that an option or a variable names."""
        from tool_engine.cli.settings_file import NOWHERE

        said = dict(self.read_file("concurrency", {}))
        if self.cluster == NOWHERE:
            said.pop("cluster", None)
        elif self.cluster is not None:
            said["cluster"] = {**(said.get("cluster") or {}), "url": self.cluster}
        return said

    def engine_fields(self) -> dict[str, Any]:
        """Return the fields of an engine's configuration that options and settings decide."""
        said = {} if self.file is None else self.file.engine_fields()
        if limits := self.concurrency:
            said["concurrency"] = limits
        else:
            said.pop("concurrency", None)
        return {
            "auto_reload": False,
            **said,
            "recursive": self.is_recursive,
            "lock": self.lock,
            "process": os.environ.get(PROCESS_VARIABLE) or said.get("process"),
            "sources": {**said.get("sources", {}), **self.named_sources()},
            "mcp_servers": self._read_servers(),
            # The records are opened by commands, which share them.
            "records": None,
        }


def _is_own_folder(path: Path) -> bool:
    # Another user's may have settings that start programs.
    return path.is_dir() and path.stat().st_uid == os.getuid()


def put_first(folder: str) -> None:
    """Put an absolute folder first on Python's path, as approvals look there."""
    sys.path[:] = [folder, *(each for each in sys.path if each != folder)]


def read_source(text: str, origin: str = "--source") -> tuple[str, str]:
    """Return the name and the URL of a `--source`, or of what else says one."""
    name, mark, url = text.partition("=")
    if not name or not mark:
        # Not the text: what was meant for a URL may hold a password.
        raise CommandError(
            f"{origin} takes NAME=URL, such as shop=sqlite:///shop.db", error_type="usage_error"
        )
    return name, url
