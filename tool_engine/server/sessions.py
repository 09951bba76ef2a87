"""Which conversations are kept, and what did one come to?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tool_engine.engine import ToolEngine
from tool_engine.model.json.data import fields_as_json
from tool_engine.model.json.returned_value import to_text
from tool_engine.model.session import LONGEST_SESSION_ID, SessionInfo
from tool_engine.model.tool import Tool
from tool_engine.server.endpoint import Sized
from tool_engine.server.operation import Asked, serve_at
from tool_engine.server.paging import Limit
from tool_engine.server.problems import make_unknown
from tool_engine.server.results import Moment
from tool_engine.session.kept_secrets import KeptSecrets
from tool_engine.visible import cut_middle

_PAGE: Final = 1_000
_MOST_PAGES: Final = 10
"""Pages of the list in which the times of a session are looked for."""
_MOST_LISTED: Final = 1_000
"""Variables, groups and tools of one session."""
_LONGEST: Final = 10_000
"""Characters of one text; the middle of a longer one is left out."""
_BOUNDS: Final = (
    ("calls", "calls", "max_calls"),
    ("calls of the turn", "calls_of_turn", "max_calls_per_turn"),
    ("rounds of the turn", "rounds", "max_iterations"),
    ("seconds of the turn", "seconds", "max_seconds"),
    ("tokens", "total_tokens", "max_tokens"),
)
"""What is bounded: its name, what was spent of it, and the setting."""


class SessionQuery(msgspec.Struct, forbid_unknown_fields=True):
    limit: Limit = 100
    offset: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class SessionList(msgspec.Struct):
    items: list[SessionInfo]


class SessionCall(msgspec.Struct, kw_only=True):
    """A call that a reply asked for, or that ended."""

    tool_name: str
    arguments: str
    """As JSON, with secrets hidden."""
    status: str | None = None
    """How it ended; null: this is what was asked for."""
    call_id: str | None = None


class SessionMessage(msgspec.Struct, kw_only=True):
    """What was said or done."""

    role: str
    """`user`, `assistant`, `tool`, or `loop`: what the loop itself said to the model."""
    text: str
    time: Moment | None
    calls: list[SessionCall]


class SessionVariable(msgspec.Struct, kw_only=True):
    """A value that the conversation keeps under a name."""

    name: str
    kind: str
    description: str
    labels: list[str]
    """Where its content came from."""
    chars: int
    updated_at: Moment | None
    text: str


class SessionBound(msgspec.Struct):
    """How much of something was spent, and how much may be."""

    name: str
    spent: float
    limit: float | None
    """Null: it has no bound."""


class SessionHelper(msgspec.Struct):
    """A sub-agent that worked for one call."""

    session_id: str
    task: str
    count: int
    """Its messages."""


class SessionDetails(msgspec.Struct, kw_only=True):
    """What a conversation came to when it was saved last, with secrets hidden."""

    session_id: str
    agent_id: str
    conversation_id: str
    created_at: Moment | None
    updated_at: Moment | None
    """Null: it is not among the 10,000 that were saved last."""
    pending_approvals: int
    count: int
    """All its messages."""
    messages: list[SessionMessage]
    """Those asked for, the oldest first."""
    variables: list[SessionVariable]
    groups: dict[str, bool]
    """The groups that it switched on or off, and its own."""
    tools: dict[str, bool]
    """The tools that it switched on or off."""
    bounds: list[SessionBound]
    uses: dict[str, int]
    """Calls by tool."""
    helpers: list[SessionHelper]
    """The sub-agents that its model gave work to."""
    unknown_tools: list[str]
    """Called tools whose definition is not here: all their arguments are hidden."""


@serve_at(
    "GET",
    "/v1/sessions",
    scope="operate",
    is_of_all_tools=True,
    answer=SessionList,
    query=SessionQuery,
)
async def list_sessions(asked: Asked) -> Any:
    """List the conversations that are kept, the one that was saved last first."""
    sessions = asked.engine.store.sessions
    found = await sessions.list(asked.query.limit, asked.query.offset)
    return {"items": [fields_as_json(each) for each in found]}


@serve_at(
    "GET",
    "/v1/sessions/{session_id}",
    scope="operate",
    is_of_all_tools=True,
    answer=SessionDetails,
    query=SessionQuery,
    errors=(404,),
)
async def get_session(asked: Asked) -> Any:
    """Show a conversation: its newest messages, variables, groups, and what it has spent.

    `limit` and `offset` are of its messages, counted from the newest one.
    """
    session_id, engine = asked.path["session_id"], asked.engine
    data = None
    if len(session_id) <= LONGEST_SESSION_ID and "\0" not in session_id:
        data = await engine.store.sessions.load(session_id)
    if data is None:
        raise make_unknown("session", session_id)
    info = await _find_info(engine, session_id)
    pending = await engine.store.approvals.pending(session_id)
    found = await asyncio.to_thread(_describe_session, data, engine, asked.query)
    found.session_id = session_id
    found.pending_approvals = len(pending)
    if info is not None:
        found.created_at = info.created_at.isoformat()
        found.updated_at = info.updated_at.isoformat()
    return Sized(found)


async def _find_info(engine: ToolEngine, session_id: str) -> SessionInfo | None:
    for page in range(_MOST_PAGES):
        infos = await engine.store.sessions.list(_PAGE, page * _PAGE)
        for each in infos:
            if each.session_id == session_id:
                return each
        if len(infos) < _PAGE:
            break
    return None


def _list_tools(engine: ToolEngine) -> list[Tool]:
    """Return all tools whose definitions are known, those of earlier generations too."""
    known = [tool for each in engine.generations() for tool in each.index]
    return [*known, *engine.list_all(), *(each.tool for each in engine.quarantined())]


def _describe_session(
    data: Mapping[str, Any], engine: ToolEngine, query: SessionQuery
) -> SessionDetails:
    """Return what is shown of a session; it may take its time."""
    secrets = KeptSecrets(data, _list_tools(engine))
    shown = secrets.hide(data)
    # Of these, names and numbers are read only, and `max_tokens` is named like a secret.
    config, meter = _take_mapping(data, "config"), _take_mapping(data, "meter")
    toolbox = _take_mapping(data, "toolbox")
    loop = _take_mapping(_take_mapping(shown, "more"), "loop")
    entries = _take_mappings(loop, "transcript")
    end = max(0, len(entries) - query.offset)
    return SessionDetails(
        session_id="",
        agent_id=_take_text(data, "agent_id"),
        conversation_id=_take_text(data, "conversation_id"),
        created_at=None,
        updated_at=None,
        pending_approvals=0,
        count=len(entries),
        messages=[_read_message(each) for each in entries[max(0, end - query.limit) : end]],
        variables=list(_read_variables(_take_mapping(shown, "variables"))),
        groups=_read_groups(config, toolbox),
        tools=_read_flags("tool_toggles", config, toolbox),
        bounds=[
            SessionBound(name, _take_number(meter, spent) or 0, _take_number(config, limit))
            for name, spent, limit in _BOUNDS
        ],
        uses={
            str(name)[:200]: int(_take_number(uses, name) or 0)
            for uses in (_take_mapping(meter, "by_tool"),)
            for name in list(uses)[:_MOST_LISTED]
        },
        helpers=list(_read_helpers(_take_mapping(loop, "children"))),
        unknown_tools=secrets.unknown[:_MOST_LISTED],
    )


def _read_message(entry: Mapping[str, Any]) -> SessionMessage:
    metadata = _take_mapping(entry, "metadata")
    calls = [*_take_mappings(metadata, "toolCallsRequested")[:_MOST_LISTED]]
    ended = _take_mapping(metadata, "toolCall")
    return SessionMessage(
        role=_take_text(entry, "role"),
        text=_take_text(entry, "text"),
        time=_take_time(entry, "time"),
        calls=[_read_call(each) for each in ([*calls, ended] if ended else calls)],
    )


def _read_call(call: Mapping[str, Any]) -> SessionCall:
    return SessionCall(
        tool_name=_take_text(call, "toolName"),
        arguments=cut_middle(to_text(call.get("args", {})), _LONGEST),
        status=_take_text(call, "status") or None,
        call_id=_take_text(call, "callId") or None,
    )


def _read_variables(kept: Mapping[str, Any]) -> Iterator[SessionVariable]:
    for each in _take_mappings(kept, "variables")[:_MOST_LISTED]:
        labels = each.get("labels")
        yield SessionVariable(
            name=_take_text(each, "name"),
            kind=_take_text(each, "kind"),
            description=_take_text(each, "desc"),
            labels=[str(label)[:500] for label in labels] if isinstance(labels, list) else [],
            chars=int(_take_number(each, "chars") or 0),
            updated_at=_take_time(each, "updated"),
            text=cut_middle(to_text(each.get("value")), _LONGEST),
        )


def _read_helpers(children: Mapping[str, Any]) -> Iterator[SessionHelper]:
    for key in list(children)[:_MOST_LISTED]:
        each = _take_mapping(children, key)
        count = len(_take_mappings(each, "entries"))
        yield SessionHelper(_take_text(each, "session_id"), _take_text(each, "task"), count)


def _read_groups(config: Mapping[str, Any], toolbox: Mapping[str, Any]) -> dict[str, bool]:
    groups = _take_mappings(toolbox, "groups")[:_MOST_LISTED]
    own = {_take_text(each, "name"): each.get("is_enabled") is True for each in groups}
    return {**own, **_read_flags("group_toggles", config, toolbox)}


def _read_flags(key: str, *kept: Mapping[str, Any]) -> dict[str, bool]:
    """Return what was switched on or off; what comes later holds."""
    flags = [(name, flag) for one in kept for name, flag in _take_mapping(one, key).items()]
    known = {str(name)[:200]: flag for name, flag in flags if isinstance(flag, bool)}
    return dict(list(known.items())[:_MOST_LISTED])


# A storage may hold what another version, or no session at all, has written: what is not of its
# kind is left out.


def _take_mapping(kept: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = kept.get(key)
    return found if isinstance(found, Mapping) else {}


def _take_mappings(kept: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = kept.get(key)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _take_text(kept: Mapping[str, Any], key: str) -> str:
    found = kept.get(key)
    return cut_middle(found, _LONGEST) if isinstance(found, str) else ""


def _take_time(kept: Mapping[str, Any], key: str) -> Moment | None:
    with suppress(ValueError):
        found = datetime.fromisoformat(_take_text(kept, key))
        return found.isoformat() if found.tzinfo is not None else None
    return None


def _take_number(kept: Mapping[str, Any], key: str) -> float | None:
    found = kept.get(key)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


OPERATIONS = (list_sessions, get_session)
