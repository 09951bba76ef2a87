"""How does a program give an engine whole sets of tools, and take them back?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tool_engine.calls.home_loop import HomeLoop, at_home
from tool_engine.catalog.generations import ReloadChanges, changes_between
from tool_engine.catalog.index import ToolIndex
from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import CatalogSource, ToolExecutor
from tool_engine.model.tool import server_of
from tool_engine.starting import StartsTasks

if TYPE_CHECKING:
    from tool_engine.calls.pipeline import Pipeline
    from tool_engine.catalog.kinds import Definition
    from tool_engine.catalog.source_tools import SourceState
    from tool_engine.config import ToolEngineConfig
    from tool_engine.executors.executor_registry import ExecutorRegistry
    from tool_engine.following import SourceFollowers
    from tool_engine.mcp_servers.hub import ServerHub
    from tool_engine.mcp_servers.state import MCPServerState
    from tool_engine.reloading import Reloader


class AddsSources(StartsTasks):
    """What an engine does with sources of tools."""

    config: ToolEngineConfig
    index: ToolIndex
    _followers: SourceFollowers
    _reloader: Reloader
    _pipeline: Pipeline
    _searched: ToolIndex = ToolIndex()
    _home: HomeLoop
    _run_at_home: Callable[[Callable[[], Coroutine[Any, Any, Any]]], Coroutine[Any, Any, Any]]

    if TYPE_CHECKING:

        def _require_open(self) -> None:
            """Raise EngineClosedError if the engine is closed."""

    @at_home
    async def start_mcp_servers(self) -> None:
        """Start and reach the servers that the configuration and the files name.

        `load` does, unless `mcp_autostart` is off. Waits as long as `mcp_start_timeout` says.

        Raises:
            EngineClosedError: The engine is closed.
        """
        self._require_open()
        self._runs_servers = True
        await self._sync_servers()

    def list_mcp_servers(self) -> list[MCPServerState]:
        """Return how it is with each server that the configuration and the files name."""
        if self._hub is None:
            return []
        quarantined = (each.tool for each in self._reloader.quarantined.values())
        return self._hub.list_states((*self.index, *quarantined))

    def list_sources(self) -> list[SourceState]:
        """Return the sources that were added, servers among them, with what was found there."""
        return self._reloader.sources.list_states()

    def list_mcp_errors(self) -> list[tuple[str, str]]:
        """Return what of `load_errors` is about servers, and not about definitions."""
        named = self._reloader.servers
        found = {*named.errors, *named.refusals}
        errors = self._reloader.errors
        return [each for each in errors if each in found or each[0].startswith("<mcp:")]

    @at_home
    async def list_lockable(self, names: Iterable[str] | None = None) -> dict[str, Definition]:
        """Return the definitions that a lock file may approve, by their names there.

        Args:
            names: These only, groups as `group:NAME`, servers as `server:NAME`. None: all.

        Raises:
            EngineClosedError: The engine is closed.
        """
        self._require_open()
        await self._take_configured()
        return await self._reloader.list_lockable(names)

    @at_home
    async def list_unapproved(self) -> list[str]:
        """Return the names of what the lock file holds back: tools, then groups and servers.

        Raises:
            LockFileError: What is there is no lock file.
            EngineClosedError: The engine is closed.
        """
        self._require_open()
        await self._take_configured()
        return await self._reloader.list_unapproved()

    def _make_followers(self, reloader: Reloader, registry: ExecutorRegistry) -> None:
        # By name: few processes have an engine, and fewer a source.
        following = import_module("tool_engine.following")
        self._followers = following.SourceFollowers(reloader, registry, self._forget_plans)
        self._reloader = reloader
        self._hub: ServerHub | None = None
        self._runs_servers = self.config.mcp_autostart
        reloader.servers.on_change = self._notice_servers
        registry.find_server = self._find_server

    def _forget_plans(self) -> None:
        self._pipeline.forget_plans()

    def _find_hub(self) -> ServerHub | None:
        """Return what runs servers; None: none is named, or none is to run yet."""
        if self._hub is None and self._runs_servers and self._names_servers():
            # By name: most engines have no servers.
            made = import_module("tool_engine.mcp_servers.hub").ServerHub
            self._hub = made(self.config, self._followers, self._reloader, lambda: self.index)
        return self._hub

    def _names_servers(self) -> bool:
        if self.config.mcp_servers is not None or self._reloader.servers.wanted:
            return True
        found = any(server_of(tool) is not None for tool in self.index.new_since(self._searched))
        self._searched = self.index
        return found

    def _notice_servers(self) -> None:
        if self._reloader.is_loaded and (hub := self._find_hub()) is not None:
            hub.notice()

    async def _sync_servers(self) -> None:
        """Have the servers run that are named now."""
        if (hub := self._find_hub()) is not None:
            await hub.sync()

    async def _start_following(self) -> None:
        """Have servers and tasks run that were there before this engine."""
        await self._sync_servers()
        await self._resume_tasks()

    async def _reload_all(self) -> ReloadChanges:
        readings = await self._followers.read_all()
        return await self._change_all(lambda: self._reloader.reload(readings))

    async def _change_all(self, work: Callable[[], Awaitable[ReloadChanges]]) -> ReloadChanges:
        """Run `work`, let servers come and go by it, and return what both have changed."""
        before = self.index
        changes = await work()
        if self._find_hub() is None:
            return changes
        await self._sync_servers()
        return changes_between(before, self.index)

    async def _take_configured(self) -> None:
        """Have the servers of the configuration known, whether they run or not."""
        if self.config.mcp_servers is not None and self._find_hub() is None:
            # By name: most engines have no servers.
            room = import_module("tool_engine.mcp_servers.configured")
            self._reloader.take_configured(
                await asyncio.to_thread(room.read_definitions, self.config.mcp_servers)
            )

    async def _stop_following(self) -> None:
        if self._hub is not None:
            await self._hub.close()
        await self._followers.close()

    def _find_server(self, name: str, own_name: str) -> Any:
        """Return the server of a name, for a file's tool of it; None: there is none."""
        return None if self._hub is None else self._hub.find(name, own_name)

    @at_home
    async def add_source(
        self,
        source: CatalogSource,
        *,
        timeout: float = 30.0,  # noqa: ASYNC109 - of one reading, not of this call
    ) -> ReloadChanges:
        """Add all tools of a source, and follow its changes; see `CatalogSource`.

        They come and go as one change. A name that a file, code or an earlier source has is left
        out. A source that fails keeps its last good tools, none at first. Each is a `load_errors`
        entry, and `reload` tries again.

        Args:
            source: What gives the tools, before or after `load`.
            timeout: Seconds that one reading of it may take.

        Returns:
            The names of the tools that were added, modified and removed.

        Raises:
            ConfigurationError: It is no source, or its origin is wrong or was added before.
            EngineClosedError: The engine is closed.
        """
        self._require_open()
        return await self._followers.add(source, timeout)

    async def import_tools(
        self,
        tools: Iterable[Any],
        call: Callable[[str, dict[str, Any]], Any] | ToolExecutor | None = None,
        *,
        origin: str = "import:tools",
    ) -> ReloadChanges:
        """Add the tools of a list that another program has, as one set.

        As OpenAI (Chat Completions or Responses), Anthropic, Gemini or MCP have them; their schemas
        stay as they are, and what would not be enforced is left out and a finding of the tool. One
        that cannot be read is left out, and a `load_errors` entry. Tools of pydantic-ai, LangChain,
        openai-agents or LlamaIndex bring what runs them: see `tool_engine.integrations`. What only
        an agent's run executes, such as a search of its provider, is left out likewise.

        Args:
            tools: Mappings, or objects of the SDKs; or tools of one of the frameworks.
            call: Runs them: a plain or async function of a tool's name and its arguments, or an
                executor; None for those of a framework.
            origin: The `Tool.origin` of the tools, by which `remove_source` takes them out again.

        Returns:
            The names of the tools that were added, modified and removed.

        Raises:
            ConfigurationError: An entry has none of these formats, `call` cannot be called or is
                missing, or the origin is wrong or was added before.
            EngineClosedError: The engine is closed.
        """
        recognized = import_module("tool_engine.integrations.recognized_tools")
        listed = recognized.list_tools(tools, "import_tools")
        source = recognized.recognize_tools(listed, origin)
        if source is None:
            imported = import_module("tool_engine.catalog.importing").ImportedTools
            source = imported(listed, call, origin=origin)
        elif call is not None:
            raise ConfigurationError(
                "tools of a framework bring what runs them: leave out call, or give their schemas"
            )
        return await self.add_source(source)

    @at_home
    async def remove_source(self, source: CatalogSource | str) -> ReloadChanges:
        """Remove a source, or that of an origin, with all its tools; running calls go on.

        Returns:
            The names of the tools that were added, modified and removed.

        Raises:
            ConfigurationError: It was not added.
            EngineClosedError: The engine is closed.
        """
        self._require_open()
        return await self._followers.remove(source)
