"""Which results of its calls has a conversation been shown, and where did they come from?"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

from tool_engine.model.call import Refusal
from tool_engine.model.newest import keep_newest
from tool_engine.model.permission import ResultPolicy
from tool_engine.model.record import ToolCallRecord
from tool_engine.model.tool import Tool

__all__ = ["ShownResults", "Shows"]

_MOST: Final = 10_000
"""Calls of which it is known whether their results may be read, and where these came from."""


_MOST_KEPT: Final = 1_000
"""Calls of which that is kept with the conversation."""


class Shows(Protocol):
    """Says what tools may tell a conversation of; see `Showing`."""

    def tool(self, tool: Tool) -> Tool | None:
        """A tool of the engine as the model knows it; None: it may not be told of it."""

    def result_policy(self, tool: Tool) -> ResultPolicy:
        """When somebody is asked before a result of the tool is read, whatever was sent to it."""

    def result(self, record: ToolCallRecord) -> frozenset[str] | Refusal:
        """Where the result of a call came from, which may be read; or why it may not."""


class ShownResults:
    """What became of the results of a conversation's calls, and of those of its helpers."""

    def __init__(self) -> None:
        self._labels: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._withheld: OrderedDict[str, None] = OrderedDict()

    def note(self, call_id: str | None, labels: frozenset[str]) -> None:
        """The model has read a result, or its beginning, which came from there."""
        if call_id is not None and call_id not in self._withheld:
            keep_newest(self._labels, call_id, labels, _MOST)

    def withhold(self, call_id: str | None) -> None:
        """Somebody has refused to show a result: whatever is allowed later, it stays so."""
        if call_id is not None:
            self._labels.pop(call_id, None)
            keep_newest(self._withheld, call_id, None, _MOST)

    def allow(self, call_id: str | None) -> None:
        """Somebody who was asked about a result later on lets it be read."""
        self._withheld.pop(call_id or "", None)

    def is_withheld(self, call_id: str) -> bool:
        """Whether somebody has refused to show it."""
        return call_id in self._withheld

    def labels_of(self, call_id: str) -> frozenset[str] | None:
        """Where a result came from that the model has been shown; None: it has not been."""
        return self._labels.get(call_id)

    @property
    def shown(self) -> dict[str, list[str]]:
        """Call -> where its result came from, of the newest that the model has been shown."""
        newest = list(self._labels.items())[-_MOST_KEPT:]
        return {call_id: sorted(labels) for call_id, labels in newest}

    @property
    def withheld(self) -> list[str]:
        """The calls of which somebody has refused to show the result, the oldest first."""
        return list(self._withheld)
