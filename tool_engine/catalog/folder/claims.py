"""Which file's tool does a name mean, and which names clash?"""

from __future__ import annotations

from collections.abc import Iterable

from tool_engine.catalog.index import ToolIndex
from tool_engine.model.tool import Tool


class Claims:
    """The names that files define, kept up to date file by file."""

    def __init__(self) -> None:
        self.rivals: dict[str, list[Tool]] = {}
        """The tools of each name that several files define, by file."""
        self._index = ToolIndex()
        self._changes: dict[str, Tool | None] = {}

    def index(self) -> ToolIndex:
        """Return the tools whose names only one file defines."""
        if self._changes:
            self._index, self._changes = self._index.with_changes(self._changes), {}
        return self._index

    def replace(self, old: Iterable[Tool], new: Iterable[Tool]) -> None:
        for tool in old:
            self._give_up(tool)
        for tool in new:
            self._claim_name(tool)

    def _give_up(self, tool: Tool) -> None:
        name = tool.name
        left = [rival for rival in self.rivals.pop(name, ()) if rival.source != tool.source]
        if len(left) > 1:
            self.rivals[name] = left
        else:
            self._changes[name] = left[0] if left else None

    def _claim_name(self, tool: Tool) -> None:
        name = tool.name
        sole = self._changes[name] if name in self._changes else self._index.get(name)
        others = self.rivals.get(name) or ([] if sole is None else [sole])
        if others:
            self.rivals[name] = sorted([*others, tool], key=lambda rival: str(rival.source))
            self._changes[name] = None
        else:
            self._changes[name] = tool
