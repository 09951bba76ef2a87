"""How does the program that serves an engine see and answer its open requests?"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from tool_engine.approval.answers import Answer, decision_from
from tool_engine.approval.queued import QueueApprover
from tool_engine.errors import ApprovalError, EngineClosedError, SessionError
from tool_engine.interfaces import ApprovalStorage, Approver, CallScope, Front, Source
from tool_engine.interfaces.failing_storage import ask_for_all, ask_for_one, ask_storage
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest, StandingDecision
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType
from tool_engine.model.json.copying import refuse_copying
from tool_engine.sources.identity import engine_text, engine_texts

if TYPE_CHECKING:
    from tool_engine.approval.book import ApprovalBook

_KIND: Final = "approval"
_KEPT: Final = "tool_engine.approval.kept"
"""Loaded by name: most engines have no other process that answers."""


class ApprovalAnswer(NamedTuple):
    """What came of an answer to a request."""

    request: ApprovalRequest
    decision: ApprovalDecision
    result: Any = None
    """How the call ended that went on with the answer; None: a call waited for it, and its own
    caller gets the result."""


class _Found(NamedTuple):
    request: ApprovalRequest
    is_waiting: bool
    book: ApprovalBook | None
    session: Any
    """The session of this process that can go on with the call; None: there is none."""
    storage: ApprovalStorage | None = None
    """Where it is kept; None: in this process alone."""


@refuse_copying("take that of another engine")
class EngineApprovals:
    """The open requests of one engine, for the program that serves it: `engine.approvals`.

    Args:
        engine: The engine.
        bus: Where it publishes its events.
        require_open: Raises `EngineClosedError` where it cannot be used.
        ask_here: Sets who is asked about the calls of no session.

    Example:
        >>> for request in await engine.approvals.pending():
        ...     await engine.approvals.answer(request.token, True, by="ann")
    """

    def __init__(
        self,
        engine: Any,
        bus: Any,
        require_open: Callable[[], None],
        ask_here: Callable[[CallScope], None],
    ) -> None:
        self._engine = engine
        self._bus = bus
        self._require_open = require_open
        self._ask_here = ask_here
        self.own_book: ApprovalBook | None = None
        """The questions about calls of no session; None: those are refused."""
        self._front: Front | None = None
        self._own_gate: Any = None
        """What lets questions wait here; None: they are refused, or the engine has an approver."""
        self._kept_questions: Any = None
        """What keeps the questions about calls of no session; None: they are in memory."""
        self._sessions: dict[int, weakref.ref[Any]] = {}

    def __repr__(self) -> str:
        return f"<EngineApprovals of {self._engine!r}>"

    # For the program.

    @property
    def is_shared(self) -> bool:
        """True if another process on the same database can answer what waits here."""
        return getattr(self._engine.store.approvals, "is_shared", False) is True

    def take_questions(self) -> None:
        """Let calls of no session that need consent wait for an answer here.

        Without it they are refused, where the engine has no approver; one that it has is asked on.
        Where the engine keeps its records in a database, other processes may answer, too.

        Raises:
            EngineClosedError: The engine is closed.
        """
        self._require_open()
        if self.own_book is None:
            kept = import_module(_KEPT) if self.is_shared else None
            storage = self._engine.store.approvals
            if kept is not None:
                self._kept_questions = kept.KeptQuestions(storage)
            self._own_gate = self.make_gate(self._kept_questions or QueueApprover())
            self._ask_here(self._own_gate)
            if self._front is not None:
                self._own_gate.put_in_front(self._front)

    def find_timekeeper(self) -> Any:
        """Return the storage whose time holds for questions; None: that of this program does."""
        return self._engine.store.approvals if self.is_shared else None

    def put_in_front(self, front: Front) -> None:
        """Ask `front` in place of the list, which it may pass a question on to.

        It is asked where `take_questions` lets calls wait, and never in place of an approver.
        """
        self._front = front
        if self._own_gate is not None:
            self._own_gate.put_in_front(front)

    def make_gate(self, approver: Approver) -> CallScope:
        """Return what asks an approver about the calls of no session."""
        # Loaded by name: most engines have no approver.
        gate = import_module("tool_engine.approval.gate")
        made: CallScope = gate.gate_of_engine(approver, self)
        return made

    async def pending(self, principal: str | None = None) -> list[ApprovalRequest]:
        """Return the open requests about this engine's tools, the oldest of each principal first.

        Principals take turns: what another one asks delays a request by one of its own. Those that
        calls in this process wait for, and those that were deferred, in any process that keeps
        them in the same database.

        Args:
            principal: Only those of calls that they are behind; None: all.

        Raises:
            EngineClosedError: The engine is closed.
            RecordsUnavailableError: What keeps requests does not answer.
        """
        found = [each.request for each in (await self._find_all()).values()]
        wanted = [each for each in found if principal in (None, each.principal)]
        asked: Counter[str] = Counter()
        turns: dict[str, int] = {}
        for each in sorted(wanted, key=lambda each: each.asked_at):
            turns[each.token] = asked[each.principal]
            asked[each.principal] += 1
        return sorted(wanted, key=lambda each: (turns[each.token], each.asked_at))

    async def get(self, token: str) -> ApprovalRequest | None:
        """Return the open request with this token; None: there is none.

        Raises:
            EngineClosedError: The engine is closed.
            RecordsUnavailableError: What keeps requests does not answer.
        """
        found = (await self._find_all()).get(token)
        return None if found is None else found.request

    async def answer(
        self, token: str, decision: Answer, *, by: str | None = None
    ) -> ApprovalAnswer:
        """Answer an open request; the first answer decides.

        A call that waits goes on by itself. One that was deferred goes on here, if its session
        lives in this process, and has ended when this returns.

        Args:
            token: The request's.
            decision: True, False, the reason of a refusal, or an `ApprovalDecision`.
            by: Who answers; None: what the decision says.

        Raises:
            ApprovalError: There is no such open request, the answer is none, or it cannot be given
                in this process: then the message says where, and the request stays open.
            RecordsUnavailableError: What keeps requests does not answer.
        """
        decided = decision_from(decision)
        if decided is None:
            raise ApprovalError("None is no answer: say True, False or the reason of a refusal")
        if by is not None:
            decided = replace(decided, by=by)
            decided.__post_init__()
        try:
            found = (await self._find_all()).get(token)
        except EngineClosedError as error:
            raise ApprovalError(str(error)) from error
        if found is None:
            raise ApprovalError(
                "no request of this engine waits under this token: it was answered, it expired, or "
                "its call ended"
            )
        request = found.request
        if found.is_waiting:
            waiting = None if found.book is None else found.book.waits.get(token)
            if waiting is None:
                raise ApprovalError(
                    f"the call of {request.tool_name!r} has just been answered or deferred: look "
                    "at the open requests again"
                )
            if found.storage is not None:
                await import_module(_KEPT).claim_question(found.storage, request)
            waiting.answer(decided)
            return ApprovalAnswer(request, decided)
        if request.is_waiting and found.storage is not None:
            await import_module(_KEPT).keep_answer(found.storage, request, decided)
            return ApprovalAnswer(request, decided)
        if found.session is None:
            raise ApprovalError(
                f"the session {request.session_id!r} that asks is not in this process: make it "
                "again with `ToolSession.restore(engine, session_id)` and answer once more, or use "
                f"`tool-engine sessions approve`; the request stays open"
            )
        return ApprovalAnswer(request, decided, await found.session.resume(token, decided))

    async def standing(self, principal: str | None = None) -> list[StandingDecision]:
        """Return the decisions on this engine's tools that hold until they are revoked.

        Args:
            principal: Only those that hold for them; None: all.

        Raises:
            EngineClosedError: The engine is closed.
            RecordsUnavailableError: What keeps them does not answer.
        """
        if (storage := self._find_open_storage()) is None:
            return []
        names = engine_texts(self._engine)
        kept = await ask_for_all(_KIND, storage, "list_standing", StandingDecision, principal)
        return [each for each in kept if each.engine in names]

    async def revoke(self, decision_id: str, *, by: str | None = None) -> bool:
        """Forget a standing decision: the next call is asked about again.

        Args:
            decision_id: As in `StandingDecision`.
            by: Who revokes it, for the event.

        Returns:
            Whether there was such a decision on a tool of this engine.

        Raises:
            EngineClosedError: The engine is closed.
            RecordsUnavailableError: What keeps them does not answer.
        """
        if (storage := self._find_open_storage()) is None:
            return False
        try:
            found = await self._read_standing(storage, decision_id)
        except SessionError:
            # What is damaged holds for no principal, and can go.
            found = None
        else:
            if not found or found[0].engine not in engine_texts(self._engine):
                return False
        if not await ask_storage(_KIND, storage, "revoke_standing", decision_id):
            return False
        facts = describe_standing(found[0]) if found else {"decision_id": decision_id}
        name = facts.pop("tool_name", None)
        self._tell_fact(ToolEngineEventType.DECISION_REVOKED, name, {**facts, "by": by})
        return True

    # For gates and sessions.

    @property
    def engine_text(self) -> str:
        """A key for the engine, the same in every process."""
        return engine_text(self._engine, self._engine)

    def watch(self, session: Any) -> None:
        """Include the requests of a session for as long as it lives."""
        key = id(session)
        sessions = self._sessions
        sessions[key] = weakref.ref(session, lambda _: sessions.pop(key, None))

    def tell_request(self, request: ApprovalRequest) -> None:
        """Publish that a person is asked."""
        self._publish_question(ToolEngineEventType.APPROVAL_REQUESTED, request)

    def tell_answer(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        """Publish what was answered."""
        said = {"is_approved": decision.is_approved, "by": decision.by}
        self._publish_question(ToolEngineEventType.APPROVAL_ANSWERED, request, **said)

    def tell_toggle(
        self, name: str, is_enabled: bool, *, is_group: bool, session_id: str, conversation_id: str
    ) -> None:
        """Publish that a conversation turned a tool or a group on or off."""
        facts = {
            "session_id": session_id,
            "conversation_id": conversation_id,
            "is_enabled": is_enabled,
        }
        if is_group:
            self._tell_fact(ToolEngineEventType.GROUP_TOGGLED, None, {"group": name, **facts})
        else:
            self._tell_fact(ToolEngineEventType.TOOL_TOGGLED, name, facts)

    async def keep_standing(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        """Keep a decision for the request's principal, whatever the conversation.

        Raises:
            ApprovalError: Nothing here can keep it.
            RecordsUnavailableError: It was not kept.
        """
        storage = self._find_storage()
        if storage is None:
            raise ApprovalError("the storage of approvals keeps no standing decisions")
        kept = await ask_for_one(
            _KIND, storage, "keep_standing", StandingDecision, request, decision
        )
        facts = describe_standing(kept) | {"is_approved": kept.is_approved, "by": kept.by}
        self._tell_fact(ToolEngineEventType.DECISION_KEPT, facts.pop("tool_name"), facts)

    async def find_standing(self, *decision_ids: str) -> ApprovalDecision | None:
        """Return the first of the decisions that holds, or None.

        Raises:
            SessionError: What is kept is damaged.
            RecordsUnavailableError: What keeps them does not answer.
        """
        storage = self._find_storage()
        if storage is None:
            return None
        found = await self._read_standing(storage, *decision_ids)
        return found[0].to_decision() if found else None

    async def _read_standing(self, storage: Any, *decision_ids: str) -> Any:
        return await ask_for_all(
            _KIND, storage, "find_standing", StandingDecision, list(decision_ids)
        )

    def _find_open_storage(self) -> Any:
        self._require_open()
        return self._find_storage()

    def _find_storage(self) -> Any:
        storage = self._engine.store.approvals
        return storage if hasattr(storage, "find_standing") else None

    def _tell_fact(
        self, event_type: ToolEngineEventType, name: str | None, facts: dict[str, Any]
    ) -> None:
        if self._bus.listens_to(event_type):
            self._bus.publish(ToolEngineEvent(event_type, name, data=facts))

    def _publish_question(
        self, event_type: ToolEngineEventType, request: ApprovalRequest, **more: Any
    ) -> None:
        if self._bus.listens_to(event_type):
            data = {
                "kind": request.kind,
                "session_id": request.session_id,
                "conversation_id": request.conversation_id or None,
                "principal": request.principal or None,
                **more,
            }
            # Without the token: who has it may answer.
            name, call_id = request.tool_name, request.call_id or None
            self._bus.publish(ToolEngineEvent(event_type, name, call_id=call_id, data=data))

    # Finding.

    async def _find_all(self) -> dict[str, _Found]:
        self._require_open()
        names = engine_texts(self._engine) | {""}
        found: dict[str, _Found] = {}
        sessions = [each for ref in list(self._sessions.values()) if (each := ref()) is not None]
        storages: dict[int, ApprovalStorage] = {}
        books = [(self.own_book, None)] if self.own_book is not None else []
        books += [(each.book, each) for each in sessions]
        for storage in (self._engine.store.approvals, *(book.storage for book, _ in books)):
            if storage is not None:
                storages[id(storage)] = storage
        kept = {
            key: {each.token: each for each in await self._list_kept(storage)}
            for key, storage in storages.items()
        }
        places = {token: storages[key] for key, requests in kept.items() for token in requests}
        asked = frozenset() if self._kept_questions is None else self._kept_questions.tokens
        for book, session in books:
            in_storage = kept.get(id(book.storage), {})
            for request, is_waiting in book.list_open():
                if is_waiting and request.token in asked and request.token not in places:
                    # Another process has answered, and its call has not read that yet.
                    continue
                # A deferred one that the storage does not have was answered elsewhere.
                is_open = is_waiting or book.storage is None or book.is_brought(request.token)
                is_here = is_waiting or session is not None
                if is_here and (is_open or request.token in in_storage):
                    place = places.get(request.token)
                    found[request.token] = _Found(request, is_waiting, book, session, place)
        by_id = {each.session_id: each for each in sessions}
        for each in (each for requests in kept.values() for each in requests.values()):
            if each.token not in found:
                place, session = places[each.token], by_id.get(each.session_id)
                found[each.token] = _Found(each, False, None, session, place)
        return {token: each for token, each in found.items() if each.request.engine in names}

    async def _list_kept(self, storage: ApprovalStorage) -> Any:
        return await ask_for_all(_KIND, storage, "pending", ApprovalRequest)


def describe_standing(standing: StandingDecision) -> dict[str, Any]:
    """Return what an event says of a standing decision, with the name of its tool."""
    return {
        "tool_name": standing.tool_name,
        "decision_id": standing.decision_id,
        "principal": standing.principal,
        "always": "tool" if standing.params is None else "call",
    }


def find_desk(source: Source, engine: str) -> EngineApprovals | None:
    """Return the approvals of the engine with this key; empty: of the first engine.

    Args:
        source: What a conversation has its tools from.
        engine: As in `ApprovalRequest.engine`.
    """
    for each in source.list_origins():
        if not engine or engine_text(source, each) == engine:
            found = getattr(each, "approvals", None)
            return found if isinstance(found, EngineApprovals) else None
    return None


def tell_toggle(
    source: Source, name: str, is_enabled: bool, *, is_group: bool, **conversation: str
) -> None:
    """Publish that a conversation turned a tool or a group on or off, where its engines are.

    Args:
        source: What the conversation has its tools from.
        name: The tool, or the group.
        is_enabled: Whether it is on now.
        is_group: Whether it is a group.
        conversation: `session_id` and `conversation_id`.
    """
    owner, own_name = source.find_origin(name)
    engines = source.list_origins()
    # A tool of the conversation alone belongs to no engine.
    owners = engines if is_group or owner not in engines else [owner]
    for each in owners:
        found = getattr(each, "approvals", None)
        if isinstance(found, EngineApprovals):
            said = name if is_group else own_name
            found.tell_toggle(said, is_enabled, is_group=is_group, **conversation)


def watch_session(source: Source, session: Any) -> None:
    """Include the requests of a session in the approvals of all its engines."""
    for each in source.list_origins():
        found = getattr(each, "approvals", None)
        if isinstance(found, EngineApprovals):
            found.watch(session)
