"""How does a conversation survive the process that it began in?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from tool_engine.approval.book import ApprovalBook
from tool_engine.errors import SessionError, ToolEngineError
from tool_engine.interfaces import Approver
from tool_engine.session.calling import SessionCalls
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.state import Deferred, SessionState
from tool_engine.session.tool_view import Source
from tool_engine.session.variables import VariableStore

__all__ = ["SavedSession"]


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    """What `to_dict` writes."""

    session_id: str
    agent_id: str
    conversation_id: str
    config: dict[str, Any]
    toolbox: dict[str, Any]
    variables: dict[str, Any]
    approvals: dict[str, Any]
    meter: dict[str, Any]
    guard: dict[str, Any]
    calls: int
    deferred: dict[str, frozenset[str]] = {}
    deferred_names: dict[str, str] = {}
    news: list[str] = []
    more: dict[str, Any] = {}


class SavedSession(SessionState):
    """The part of a session that keeps it."""

    calls: SessionCalls
    """What takes its calls through."""

    def to_dict(self) -> dict[str, Any]:
        """All that the conversation is, as JSON values: it goes on with `from_dict`.

        Functions and tools registered in code are left out: pass them again. The arguments of open
        requests for approval are in it, secret ones too.
        """
        deferred = self.deferred
        return {
            "session_id": self.session_id,
            "agent_id": self.agent_id,
            "conversation_id": self.conversation_id,
            "config": self.toolbox.config.to_dict(),
            "toolbox": self.toolbox.to_dict(),
            "variables": self.variables.to_dict(),
            "approvals": self.gate.book.to_dict(),
            "meter": self.meter.to_dict(),
            "guard": self.guard.to_dict(),
            "calls": self.calls.number,
            "news": list(self.calls.news),
            "deferred": {token: sorted(each.labels) for token, each in deferred.items()},
            "deferred_names": {
                token: each.tool_name
                for token, each in deferred.items()
                if each.tool_name is not None
            },
        }

    def _take_up(self, kept: _Kept) -> None:
        """Goes on from what `to_dict` wrote of a session like this."""
        self.toolbox.restore(kept.toolbox)
        self.gate.book = ApprovalBook.from_dict(kept.approvals, storage=self.gate.book.storage)
        self.meter.restore(kept.meter)
        self.guard.restore(kept.guard)
        self.calls.number = kept.calls
        self.deferred = {
            token: Deferred(labels, kept.deferred_names.get(token))
            for token, labels in kept.deferred.items()
        }
        self.calls.news = kept.news
        self.more = kept.more

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        engine: Source,
        approver: Approver | None = None,
        **options: Any,
    ) -> Self:
        """The conversation that `to_dict` wrote, in another process or at another time.

        Args:
            data: What it wrote.
            engine: As for a new session.
            approver: As for a new session.
            options: The other arguments of a new session that are no data.

        Raises:
            SessionError: The data is not what `to_dict` writes; the message names the place.
        """
        try:
            kept = msgspec.convert(dict(data), _Kept)
            session = cls(
                engine,
                kept.session_id,
                ToolCallConfig.from_dict(kept.config),
                approver,
                agent_id=kept.agent_id,
                conversation_id=kept.conversation_id,
                variables=VariableStore.from_dict(kept.variables),
                **options,
            )
            session._take_up(kept)
        except (msgspec.ValidationError, ToolEngineError, TypeError, ValueError) as error:
            raise SessionError(f"this is no kept session: {error}") from error
        return session

    async def save(self, more: Mapping[str, Any] | None = None) -> None:
        """Keeps the conversation in its storage, in the place of what was kept before.

        Args:
            more: What else belongs to it, such as the messages: JSON values, for `session.more`.

        Raises:
            SessionError: There is no storage.
            RecordsUnavailableError: The database does not answer.
        """
        if self.storage is None:
            raise SessionError("nothing keeps sessions here: pass storage=..., or an engine")
        self.more = dict(self.more if more is None else more)
        await self.storage.save(self.session_id, {**self.to_dict(), "more": self.more})

    @classmethod
    async def restore(
        cls, engine: Source, session_id: str, approver: Approver | None = None, **options: Any
    ) -> Self | None:
        """The conversation that `save` kept; None: nothing is kept under this id.

        Args:
            engine: As for a new session.
            session_id: Which one.
            approver: As for a new session.
            options: The other arguments of a new session that are no data.

        Raises:
            SessionError: What is kept is no session, or there is no storage.
            RecordsUnavailableError: The database does not answer.
        """
        storage = options.get("storage") or getattr(
            getattr(engine, "store", None), "sessions", None
        )
        if storage is None:
            raise SessionError("nothing keeps sessions here: pass storage=..., or an engine")
        data = await storage.load(session_id)
        return None if data is None else cls.from_dict(data, engine, approver, **options)
