"""What does a page know of the request for it, and what does it answer?"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from tool_engine.access.principal import Principal
from tool_engine.studio.api import API

_PLACE: Final = re.compile(r"(?:/(?!\.\.?(?:/|$))[^/]+)*/?")
"""A path that leads no way up, and to no other host."""


class Form(msgspec.Struct):
    """What was filled in and sent."""

    fields: list[tuple[str, str]]
    """Names and values in the order of the page; a name may stand several times."""
    files: dict[str, list[tuple[str, bytes]]] = {}
    """By the name of their control: the name and the bytes of each file."""

    def get(self, name: str, default: str = "") -> str:
        """Return the first value of a name."""
        return next((value for each, value in self.fields if each == name), default)


class Visit(msgspec.Struct):
    """A request for a page, by a principal that is signed in."""

    api: API
    principal: Principal
    path: str
    """Below that of the studio."""
    parts: Mapping[str, str]
    """The parts of the path that are named."""
    query: Mapping[str, str]
    form: Form
    root: str
    """What the paths of the studio begin with, such as `/studio`."""
    address: str
    """Where the API stands for this browser, such as `http://127.0.0.1:8930`."""
    csrf: str
    language: str
    theme: str
    """`light`, `dark`, or empty: what the browser says."""
    is_partial: bool
    """Whether a part of a page is asked for, to be put into the page that is shown."""
    place: str
    """The page that is shown, with its query: what is chosen on it comes back to it."""
    notice: Any
    """What was done just now, by a form of this session; None: nothing. It is said once."""
    receive: Any
    """Says when the browser has left, or may not see more."""
    can_sign_out: bool = True

    def link(self, path: str, query: Mapping[str, Any] | None = None) -> str:
        """Return the address of a place in the studio; empty parameters are left out."""
        return write_address(self.root, path, query)


class Page(msgspec.Struct):
    """An answer that a template writes."""

    template: str
    values: dict[str, Any] = {}
    status: int = 200
    headers: dict[str, str] = {}


class Move(msgspec.Struct):
    """An answer that sends the browser to another place of the studio."""

    path: str
    query: dict[str, Any] = {}
    cookies: list[str] = []
    notice: Any = None
    """What the page says that is shown then, once, as its `Visit.notice`; None: nothing."""


class Download(msgspec.Struct):
    """An answer that the browser keeps as a file."""

    data: bytes
    file_name: str
    """Letters, digits, dots and hyphens."""
    media_type: str = "text/plain; charset=utf-8"


class Pieces(msgspec.Struct):
    """An answer that goes on: pieces of pages, each put into the page as it comes."""

    pages: AsyncIterator[Page]
    says_end: bool = False
    """Whether an event `end` says that none follows: who asked does not ask again."""


PageAnswer: TypeAlias = Page | Move | Download | Pieces
Handler: TypeAlias = Callable[[Visit], Awaitable[PageAnswer]]


class Route(msgspec.Struct, frozen=True):
    """Which handler answers at a path of the studio."""

    method: str
    path: str
    scope: str
    """What the principal must be allowed to do by the API; empty: any that is signed in may."""
    handler: Handler


def write_address(root: str, path: str, query: Mapping[str, Any] | None = None) -> str:
    """Return the address of a place of the studio; empty parameters are left out."""
    said = {name: value for name, value in (query or {}).items() if value not in (None, "")}
    return f"{root}{quote(path)}" + (f"?{urlencode(said)}" if said else "")


def read_place(said: str) -> tuple[str, dict[str, str]]:
    """Return path and query of a page of the studio; of what leads elsewhere, the first page's."""
    path, _, query = said.partition("?")
    return (path, dict(parse_qsl(query))) if path and _PLACE.fullmatch(path) else ("/", {})


def show_at(method: str, path: str, *, scope: str) -> Callable[[Handler], Route]:
    """Make a route of the function that answers it; see `Route`."""

    def make(handler: Handler) -> Route:
        return Route(method, path, scope, handler)

    return make
