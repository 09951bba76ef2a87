"""Which results has a session's model read, and what may another tool show it?

`search_tools` and `read_result` know the whole engine. They must not show a tool that is off in, or
missing from, the conversation, nor a result that its model has not been shown; and what is read
carries the labels of the call that it came from.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from tool_engine.model.call import Refusal
from tool_engine.model.newest import keep_newest
from tool_engine.model.outcome import ErrorType
from tool_engine.model.permission import ResultPolicy
from tool_engine.model.record import ToolCallRecord
from tool_engine.model.tool import Tool
from tool_engine.session.caller import Caller
from tool_engine.session.policy import SessionPolicy
from tool_engine.session.tools import SessionTools

_MOST: Final = 10_000
"""The most calls whose results' readability and origins are remembered."""
_MOST_KEPT: Final = 1_000
"""The most calls whose shown results are saved with the conversation."""


class ShownResults:
    """The results of a conversation and its helpers: shown or withheld."""

    def __init__(self) -> None:
        self._labels: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._withheld: OrderedDict[str, None] = OrderedDict()

    def note(self, call_id: str | None, labels: frozenset[str]) -> None:
        """Note that the model has read a result with these labels."""
        if call_id is not None and call_id not in self._withheld:
            keep_newest(self._labels, call_id, labels, _MOST)

    def withhold(self, call_id: str | None) -> None:
        """Note that a result was refused to the model, until `allow`."""
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


class Showing:
    """Decide which tools and results a conversation may see.

    Args:
        tools: Those of the conversation.
        caller: In whose name its calls run.
        policy: Decides which results need approval.
        results: What became of its results.
    """

    def __init__(
        self, tools: SessionTools, caller: Caller, policy: SessionPolicy, results: ShownResults
    ) -> None:
        self._tools = tools
        self._caller = caller
        self._policy = policy
        self._results = results

    def find_tool(self, tool: Tool) -> Tool | None:
        """Return an engine's tool as the model knows it, or None."""
        names = self._tools.toolbox.shown_names(tool)
        return next(filter(None, map(self._tools.get, names)), None)

    def result_policy(self, tool: Tool) -> ResultPolicy:
        """Return when a tool's result needs approval, whatever its arguments."""
        return self._policy.result_policy(tool)

    def find_labels(self, record: ToolCallRecord) -> frozenset[str] | Refusal:
        """Return a result's labels, or why it may not be read."""
        call_id = record.call_id or ""
        # The contents of a result of an inner call, or of another process, are unknown here.
        known = self._results.labels_of(call_id)
        if known is not None and self._is_own(record) and not self._results.is_withheld(call_id):
            return known
        return Refusal(
            ErrorType.RESULT_REJECTED.value,
            f"the result of the call {record.call_id} was not shown in this conversation, and is "
            "not read here: call the tool again",
        )

    def _is_own(self, record: ToolCallRecord) -> bool:
        root, made = self._caller.root_id, record.session_id or ""
        return made == root or made.startswith(f"{root}/")
