"""What is one thing that the API does?

An operation is written once: what a router and a description of the API need stands beside what
answers it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tool_engine.access.principal import Principal

if TYPE_CHECKING:
    from tool_engine.engine import ToolEngine
    from tool_engine.server.served import Served

EventSource: TypeAlias = Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]]
"""Writes a stream of events, piece by piece, until it has ended."""


class Asked(msgspec.Struct):
    """One request, read and checked as its operation declares."""

    served: Served
    principal: Principal
    path: Mapping[str, str]
    """The parts of the path that are named."""
    query: Any
    body: Any
    headers: Mapping[bytes, bytes]
    """By their names in small letters."""
    root: str = ""
    """What the paths of this app begin with, where it is mounted in another one."""

    def header(self, name: str) -> str | None:
        """Return a header of the request; None: it has none of this name, in lower case."""
        value = self.headers.get(name.encode())
        return None if value is None else value.decode("latin-1")

    def name_usable(self, names: Iterable[str]) -> list[str]:
        """Return those names of tools that the principal may know."""
        return [each for each in names if self.principal.may_use(each)]

    def limit_changes(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a reload has changed, without the tools that the principal may not know."""
        found = dict(changes)
        for name in ("added", "modified", "removed"):
            found[name] = self.name_usable(found.get(name, ()))
        return found

    @property
    def engine(self) -> ToolEngine:
        return self.served.engine

    @property
    def owner(self) -> str | None:
        """Whose things may be seen: the principal's own; None: those of all."""
        return None if self.principal.may("operate") else self.principal.name


class Reply(msgspec.Struct):
    """An answer that is more than a value."""

    value: Any = None
    status: int = 200
    headers: dict[str, str] = {}
    data: bytes | None = None
    """JSON that is written already, in the place of `value`."""
    text: str | None = None
    """A text in the place of JSON; `headers` say which kind."""
    stream: EventSource | None = None
    """A stream of events in the place of a body."""


Handler: TypeAlias = Callable[[Asked], Awaitable[Any]]


class Operation(msgspec.Struct, frozen=True):
    """One thing that the API does."""

    method: str
    path: str
    scope: str | None
    """What its principal must be allowed to do; None: anyone may."""
    answer: Any
    """The type of a successful answer; None: it has no body; `str`: it is a text."""
    handler: Handler
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    is_body_needed: bool = True
    status: int = 200
    errors: tuple[int, ...] = ()
    """The statuses of its own problems, beside those that all operations have."""
    also: Mapping[str, Any] = {}
    """Further answers, as OpenAPI writes them, by status or, for 200, by media type."""
    headers: Mapping[str, str | tuple[str, Mapping[str, Any]]] = {}
    """The request headers that it heeds, with what they mean, and JSON Schema of what they hold."""
    is_of_all_tools: bool = False
    """Whether it shows all tools at once: one that may not use them all is refused."""
    is_cancelled_with_client: bool = False
    """Whether its work ends when its client has left."""

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def summary(self) -> str:
        return (self.handler.__doc__ or "").strip().partition("\n")[0]

    @property
    def description(self) -> str:
        """What its documentation says after the first line."""
        lines = (self.handler.__doc__ or "").strip().partition("\n")[2].splitlines()
        return "\n".join(line.strip() for line in lines).strip()


def serve_at(method: str, path: str, **fields: Any) -> Callable[[Handler], Operation]:
    """Make an operation of the function that answers it; see `Operation`."""

    def make(handler: Handler) -> Operation:
        return Operation(method=method, path=path, handler=handler, **fields)

    return make
