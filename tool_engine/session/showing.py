"""What may a tool tell a conversation of: which tools, and which results of its own calls?

`search_tools` and `read_result` know the whole engine. What is off in a conversation, or is not in
it, it is not told of; a result that its model has not been shown is not read; and what is read
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

__all__ = ["Showing"]


class Showing:
    """What one conversation may be told of.

    Args:
        session: The conversation.
        policy: Says of which results somebody must be asked.
        results: What became of its results.
    """

    def __init__(self, session: SessionState, policy: SessionPolicy, results: ShownResults) -> None:
        self._session = session
        self._policy = policy
        self._results = results

    def tool(self, tool: Tool) -> Tool | None:
        """A tool of the engine as the model knows it; None: it is off here, or not here at all."""
        names = self._session.toolbox.shown_names(tool)
        return next(filter(None, map(self._session.get, names)), None)

    def result_policy(self, tool: Tool) -> ResultPolicy:
        """When somebody is asked before a result of the tool is read, whatever was sent to it."""
        return self._policy.result_policy(tool)

    def result(self, record: ToolCallRecord) -> frozenset[str] | Refusal:
        """Where the result of a call came from, which may be read; or why it may not."""
        call_id = record.call_id or ""
        if not self._is_own(record) or self._results.is_withheld(call_id):
            return _refusal(record)
        # Of what a tool called, or another process, nobody knows here what is in it.
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
