"""How are conversations kept when nothing but memory is configured?"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from tool_engine.knowledge.frozen_session import Frozen, read_in_pieces, run_aside
from tool_engine.knowledge.memory_approvals import MemoryApprovalStorage
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.checks.known_fields import KnownArguments
from tool_engine.model.checks.setting_kinds import check_object
from tool_engine.model.json.copying import copied_whole
from tool_engine.model.session import SessionInfo, check_page, check_session_id, revision_of

_MAX_BYTES: Final = 268_435_456


class _Kept(msgspec.Struct):
    """One conversation."""

    info: SessionInfo
    text: str
    revision: str


@copied_whole
class MemorySessionStorage(KnownArguments):
    """Keeps the conversations that were saved last in memory; the others go.

    Args:
        max_sessions: The most conversations that are kept.
        max_bytes: About the most bytes that they take; the one that was saved last always stays.
        approvals: Where their requests and decisions are, which go with them.

    Raises:
        ConfigurationError: A bound that is not a whole number of 1 or more, or `approvals` is
            something else.

    Example:
        >>> storage = MemorySessionStorage(max_sessions=100)
        >>> await storage.save("chat-1", {"messages": []})
    """

    def __init__(
        self,
        max_sessions: int = 1_000,
        *,
        max_bytes: int = _MAX_BYTES,
        approvals: MemoryApprovalStorage | None = None,
    ) -> None:
        check_count("max_sessions", max_sessions, minimum=1)
        check_count("max_bytes", max_bytes, minimum=1)
        if approvals is not None:
            check_object("approvals", approvals, MemoryApprovalStorage, "MemoryApprovalStorage()")
        self.max_sessions = max_sessions
        self.max_bytes = max_bytes
        self.dropped = 0
        """Conversations that had to go since the storage was made."""
        self.approvals = MemoryApprovalStorage() if approvals is None else approvals
        """Their requests and decisions."""
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0
        # The later save stays, however long the one before takes to be written.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __getstate__(self) -> dict[str, Any]:
        # The turns are of saves that are going on here, and of none in a copy.
        return {name: value for name, value in vars(self).items() if name != "_turns"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _turns=WeakValueDictionary())

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        kept = f"{len(self._kept)}/{self.max_sessions} kept"
        return f"<MemorySessionStorage {kept}, {self.dropped} dropped>"

    async def save(self, session_id: str, data: dict[str, Any]) -> None:
        """Keeps what a conversation came to, in the place of what was kept before.

        What is changed in `data` after the call began is not kept. Of several saves the one that
        began last stays.

        Raises:
            SessionError: The id is none, or the data hold something that is no JSON value.
        """
        await self._save_session(session_id, data, None)

    async def save_if(
        self, session_id: str, data: dict[str, Any], revisions: Collection[str]
    ) -> bool:
        """As `save`, if what is kept has one of these revisions, or if nothing is kept.

        Raises:
            SessionError: As for `save`.
        """
        return await self._save_session(session_id, data, tuple(revisions))

    async def _save_session(
        self, session_id: str, data: dict[str, Any], revisions: Collection[str] | None
    ) -> bool:
        frozen = Frozen(data, f"the session {check_session_id(session_id)!r}")
        revision = revision_of(data)
        async with self._turn_of(session_id):
            text = await run_aside(frozen.size, frozen.text)
            found = self._kept.get(session_id)
            if revisions is not None and found is not None and found.revision not in revisions:
                return False
            self._keep_text(session_id, text, revision)
        return True

    def _turn_of(self, session_id: str) -> asyncio.Lock:
        return self._turns.setdefault(session_id, asyncio.Lock())

    def _keep_text(self, session_id: str, text: str, revision: str) -> None:
        now = datetime.now(UTC)
        before = self._take_kept(session_id)
        created = now if before is None else before.info.created_at
        info = SessionInfo(
            session_id=session_id, created_at=created, updated_at=now, size=len(text)
        )
        self._kept[session_id] = _Kept(info, text, revision)
        self._bytes += len(text)
        while len(self._kept) > 1 and self._is_over:
            self._take_kept(next(iter(self._kept)))
            self.dropped += 1

    async def load(self, session_id: str) -> dict[str, Any] | None:
        """What was kept last, a new value each time; None: nothing."""
        found = self._kept.get(check_session_id(session_id))
        if found is None:
            return None
        loaded: dict[str, Any] = await run_aside(
            len(found.text), lambda: read_in_pieces(found.text)
        )
        return loaded

    async def list(self, limit: int = 100, offset: int = 0) -> Sequence[SessionInfo]:
        """The conversations that are kept, the last saved first.

        Raises:
            ConfigurationError: A limit or offset below 0.
        """
        check_page(limit, offset)
        infos = [each.info for each in reversed(self._kept.values())][offset : offset + limit]
        return [
            msgspec.structs.replace(
                each, pending_approvals=len(await self.approvals.pending(each.session_id))
            )
            for each in infos
        ]

    async def delete(self, session_id: str) -> bool:
        """Forgets a conversation, its open requests and remembered decisions; False: none."""
        check_session_id(session_id)
        async with self._turn_of(session_id):
            is_kept = self._take_kept(session_id) is not None
        forgotten = await self.approvals.forget(session_id)
        return bool(self.approvals.drop(session_id) + forgotten) or is_kept

    @property
    def _is_over(self) -> bool:
        return len(self._kept) > self.max_sessions or self._bytes > self.max_bytes

    def _take_kept(self, session_id: str) -> _Kept | None:
        found = self._kept.pop(session_id, None)
        if found is not None:
            self._bytes -= len(found.text)
        return found
