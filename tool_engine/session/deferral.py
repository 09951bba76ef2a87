"""What does a conversation know of a call that was deferred, and how does it end?"""

from __future__ import annotations

from typing import Any

import msgspec

from tool_engine.errors import ApprovalError
from tool_engine.model.approval import ApprovalRequest
from tool_engine.model.call import Refusal
from tool_engine.model.tool import Tool
from tool_engine.session.result import SessionResult
from tool_engine.session.state import Deferred, SessionState

__all__ = ["result_of", "tool_of", "withheld"]


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


async def result_of(
    tool_name: str, request: ApprovalRequest, kept: Deferred, refusal: Refusal | None
) -> SessionResult:
    """A result that was withheld until somebody decided whether the model may read it.

    In the process of its call it is whole; another one has the text that was to be read.
    """
    if kept.rest is not None:
        return await kept.rest(refusal)
    metadata: dict[str, Any] = {"call_id": request.call_id}
    if refusal is None:
        text = request.result or ""
        if request.error_type is not None:
            return SessionResult(
                is_success=False,
                tool_name=tool_name,
                error=text,
                error_type=request.error_type,
                metadata=metadata,
                formatted_text=text,
                final_text=text,
            )
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


def withheld(read: SessionResult, refusal: Refusal) -> SessionResult:
    """A result that the program has, and the model may not read. S31."""
    details = {} if refusal.details is None else {"error_details": refusal.details}
    return msgspec.structs.replace(
        read,
        is_success=False,
        error=refusal.error,
        error_type=refusal.error_type,
        metadata={**read.metadata, **details},
        final_text=None,
        is_truncated=False,
        reject_reason=(refusal.details or {}).get("reason"),
    )
