"""Where are records, events, conversations and questions kept?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tool_engine.model.event import ToolEngineEvent
from tool_engine.model.record import KeptCall, RecordQuery, ToolCallRecord
from tool_engine.model.statistics import RecordTotals

if TYPE_CHECKING:
    from tool_engine.model.approval import ApprovalDecision, ApprovalRequest, StandingDecision
    from tool_engine.model.session import SessionInfo


class RecordStorage(Protocol):
    """Keeps finished calls.

    `add` is called on the path of every call: it never waits and never raises. It is given a
    `CallEntry`, which still holds secrets: `tool_engine.knowledge.entry.record_of` turns it into
    the record that may be written or shown; or a `ToolCallRecord` that was made elsewhere. A
    storage that holds resources has `async def open(self)`, for when the engine starts, and
    `async def close(self)`, which writes what is left. Without `async def statistics(self, query)`,
    which gives `CallStatistics` by names of tools that may be shown, the store loads the records to
    add them up. With `async def removed_until(self)` it says until when records were removed. With
    `async def prune(self, retention)` it lets old records go.
    """

    def add(self, kept: KeptCall) -> None:
        """Take one call."""

    async def query(self, query: RecordQuery) -> Sequence[ToolCallRecord]:
        """Return at most `limit` matching records after `offset`, newest first."""

    async def totals(self, query: RecordQuery) -> RecordTotals:
        """Return the totals of the matching records; limit and offset do not count."""


class EventLife(NamedTuple):
    """The numbers that one engine has given to events, from its opening to its end."""

    first: int
    last: int | None
    """None: it is at work, or it was killed, and which one was the last is not known."""


class EventStorage(Protocol):
    """Keeps events, so that they can be replayed.

    `append` is called where events are published, from any thread, in the order of their numbers:
    it never waits and never raises. A storage that has to be opened has `async def open(self)`,
    awaited when the engine is loaded; one that holds resources has `async def close(self)`, which
    writes what is left. One whose numbers go on after a restart has `goes_on = True`; with
    `first`, the number with which the present engine begins, `async def list_lives(self)`, which
    gives the `EventLife` of each other engine, lowest first, and
    `async def read_life(self, after, until, limit)`, which gives kept events with numbers above
    `after` up to `until`, lowest first, a reader is led through the events of other engines. One
    that finds the events of a call faster than by reading all has
    `async def read_call(self, call_id, limit)`, which gives at most `limit`, lowest first.
    """

    @property
    def newest(self) -> int | None:
        """Return the highest number given out, or 0; None: unknown."""

    def append(self, event: ToolEngineEvent) -> None:
        """Keep one event."""

    async def read(self, after: int, limit: int) -> Sequence[ToolEngineEvent]:
        """Return at most `limit` events with numbers above `after`, lowest first.

        Events that are not written yet are included. Raises `EventsExpiredError` where some are not
        kept any more, `ConfigurationError` where no event has the number `after` yet.
        """


class SessionStorage(Protocol):
    """Keeps conversations beyond the life of a process.

    One that several may write to has `async save_if(self, session_id, data, revisions) -> bool`,
    too: as `save`, in one step, if what is kept has under `"revision"` one of these texts (empty:
    none), or if nothing is kept; else False. Of one without it a session asks before it saves.
    """

    async def save(self, session_id: str, data: dict[str, Any]) -> None:
        """Save a conversation as JSON values, in place of what was kept before."""

    async def load(self, session_id: str) -> dict[str, Any] | None:
        """Return what was saved last, or None."""

    async def list(self, limit: int = 100, offset: int = 0) -> Sequence[SessionInfo]:
        """Return the kept conversations, the last saved first."""

    async def delete(self, session_id: str) -> bool:
        """Delete a conversation with its requests and decisions; False: there was none."""


class ApprovalStorage(Protocol):
    """Keeps requests for consent and their answers beyond a process's life.

    Secret arguments are kept only as far as their hash: a deferred request that has some can be
    answered where it was asked, and nowhere else. One that several processes share has
    `is_shared = True`: a call that waits in one of them can be answered in another. If their clocks
    may differ it has `read_clock() -> float`, the Unix time that all agree on, and
    `async learn_time()`, which asks for it. With `async renew(request)` it hears every two
    seconds that a call still waits, and may close what is not renewed: its process is gone.
    """

    async def put(self, request: ApprovalRequest) -> None:
        """Keep an open request; one that was closed stays closed."""

    async def claim(self, token: str) -> bool:
        """Close an open request; return True to exactly one caller in all processes.

        False for one that has expired.
        """

    async def pending(self, session_id: str | None = None) -> Sequence[ApprovalRequest]:
        """Return the open requests, oldest first; None: of every session."""

    async def remember(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        """Keep a decision for the same call of the same session."""

    async def remembered(self, session_id: str, fingerprint: str) -> ApprovalDecision | None:
        """Return the decision about a call with this `ApprovalRequest.fingerprint`."""

    async def forget(self, session_id: str) -> int:
        """Forget the decisions of a session, and return their number."""


class StandingStorage(Protocol):
    """What an `ApprovalStorage` also has where decisions hold beyond their conversation.

    One that lacks it keeps no such decision: the approver is asked again.
    """

    async def keep_standing(
        self, request: ApprovalRequest, decision: ApprovalDecision
    ) -> StandingDecision:
        """Keep a decision for the request's principal, in place of the one before.

        `decision.always` says whether for the same call, or for each call of its tool. Secret
        arguments are left out.
        """

    async def find_standing(self, decision_ids: Sequence[str]) -> Sequence[StandingDecision]:
        """Return the decisions with these ids, in this order; those that are not kept left out."""

    async def list_standing(self, principal: str | None = None) -> Sequence[StandingDecision]:
        """Return the decisions, oldest first; None: of every principal."""

    async def revoke_standing(self, decision_id: str) -> bool:
        """Forget a decision; False: there was none."""
