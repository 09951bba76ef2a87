"""May a conversation's tool make one more call?"""

from __future__ import annotations

from tool_engine.interfaces.source import Source
from tool_engine.model.call import Refusal
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.spending import Spending


class InnerUse:
    """One call that a tool makes, counted in one conversation.

    Args:
        spending: Where it is counted.
        tool: The tool that is called, in the form in which an engine has it.
        engine: Which one; None: only a conversation has the tool.
        others: The settings that bound it beside the conversation's own.
    """

    __slots__ = ("_identity", "_name", "_others", "_tool", "spending")

    def __init__(
        self,
        spending: Spending,
        tool: Tool,
        engine: Source | None,
        others: tuple[ToolCallConfig, ...],
    ) -> None:
        self.spending = spending
        self._tool = tool
        self._name, self._identity = spending.names_of(tool, engine)
        self._others = others

    def refusal(self) -> Refusal | None:
        """Return why one more call may not run; None: it may."""
        spending, most = self.spending, self._tool.max_uses
        for config in (spending.config, *self._others):
            refusal = spending.refusal_inside(self._name, self._identity, most, config)
            if refusal is not None:
                return refusal
        return None

    def count(self) -> None:
        """Count the call, which the model did not ask for."""
        self.spending.count_call(self._name, self._identity, is_asked_for=False)

    def give_back(self) -> None:
        """Take the count back: the call has not run."""
        self.spending.uncount_call(self._name, self._identity, is_asked_for=False)
