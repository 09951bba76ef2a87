"""How do the servers that are wanted become sources of an engine, again and again?

After each look at the folder and at the configuration, what is wanted is compared with what runs.
What is different goes, and comes anew: all servers at once, so that a slow one holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.kinds import ServerDefinition
from tool_engine.catalog.source_tools import Reading
from tool_engine.errors import ToolEngineError, ToolExecutionError
from tool_engine.executors.mcp.server_settings import MCPServerSettings
from tool_engine.following import Follower, SourceFollowers
from tool_engine.mcp_servers.configured import Configured, ConfiguredServers, define_server
from tool_engine.mcp_servers.settings import list_unset, settings_of
from tool_engine.mcp_servers.state import MCPServerState
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.tool import Tool, server_of
from tool_engine.reloading import Reloader

if TYPE_CHECKING:
    from tool_engine.config import ToolEngineConfig
    from tool_engine.executors.mcp.mcp_source import MCPSource

_T = TypeVar("_T")
_LEEWAY: Final = 5.0
"""Seconds that a reading may take beyond the time to connect."""
_ADDRESS_PATIENCE: Final = 3.0
"""Seconds that a server at an address is waited for when all others have answered."""
_DIALLING_PATIENCE: Final = 0.15
"""Seconds that one is waited for beyond all others whose address takes no connection."""
_QUICK: Final = 1.0
"""Seconds between two looks at the configuration's file where changes are watched for."""
Error = tuple[str, str]


class ServerHub:
    """The servers of one engine; lives on its loop.

    Args:
        config: Says which servers are wanted, and how long they are waited for.
        followers: Take the servers in as sources.
        reloader: Knows the servers of files, and takes in what is wrong.
        index: Returns the tools, of which some name a server.
    """

    def __init__(
        self,
        config: ToolEngineConfig,
        followers: SourceFollowers,
        reloader: Reloader,
        index: Callable[[], ToolIndex],
    ) -> None:
        self._followers = followers
        self._reloader = reloader
        self._index = index
        self._patience = config.mcp_start_timeout
        self._configured = ConfiguredServers(config.mcp_servers)
        self._interval = _find_interval(config) if self._configured.is_file else None
        self._sources: dict[str, MCPSource] = {}
        self._places: dict[str, str] = {}
        self._defined: dict[str, ServerDefinition] = {}
        self._wrong: list[Error] = []
        self._failed: dict[str, str] = {}
        self._unused: dict[str, str] = {}
        """Why servers that are named have no settings."""
        self._late: dict[str, asyncio.Task[None]] = {}
        self._waited = 0.0
        """Seconds for which those were waited for that are late."""
        self._disabled: list[str] = []
        self._findings: dict[str, tuple[str, ...]] = {}
        self._calls: dict[str, str] = {}
        """The server of each tool of a file that names one."""
        self._seen = ToolIndex()
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._approved: tuple[ServerDefinition, ...] = ()
        self._changed: tuple[object, Mapping[tuple[str, str], str]] = (None, {})
        self._broken: dict[str, str] = {}
        """Where the servers are named whose entry is wrong."""
        self._is_due = self._is_begun = False
        self._is_closed = False
        self._watch: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"ServerHub({list(self._sources.values())})"

    def list_states(self, tools: Iterable[Tool]) -> list[MCPServerState]:
        """Return how it is with each server; `tools` are those that are there, or quarantined."""
        names: dict[str, list[str]] = {}
        for tool in tools:
            names.setdefault(tool.origin, []).append(tool.name)
        found = [
            self._describe_server(name, place, tuple(sorted(names.get(f"mcp:{name}", ()))))
            for name, place in self._places.items()
        ]
        for name, place in self._broken.items():
            if name not in self._places:
                found.append(MCPServerState(name=name, place=place, state="has a wrong entry"))
        return found

    def _describe_server(self, name: str, place: str, tools: tuple[str, ...]) -> MCPServerState:
        source, is_enabled = self._sources.get(name), name not in self._disabled
        if (why := self._reloader.servers.refused.get(name)) is not None:
            # Nothing else that it says is shown before it is approved.
            return MCPServerState(name=name, place=place, state="is quarantined", findings=(why,))
        known: dict[str, Any] = {
            "name": name,
            "place": place,
            "tools": tools,
            "is_enabled": is_enabled,
        }
        known["findings"] = self._findings.get(name, ())
        if source is None:
            return MCPServerState(state="is not used" if is_enabled else "is turned off", **known)
        connection = source.connection
        return MCPServerState(
            state=connection.state,
            is_connected=connection.is_connected,
            version=connection.peer_version,
            **known,
        )

    def find(self, name: str, own_name: str) -> MCPSource | None:
        """Return a server that is used; None: none of this name is named.

        Args:
            name: The name of the server.
            own_name: The server's own name of the tool that is to be called.

        Raises:
            ToolExecutionError: The server is named, and not used, or it has changed the tool since
                that was approved; the message says why.
        """
        source = self._sources.get(name)
        if source is None and (why := self._explain_unused(name)):
            raise ToolExecutionError(why)
        if (changed := self._find_changed().get((f"mcp:{name}", own_name))) is not None:
            words = f"the server {name!r} has changed its tool {own_name!r}: {changed}"
            raise ToolExecutionError(words, is_final=True)
        return source

    def _find_changed(self) -> Mapping[tuple[str, str], str]:
        """Return why tools are held back that servers have changed, by origin and own name."""
        quarantined = self._reloader.quarantined
        if self._changed[0] is not quarantined:
            changed = {
                (each.tool.origin, str(each.tool.implementation_config.get("tool"))): each.message
                for each in quarantined.values()
                if each.reason == "changed" and server_of(each.tool) is not None
            }
            self._changed = quarantined, changed
        return self._changed[1]

    def _explain_unused(self, name: str) -> str:
        for reasons in (self._reloader.servers.refused, self._unused, self._failed):
            if name in reasons:
                return reasons[name]
        if name in self._disabled:
            return f"the server {name!r} is turned off in {self._places[name]}"
        if name in self._broken:
            return f"the entry of the server {name!r} in {self._broken[name]} is wrong"
        return ""

    async def sync(self) -> None:
        """Make the servers those that are wanted, and wait for them, but not for long."""
        async with self._lock:
            configured = await asyncio.to_thread(self._configured.read)
            self._reloader.take_configured(map(define_server, configured.servers))
            self._is_due, self._approved = False, self._reloader.servers.approved
            wanted = self._choose_servers(configured)
            # Before, no tool's server is missing.
            self._is_begun = True
            for name in [name for name in self._sources if name not in wanted]:
                self._late.pop(name, None)
                await self._followers.remove(self._sources.pop(name))
            self._failed = {}
            if wanted.keys() - self._sources.keys():
                await asyncio.to_thread(_load_sdk)
            begun: dict[str, tuple[Follower, asyncio.Task[Reading]]] = {}
            for name, settings in wanted.items():
                known = self._sources.get(name)
                if known is not None:
                    known.locate = self._defined[name].locate
                if known is None or not known.settings.is_reached_like(settings):
                    self._begin_server(settings, begun)
                elif known.settings != settings:
                    self._read_server_again(known, settings, begun)
            await self._await_readings(begun)
            self._tell_errors()
            if self._watch is None and self._interval is not None and not self._is_closed:
                self._watch = asyncio.create_task(self._watch_file(), name="tool-engine-mcp-file")

    def _begin_server(
        self,
        settings: MCPServerSettings,
        begun: dict[str, tuple[Follower, asyncio.Task[Reading]]],
    ) -> None:
        made = import_module("tool_engine.executors.mcp.mcp_source").MCPSource
        name, known = settings.name, self._sources.get(settings.name)
        source: MCPSource = made(settings)
        source.locate = self._defined[name].locate
        patience = settings.connect_timeout + _LEEWAY
        try:
            follower = self._followers.begin(source, patience, replaces=known)
        except ToolEngineError as error:
            self._failed[name] = str(error)
            return
        self._late.pop(name, None)
        self._sources[name] = source
        # Its first tools come together with those of the others.
        follower.hold()
        begun[name] = follower, self._spawn_task(follower.read())

    def _read_server_again(
        self,
        source: MCPSource,
        settings: MCPServerSettings,
        begun: dict[str, tuple[Follower, asyncio.Task[Reading]]],
    ) -> None:
        """Have other settings hold for the tools of a server that runs on."""
        source.take_settings(settings)
        follower = self._followers.find(source)
        if follower is not None and settings.name not in self._late:
            follower.hold()
            begun[settings.name] = follower, self._spawn_task(follower.read())

    async def _await_readings(
        self, begun: dict[str, tuple[Follower, asyncio.Task[Reading]]]
    ) -> None:
        """Take in the tools of all servers that answer in time, as one change."""
        if not begun:
            return
        taken: dict[str, Any] = {}
        try:
            await self._wait_for_answers({name: task for name, (_, task) in begun.items()})
            done = {each.origin: (each, task) for each, task in begun.values() if task.done()}
            await self._reloader.take_readings(
                lambda: {
                    origin: task.result()
                    for origin, (each, task) in done.items()
                    if not task.cancelled() and each.is_wanted(task.result())
                }
            )
            taken = done
        finally:
            # Also where a caller does not wait any more: a server is there for all.
            for name, (follower, task) in begun.items():
                if follower.origin in taken:
                    follower.release()
                elif not self._is_closed:
                    self._late[name] = self._spawn_task(self._take_late(name, follower, task))

    async def _wait_for_answers(self, tasks: dict[str, asyncio.Task[Reading]]) -> None:
        """Wait for readings while they may come in time, and note for how many seconds."""
        now = asyncio.get_running_loop().time
        begun, slowest = now(), 0.0
        names = {task: name for name, task in tasks.items()}
        try:
            while names:
                left = begun + self._find_limit(names.values(), slowest) - now()
                if left <= 0:
                    break
                done, _ = await asyncio.wait(
                    names, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    del names[task]
                if any(not task.cancelled() and task.result().tools is not None for task in done):
                    slowest = now() - begun
        finally:
            self._waited = now() - begun

    def _find_limit(self, silent: Iterable[str], slowest: float) -> float:
        """Return how many seconds silent servers have, the slowest of the others having answered.

        A program may have to be fetched before it starts. What is at an address is there already:
        of those that are silent much longer than the others took none holds up all, and one that
        does not even take a connection is most likely gone.
        """
        sources = [self._sources[name] for name in silent]
        if not slowest or any(each.is_program for each in sources):
            return self._patience
        if any(each.is_reached for each in sources):
            return min(self._patience, max(_ADDRESS_PATIENCE, 2 * slowest))
        return min(self._patience, slowest + _DIALLING_PATIENCE)

    async def _take_late(self, name: str, follower: Follower, task: asyncio.Task[Reading]) -> None:
        reading = await task
        await self._reloader.take_reading(
            follower.origin, reading, lambda: follower.is_wanted(reading)
        )
        follower.release()
        # Another may be late by now, of other settings.
        if self._late.get(name) is asyncio.current_task():
            del self._late[name]
            self._tell_errors()

    def notice(self) -> None:
        """Take in that files or tools have changed."""
        if self._is_closed or self._is_due:
            return
        if self._reloader.servers.approved != self._approved:
            self._is_due = True
            self._spawn_task(self.sync())
        elif self._is_begun:
            self._tell_errors()

    async def close(self) -> None:
        """Start nothing any more; what runs is closed with the sources of the engine."""
        self._is_closed = True
        tasks = [*self._tasks, *([self._watch] if self._watch is not None else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _choose_servers(self, configured: Configured) -> dict[str, MCPServerSettings]:
        """Return the settings of the servers that are used, by name; note what is wrong."""
        wanted: dict[str, MCPServerSettings] = {}
        self._wrong, self._disabled = list(configured.errors), []
        self._places, self._findings, self._unused, self._defined = {}, {}, {}, {}
        self._broken = dict(configured.broken)
        named = self._reloader.servers
        for server in (*configured.servers, *named.wanted.values()):
            defined = define_server(server)
            place = defined.place
            if server.name in self._places:
                self._wrong.append((place, _describe_rival(defined, self._defined)))
                continue
            self._places[server.name], self._defined[server.name] = place, defined
            if server.name in named.refused:
                continue
            if isinstance(server, MCPServerSettings):
                wanted[server.name] = server
                continue
            self._findings[server.name] = server.findings
            if not server.is_enabled:
                self._disabled.append(server.name)
                continue
            if unset := list(map(str, list_unset(server))):
                self._unused[server.name] = unset[0]
                self._wrong.extend((place, each) for each in unset)
            else:
                wanted[server.name] = settings_of(server)
        return wanted

    def _tell_errors(self) -> None:
        if self._is_closed:
            return
        self._note_calls()
        found = list(self._wrong)
        for name, text in self._failed.items():
            found.append(self._place_error(name, text))
        found += [self._place_error(name, self._describe_late(name)) for name in self._late]
        for tool_name, server in self._calls.items():
            tool = self._seen.get_or_raise(tool_name)
            if what := self._find_fault(tool, server):
                found.append((str(tool.source), f"{tool.source}: {what}"))
        self._reloader.note_server_errors(found)

    def _place_error(self, name: str, text: str) -> Error:
        defined = self._defined.get(name)
        return (name, text) if defined is None else (defined.place, f"{defined.locate()}: {text}")

    def _describe_late(self, name: str) -> str:
        done = "answered" if self._sources[name].is_reached else "been reached"
        late = f"the server {name!r} has not {done} within {self._waited:.1f} s"
        if self._waited < self._patience:
            return f"{late}, as others have; its tools come when it does"
        return f"{late}; its tools come when it does, or raise mcp_start_timeout"

    def _find_fault(self, tool: Tool, server: str) -> str:
        """Return why the server of a file's tool has none such; what is said elsewhere is none."""
        if server in self._broken:
            return ""
        if server not in self._places:
            cure = suggest_near(server, self._places) or "; name it in mcp_servers, or in a file"
            return f"the tool {tool.name!r} is of the server {server!r}, which is not there{cure}"
        source = self._sources.get(server)
        known = None if source is None else source.list_own_names()
        own_name = tool.implementation_config["tool"]
        if known is None or own_name in known:
            return ""
        cure = suggest_near(own_name, known)
        return f"the server {server!r} of the tool {tool.name!r} has no tool {own_name!r}{cure}"

    def _note_calls(self) -> None:
        """Note which tools of files name a server."""
        index = self._index()
        for tool in index.new_since(self._seen):
            server = server_of(tool)
            if server is not None and tool.source is not None and not tool.source.startswith("<"):
                self._calls[tool.name] = server
            else:
                self._calls.pop(tool.name, None)
        self._calls = {name: server for name, server in self._calls.items() if name in index}
        self._seen = index

    async def _watch_file(self) -> None:
        """Compare again when the file of the configuration has changed."""
        while self._interval is not None:
            await asyncio.sleep(self._interval)
            if await asyncio.to_thread(self._configured.has_changed):
                await self.sync()

    def _spawn_task(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = asyncio.create_task(work, name="tool-engine-mcp-servers")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _find_interval(config: ToolEngineConfig) -> float | None:
    """Return how often the file of the configuration is looked at; None: with each reload."""
    if config.watch_for_changes:
        return min(_QUICK, config.reload_interval)
    return config.reload_interval if config.auto_reload else None


def _load_sdk() -> None:
    """Import what speaks to servers, which takes too long for the loop."""
    # By name: an engine without servers does without it. What is missing is said by each server.
    with suppress(ImportError):
        import_module("tool_engine.executors.mcp.mcp_source")
        import_module("tool_engine.executors.mcp.peer")


def _describe_rival(server: ServerDefinition, rivals: dict[str, ServerDefinition]) -> str:
    name, rival = server.name, rivals[server.name]
    return f"{server.locate()}: the server {name!r} is also named in {rival.locate()}; rename one"
