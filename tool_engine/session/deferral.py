"""How does a session find and finish a call that was deferred?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from tool_engine.approval.book import ApprovalBook
from tool_engine.approval.scopes import NarrowedScope
from tool_engine.errors import ApprovalError
from tool_engine.interfaces import CallScope
from tool_engine.model.approval import ApprovalRequest
from tool_engine.model.call import Refusal
from tool_engine.model.progress import ToolProgress
from tool_engine.model.tool import Tool
from tool_engine.session.bounds import Meter
from tool_engine.session.reading.result import SessionResult, withhold_result
from tool_engine.session.scope import SessionScope
from tool_engine.session.tools import SessionTools
from tool_engine.sources.identity import engine_of

Rest: TypeAlias = Callable[[Refusal | None], Awaitable[SessionResult]]
Listener: TypeAlias = Callable[[ToolProgress], object] | None


class Asker(Protocol):
    """The calls of the session that asked."""

    def forbids(self, tool: Tool, request: ApprovalRequest) -> Refusal | None:
        """Return why its approved call may not run after all; None: it may."""


class Deferred(NamedTuple):
    """Facts about a deferred call that its request does not contain."""

    labels: frozenset[str] = frozenset({"unknown"})
    """The labels of the content that was put into its arguments."""
    tool_name: str | None = None
    """The conversation's name for the tool; None: another tool called it."""
    rest: Rest | None = None
    """What is left to do with a result after the answer, in the process of its call."""
    parts: tuple[CallScope, ...] = ()
    """The scopes of all conversations that must agree, the outermost first."""
    scope: CallScope | None = None
    """The one of them that is this conversation's."""
    paid: tuple[Meter, ...] = ()
    """What it was counted against when its approval was requested."""
    asker: Asker | None = None
    """The session whose call it is, if it is in this process: another one may answer."""
    listener: Listener = None
    """Its `on_progress`, in the process of its call."""


def note_deferred(
    deferred: dict[str, Deferred],
    book: ApprovalBook,
    token: str,
    scope: SessionScope | None,
    tool_name: str | None,
    rest: Rest | None = None,
    asker: Asker | None = None,
    listener: Listener = None,
) -> None:
    """Note what `resume` needs, and forget requests that have expired.

    Args:
        deferred: Request token -> facts, the oldest first.
        book: The requests.
        token: That of the new request.
        scope: What the conversation added to the call; None: nothing.
        tool_name: As in `Deferred`.
        rest: As in `Deferred`.
        asker: As in `Deferred`.
        listener: As in `Deferred`.
    """
    # The oldest stand first; those that may be answered are not looked at each time.
    while deferred and not book.is_open(oldest := next(iter(deferred))):
        del deferred[oldest]
    if scope is None:
        deferred[token] = Deferred(frozenset(), tool_name, rest)
        return
    parts = scope.shared.get(token, ())
    labels, own = frozenset(scope.labels), scope if parts else None
    deferred[token] = Deferred(labels, tool_name, rest, parts, own, scope.paid, asker, listener)


def find_tool(tools: SessionTools, request: ApprovalRequest, kept: Deferred) -> Tool | None:
    """Return a request's current tool, under its name in this session.

    Raises:
        ApprovalError: Several may be meant.
    """
    if kept.tool_name is not None:
        placed = tools.toolbox.find(kept.tool_name)
        return None if placed is None else placed.tool
    same = [
        each.tool
        for each in tools.toolbox.all()
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
    own = tools.find_own(request.tool_name)
    return tools.source.get(request.tool_name) if own is None else own[0]


def check_shared(request: ApprovalRequest, kept: Deferred) -> None:
    """Raise `ApprovalError` if another conversation that must agree is missing."""
    if request.is_shared and request.kind == "execution" and not kept.parts:
        raise ApprovalError(
            f"another conversation has a say in this call of {request.tool_name!r}, and it is not "
            "here: answer in the process that asked, or call it again"
        )


def check_engine(tools: SessionTools, request: ApprovalRequest, tool: Tool | None) -> None:
    """Raise `ApprovalError` if the name now belongs to another engine's tool."""
    if tool is None or request.kind != "execution" or not request.engine:
        return
    found = engine_of(tools.source, tool.name)
    is_same_name = request.is_nested or request.called_name == tool.name
    if found != request.engine or not is_same_name:
        raise ApprovalError(
            f"{tool.name!r} is not what was approved: it is a tool of another engine here, has "
            "another name, or is not known to be of the same engine; answer where it was "
            "asked, or call it again; ToolEngineConfig(name=...) tells engines apart; the request "
            "stays open"
        )


def join_scopes(scope: SessionScope, request: ApprovalRequest, kept: Deferred) -> CallScope:
    """Return a deferred call's scope, joined with those of other conversations."""
    for part in kept.parts:
        if isinstance(part, SessionScope):
            # They were asked when it was made.
            part.allow_once(request)
    parts = tuple(scope if part is kept.scope else part for part in kept.parts)
    return NarrowedScope(parts) if parts else scope


async def finish_result(
    tool_name: str, request: ApprovalRequest, kept: Deferred, refusal: Refusal | None
) -> SessionResult:
    """Return a result that was withheld until a person decided about it.

    In the process of its call it is complete; another process has only the text for the model.
    """
    if kept.rest is not None:
        return await kept.rest(refusal)
    metadata: dict[str, Any] = {"call_id": request.call_id}
    if refusal is not None:
        return withhold_result(SessionResult(False, tool_name, metadata=metadata), refusal)
    text = request.result or ""
    has_failed = request.error_type is not None
    return SessionResult(
        is_success=not has_failed,
        tool_name=tool_name,
        output={} if has_failed else {"result": text},
        error=text if has_failed else None,
        error_type=request.error_type,
        metadata=metadata,
        formatted_text=text,
        final_text=text,
    )
