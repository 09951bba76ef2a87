"""Which tools are shown to one conversation's model, and which of them did it find itself?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tool_engine.interfaces.source import Source
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.checks.setting_kinds import check_names
from tool_engine.model.tool import Tool
from tool_engine.protocols.definition_formats import definitions

_SEARCH: Final = "search_tools"


class ShownTools:
    """The tools a model is shown: its first ones and those found.

    A found tool is shown for as long as it is enabled in the catalog. When there are more than
    `max_found`, the one that was neither found nor called for the longest time goes.

    Args:
        catalog: Where the tools are.
        start: The names that it starts with; None: every enabled tool.
        max_found: The most tools shown beyond those.

    Raises:
        ConfigurationError: `start` is no list of names.
    """

    def __init__(self, catalog: Source, start: Iterable[str] | None, max_found: int) -> None:
        self._catalog = catalog
        self._start = None if start is None else _check_names(start)
        self._max_found = max_found
        self._found: dict[str, tuple[int, int]] = {}
        """Name -> when it was last found or called, and how well it matched then; in the order of
        finding, so that a provider's prompt cache stays valid.
        """
        self._time = 0

    def __repr__(self) -> str:
        start = "all" if self._start is None else len(self._start)
        return f"ShownTools({start} from the start, {len(self._found)} found)"

    def learn(self, tool: Tool | None, result: ToolExecutionResult) -> None:
        self._time += 1
        if result.tool_name in self._found:
            self._found[result.tool_name] = (self._time, 0)
        if tool is None or not result.is_success:
            return
        # The declared handler counts: a tool that only has the name shows nothing.
        if tool.implementation_config.get("handler") == _SEARCH:
            self._add_found(_read_names(result.output))

    def tools(self) -> list[Tool]:
        """Return the tools to show: the first ones, then the found.

        Raises:
            ToolNotFoundError: One of the start is not there.
        """
        shown = self._list_start()
        return [*shown, *self._list_found(shown)]

    def definitions(self, format_name: str) -> list[dict[str, Any]]:
        """Return the definitions of the shown tools, in a provider's format.

        Raises:
            ConfigurationError: The format is unknown.
            ToolNotFoundError: One of the start is not there.
        """
        return definitions(format_name, self.tools())

    def _list_start(self) -> list[Tool]:
        if self._start is None:
            return [
                each for each in self._catalog.list_all() if each.is_enabled and each.is_offered
            ]
        named = [self._catalog.get_or_raise(name) for name in self._start]
        return [tool for tool in named if tool.is_offered]

    def _list_found(self, shown: Iterable[Tool]) -> list[Tool]:
        names = {tool.name for tool in shown}
        found = (self._catalog.get(name) for name in self._found if name not in names)
        return [each for each in found if each and each.is_enabled and each.is_offered]

    def _add_found(self, names: Iterable[str]) -> None:
        for rank, name in enumerate(names):
            self._found[name] = (self._time, -rank)
        while len(self._found) > self._max_found:
            del self._found[min(self._found, key=self._found.__getitem__)]


def _check_names(start: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(check_names("tools", start, "tool name")))


def _read_names(output: Mapping[str, Any]) -> list[str]:
    tools = output.get("tools")
    if not isinstance(tools, list):
        return []
    names = [each.get("name") for each in tools if isinstance(each, Mapping)]
    return [name for name in names if isinstance(name, str)]
