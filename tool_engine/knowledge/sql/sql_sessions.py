"""How does a database keep conversations?

Each save is one transaction: who is killed in the middle of it leaves what was kept before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

from tool_engine.errors import SessionError
from tool_engine.knowledge.frozen_session import Frozen
from tool_engine.knowledge.sql.connection.opening import LazyDatabase
from tool_engine.knowledge.sql.schema.damage import DAMAGE, INTEGER, check_values
from tool_engine.knowledge.sql.schema.keys import date_of
from tool_engine.knowledge.sql.schema.packed_json import (
    KEEPING,
    damage_error,
    pack_text,
    unpack_value,
)
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.session import SessionInfo, check_page, check_session_id, revision_of


@refuse_copying("open the same address again")
class SQLSessionStorage:
    """Keeps conversations beside the records of their calls; it is `SQLRecordStorage.sessions`.

    Args:
        database: The database of the records, which opens and closes it.

    Example:
        >>> await engine.store.sessions.save("chat-1", {"messages": []})
    """

    def __init__(self, database: LazyDatabase) -> None:
        self._database = database
        # Who saved later stays, however long the one before takes to be written.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def save(self, session_id: str, data: dict[str, Any]) -> None:
        """Keeps what a conversation came to, in the place of what was kept before; whole or not.

        What is changed in `data` after the call began is not kept. Of several saves the one that
        began last stays.

        Raises:
            SessionError: The id is none, the data hold something that is no JSON value, or they
                are too large.
            RecordsUnavailableError: The database does not take it; what was kept before stays.
        """
        await self._save_session(session_id, data, None)

    async def save_if(
        self, session_id: str, data: dict[str, Any], revisions: Collection[str]
    ) -> bool:
        """As `save`, if what is kept has one of these revisions, or if nothing is kept.

        It is one statement: of two processes that go on from one state, one gets False.

        Raises:
            SessionError: As for `save`.
            RecordsUnavailableError: The database does not take it; what was kept before stays.
        """
        return await self._save_session(session_id, data, tuple(revisions))

    async def _save_session(
        self, session_id: str, data: dict[str, Any], revisions: Collection[str] | None
    ) -> bool:
        check_session_id(session_id)
        what = f"the session {session_id!r}"
        frozen, revision = Frozen(data, what), revision_of(data)
        turn = self._turns.setdefault(session_id, asyncio.Lock())
        async with turn:
            size, content = await asyncio.to_thread(lambda: pack_text(frozen.text(), what))
            now = int(await self._learn_time() * 1e6)
            statement = _load_statements().save_session(
                session_id, now, size, content, revision=revision, revisions=revisions
            )
            (done,) = await self._database.execute(KEEPING, statement)
        return bool(done.changed)

    async def load(self, session_id: str) -> dict[str, Any] | None:
        """What was kept last, a new value each time; None: nothing.

        Raises:
            SessionError: The id is none, or what is kept is damaged.
            RecordsUnavailableError: The database does not answer.
        """
        check_session_id(session_id)
        what = f"the session {session_id!r}"
        # Its open requests say when they expire.
        await self._learn_time()
        async with self._database.asked(KEEPING) as reader:
            (rows,) = await reader.rows(
                _load_statements().select_session(session_id), failing=KEEPING
            )
        if not rows:
            return None
        found = await asyncio.to_thread(unpack_value, rows[0][0], what, session_id)
        if not isinstance(found, dict):
            raise damage_error(what, session_id, "it is no object")
        return found

    async def list(self, limit: int = 100, offset: int = 0) -> Sequence[SessionInfo]:
        """The conversations that are kept, the last saved first.

        Raises:
            ConfigurationError: A limit or offset below 0.
            RecordsUnavailableError: The database does not answer.
        """
        check_page(limit, offset)
        now = await self._learn_time()
        async with self._database.asked(KEEPING) as reader:
            (rows,) = await reader.rows(
                _load_statements().select_sessions(limit, offset, now), failing=KEEPING
            )
        return [_info_of(row) for row in rows]

    async def delete(self, session_id: str) -> bool:
        """Forgets a conversation, its open requests and remembered decisions; False: none.

        Raises:
            SessionError: The id is none.
            RecordsUnavailableError: The database does not answer; nothing of it is forgotten.
        """
        check_session_id(session_id)
        now = await self._learn_time()
        turn = self._turns.setdefault(session_id, asyncio.Lock())
        async with turn:
            steps = _load_statements().remove_sessions([session_id], now)
            done = await self._database.execute(KEEPING, *steps)
        return any(each.changed for each in done)

    async def prune(self, max_age: float) -> int:
        """Removes the conversations that were saved last longer ago than `max_age` seconds.

        Those about which a person is being asked stay. Records of calls stay in any case.

        Raises:
            RecordsUnavailableError: The database does not answer.
        """
        from tool_engine.knowledge.sql.retention import prune_sessions

        now = await self._learn_time()
        async with self._database.asked(KEEPING) as reader:
            return await prune_sessions(reader, max_age, now)

    async def _learn_time(self) -> float:
        """Return the time that those agree on who ask for consent, Unix time in seconds."""
        await self._database.clock.learn_time_once()
        return self._database.clock.read_seconds()


def _info_of(row: Sequence[Any]) -> SessionInfo:
    session_id, created, updated, size, pending = row
    try:
        check_session_id(session_id)
        check_values((("created_at", created), ("updated_at", updated), ("size", size)), _NUMBERS)
        return SessionInfo(
            session_id=session_id,
            created_at=date_of(created),
            updated_at=date_of(updated),
            size=size,
            pending_approvals=pending,
        )
    except (*DAMAGE, SessionError) as error:
        what = f"the session {session_id!r} (a row of tool_sessions)"
        raise damage_error(what, session_id, str(error)) from error


_NUMBERS: Final = dict.fromkeys(("created_at", "updated_at", "size"), INTEGER)


def _load_statements() -> Any:
    from tool_engine.knowledge.sql import session_statements

    return session_statements
