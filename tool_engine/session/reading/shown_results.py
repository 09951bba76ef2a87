"""Which results has a session's model read, and which were withheld?"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

from tool_engine.model.call import Refusal
from tool_engine.model.newest import keep_newest
from tool_engine.model.permission import ResultPolicy
from tool_engine.model.record import ToolCallRecord
from tool_engine.model.tool import Tool

_MOST: Final = 10_000
"""The most calls whose results' readability and origins are remembered."""


_MOST_KEPT: Final = 1_000
"""The most calls whose shown results are saved with the conversation."""


class Shows(Protocol):
    """Decides which tools and results other tools may show to a conversation; see `Showing`."""

    def tool(self, tool: Tool) -> Tool | None:
        """Return an engine's tool as the model knows it; None: the model must not see it."""

    def result_policy(self, tool: Tool) -> ResultPolicy:
        """Return when a result of the tool needs approval, whatever its arguments were."""

    def result(self, record: ToolCallRecord) -> frozenset[str] | Refusal:
        """Return the labels of a call's result, or why it may not be read."""


class ShownResults:
    """The results of a conversation and its helpers: shown or withheld."""

    def __init__(self) -> None:
        self._labels: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._withheld: OrderedDict[str, None] = OrderedDict()

    def note(self, call_id: str | None, labels: frozenset[str]) -> None:
        """Note that the model has read a result, or its beginning, with these labels."""
        if call_id is not None and call_id not in self._withheld:
            keep_newest(self._labels, call_id, labels, _MOST)

    def withhold(self, call_id: str | None) -> None:
        """Note that a result was refused to the model, for good unless `allow` follows."""
        if call_id is not None:
            self._labels.pop(call_id, None)
            keep_newest(self._withheld, call_id, None, _MOST)

    def allow(self, call_id: str | None) -> None:
        """Note that a result was approved after all."""
        self._withheld.pop(call_id or "", None)

    def is_withheld(self, call_id: str) -> bool:
        return call_id in self._withheld

    def labels_of(self, call_id: str) -> frozenset[str] | None:
        """Return the labels of a shown result; None: it was not shown."""
        return self._labels.get(call_id)

    @property
    def shown(self) -> dict[str, list[str]]:
        """Return the labels of the newest shown results, by call."""
        newest = list(self._labels.items())[-_MOST_KEPT:]
        return {call_id: sorted(labels) for call_id, labels in newest}

    @property
    def withheld(self) -> list[str]:
        """Return the calls whose results were refused, the oldest first."""
        return list(self._withheld)
