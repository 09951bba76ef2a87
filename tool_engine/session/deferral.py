"""How does a session find and finish a call that was deferred?"""

from __future__ import annotations

from typing import Any

import msgspec

from tool_engine.approval.scopes import NarrowedScope
from tool_engine.errors import ApprovalError
from tool_engine.interfaces import CallScope
from tool_engine.model.approval import ApprovalRequest
from tool_engine.model.call import Refusal
from tool_engine.model.tool import Tool
from tool_engine.session.reading.result import SessionResult
from tool_engine.session.scope import SessionScope
from tool_engine.session.state import Deferred, SessionState
from tool_engine.sources.identity import engine_of


def tool_of(session: SessionState, request: ApprovalRequest, kept: Deferred) -> Tool | None:
    """Return the current tool of a request, under its name in this session.

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
            f"which tool was meant is not known: {names} are the same; call the one that is meant "
            "itself"
        )
    if same:
        return same[0]
    own = session.own(request.tool_name)
    return session.source.get(request.tool_name) if own is None else own[0]


def check_shared(request: ApprovalRequest, kept: Deferred) -> None:
    """Raise `ApprovalError` if another conversation that must agree is missing."""
    if request.is_shared and request.kind == "execution" and not kept.parts:
        raise ApprovalError(
            f"another conversation has a say in this call of {request.tool_name!r}, and it is not "
            "here: answer in the process that asked, or call it again"
        )


def check_engine(session: SessionState, request: ApprovalRequest, tool: Tool | None) -> None:
    """Raise `ApprovalError` if the name now belongs to another engine's tool."""
    if tool is None or request.kind != "execution" or not request.engine:
        return
    found = engine_of(session.source, tool.name)
    is_same_name = request.is_nested or request.called_name == tool.name
    if found != request.engine or not is_same_name:
        raise ApprovalError(
            f"{tool.name!r} is not what was approved: it is a tool of another engine here, has "
            "another name, or is not known to be of the same engine; answer where it was "
            "asked, or call it again; ToolEngineConfig(name=...) tells engines apart; the request "
            "stays open"
        )


def scope_of(scope: SessionScope, request: ApprovalRequest, kept: Deferred) -> CallScope:
    """Return the scope of a deferred call, joined with those of other conversations."""
    for part in kept.parts:
        if isinstance(part, SessionScope):
            # They were asked when it was made.
            part.allow_once(request)
    parts = tuple(scope if part is kept.scope else part for part in kept.parts)
    return NarrowedScope(parts) if parts else scope


async def result_of(
    tool_name: str, request: ApprovalRequest, kept: Deferred, refusal: Refusal | None
) -> SessionResult:
    """Return a result that was withheld until a person decided about it.

    In the process of its call it is complete; another process has only the text for the model.
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
    """Return a result that the program gets and the model may not read. S31."""
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
