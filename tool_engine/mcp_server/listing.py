"""Which tools does a client see, page by page, and which tool does a name of its mean?"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace

from tool_engine.interfaces.source import Source, find_for_model
from tool_engine.mcp_server.identity import View, find_patterns, sees_tasks
from tool_engine.mcp_server.promised import is_wrapped
from tool_engine.mcp_server.selection import ToolSelection
from tool_engine.model.checks.nearness import find_near
from tool_engine.model.group import ToolGroup, members_of_all
from tool_engine.model.json.returned_value import copy_plain
from tool_engine.model.newest import keep_newest
from tool_engine.model.tool import Tool, is_same
from tool_engine.protocols.definition_formats import MCPDefinitions

_LONGEST_NAME: Final = 128
_MOST_NEAR: Final = 3
_MOST_PAGES: Final = 64
"""The most pages that are kept, of all revisions together; the oldest go first."""
_MOST_COMPARED: Final = 100
"""The most changed tools whose words are compared; of more, some are said to be others."""


class Page(NamedTuple):
    """Some tools of the list, and where the next ones begin."""

    tools: list[dict[str, Any]]
    next_cursor: str | None


class ShownGroup(NamedTuple):
    group: ToolGroup
    tools: list[str]
    """Those of its tools that a client sees, by the names that it knows."""


class BadCursorError(ValueError):
    """A cursor that no page ended with."""


class _Listed:
    """The tools of one generation, by the names that clients know.

    A tool is described when a page with it is read: ten thousand at once would hold the loop.
    """

    def __init__(self, generation: object, tools: list[Tool]) -> None:
        self.generation = generation
        self._writer = MCPDefinitions()
        known = self._writer.known
        known.with_tasks = True
        self.tools = {known.sent_name(tool.name): tool for tool in known.learn(tools)}
        self.names = sorted(self.tools)
        self.has_task_tools = not all(tool.is_offered for tool in tools)
        """Whether there is one that runs only as a task."""
        self._groups: dict[str, ShownGroup] | None = None

    def find_groups(self, groups: Mapping[str, ToolGroup]) -> dict[str, ShownGroup]:
        """Return the groups with the tools of theirs that are here."""
        if self._groups is None:
            tools, named = list(self.tools.values()), {id(t): n for n, t in self.tools.items()}
            found = members_of_all(groups.values(), tools)
            self._groups = {
                name: ShownGroup(group, [named[id(tool)] for tool in members])
                for (name, group), members in zip(groups.items(), found, strict=True)
            }
        return self._groups

    def describe(self, names: list[str], *, is_modern: bool) -> list[dict[str, Any]]:
        tools = [self.tools[name] for name in names]
        described = self._writer.definitions(tools)
        if not is_modern:
            return described
        return [_unwrap_output(each, tool) for each, tool in zip(described, tools, strict=True)]

    def shows_same(self, other: _Listed) -> bool:
        """Return True if a client would read the same list here and there."""
        if self is other or self.names != other.names:
            return self is other
        pairs = [(each, other.tools[name]) for name, each in self.tools.items()]
        changed = [pair for pair in pairs if not is_same(*pair)]
        if not changed or len(changed) > _MOST_COMPARED:
            return not changed
        here, there = zip(*changed, strict=True)
        return self._writer.definitions(here) == other._writer.definitions(there)

    def get(self, tool: Tool) -> tuple[str, Tool] | None:
        """Return the name that clients know a tool by, and the tool; None: it is not shown."""
        name = self._writer.known.sent_name(tool.name)
        shown = self.tools.get(name)
        return None if shown is None else (name, shown)


class PageCache:
    """Pages of the list as they stand on the wire: each is made once for a generation.

    The SDK checks what a handler returns, which takes longer than to make it. It takes out what an
    older client would not know; of the others' pages it would change nothing.

    Args:
        engine: Whose tools the pages have.
        write_page: Returns a page as it stands on the wire of 2026-07-28.
    """

    def __init__(self, engine: Source, write_page: Callable[[str | None], Any]) -> None:
        self._engine = engine
        self._write_page = write_page
        self._generation: object = None
        self._pages: OrderedDict[Any, Any] = OrderedDict()

    async def __call__(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """Return a page that was made before, or make it: a middleware of the SDK."""
        cursor = (ctx.params or {}).get("cursor")
        is_page = ctx.method == "tools/list" and ctx.request_id is not None
        if not is_page or not (cursor is None or isinstance(cursor, str)):
            return await call_next(ctx)
        generation = self._engine.generation
        if generation is None or generation != self._generation:
            self._pages.clear()
            self._generation = generation
        key = ctx.protocol_version, cursor, View.of_request()
        page = self._pages.get(key)
        if page is None:
            is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            page = self._write_page(cursor) if is_modern else await call_next(ctx)
            if generation is not None and generation == self._engine.generation:
                keep_newest(self._pages, key, page, _MOST_PAGES)
        # The envelope is the SDK's to write into, what it holds is not.
        return dict(page)


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
        self._made: OrderedDict[tuple[tuple[str, ...], bool], _Listed] = OrderedDict()
        """By the patterns of the tools that a client may use, and whether it sees those that run
        only as a task."""

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
        names = listed.names[first : first + self._page_size]
        is_last = first + self._page_size >= len(listed.names)
        shown = listed.describe(names, is_modern=is_modern)
        return Page(shown, None if is_last else _make_cursor(names[-1]))

    def read_list(self) -> _Listed:
        """Return what stands for the whole list; see `is_same_list`."""
        return self._list_now()

    @staticmethod
    def is_same_list(before: _Listed, now: _Listed) -> bool:
        """Return True if a client would read the same list then and now."""
        return before.shows_same(now)

    def find(self, name: str) -> Tool | None:
        """Return the tool that a client's name or an alias means, if it is shown.

        Also one that runs only as a task, to a client that does not see it: it hears what it lacks.
        """
        listed = self._list_now(with_tasks=True)
        if (known := listed.tools.get(name)) is not None:
            return known
        meant = find_for_model(self._engine, name)
        found = None if meant is None else listed.get(meant)
        return None if found is None else found[1]

    def show_tool(self, tool: Tool) -> Tool | None:
        """Return a tool as clients know it; None: it is not shown."""
        found = self._list_now().get(tool)
        if found is None:
            return None
        name, shown = found
        return shown if name == shown.name else replace(shown, name=name)

    def shows_gone(self, name: str) -> bool:
        """Return True if a tool that is there no more was shown for sure."""
        return self._selection.picks_name(name) and _may_use(name, find_patterns())

    def list_groups(self) -> dict[str, ShownGroup]:
        """Return the groups whose words a client may read: who sees no tool of one sees no rule."""
        groups, selection = self._engine.groups, self._selection
        patterns = find_patterns()
        # Of a group whose tools run only as tasks, who sees none of these reads no word.
        with_tasks = self._list_for(patterns, with_tasks=True).find_groups(groups)
        return {
            name: shown
            for name, shown in self._list_now().find_groups(groups).items()
            if not shown.group.is_quarantined
            and (
                shown.tools
                or (
                    "*" in patterns
                    and (selection.is_all or name in selection.groups)
                    and not with_tasks[name].tools
                )
            )
        }

    def list_own_names(self) -> set[str]:
        """Return the names that the engine has for the tools that a client sees."""
        return {tool.name for tool in self._list_now().tools.values()}

    def list_names(self) -> list[str]:
        return self._list_now().names

    def find_near(self, name: str) -> list[str]:
        """Return the names that are most like an unknown one."""
        return find_near(name[:_LONGEST_NAME], self._list_now().names, _MOST_NEAR)

    def _list_now(self, *, with_tasks: bool = False) -> _Listed:
        patterns = find_patterns()
        everything = self._list_for(patterns, with_tasks=True)
        if with_tasks or sees_tasks.get() or not everything.has_task_tools:
            return everything
        return self._list_for(patterns, with_tasks=False)

    def _list_for(self, patterns: tuple[str, ...], *, with_tasks: bool) -> _Listed:
        generation = self._engine.generation
        key = patterns, with_tasks
        made = self._made.get(key)
        if made is None or made.generation != generation:
            made = self._list_tools(generation, patterns, with_tasks=with_tasks)
            keep_newest(self._made, key, made, _MOST_PAGES)
        return made

    def _list_tools(
        self, generation: object, patterns: tuple[str, ...], *, with_tasks: bool
    ) -> _Listed:
        shown = [tool for tool in self._engine.list_all() if tool.is_enabled]
        if not with_tasks:
            shown = [tool for tool in shown if tool.is_offered]
        # Of ten thousand tools each question takes a millisecond.
        if not self._selection.is_all:
            shown = list(filter(self._is_picked, shown))
        if "*" not in patterns:
            shown = [each for each in shown if _may_use(each.name, patterns)]
        return _Listed(generation, shown)

    def _is_picked(self, tool: Tool) -> bool:
        selection = self._selection
        return selection.picks(tool, self._engine.find_groups(tool) if selection.groups else {})


def _may_use(name: str, patterns: tuple[str, ...]) -> bool:
    return "*" in patterns or any(fnmatchcase(name, each) for each in patterns)


def _unwrap_output(described: dict[str, Any], tool: Tool) -> dict[str, Any]:
    """Describe the output as it is, for a client that takes any JSON value."""
    output = tool.output
    if not output or "outputSchema" not in described:
        return described
    if output["type"] == "object" or is_wrapped(output, is_modern=True):
        return described
    return {**described, "outputSchema": copy_plain(output)}


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
