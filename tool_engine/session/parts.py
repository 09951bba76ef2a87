"""Which parts does a session consist of, and which of them does it share with the one above?

A helper is made here, too, so that it may do no more than its parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from tool_engine.approval.book import ApprovalBook
from tool_engine.approval.desk import find_desk
from tool_engine.approval.gate import ApprovalGate
from tool_engine.approval.principal import check_principal
from tool_engine.calls.home_loop import HomeLoop
from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import Approver, ToolSource
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest
from tool_engine.model.session import check_session_id
from tool_engine.session.bounds import Meter
from tool_engine.session.config import ToolCallConfig, as_config
from tool_engine.session.deferral import Deferred
from tool_engine.session.policy import SessionPolicy
from tool_engine.session.reading.presentation import (
    Presentation,
    add_return_types,
    check_presentations,
)
from tool_engine.session.recent_secrets import RecentSecrets
from tool_engine.session.repetition import RepetitionGuard
from tool_engine.session.scope import Caller
from tool_engine.session.session_storage import find_storage
from tool_engine.session.tools import SessionTools
from tool_engine.session.variables.labels import ReadLabels, ShownResults
from tool_engine.session.variables.store import VariableStore
from tool_engine.sources.composition import Prepare

_BOUNDS: Final = frozenset(
    (
        *("max_iterations", "max_calls", "max_calls_per_turn", "max_tokens", "max_seconds"),
        *("max_uses", "timeout", "parallel_execution", "limit", "protocol", "language", "capacity"),
        *("hint_at", "stop_at"),
    )
)
"""Settings that a derived session may change: none lets it do more."""


class SessionParts(NamedTuple):
    """What one session consists of, for the objects that work on it."""

    tools: SessionTools
    """Its tools, with its settings."""
    caller: Caller
    """In whose name its calls run."""
    presentations: dict[str, Presentation]
    """Tool -> how its results become texts."""
    variables: VariableStore
    """The named values that it keeps."""
    read_labels: ReadLabels
    """Where all that its model has read came from, and so whatever it types."""
    meter: Meter
    """What it has spent, against its bounds."""
    guard: RepetitionGuard
    """Notices a model that repeats itself."""
    policy: SessionPolicy
    """Decides by its rules."""
    gate: ApprovalGate
    """Decides what needs consent, and asks for it."""
    results: ShownResults
    """Which results its model has read; its helpers share it."""
    deferred: dict[str, Deferred]
    """Request token -> facts about a call that waits for an answer; its helpers share it."""
    home: HomeLoop
    """The event loop that it lives on; its helpers share it."""
    secrets: RecentSecrets
    """What its newest calls were sent that is secret; its helpers share it."""


def make_parts(
    engine: ToolSource,
    session_id: str,
    config: ToolCallConfig | Mapping[str, Any] | None,
    approver: Approver | None,
    *,
    agent_id: str | None,
    conversation_id: str | None,
    principal: str | None,
    prepare: Prepare | None,
    presentations: Mapping[str, Presentation] | None,
    variables: VariableStore | None,
    parent: SessionParts | None,
) -> SessionParts:
    """Make the parts of a session; the arguments are those of `ToolSession`.

    Raises:
        SessionError: An id that no storage could keep.
        ConfigurationError: Something of the wrong kind.
    """
    _check_kinds(presentations, variables, principal)
    chosen = as_config({} if config is None else config)
    agent_id = check_session_id(session_id if agent_id is None else agent_id)
    conversation_id = check_session_id(session_id if conversation_id is None else conversation_id)
    own_presentations = dict(presentations or {})
    # One that is empty may count as false.
    kept = VariableStore(chosen.capacity) if variables is None else variables
    read_labels = ReadLabels(None if parent is None else parent.read_labels)
    tools = SessionTools(
        engine,
        chosen,
        kept,
        read_labels,
        prepare=add_return_types(prepare, own_presentations),
        parent=None if parent is None else parent.tools,
    )
    toolbox = tools.toolbox
    caller_above = None if parent is None else parent.caller
    policy = SessionPolicy(toolbox, None if parent is None else parent.policy)
    return SessionParts(
        tools,
        Caller(session_id, agent_id, conversation_id, principal or "", toolbox, caller_above),
        own_presentations,
        kept,
        read_labels,
        Meter(
            chosen,
            None if parent is None else parent.meter,
            identity=tools.identify,
            stamp=lambda: toolbox.found,
            catalog=lambda: toolbox.catalog,
        ),
        RepetitionGuard(chosen.hint_at, chosen.stop_at),
        policy,
        ApprovalGate(_find_book(session_id, tools, parent), approver, policy.decide),
        ShownResults() if parent is None else parent.results,
        {} if parent is None else parent.deferred,
        HomeLoop() if parent is None else parent.home,
        RecentSecrets(kept) if parent is None else parent.secrets,
    )


def _check_kinds(presentations: object, variables: object, principal: object) -> None:
    check_principal(principal)
    if presentations is not None:
        check_presentations(presentations)
    if variables is not None and not isinstance(variables, VariableStore):
        raise ConfigurationError(
            f"variables must be a VariableStore, got {type(variables).__name__}"
        )


def _find_book(session_id: str, tools: SessionTools, parent: SessionParts | None) -> ApprovalBook:
    if parent is not None:
        # What the user has decided holds for helpers, too.
        return parent.gate.book
    storage = find_storage(tools.source, "approvals")
    return ApprovalBook(
        session_id,
        tools.config.approval_timeout,
        storage=storage,
        find_desk=partial(find_desk, tools.source),
    )


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
