"""Has a conversation a call left for one of its tools, which calls another one?"""

from __future__ import annotations

from tool_engine.model.call import Refusal
from tool_engine.model.tool import Tool
from tool_engine.protocols.sources import ToolSource
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.spending import Spending

__all__ = ["InnerUse"]


class InnerUse:
    """One call that a tool makes, in the books of one conversation.

    Args:
        spending: The books.
        tool: The tool that is called, in the form in which an engine has it.
        engine: Which one; None: only a conversation has the tool.
        others: The settings that bound it beside the conversation's own.
    """

    __slots__ = ("_identity", "_name", "_others", "_tool", "spending")

    def __init__(
        self,
        spending: Spending,
        tool: Tool,
        engine: ToolSource | None,
        others: tuple[ToolCallConfig, ...],
    ) -> None:
        self.spending = spending
        self._tool = tool
        self._name, self._identity = spending.names_of(tool, engine)
        self._others = others

    def refusal(self) -> Refusal | None:
        """Why there may not be one more; None: there may."""
        spending, most = self.spending, self._tool.max_uses
        for config in (spending.config, *self._others):
            refusal = spending.refusal_inside(self._name, self._identity, most, config)
            if refusal is not None:
                return refusal
        return None

    def count(self) -> None:
        """Counts it; the model has not asked for it."""
        self.spending.count_call(self._name, self._identity, is_asked_for=False)

    def give_back(self) -> None:
        """Counts it no more: it has not run."""
        self.spending.uncount_call(self._name, self._identity, is_asked_for=False)
