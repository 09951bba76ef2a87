"""Which statements keep conversations, requests for approval and decisions?

Each that changes something is one statement, or begins with one that writes: SQLite refuses who has
read first and then wants to write while another process does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Delete,
    Double,
    LargeBinary,
    Select,
    Text,
    TextClause,
    Update,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.sql.dml import ReturningDelete
from sqlalchemy.types import TypeEngine

from tool_engine.knowledge.sql.odd_rows import is_odd
from tool_engine.knowledge.sql.schema.tables import approvals, decisions, sessions, standing

_KINDS: Final[dict[str, TypeEngine[Any]]] = {
    **dict.fromkeys(("now", "size"), BigInteger()),
    **dict.fromkeys(("asked_at", "expires_at"), Double()),
    "is_open": Boolean(),
    "data": LargeBinary(),
}


def _type_statement(statement: str, *names: str) -> TextClause:
    return text(statement).bindparams(*(bindparam(name, type_=_KINDS[name]) for name in names))


_PUT: Final = (
    "INSERT INTO tool_sessions (session_id, created_at, updated_at, size, data, revision) "
    "VALUES (:session_id, :now, :now, :size, :data, :revision) ON CONFLICT (session_id) "
    "DO UPDATE SET updated_at = excluded.updated_at, size = excluded.size, "
    "data = excluded.data, revision = excluded.revision"
)
_SAVE: Final = _type_statement(_PUT, *("now", "size", "data"))
_SAVE_IF: Final = _type_statement(
    f"{_PUT} WHERE coalesce(tool_sessions.revision, '') IN :revisions", *("now", "size", "data")
).bindparams(bindparam("revisions", type_=Text(), expanding=True))
_OPEN: Final = _type_statement(
    "INSERT INTO tool_approvals (token, session_id, is_open, asked_at, expires_at, data) "
    "VALUES (:token, :session_id, :is_open, :asked_at, :expires_at, :data) "
    "ON CONFLICT (token) DO NOTHING",
    *("is_open", "asked_at", "expires_at", "data"),
)
_STAND: Final = _type_statement(
    "INSERT INTO tool_standing (decision_id, principal, decided_at, data) "
    "VALUES (:decision_id, :principal, :now, :data) ON CONFLICT (decision_id) "
    "DO UPDATE SET decided_at = excluded.decided_at, data = excluded.data",
    *("now", "data"),
)
_REMEMBER: Final = _type_statement(
    "INSERT INTO tool_decisions (session_id, fingerprint, decided_at, data) "
    "VALUES (:session_id, :fingerprint, :now, :data) ON CONFLICT (session_id, fingerprint) "
    "DO UPDATE SET decided_at = excluded.decided_at, data = excluded.data",
    *("now", "data"),
)


def save_session(
    session_id: str,
    now: int,
    size: int,
    data: bytes,
    *,
    revision: str,
    revisions: Collection[str] | None,
) -> TextClause:
    """Puts a conversation in the place of what was kept of it before.

    Args:
        session_id: The conversation.
        now: Microseconds since 1970.
        size: Characters.
        data: What is kept.
        revision: Which state of it this is.
        revisions: One of them is the state that it takes the place of, or there is none; else the
            row count is 0. None: whatever there is.
    """
    known = {"session_id": session_id, "now": now, "size": size, "data": data, "revision": revision}
    if revisions is None:
        return _SAVE.bindparams(**known)
    return _SAVE_IF.bindparams(**known, revisions=list(revisions))


def select_session(session_id: str) -> Select[Any]:
    """The data of a conversation."""
    return select(sessions.c.data).where(sessions.c.session_id == session_id)


def select_sessions(limit: int, offset: int, now: float) -> Select[Any]:
    """Id, two times, size and open requests of the conversations that were saved last."""
    asked = (
        select(func.count())
        .select_from(approvals)
        .where(approvals.c.session_id == sessions.c.session_id)
        .where(or_(and_(approvals.c.is_open, approvals.c.expires_at > now), *_is_damaged()))
        .scalar_subquery()
    )
    columns = [sessions.c[name] for name in ("session_id", "created_at", "updated_at", "size")]
    return (
        select(*columns, asked)
        .order_by(sessions.c.updated_at.desc(), sessions.c.session_id)
        .limit(limit)
        .offset(offset)
    )


def remove_sessions(session_ids: Sequence[str], now: float) -> list[Update | Delete]:
    """Take away all that there is of these conversations.

    Of a request that could still be answered its token stays, closed: a process that has the
    conversation in memory would put it again, and run its call.
    """
    times = (approvals.c.asked_at, approvals.c.expires_at)
    is_sound = and_(*(~is_odd(each, "number") for each in times))
    known = update(approvals).where(
        approvals.c.session_id.in_(session_ids), approvals.c.expires_at > now, is_sound
    )
    return [
        known.values(is_open=False, data=None, session_id=""),
        *(
            delete(each).where(each.c.session_id.in_(session_ids))
            for each in (sessions, approvals, decisions)
        ),
    ]


def open_request(
    token: str, session_id: str, asked_at: float, expires_at: float, data: bytes
) -> Any:
    """Keeps a request, unless there was one with its token."""
    return _OPEN.bindparams(
        token=token,
        session_id=session_id,
        is_open=True,
        asked_at=asked_at,
        expires_at=expires_at,
        data=data,
    )


def close_request(token: str, now: float) -> Update:
    """Closes an open request; its row count says whether it was open."""
    is_this = approvals.c.token == token
    found = update(approvals).where(is_this, approvals.c.is_open, approvals.c.expires_at > now)
    return found.values(is_open=False, data=None)


def renew_request(token: str, expires_at: float) -> Update:
    """Has an open request stay open until then."""
    found = update(approvals).where(approvals.c.token == token, approvals.c.is_open)
    return found.values(expires_at=expires_at)


def select_requests(session_id: str | None, now: float) -> Select[Any]:
    """Data, session, token and two times of open requests, oldest first; and damaged ones."""
    names = ("data", "session_id", "token", "is_open", "asked_at", "expires_at")
    columns = [approvals.c[name] for name in names]
    is_asked = and_(approvals.c.is_open, approvals.c.expires_at > now)
    found = select(*columns).where(or_(is_asked, *_is_damaged()))
    if session_id is not None:
        found = found.where(approvals.c.session_id == session_id)
    return found.order_by(approvals.c.asked_at, approvals.c.token)


def _is_damaged() -> list[Any]:
    kinds = {"is_open": "flag", "asked_at": "number", "expires_at": "number"}
    return [is_odd(approvals.c[name], kind) for name, kind in kinds.items()]


def remove_expired(before: float) -> Delete:
    """Removes requests that can be answered no more, answered or not."""
    return delete(approvals).where(approvals.c.expires_at < before)


def keep_decision(session_id: str, fingerprint: str, now: int, data: bytes) -> TextClause:
    """Keeps a decision in the place of the one before."""
    return _REMEMBER.bindparams(session_id=session_id, fingerprint=fingerprint, now=now, data=data)


def select_decision(session_id: str, fingerprint: str) -> Select[Any]:
    """The data and session of a decision."""
    return select(decisions.c.data, decisions.c.session_id).where(
        decisions.c.session_id == session_id, decisions.c.fingerprint == fingerprint
    )


def forget_decisions(session_id: str) -> Delete:
    """Forgets the decisions of a session."""
    return delete(decisions).where(decisions.c.session_id == session_id)


def keep_standing(decision_id: str, principal: str, now: int, data: bytes) -> TextClause:
    """Keeps a standing decision in the place of the one before."""
    return _STAND.bindparams(decision_id=decision_id, principal=principal, now=now, data=data)


def select_standing(
    decision_ids: Sequence[str] | None, principal: str | None = None
) -> Select[Any]:
    """The data, id and principal of standing decisions, oldest first; None: all."""
    found = select(standing.c.data, standing.c.decision_id, standing.c.principal)
    if decision_ids is not None:
        found = found.where(standing.c.decision_id.in_(decision_ids))
    if principal is not None:
        found = found.where(standing.c.principal == principal)
    return found.order_by(standing.c.decided_at, standing.c.decision_id)


def forget_standing(decision_id: str) -> Delete:
    """Forgets a standing decision."""
    return delete(standing).where(standing.c.decision_id == decision_id)


def old_sessions(before: int, now: float, limit: int) -> ReturningDelete[Any]:
    """Removes conversations that were saved last before that time, and gives their ids.

    Those about which a person is being asked stay.
    """
    is_asked = exists().where(
        approvals.c.session_id == sessions.c.session_id,
        approvals.c.is_open,
        approvals.c.expires_at > now,
    )
    is_old = sessions.c.updated_at < before
    old = select(sessions.c.session_id).where(is_old, ~is_asked).limit(limit)
    # Once more: another process may save one meanwhile.
    found = delete(sessions).where(sessions.c.session_id.in_(old), is_old)
    return found.returning(sessions.c.session_id)


def old_decisions(before: int) -> Delete:
    """Removes the decisions before that time whose conversation is not kept."""
    is_kept = exists().where(sessions.c.session_id == decisions.c.session_id)
    return delete(decisions).where(decisions.c.decided_at < before, ~is_kept)


def kept_bytes() -> list[Select[Any]]:
    """The bytes of conversations, and of requests."""
    return [select(func.sum(func.length(each.c.data))) for each in (sessions, approvals)]
