"""How does a database keep what people were asked, and what they answered?

An answered request stays, without its arguments, until it would have expired: no process can put it
again. So it is good for one answer, however many processes share the database.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from tool_engine.errors import SessionError
from tool_engine.knowledge.frozen_session import Frozen
from tool_engine.knowledge.memory_approvals import (
    damaged_standing,
    decision_of,
    is_key,
    request_of,
    said_of,
    shown_of,
    standing_from,
    standing_of,
)
from tool_engine.knowledge.sql.connection.opening import LazyDatabase
from tool_engine.knowledge.sql.schema.damage import FLAG, SECONDS, check_values
from tool_engine.knowledge.sql.schema.packed_json import (
    KEEPING,
    damage_error,
    pack_text,
    unpack_value,
)
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest, StandingDecision
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.session import check_session_id

_GRACE: Final = 86_400.0
"""Seconds after which an expired request goes with the next one that comes."""
_LEASE: Final = 6.0
"""Seconds for which a call counts as waiting that does not say so again."""
_WHAT: Final = "the request for approval"


@refuse_copying("open the same address again")
class SQLApprovalStorage:
    """Keeps requests and decisions beside the records; it is `SQLRecordStorage.approvals`.

    Secret arguments are hidden before anything is written.

    Args:
        database: The database of the records, which opens and closes it.
        clock: Unix time in seconds; None: that of the database, whatever this program's clock says.
    """

    is_shared: Final = True
    """Other processes can answer."""

    def __init__(self, database: LazyDatabase, *, clock: Callable[[], float] | None = None) -> None:
        self._database = database
        self._has_own_clock = clock is not None
        self.read_clock = clock or database.clock.read_seconds
        """Return the time that all agree on who ask and answer, Unix time in seconds."""

    async def learn_time(self) -> float:
        """Ask what time it is, unless that was done not long ago, and return it.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        if not self._has_own_clock:
            await self._database.clock.learn_time_once()
        return self.read_clock()

    async def put(self, request: ApprovalRequest) -> None:
        """Keeps an open request; one that was put before, answered or not, is left as it is.

        Raises:
            SessionError: It belongs to no session, or has no token.
            RecordsUnavailableError: The database does not take it.
        """
        _, data = await asyncio.to_thread(
            lambda: pack_text(Frozen(shown_of(request), _WHAT).text(), _WHAT)
        )
        now = await self.learn_time()
        times = request.asked_at, _lasts_until(request, now)
        sql = _load_statements()
        kept = sql.open_request(request.token, request.session_id, *times, data)
        await self._database.execute(KEEPING, kept, sql.remove_expired(now - _GRACE))

    async def claim(self, token: str) -> bool:
        """Closes an open request; True for exactly one caller, of all processes, in time.

        Raises:
            RecordsUnavailableError: The database does not answer. Whether it was closed is not
                known then: take it for closed.
        """
        if not is_key(token):
            return False
        now = await self.learn_time()
        (done,) = await self._database.execute(
            KEEPING, _load_statements().close_request(token, now)
        )
        return bool(done.changed)

    async def renew(self, request: ApprovalRequest) -> None:
        """Says that the call still waits; else the request is listed no more within seconds.

        Raises:
            RecordsUnavailableError: The database does not take it.
        """
        until = _lasts_until(request, await self.learn_time())
        await self._database.execute(
            KEEPING, _load_statements().renew_request(request.token, until)
        )

    async def pending(self, session_id: str | None = None) -> Sequence[ApprovalRequest]:
        """The open requests that have not expired, oldest first; None: of every session.

        Raises:
            SessionError: The id is none, or a request is damaged.
            RecordsUnavailableError: The database does not answer.
        """
        if session_id is not None:
            check_session_id(session_id)
        now = await self.learn_time()
        async with self._database.asked(KEEPING) as reader:
            asked = _load_statements().select_requests(session_id, now)
            (rows,) = await reader.rows(asked, failing=KEEPING)
        return await asyncio.to_thread(lambda: list(map(_request_of, rows)))

    async def remember(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        """Keeps a decision for the same call of the same session, instead of the one before.

        Raises:
            SessionError: The request's session is none.
            RecordsUnavailableError: The database does not take it.
        """
        check_session_id(request.session_id)
        now = int(await self.learn_time() * 1e6)
        _, data = pack_text(Frozen(said_of(decision)).text(), "the decision")
        call = request.session_id, request.fingerprint
        await self._database.execute(KEEPING, _load_statements().keep_decision(*call, now, data))

    async def remembered(self, session_id: str, fingerprint: str) -> ApprovalDecision | None:
        """What was decided about a call with this `ApprovalRequest.fingerprint`.

        Raises:
            SessionError: The id is none, or what is kept is damaged.
            RecordsUnavailableError: The database does not answer.
        """
        check_session_id(session_id)
        if not is_key(fingerprint):
            return None
        async with self._database.asked(KEEPING) as reader:
            (rows,) = await reader.rows(
                _load_statements().select_decision(session_id, fingerprint), failing=KEEPING
            )
        return decision_of(_read_row(rows[0]), session_id) if rows else None

    async def forget(self, session_id: str) -> int:
        """Forget the decisions of a session; return how many there were.

        Raises:
            SessionError: The id is none.
            RecordsUnavailableError: The database does not answer.
        """
        check_session_id(session_id)
        (done,) = await self._database.execute(
            KEEPING, _load_statements().forget_decisions(session_id)
        )
        return int(done.changed)

    async def keep_standing(
        self, request: ApprovalRequest, decision: ApprovalDecision
    ) -> StandingDecision:
        """Keeps a decision for the request's principal, in place of the one before.

        Raises:
            SessionError: It belongs to no session.
            RecordsUnavailableError: The database does not take it.
        """
        now = await self.learn_time()
        standing = await asyncio.to_thread(standing_of, request, decision, now)
        _, data = pack_text(Frozen(msgspec.structs.asdict(standing)).text(), "the decision")
        place = standing.decision_id, _hash_name(standing.principal), int(now * 1e6)
        await self._database.execute(KEEPING, _load_statements().keep_standing(*place, data))
        return standing

    async def find_standing(self, decision_ids: Sequence[str]) -> list[StandingDecision]:
        """The decisions with these ids, in this order.

        Raises:
            SessionError: What is kept is damaged.
            RecordsUnavailableError: The database does not answer.
        """
        ids = [each for each in decision_ids if is_key(each)]
        found = await self._read_standing(_load_statements().select_standing(ids))
        return sorted(found, key=lambda each: ids.index(each.decision_id))

    async def list_standing(self, principal: str | None = None) -> list[StandingDecision]:
        """The decisions, oldest first; None: of every principal.

        Raises:
            SessionError: What is kept is damaged.
            RecordsUnavailableError: The database does not answer.
        """
        named = None if principal is None else _hash_name(principal)
        return await self._read_standing(_load_statements().select_standing(None, named))

    async def revoke_standing(self, decision_id: str) -> bool:
        """Forgets a decision; False: there was none.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        if not is_key(decision_id):
            return False
        (done,) = await self._database.execute(
            KEEPING, _load_statements().forget_standing(decision_id)
        )
        return bool(done.changed)

    async def _read_standing(self, asked: Any) -> list[StandingDecision]:
        async with self._database.asked(KEEPING) as reader:
            (rows,) = await reader.rows(asked, failing=KEEPING)
        return await asyncio.to_thread(lambda: list(map(_standing_of_row, rows)))


def _lasts_until(request: ApprovalRequest, now: float) -> float:
    """Return until when a request is open, unless it is renewed."""
    return min(request.expires_at, now + _LEASE) if request.is_waiting else request.expires_at


def _standing_of_row(row: Sequence[Any]) -> StandingDecision:
    data, decision_id, hashed = row
    try:
        kept = unpack_value(data, "", "")
    except SessionError as error:
        raise damaged_standing(decision_id, "what is kept of it is damaged") from error
    found = standing_from(kept, decision_id)
    if hashed != _hash_name(found.principal):
        raise damaged_standing(decision_id, "it is that of another principal")
    return found


def _hash_name(principal: str) -> str:
    return hashlib.sha256(principal.encode("utf-8", "surrogatepass")).hexdigest()


def _request_of(row: Sequence[Any]) -> ApprovalRequest:
    data, session_id, token, *times = row
    what = f"{_WHAT} {token!r} (a row of tool_approvals)"
    try:
        check_values(
            zip(_TIMES, times, strict=True), {**dict.fromkeys(_TIMES, SECONDS), "is_open": FLAG}
        )
    except ValueError as error:
        raise damage_error(what, session_id, str(error)) from error
    request = request_of(_read_row((data, session_id)), session_id)
    if (request.session_id, request.token) != (session_id, token):
        raise damage_error(what, session_id, f"it is that of the session {request.session_id!r}")
    return request


_TIMES: Final = ("is_open", "asked_at", "expires_at")
_KINDS: Final = {"is_open": FLAG, "asked_at": SECONDS, "expires_at": SECONDS}


def _read_row(row: Sequence[Any]) -> Any:
    data, session_id = row
    return unpack_value(data, f"{_WHAT} in the session {session_id!r}", session_id)


def _load_statements() -> Any:
    from tool_engine.knowledge.sql import session_statements

    return session_statements
