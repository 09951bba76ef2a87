"""What does a conversation know of a call that was deferred, and how does it end?"""

from __future__ import annotations

from typing import Any

from tool_engine.errors import ApprovalError
from tool_engine.model.approval import ApprovalRequest
from tool_engine.model.call import Refusal
from tool_engine.model.tool import Tool
from tool_engine.session.result import SessionResult
from tool_engine.session.state import Deferred, SessionState

__all__ = ["result_of", "tool_of"]


def tool_of(session: SessionState, request: ApprovalRequest, kept: Deferred) -> Tool | None:
    """The tool that a request is about as it is now, by the name that it has here.

    Raises:
        ApprovalError: Several may be meant.
    """
    if kept.tool_name is not None:
        placed = session.toolbox.find(kept.tool_name)
        return None if placed is None else placed.tool
    same = [
        each.tool
        for each in session.toolbox.all()
        if each.tool.definition_hash == request.definition_hash != ""
    ]
    if len(same) > 1:
        names = ", ".join(repr(each.name) for each in same)
        raise ApprovalError(
            f"nobody can tell which tool was meant: {names} are the same; call it again"
        )
    if same:
        return same[0]
    own = session.own(request.tool_name)
    return session.source.get(request.tool_name) if own is None else own[0]


def result_of(tool_name: str, request: ApprovalRequest, refusal: Refusal | None) -> SessionResult:
    """A result that was withheld until somebody decided whether the model may read it."""
    metadata: dict[str, Any] = {"call_id": request.call_id}
    if refusal is None:
        text = request.result or ""
        return SessionResult(
            True,
            tool_name,
            {"result": text},
            metadata=metadata,
            formatted_text=text,
            final_text=text,
        )
    details = {} if refusal.details is None else {"error_details": refusal.details}
    return SessionResult(
        is_success=False,
        tool_name=tool_name,
        error=refusal.error,
        error_type=refusal.error_type,
        metadata=metadata | details,
        reject_reason=(refusal.details or {}).get("reason"),
    )
