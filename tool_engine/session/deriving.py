"""How is a helper's session made so that it may do no more than its parent?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from tool_engine.approval.gate import ApprovalGate
from tool_engine.errors import ConfigurationError
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.parts import SessionParts
from tool_engine.session.tools import SessionTools

_BOUNDS: Final = frozenset(
    (
        *("max_iterations", "max_calls", "max_calls_per_turn", "max_tokens", "max_seconds"),
        *("max_uses", "timeout", "parallel_execution", "limit", "protocol", "language", "capacity"),
        *("hint_at", "stop_at"),
    )
)
"""Settings that a derived session may change: none lets it do more."""


class Plan(NamedTuple):
    """What a helper gets of its parent."""

    tools: set[str]
    """The names of its tools."""
    config: ToolCallConfig


def plan_helper(
    tools: SessionTools, names: Iterable[str] | None, changes: Mapping[str, Any]
) -> Plan:
    """Return what a helper gets.

    Args:
        tools: Those of its parent.
        names: Its tools; None: all that are enabled, but those that only its parent has.
        changes: Other bounds.

    Raises:
        ConfigurationError: A change is none of a bound, or these are no names.
        ToolNotFoundError: A tool is not enabled.
    """
    unknown = sorted(set(changes) - _BOUNDS)
    if unknown:
        raise ConfigurationError(f"a derived session cannot have other {', '.join(unknown)}")
    if isinstance(names, str):
        raise ConfigurationError(f"tools must be a list of names, got {names!r}; write [{names!r}]")
    if names is None:
        chosen = {tool.name for tool in tools.list_enabled()} - set(tools.registered)
    else:
        chosen = {tools.get_or_raise(each).name for each in names}
    toggles = {**tools.config.tool_toggles, **dict.fromkeys(chosen, True)}
    settings = {**tools.config.to_dict(), **changes, "tool_toggles": toggles}
    return Plan(chosen, ToolCallConfig.from_dict(settings))


def hand_down(parent: SessionParts, child: SessionParts, names: set[str]) -> None:
    """Give a helper its parent's own groups and the named tools."""
    for state in parent.tools.toolbox.groups():
        if state.is_own:
            # What they say of permissions holds for helpers, too.
            child.tools.toolbox.register_group(state.group, state.rules)
    own = {name: made for name, made in parent.tools.registered.items() if name in names}
    child.tools.registered.update(own)
    _report_requests(child.gate, parent.gate)


def _report_requests(of: ApprovalGate, to: ApprovalGate) -> None:
    """Report a helper's requests and their answers to its parent's listeners."""

    def report_request(request: ApprovalRequest) -> object:
        return None if to.on_request is None else to.on_request(request)

    def report_answer(request: ApprovalRequest, decision: ApprovalDecision | None) -> object:
        return None if to.on_answer is None else to.on_answer(request, decision)

    of.on_request, of.on_answer = report_request, report_answer
