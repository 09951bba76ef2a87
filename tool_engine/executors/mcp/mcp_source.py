"""How do the tools of a server become tools of an engine, and stay what the server has?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, Final

from msgspec.structs import replace

from tool_engine.errors import ConfigurationError
from tool_engine.executors.mcp.connection import Connection
from tool_engine.executors.mcp.faults import NoListError
from tool_engine.executors.mcp.mcp_executor import MCPExecutor
from tool_engine.executors.mcp.seen_texts import clean_texts
from tool_engine.executors.mcp.server_settings import OF_TOOLS, MCPServerSettings
from tool_engine.interfaces.catalog_source import CODE_PLACE, CatalogSource, ListedTool
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.model.checks.setting_kinds import check_object
from tool_engine.model.json.copying import refuse_copying
from tool_engine.visible import escape_hidden

LONGEST_PREFIX: Final = 32
_ODD: Final = re.compile(r"[^A-Za-z0-9_.-]")
_SAYING: Final = frozenset(
    (
        *("properties", "additionalProperties", "patternProperties", "unevaluatedProperties"),
        *("allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas", "propertyNames"),
    )
)
"""Keywords of which each says something of arguments by name."""
_LONGEST_NAME: Final = 64
"""Characters of a name that every provider of models takes."""
_MARK: Final = 6
"""Characters that set a changed name apart from others."""


@refuse_copying("make another one from its settings")
class MCPSource(CatalogSource):
    """The tools of a server of the Model Context Protocol, for `ToolEngine.add_source`.

    The server's program is started, or its address reached, when the source is added; it is held
    open, and reached again when it was lost. Its tools stay as they were meanwhile.

    Args:
        server: Its settings, or its name, with the settings as keywords.
        in_memory: A server in this process, in place of a program or an address: one of the SDK,
            or a `tool_engine.mcp_server.MCPServer`.
        auth: An `httpx2.Auth`, such as the SDK's `OAuthClientProvider`, for requests over HTTP.
        callbacks: Answers of this client to questions of the server: arguments of the SDK's
            `Client`, such as `elicitation_callback`. Without them it is not asked.
        settings: Fields of `MCPServerSettings`.

    Raises:
        ConfigurationError: The settings say not, or twice, how the server is reached, or
            `in_memory` is no server, or another argument is of the wrong kind.

    Example:
        >>> source = MCPSource("files", command=["npx", "-y", "server-files", "."])
        >>> await engine.add_source(source)
    """

    def __init__(
        self,
        server: MCPServerSettings | str,
        *,
        in_memory: Any = None,
        auth: Any = None,
        callbacks: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        if isinstance(server, str):
            server = make_settings(server, is_in_memory=in_memory is not None, **settings)
        else:
            check_object("server", server, MCPServerSettings, "the server's name, or its settings")
            server = replace(server, **settings) if settings else server
        if callbacks is not None:
            check_object("callbacks", callbacks, Mapping, "a dict of names of callbacks")
        self.settings = server
        self.origin = server.origin
        self.prefix = shorten_name(server.name, longest=LONGEST_PREFIX)
        options = {
            "server": _find_sdk_server(in_memory),
            "auth": auth,
            "callbacks": dict(callbacks or {}),
        }
        self._notify: Callable[[], None] | None = None
        self.connection = Connection(server, self._note_change, options)
        self.executor = MCPExecutor(self.connection)
        self._made: dict[str, tuple[dict[str, Any], ListedTool]] = {}

    def __repr__(self) -> str:
        return f"<MCPSource {self.settings.name}: {self.connection.state}>"

    @property
    def locate(self) -> Callable[[tuple[str | int, ...]], str]:
        """Returns where a part of its settings is written, as `file:line:column`; or nothing."""
        return self.connection.locate

    @locate.setter
    def locate(self, locate: Callable[[tuple[str | int, ...]], str]) -> None:
        self.connection.locate = locate

    @property
    def is_program(self) -> bool:
        """True if its server is a program that is started here."""
        return bool(self.settings.command)

    @property
    def is_reached(self) -> bool:
        """False while there is not even a connection to the address of its server."""
        return not self.settings.url or self.connection.is_reached

    def take_settings(self, settings: MCPServerSettings) -> None:
        """Have others hold for its tools, from the next reading on; the connection stays."""
        self.settings = self.connection.settings = settings
        self._made = {}

    def check_free(self) -> None:
        """Raise `ConfigurationError` if another engine has it, or it was closed."""
        connection = self.connection
        if connection.is_foreign:
            return  # its readings say so, and what to do
        why = "was closed" if connection.is_closed else "belongs to another engine"
        if self._notify is not None or connection.is_closed:
            raise ConfigurationError(
                f"the source {self.origin!r} {why}; make another MCPSource of source.settings"
            )

    def follow(self, notify: Callable[[], None]) -> None:
        """Connect, and keep `notify`."""
        self._notify = notify
        self.connection.start()

    def _note_change(self) -> None:
        if self._notify is not None:
            self._notify()

    async def read_tools(self) -> Iterable[ListedTool]:
        """Return the tools of the server's last list.

        Raises:
            NoListError: There is no list yet, because the server is down.
        """
        connection = self.connection
        connection.start()
        await connection.wait_for_try()
        if connection.tools is None:
            # Not its state, which says another time at each reading.
            why = connection.reason or connection.state
            words = f"the server {self.settings.name!r} gives no list: {why}"
            raise NoListError(words, self.locate(connection.fault_part))
        listed = [each for each in connection.tools if self._is_exposed(each["name"])]
        made = [self._make_listed(each) for each in listed]
        self._made = {each["name"]: (each, tool) for each, tool in zip(listed, made, strict=True)}
        return [
            *made,
            *self._list_faults(),
        ]

    def list_own_names(self) -> list[str] | None:
        """Return the names of the server's last list, exposed or not; None: there is no list."""
        connection = self.connection
        if not connection.is_connected or connection.tools is None:
            return None
        return [*(each["name"] for each in connection.tools), *connection.faults]

    async def close(self) -> None:
        """End the connection, after the calls that run."""
        await self.connection.close()

    def _list_faults(self) -> Iterator[ListedTool]:
        for name, text in self.connection.faults.items():
            if self._is_exposed(name):
                yield ListedTool({"name": name}, fault=text)
        yield from self._list_unmet_patterns()

    def _list_unmet_patterns(self) -> Iterator[ListedTool]:
        """Yield the names and patterns of the settings that no tool of the server has.

        Passed over, a permission of a misspelt name would hold for no tool.
        """
        connection, settings = self.connection, self.settings
        own_names = [*(each["name"] for each in connection.tools or ()), *connection.faults]
        for key, patterns in (("tools", settings.tools), ("expose", settings.expose or ())):
            for number, pattern in enumerate(patterns):
                if not any(fnmatchcase(name, pattern) for name in own_names):
                    near = find_nearest(pattern, own_names)
                    cure = f"did you mean {near!r}?" if near else "correct it, or take it out"
                    fault = f"the server {settings.name!r} has no tool {pattern!r}, which stands in"
                    fault = f"{fault} {key!r} of its settings; {cure}"
                    part = pattern if key == "tools" else number
                    place = self.locate((key, part)) or CODE_PLACE
                    # Without a name: under one, a tool that has left would stay as it was.
                    yield ListedTool({}, fault=fault, place=place)

    def _is_exposed(self, name: str) -> bool:
        patterns = self.settings.expose
        return patterns is None or any(fnmatchcase(name, each) for each in patterns)

    def _make_listed(self, listed: dict[str, Any]) -> ListedTool:
        known = self._made.get(listed["name"])
        if known is not None and known[0] == listed:
            return known[1]
        return replace(
            make_listed(listed, self.settings), place=self.locate(()) or f"<{self.origin}>"
        )


def _find_sdk_server(server: Any) -> Any:
    """Return the SDK's server that is meant.

    Raises:
        ConfigurationError: It is none.
    """
    found = getattr(server, "sdk_server", server)
    if found is not None and not callable(getattr(found, "run", None)):
        raise ConfigurationError(
            f"in_memory must be a server of the SDK or an MCPServer, got {type(server).__name__}"
        )
    return found


def make_settings(name: str, *, is_in_memory: bool = False, **fields: Any) -> MCPServerSettings:
    """Return the settings of a server that is reached in one way.

    Raises:
        ConfigurationError: There is none, or more than one, or a field is none of a server.
    """
    for key in fields:
        if key in OF_TOOLS:
            raise ConfigurationError(
                f"{key!r} of the server {name!r} is about its tools; write "
                f"definition={{{key!r}: ...}}, or tools={{NAME: {{{key!r}: ...}}}} for single ones"
            )
    ways = [bool(fields.get("command")), bool(fields.get("url")), is_in_memory]
    if sum(ways) != 1:
        raise ConfigurationError(
            f"the server {name!r} must be reached in one way: give a command, a url, or in_memory"
        )
    if fields.get("url") and "transport" not in fields:
        fields["transport"] = "http"
    for key in ("command", "allow", "expose"):
        if isinstance(fields.get(key), list):
            fields[key] = tuple(fields[key])
    return MCPServerSettings(name=name, **fields)


def make_listed(listed: Mapping[str, Any], settings: MCPServerSettings) -> ListedTool:
    """Return a tool of a server's list with what holds for it here.

    What the server says of its effect holds only where it is trusted.
    """
    own_name = listed["name"]
    entry = {key: value for key, value in listed.items() if key not in ("_meta", "icons")}
    definition: dict[str, Any] = {
        "name": shorten_name(own_name, settings.prefix),
        "effect": "write",
        "entry": {"type": "mcp", "server": settings.name, "tool": own_name},
    }
    if settings.trust_annotations:
        del definition["effect"]
    else:
        hints = entry.pop("annotations", None) or {}
        if "title" not in entry and isinstance(hints.get("title"), str):
            entry["title"] = hints["title"]
    schema = entry.get("inputSchema")
    if isinstance(schema, dict) and not _SAYING.intersection(schema):
        # It names no argument at all, which says that it takes any.
        entry["inputSchema"] = {**schema, "additionalProperties": True}
    notes = clean_texts(entry)
    definition |= settings.definition
    for pattern, fields in settings.tools.items():
        if fnmatchcase(own_name, pattern):
            definition |= fields
    if definition["name"] != own_name:
        notes.append(f"the server {settings.name!r} calls it {escape_hidden(own_name)!r}")
    return ListedTool(entry, definition, tuple(notes))


def shorten_name(name: str, prefix: str = "", *, longest: int = _LONGEST_NAME) -> str:
    """Return a name that models and files take, for one of a server.

    One that is not kept as it is has a mark of its own at the end, so that it never means another
    tool, whatever else is in the list.
    """
    whole = f"{prefix}_{name}" if prefix else name
    kept = _ODD.sub("_", whole).lstrip("-.") or "_"
    if kept[0].isdigit():
        kept = f"_{kept}"
    if kept == whole and len(kept) <= longest:
        return kept
    mark = sha256(whole.encode(errors="surrogatepass")).hexdigest()[:_MARK]
    return f"{kept[: longest - _MARK - 1]}_{mark}"
