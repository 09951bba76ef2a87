"""Which tools and results of an engine may a conversation see?"""

from __future__ import annotations

from tool_engine.model.call import Refusal
from tool_engine.model.outcome import ErrorType
from tool_engine.model.permission import ResultPolicy
from tool_engine.model.record import ToolCallRecord
from tool_engine.model.tool import Tool
from tool_engine.session.policy import SessionPolicy
from tool_engine.session.tools import SessionTools
from tool_engine.session.variables.labels import ShownResults


class Showing:
    """Decide which tools and results a conversation may see.

    `search_tools` and `read_result` know the whole engine. They must not show a tool that is off
    in, or missing from, the conversation, nor a result that its model has not been shown; and what
    is read carries the labels of the call that it came from.

    Args:
        tools: Those of the conversation.
        root_id: The id of the conversation that all others above it work for.
        policy: Decides which results need approval.
        results: What became of its results.
    """

    def __init__(
        self, tools: SessionTools, root_id: str, policy: SessionPolicy, results: ShownResults
    ) -> None:
        self._tools = tools
        self._root_id = root_id
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
        root, made = self._root_id, record.session_id or ""
        return made == root or made.startswith(f"{root}/")
