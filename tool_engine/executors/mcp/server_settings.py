"""Which server is it, how is it reached, and what holds for its tools here?"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from tool_engine.model.call import check_timeout
from tool_engine.model.checks.bounds import check_choice
from tool_engine.model.checks.field_types import check_kinds
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.checks.setting_kinds import check_name
from tool_engine.model.json.data import Data
from tool_engine.model.permission import Permission

_REACHED: Final = (
    *("name", "transport", "command", "env", "cwd", "url", "headers", "allow", "revision"),
)
"""The fields that say how a server is reached."""
OF_TOOLS: Final = (
    *("timeout", "permission", "effect", "idempotent", "concurrency", "rate", "result"),
    *("retry", "max_uses", "tags", "audience"),
)
"""Keys of a server's definition that mean the same in that of a tool."""
TRANSPORTS: Final = ("stdio", "http", "sse")
"""A process of ours, streamable HTTP, and the HTTP of before 2025."""


class MCPServerSettings(msgspec.Struct, Data, frozen=True, kw_only=True, metaclass=KnownFields):
    """One server of other people's tools; what it says of itself is not in here.

    Its `repr` shows no value of `env` and `headers`, and of the url only where it leads.

    Raises:
        ConfigurationError: A field holds what it cannot hold; the message names it.
    """

    name: str
    """What it is called here: `Tool.origin` is `mcp:NAME`."""
    transport: str = "stdio"
    """One of `TRANSPORTS`."""
    command: tuple[str, ...] = ()
    """The program and its arguments; for `stdio`."""
    env: Mapping[str, str] = {}
    """Variables for the program, beside the few that every program needs. `${env:NAME}` and
    `${file:/path}` stand for secrets, here and in `command`, `url` and `headers`."""
    cwd: str | None = None
    """Where the program runs; None: where the engine does."""
    url: str = ""
    """The endpoint; for `http` and `sse`."""
    headers: Mapping[str, str] = {}
    """Headers of each request."""
    allow: tuple[str, ...] = ()
    """Hosts and ports, as `host:port`, that may be reached although they are not public, beside
    that of `url`."""
    prefix: str = ""
    """What stands in front of each tool's name, as `PREFIX_name`; empty: the name of the server,
    and only where another tool has the name."""
    expose: tuple[str, ...] | None = None
    """Which of its tools are taken, by the server's own names, `*` for letters; None: all."""
    definition: Mapping[str, Any] = {}
    """Fields of a definition that hold for each of its tools, such as `timeout` and `result`."""
    tools: Mapping[str, Mapping[str, Any]] = {}
    """The same for single tools, by the server's own names, `*` for letters; later ones win."""
    trust_annotations: bool = False
    """True: what its tools say of their effect holds here; else each writes, unless the fields
    above say otherwise."""
    revision: str | None = None
    """The revision of the protocol that is spoken, such as `2025-11-25`; None: the newest that both
    know, for which a server of before 2026 is asked twice."""
    connect_timeout: float = 30.0
    """Seconds that a connection may take, from the start of the program to the list."""
    idle_timeout: float | None = None
    """Seconds that a call may take without a sign of progress; None: only its deadline counts."""

    def __post_init__(self) -> None:
        check_name("name", self.name)
        check_kinds(self)
        check_choice("transport", self.transport, TRANSPORTS)
        check_timeout("connect_timeout", self.connect_timeout)
        if self.idle_timeout is not None:
            check_timeout("idle_timeout", self.idle_timeout)

    def __repr__(self) -> str:
        reached = " ".join(self.command[:1]) or describe_address(self.url)
        names = ", ".join([*self.env, *self.headers])
        return f"MCPServerSettings({self.name!r}, {reached!r}{f', with {names}' if names else ''})"

    def __rich_repr__(self) -> Any:
        yield repr(self)

    def is_reached_like(self, other: MCPServerSettings) -> bool:
        """Return True if the same connection serves both: they differ in what holds here."""
        return all(getattr(self, key) == getattr(other, key) for key in _REACHED)

    @property
    def origin(self) -> str:
        """The `Tool.origin` of its tools."""
        return f"mcp:{self.name}"


def describe_address(url: str) -> str:
    """Return scheme, host and port of a URL: what else is in it may be a secret."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return "<no url>"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{port}" if parts.scheme and host else ""


def find_permission(settings: MCPServerSettings, own_name: str) -> Permission:
    """Return the permission that the settings of a server give one of its tools.

    Args:
        settings: The server.
        own_name: The server's own name of the tool.
    """
    said = settings.definition.get("permission")
    for pattern, fields in settings.tools.items():
        if fnmatchcase(own_name, pattern):
            said = fields.get("permission", said)
    if isinstance(said, Mapping):
        return Permission(execution=said.get("execution"), result=said.get("result"))
    return Permission(execution=said)
