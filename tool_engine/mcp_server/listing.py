"""Which tools does a client see, page by page, and which tool does a name of its mean?"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tool_engine.interfaces.source import Source
from tool_engine.mcp_server.selection import ToolSelection
from tool_engine.model.checks.nearness import find_near
from tool_engine.model.tool import Tool
from tool_engine.protocols.definition_formats import MCPDefinitions

_LONGEST_NAME: Final = 128
_MOST_NEAR: Final = 3


class Page(NamedTuple):
    """Some tools of the list, and where the next ones begin."""

    tools: list[dict[str, Any]]
    next_cursor: str | None


class BadCursorError(ValueError):
    """A cursor that no page ended with."""


class _Listed(NamedTuple):
    """The tools of one generation, sorted by the names that clients know."""

    generation: object
    names: list[str]
    definitions: list[dict[str, Any]]
    plain: list[dict[str, Any]]
    """The same for clients that take outputs of objects only."""
    tools: dict[str, Tool]


class Listing:
    """The list of one server's tools; made once for each generation of the engine.

    Args:
        engine: Where the tools are.
        selection: Which of them are shown.
        page_size: The most tools of a page.
    """

    def __init__(self, engine: Source, selection: ToolSelection, page_size: int) -> None:
        self._engine = engine
        self._selection = selection
        self._page_size = page_size
        self._writer = MCPDefinitions()
        self._made: _Listed | None = None

    def read_page(self, cursor: str | None, *, is_modern: bool) -> Page:
        """Return a page of the list.

        The list has a fixed order, so a page after a reload goes on after the same name.

        Args:
            cursor: What the page before ended with; None: the first page.
            is_modern: Whether the client takes outputs that are no objects.

        Raises:
            BadCursorError: No page ended with the cursor.
        """
        listed = self._list_now()
        first = 0 if cursor is None else bisect_right(listed.names, _read_cursor(cursor))
        end = first + self._page_size
        shown = listed.definitions if is_modern else listed.plain
        is_last = end >= len(listed.names)
        return Page(shown[first:end], None if is_last else _make_cursor(listed.names[end - 1]))

    def find(self, name: str) -> Tool | None:
        """Return the tool that a client knows under a name, if it is shown."""
        return self._list_now().tools.get(name)

    def list_names(self) -> list[str]:
        return self._list_now().names

    def find_near(self, name: str) -> list[str]:
        """Return the names that are most like an unknown one."""
        return find_near(name[:_LONGEST_NAME], self._list_now().names, _MOST_NEAR)

    def find_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema of a tool's arguments; None: there is no such tool."""
        tool = self.find(name)
        return None if tool is None else tool.parameters_schema

    def _list_now(self) -> _Listed:
        generation = self._engine.generation
        made = self._made
        if made is None or made.generation != generation:
            made = self._made = self._list_tools(generation)
        return made

    def _list_tools(self, generation: object) -> _Listed:
        picks = self._selection.picks
        find_groups = self._engine.find_groups
        # A name that nothing shows any more must mean nothing.
        self._writer = MCPDefinitions()
        shown = [
            tool
            for tool in self._engine.list_all()
            if tool.is_enabled and picks(tool, find_groups(tool) if self._selection.groups else {})
        ]
        described = self._writer.definitions(shown)
        by_name = sorted(zip(described, shown, strict=True), key=lambda each: each[0]["name"])
        return _Listed(
            generation,
            [each["name"] for each, _ in by_name],
            [_unwrap_output(each, tool) for each, tool in by_name],
            [each for each, _ in by_name],
            {each["name"]: tool for each, tool in by_name},
        )


def _unwrap_output(described: dict[str, Any], tool: Tool) -> dict[str, Any]:
    """Describe the output as it is, for a client that takes any JSON value."""
    output = tool.output
    if not output or "outputSchema" not in described or output.get("type") == "object":
        return described
    schema = described["outputSchema"]["properties"]["result"]
    return {**described, "outputSchema": schema}


def _make_cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> str:
    try:
        name = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        text = name.decode()
    except (binascii.Error, ValueError) as error:
        raise BadCursorError(f"no page ended with the cursor {cursor[:80]!r}") from error
    if not 0 < len(text) <= _LONGEST_NAME or _make_cursor(text) != cursor:
        raise BadCursorError(f"no page ended with the cursor {cursor[:80]!r}")
    return text
