"""Which parts does a session consist of, and which of them does it share with the one above?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from tool_engine.approval.book import ApprovalBook
from tool_engine.approval.desk import find_desk
from tool_engine.approval.gate import ApprovalGate
from tool_engine.approval.principal import check_principal
from tool_engine.calls.home_loop import HomeLoop
from tool_engine.errors import ConfigurationError
from tool_engine.interfaces import Approver, ToolSource
from tool_engine.model.session import check_session_id
from tool_engine.session.bounds import Meter
from tool_engine.session.caller import Caller
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
from tool_engine.session.session_storage import find_storage
from tool_engine.session.tools import SessionTools
from tool_engine.session.variables.labels import ReadLabels, ShownResults
from tool_engine.session.variables.store import VariableStore
from tool_engine.sources.composition import Prepare


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
    conversation_id = check_session_id(conversation_id or session_id)
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
