"""What does a conversation add to one of its calls, and to those that its tool makes?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tool_engine.approval.gate import ApprovalGate
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.approval import fingerprint_of
from tool_engine.model.call import Refusal
from tool_engine.model.copying import copied
from tool_engine.model.tool import Tool
from tool_engine.session.labels import refusal_in_time
from tool_engine.session.references import Expanded

__all__ = ["FindOwn", "SessionScope"]

FindOwn = Callable[[str], tuple[Tool, ToolExecutor] | None]
"""The tools that only one conversation has."""


class SessionScope:
    """One call of a conversation, on its way through the engine.

    Args:
        own: The tools that only the conversation has.
        gate: Says what needs consent, and asks.
        expanded: What was put into the arguments: it must not get to a tool that does not accept
            where it came from, however many tools it goes through.
        consented: The fingerprint of the call that somebody has consented to already.
        is_confirmed: Whether somebody who was asked about this very call said yes; about calls that
            its tool makes nobody was asked.
        is_off: Why the call may not run after all, by what was turned off since; None: it may.
    """

    __slots__ = (
        "_call_id",
        "_consented",
        "_expanded",
        "_gate",
        "_is_confirmed",
        "_is_off",
        "_own",
        "deferred",
        "labels",
        "params",
        "tool",
    )

    def __init__(
        self,
        own: FindOwn,
        gate: ApprovalGate,
        expanded: Expanded,
        consented: str | None = None,
        is_off: Callable[[], Refusal | None] | None = None,
        *,
        is_confirmed: bool = False,
    ) -> None:
        self._own = own
        self._gate = gate
        self._expanded = expanded
        self._consented = consented
        self._is_off = is_off
        self._is_confirmed = is_confirmed
        self._call_id: str | None = None
        self.tool: Tool | None = None
        """The tool that the conversation called, in the form in which the engine has it."""
        self.params: dict[str, Any] = {}
        """The arguments that it ran with, defaults filled in."""
        self.deferred: dict[str, bool] = {}
        """Token of a request -> whether it is about the call itself, and none that its tool makes.
        """
        self.labels: set[str] = set(expanded.labels) if expanded.variables else set()
        """Where the content came from that was put into its arguments, or that it has read."""

    def own(self, tool_name: str) -> tuple[Tool, ToolExecutor] | None:
        """A tool that only this conversation has."""
        return self._own(tool_name)

    def is_free(self, call_id: str, tool: Tool, params: dict[str, Any]) -> bool:
        """Whether nobody has anything to say about the call; else `consent` says it."""
        is_first = self._call_id is None or call_id == self._call_id
        if tool.accepts is not None or self._consented is not None or self._is_confirmed:
            return False
        if not self._gate.is_free(tool, params):
            return False
        if is_first:
            if self._is_off is not None and self._is_off() is not None:
                return False
            self._call_id = call_id
            # The tool may do with its arguments as it likes.
            self.tool, self.params = tool, copied(params)
        return True

    async def consent(self, call_id: str, tool: Tool, params: dict[str, Any]) -> Refusal | None:
        """Why the call may not run; None: it may."""
        if self._call_id is None:
            self._call_id = call_id
        is_first = call_id == self._call_id
        if is_first:
            self.tool, self.params = tool, params
        refusal = await refusal_in_time(tool, self._expanded, params)
        if refusal is not None:
            return refusal
        if self._consented is not None and self._consented == fingerprint_of(
            tool.name, tool.definition_hash, params
        ):
            # Good for one call: the next one like it is asked about again.
            self._consented = None
            refusal = self._gate.denied(tool, params)
        elif is_first and self._is_confirmed:
            refusal = self._gate.denied(tool, params)
        else:
            refusal = await self._gate.consent(call_id, tool, params)
        token = None if refusal is None else (refusal.details or {}).get("approval_token")
        if token is not None:
            self.deferred[token] = is_first
        if refusal is not None or self._is_off is None or not is_first:
            return refusal
        return self._is_off()
