"""Which tools and results may another tool show to a conversation?

`search_tools` and `read_result` know the whole engine. They must not show a tool that is off in, or
missing from, the conversation, nor a result that its model has not been shown; and what is read
carries the labels of the call that it came from.
"""

from __future__ import annotations

from tool_engine.model.call import Refusal
from tool_engine.model.outcome import ErrorType
from tool_engine.model.permission import ResultPolicy
from tool_engine.model.record import ToolCallRecord
from tool_engine.model.tool import Tool
from tool_engine.session.policy import SessionPolicy
from tool_engine.session.reading.shown_results import ShownResults
from tool_engine.session.state import SessionState


class Showing:
    """Decide which tools and results a conversation may see.

    Args:
        session: The conversation.
        policy: Decides which results need approval.
        results: What became of its results.
    """

    def __init__(self, session: SessionState, policy: SessionPolicy, results: ShownResults) -> None:
        self._session = session
        self._policy = policy
        self._results = results

    def tool(self, tool: Tool) -> Tool | None:
        """Return an engine's tool as the model knows it; None: it is off here, or absent."""
        names = self._session.toolbox.shown_names(tool)
        return next(filter(None, map(self._session.get, names)), None)

    def result_policy(self, tool: Tool) -> ResultPolicy:
        """Return when a result of the tool needs approval, whatever its arguments were."""
        return self._policy.result_policy(tool)

    def result(self, record: ToolCallRecord) -> frozenset[str] | Refusal:
        """Return the labels of a call's result, or why it may not be read."""
        call_id = record.call_id or ""
        if not self._is_own(record) or self._results.is_withheld(call_id):
            return _refusal(record)
        # The contents of a result of an inner call, or of another process, are unknown here.
        known = self._results.labels_of(call_id)
        return _refusal(record) if known is None else known

    def _is_own(self, record: ToolCallRecord) -> bool:
        root = self._session
        while root.parent is not None:
            root = root.parent
        made = record.session_id or ""
        return made == root.session_id or made.startswith(f"{root.session_id}/")


def _refusal(record: ToolCallRecord) -> Refusal:
    return Refusal(
        ErrorType.RESULT_REJECTED.value,
        f"the result of the call {record.call_id} was not shown in this conversation, and is not "
        "read here: call the tool again",
    )
