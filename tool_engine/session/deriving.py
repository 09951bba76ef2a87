"""How is a helper's session made so that it may do no more than its parent?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from tool_engine.approval.gate import ApprovalGate
from tool_engine.errors import ConfigurationError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.state import SessionState
from tool_engine.sources.composition import keep

_Session = TypeVar("_Session", bound=SessionState)
_BOUNDS: Final = frozenset(
    (
        *("max_iterations", "max_calls", "max_calls_per_turn", "max_tokens", "max_seconds"),
        *("max_uses", "timeout", "parallel_execution", "limit", "protocol", "language", "capacity"),
        *("hint_at", "stop_at"),
    )
)
"""Settings that a derived session may change: none lets it do more."""


def derived(
    session: _Session, name: str, tools: Iterable[str] | None, changes: Mapping[str, Any]
) -> _Session:
    """Make the session of `ToolSession.derive`."""
    unknown = sorted(set(changes) - _BOUNDS)
    if unknown:
        raise ConfigurationError(f"a derived session cannot have other {', '.join(unknown)}")
    if isinstance(tools, str):
        raise ConfigurationError(f"tools must be a list of names, got {tools!r}; write [{tools!r}]")
    own = set(session.own_tools)
    chosen = (
        {tool.name for tool in session.tools()} - own
        if tools is None
        else {session.get_or_raise(each).name for each in tools}
    )
    settings = {**session.config.to_dict(), **changes}
    settings["tool_toggles"] = {**session.config.tool_toggles, **dict.fromkeys(chosen, True)}
    child = type(session)(
        keep(session.source, lambda tool: tool.name in chosen),
        f"{session.session_id}/{name}",
        ToolCallConfig.from_dict(settings),
        session.gate.approver,
        agent_id=session.agent_id,
        conversation_id=session.conversation_id,
        presentations=session.presentations,
        parent=session,
    )
    for state in session.toolbox.groups():
        if state.is_own:
            # What they say of permissions holds for helpers, too.
            child.toolbox.register_group(state.group, state.rules)
    _tell_of_requests(child.gate, session.gate)
    child.own_tools.update(
        {each: made for each, made in session.own_tools.items() if each in chosen}
    )
    return child


def _tell_of_requests(of: ApprovalGate, to: ApprovalGate) -> None:
    def tell_request(request: ApprovalRequest) -> object:
        return None if to.on_request is None else to.on_request(request)

    def tell_answer(request: ApprovalRequest, decision: ApprovalDecision | None) -> object:
        return None if to.on_answer is None else to.on_answer(request, decision)

    of.on_request, of.on_answer = tell_request, tell_answer
