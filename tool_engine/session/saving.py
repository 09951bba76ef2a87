"""How is a conversation saved and restored?"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final, Self, TypeGuard

import msgspec

from tool_engine.approval.book import ApprovalBook
from tool_engine.errors import SessionConflictError, SessionError, ToolEngineError
from tool_engine.interfaces import Approver, SessionStorage, ToolSource
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.json.unpacking import without_collection
from tool_engine.model.session import check_session_id, revision_of
from tool_engine.session.calling import SessionCalls
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.parts import find_storage
from tool_engine.session.state import Deferred, SessionState
from tool_engine.session.storing import load_data, save_data
from tool_engine.session.variables.read_labels import UNKNOWN
from tool_engine.session.variables.store import VariableStore
from tool_engine.sources.foreign import as_source
from tool_engine.sources.moving import Moves, sources_of

_MOST_UNKNOWN: Final = 64
"""The most saves in a row with an unknown outcome that are remembered."""
_NOWHERE: Final = "nothing keeps sessions here: pass storage=..., or an engine"


class _Code(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The names of code that must be registered again after a restore."""

    tools: list[str]
    groups: list[str]
    """The session's own groups whose rules a function makes."""


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
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
    revision: str | None = ""
    children: Annotated[int, msgspec.Meta(ge=0)] = 0
    turn: Annotated[int, msgspec.Meta(ge=0)] = 0
    withheld: list[str] = []
    shown: dict[str, frozenset[str]] = {}
    code: _Code = msgspec.field(default_factory=lambda: _Code([], []))
    sources: list[str] = []
    read: Any = None
    """The labels of what the model has read; where they are missing or damaged, all that there are
    count.
    """


class SavedSession(SessionState):
    """The part of a session that saves and restores it."""

    calls: SessionCalls
    children: int = 0
    """The number of helpers without a name of their own so far."""
    _code = _Code([], [])
    """The code that it had when it was saved."""
    revisions: tuple[str, ...] = ()
    """The revisions that the storage may hold: the state that the session continues, then those
    of saves with an unknown outcome.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return the whole conversation as JSON values, for `from_dict`.

        Functions and tools registered in code are left out: pass them again. The arguments of open
        requests for approval are in it, secret ones too.
        """
        with without_collection():
            state = self._state(is_shared=False)
            state["approvals"] = _with_lists(state["approvals"])
        return state

    def _state(self, *, is_shared: bool = True) -> dict[str, Any]:
        """The same with tuples and, if it is shared, with the values themselves that are kept."""
        deferred = self.deferred
        return {
            "session_id": self.session_id,
            "agent_id": self.agent_id,
            "conversation_id": self.conversation_id,
            "config": self.toolbox.config.to_dict(),
            "toolbox": _with_lists(self.toolbox.to_dict()),
            "variables": self.variables.to_dict(is_shared=is_shared),
            "approvals": self.gate.book.to_dict(),
            "meter": self.meter.to_dict(),
            "guard": _with_lists(self.guard.to_dict()),
            "calls": self.calls.number,
            "news": list(self.calls.news),
            "deferred": {token: sorted(each.labels) for token, each in deferred.items()},
            "deferred_names": {
                token: each.tool_name
                for token, each in deferred.items()
                if each.tool_name is not None
            },
            "revision": self.revisions[0] if self.revisions else None,
            "children": self.children,
            "turn": self.toolbox.turn,
            "withheld": self.results.withheld,
            "shown": self.results.shown,
            "code": msgspec.to_builtins(self._with_code()),
            "sources": sources_of(self.source),
            "read": sorted(self.read_labels.labels),
        }

    def _take_up(self, kept: _Kept) -> None:
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
        self.revisions = () if kept.revision is None else (kept.revision,)
        self.children = kept.children
        self.toolbox.turn = kept.turn
        for call_id in kept.withheld:
            self.results.withhold(call_id)
        for call_id, labels in kept.shown.items():
            self.results.note(call_id, labels)
        self._code = kept.code
        self.read_labels.note(_labels_read(kept, self.variables))

    def _with_code(self) -> _Code:
        made = [each.name for each in self.toolbox.groups() if each.is_own and each.rules]
        return _Code(
            sorted({*self.own_tools, *self._code.tools}),
            sorted({*made, *self._code.groups}),
        )

    def left_out(self) -> list[str]:
        """Return the tools and groups that must still be registered again."""
        made = {each.name for each in self.toolbox.groups() if each.rules}
        return [
            *(
                f"the tool {name!r} was the conversation's own when it was saved: register it again"
                for name in self._code.tools
                if name not in self.own_tools
            ),
            *(
                f"a function made the rules of the group {name!r} when the conversation was saved: "
                "register the group again"
                for name in self._code.groups
                if name not in made
            ),
        ]

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        engine: ToolSource,
        approver: Approver | None = None,
        **options: Any,
    ) -> Self:
        """Make the conversation that `to_dict` wrote, in any process.

        Args:
            data: What it wrote.
            engine: As for a new session.
            approver: As for a new session.
            options: The other arguments of a new session that are no data.

        Raises:
            SessionError: The data is not what `to_dict` writes; the message names the place.
        """
        if not isinstance(data, Mapping):
            raise SessionError(
                "data must be what to_dict() gave, and the engine comes after it, got "
                f"{type(data).__name__}"
            )
        with _telling():
            read = _read(data, sources_of(as_source(engine)))
        return cls._made(*read, engine, approver, **options)

    @classmethod
    def _made(
        cls,
        kept: _Kept,
        variables: VariableStore,
        engine: ToolSource,
        approver: Approver | None,
        **options: Any,
    ) -> Self:
        with _telling():
            session = cls(
                engine,
                kept.session_id,
                ToolCallConfig.from_dict(kept.config),
                approver,
                agent_id=kept.agent_id,
                conversation_id=kept.conversation_id,
                variables=variables,
                **options,
            )
            session._take_up(kept)
        return session

    async def save(
        self,
        more: Mapping[str, Any] | None = None,
        *,
        as_id: str | None = None,
        overwrite: bool = False,
    ) -> None:
        """Save the conversation in its storage, over the state that it continues.

        A save by another session object meanwhile, in any process, is kept: of two that continue
        one state, the first to save wins, and the other one gets an error.

        Args:
            more: What else belongs to it, such as the messages: JSON values, for `session.more`.
            as_id: Keeps a copy under this id, of which nothing may be kept yet; the session itself
                stays what it is.
            overwrite: Replace what is kept, whichever process saved it.

        Raises:
            SessionConflictError: Another session object has saved it; nothing was kept.
            SessionError: There is no storage, or something is no JSON value.
            RecordsUnavailableError: The storage failed, or its database does not answer.
            ConfigurationError: `overwrite` is neither True nor False.
        """
        check_switch("overwrite", overwrite)
        if self.storage is None:
            raise SessionError(_NOWHERE)
        self.more = dict(self.more if more is None else more)
        if as_id is not None and as_id != self.session_id:
            await self._save_copy(self.storage, as_id, overwrite=overwrite)
            return
        known = self.revisions
        revision = secrets.token_hex(8)
        # Until the storage has answered, it may hold this revision.
        self.revisions = (*known[:1], *known[1:][-_MOST_UNKNOWN:], revision)
        data = {**self._state(), "more": self.more, "revision": revision}
        if not await save_data(self.storage, self.session_id, data, known, overwrite=overwrite):
            self.revisions = tuple(each for each in self.revisions if each != revision)
            raise SessionConflictError(_conflict(self.session_id, is_new=not known))
        if revision in self.revisions:
            self.revisions = self.revisions[self.revisions.index(revision) :]

    async def is_behind(self) -> bool:
        """Return True if another session object has saved it, so that `save` would fail.

        Raises:
            SessionError: There is no storage, or what is kept is damaged.
            RecordsUnavailableError: The storage failed, or its database does not answer.
        """
        if self.storage is None:
            raise SessionError(_NOWHERE)
        found = await load_data(self.storage, self.session_id)
        return found is not None and revision_of(found) not in self.revisions

    async def _save_copy(self, storage: SessionStorage, as_id: str, *, overwrite: bool) -> None:
        check_session_id(as_id)
        data = {**self._state(), "more": self.more, "revision": secrets.token_hex(8)}
        data["session_id"] = as_id
        data["approvals"] = {**data["approvals"], "session_id": as_id}
        if not await save_data(storage, as_id, data, (), overwrite=overwrite):
            raise SessionConflictError(_conflict(as_id, is_new=True))

    @classmethod
    async def restore(
        cls, engine: ToolSource, session_id: str, approver: Approver | None = None, **options: Any
    ) -> Self | None:
        """Load the conversation that `save` kept; None: nothing is kept under this id.

        Args:
            engine: As for a new session.
            session_id: Which one.
            approver: As for a new session.
            options: The other arguments of a new session that are no data.

        Raises:
            SessionError: What is kept is no session, or there is no storage.
            RecordsUnavailableError: The storage failed, or its database does not answer.
        """
        storage = options.get("storage")
        if storage is None:
            storage = find_storage(as_source(engine), "sessions")
        if storage is None:
            raise SessionError(_NOWHERE)
        data = await load_data(storage, session_id)
        if data is None:
            return None
        # Of a large conversation each value is looked at.
        sources = sources_of(as_source(engine))
        with _telling():
            read = await asyncio.to_thread(_read_aside, data, sources)
        session = cls._made(*read, engine, approver, **options)
        if session.session_id != session_id:
            raise SessionError(
                f"what is kept under the id {session_id!r} is the session {session.session_id!r}: "
                "save it under its own id, or use from_dict"
            )
        return session


@contextmanager
def _telling() -> Iterator[None]:
    """Whatever is wrong with what is kept is told in one way."""
    try:
        yield
    except (
        msgspec.ValidationError,
        ToolEngineError,
        TypeError,
        ValueError,
        LookupError,
        RecursionError,
    ) as error:
        raise SessionError(f"this is no kept session: {error}") from error


def _read(
    data: Mapping[str, Any], sources: list[str], *, in_pieces: bool = False
) -> tuple[_Kept, VariableStore]:
    """What `to_dict` wrote, and its variables, for a conversation that has these engines."""
    kept = _in_place(msgspec.convert(dict(data), _Kept), sources)
    return kept, VariableStore.from_dict(kept.variables, in_pieces=in_pieces)


def _read_aside(data: Mapping[str, Any], sources: list[str]) -> tuple[_Kept, VariableStore]:
    """The same in a thread, so that the loop gets its turn meanwhile."""
    with without_collection():
        return _read(data, sources, in_pieces=True)


def _in_place(kept: _Kept, sources: list[str]) -> _Kept:
    """Return the state adapted to engines in another order, or to other engines."""
    moves = Moves(kept.sources, sources)
    if moves:
        kept.variables = moves.variables(kept.variables)
        kept.deferred = {token: moves.labels(each) for token, each in kept.deferred.items()}
        kept.shown = {call_id: moves.labels(each) for call_id, each in kept.shown.items()}
        if _are_labels(kept.read):
            kept.read = [*moves.labels(kept.read)]
        if isinstance(kept.meter.get("uses"), dict):
            kept.meter = {**kept.meter, "uses": moves.uses(kept.meter["uses"])}
    return kept


def _labels_read(kept: _Kept, variables: VariableStore) -> frozenset[str]:
    """Return the labels of what the model has read: as saved, or else all that a save holds."""
    if _are_labels(kept.read):
        return frozenset(kept.read)
    # Former versions saved no such labels, but those of what variables had held.
    traces = [each.get("labels") for each in kept.variables.get("traces", ())]
    lost = [frozenset(each if _are_labels(each) else (UNKNOWN,)) for each in traces]
    known = [*kept.shown.values(), *kept.deferred.values(), *(each.labels for each in variables)]
    return frozenset[str]().union(*known, *lost)


def _are_labels(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _with_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_lists(each) for key, each in value.items()}
    return [_with_lists(each) for each in value] if isinstance(value, list | tuple) else value


def _conflict(session_id: str, *, is_new: bool) -> str:
    if is_new:
        return (
            f"another session is kept under the id {session_id!r}, and stays: go on from it with "
            "restore(), choose another id, or take its place with save(overwrite=True)"
        )
    return (
        f"another session object has saved the session {session_id!r} since it was read here, "
        "and that stays: go on from there with restore(), keep this one under another id with "
        "save(as_id=...), or take its place with save(overwrite=True)"
    )
