"""How is a conversation saved and restored?"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final, NamedTuple, TypeGuard, TypeVar

import msgspec

from tool_engine.approval.book import ApprovalBook
from tool_engine.errors import (
    SessionConflictError,
    SessionError,
    ToolEngineError,
)
from tool_engine.interfaces import Approver, SessionStorage, ToolSource
from tool_engine.model.checks.field_types import convert_value
from tool_engine.model.json.unpacking import without_collection
from tool_engine.model.session import check_session_id, revision_of
from tool_engine.session.calling import SessionCalls
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.deferral import Deferred
from tool_engine.session.parts import SessionParts
from tool_engine.session.session_storage import check_arguments, check_storage, load_data, save_data
from tool_engine.session.variables.labels import UNKNOWN
from tool_engine.session.variables.store import VariableStore
from tool_engine.sources.moving import Moves, sources_of

_Made = TypeVar("_Made")
_MOST_UNKNOWN: Final = 64
"""The most saves in a row with an unknown outcome that are remembered."""


class _Code(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The names of code that must be registered again after a restore."""

    tools: list[str]
    groups: list[str]
    """The session's own groups whose rules a function makes."""


class KeptSession(msgspec.Struct, forbid_unknown_fields=True):
    """What is kept of a session."""

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


class Restored(NamedTuple):
    """What was kept of a session, to make it again."""

    kept: KeptSession
    variables: VariableStore

    def make(
        self,
        kind: Callable[..., _Made],
        engine: ToolSource,
        approver: Approver | None,
        **options: Any,
    ) -> _Made:
        """Return a new session with its ids, settings and variables.

        Raises:
            SessionError: It cannot be made of this.
            ConfigurationError: Not with these arguments, which are no part of it.
        """
        kept = self.kept
        with _translate_errors():
            config = ToolCallConfig.from_dict(kept.config)
            for each in (kept.session_id, kept.agent_id, kept.conversation_id):
                check_session_id(each)
        return kind(
            engine,
            kept.session_id,
            config,
            approver,
            agent_id=kept.agent_id,
            conversation_id=kept.conversation_id,
            variables=self.variables,
            **options,
        )


class SessionState:
    """The state of one session, to save and to restore it."""

    def __init__(self, parts: SessionParts, calls: SessionCalls) -> None:
        self._caller = parts.caller
        self._tools = parts.tools
        self._calls = calls
        self._variables = parts.variables
        self._read_labels = parts.read_labels
        self._gate = parts.gate
        self._meter = parts.meter
        self._guard = parts.guard
        self._results = parts.results
        self._deferred = parts.deferred
        self._code = _Code([], [])
        """The code that it had when it was saved."""
        self.children = 0
        """The number of helpers without a name of their own so far."""
        self.revisions: tuple[str, ...] = ()
        """The revisions that the storage may hold: the state that the session continues, then those
        of saves with an unknown outcome.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return the whole conversation as JSON values."""
        with without_collection():
            state = self._collect_state(is_shared=False)
            state["approvals"] = _with_lists(state["approvals"])
        return state

    def _collect_state(self, *, is_shared: bool = True) -> dict[str, Any]:
        """Return the same with tuples; if it is shared, with kept values."""
        caller, deferred = self._caller, self._deferred
        return {
            "session_id": caller.session_id,
            "agent_id": caller.agent_id,
            "conversation_id": caller.conversation_id,
            "config": self._tools.config.to_dict(),
            "toolbox": _with_lists(self._tools.toolbox.to_dict()),
            "variables": self._variables.to_dict(is_shared=is_shared),
            "approvals": self._gate.book.to_dict(),
            "meter": self._meter.to_dict(),
            "guard": _with_lists(self._guard.to_dict()),
            "calls": self._calls.number,
            "news": list(self._calls.news),
            "deferred": {token: sorted(each.labels) for token, each in deferred.items()},
            "deferred_names": {
                token: each.tool_name
                for token, each in deferred.items()
                if each.tool_name is not None
            },
            "revision": self.revisions[0] if self.revisions else None,
            "children": self.children,
            "turn": self._tools.toolbox.turn,
            "withheld": self._results.withheld,
            "shown": self._results.shown,
            "code": msgspec.to_builtins(self._list_code()),
            "sources": sources_of(self._tools.source),
            "read": sorted(self._read_labels.labels),
        }

    def restore(self, kept: KeptSession) -> None:
        """Take over the rest of what was kept.

        Raises:
            SessionError: A part of it is not what was written.
        """
        with _translate_errors():
            self._restore_parts(kept)

    def _restore_parts(self, kept: KeptSession) -> None:
        toolbox, book = self._tools.toolbox, self._gate.book
        toolbox.restore(kept.toolbox)
        self._gate.book = ApprovalBook.from_dict(
            kept.approvals, storage=book.storage, find_desk=book.find_desk
        )
        self._meter.restore(kept.meter)
        self._guard.restore(kept.guard)
        self._calls.number = kept.calls
        self._deferred.clear()
        for token, labels in kept.deferred.items():
            self._deferred[token] = Deferred(labels, kept.deferred_names.get(token))
        self._calls.news = kept.news
        self.revisions = () if kept.revision is None else (kept.revision,)
        self.children = kept.children
        toolbox.turn = kept.turn
        for call_id in kept.withheld:
            self._results.withhold(call_id)
        for call_id, labels in kept.shown.items():
            self._results.note(call_id, labels)
        self._code = kept.code
        self._read_labels.note(_find_labels_read(kept, self._variables))

    def _list_code(self) -> _Code:
        made = [each.name for each in self._tools.toolbox.groups() if each.is_own and each.rules]
        return _Code(
            sorted({*self._tools.registered, *self._code.tools}),
            sorted({*made, *self._code.groups}),
        )

    def describe_left_out(self) -> list[str]:
        """Return a sentence for each tool or group to register again."""
        made = {each.name for each in self._tools.toolbox.groups() if each.rules}
        return [
            *(
                f"the tool {name!r} was the conversation's own when it was saved: register it again"
                for name in self._code.tools
                if name not in self._tools.registered
            ),
            *(
                f"a function made the rules of the group {name!r} when the conversation was saved: "
                "register the group again"
                for name in self._code.groups
                if name not in made
            ),
        ]

    async def save(
        self, storage: SessionStorage, more: dict[str, Any], as_id: str | None, *, overwrite: bool
    ) -> None:
        """Save the conversation; see `ToolSession.save`."""
        own_id = self._caller.session_id
        if as_id is not None and as_id != own_id:
            await self._save_copy(storage, more, as_id, overwrite=overwrite)
            return
        known = self.revisions
        revision = secrets.token_hex(8)
        # Until the storage has answered, it may hold this revision.
        self.revisions = (*known[:1], *known[1:][-_MOST_UNKNOWN:], revision)
        data = {**self._collect_state(), "more": more, "revision": revision}
        if not await save_data(storage, own_id, data, known, overwrite=overwrite):
            self.revisions = tuple(each for each in self.revisions if each != revision)
            raise SessionConflictError(_describe_conflict(own_id, is_new=not known))
        if revision in self.revisions:
            self.revisions = self.revisions[self.revisions.index(revision) :]

    async def _save_copy(
        self, storage: SessionStorage, more: dict[str, Any], as_id: str, *, overwrite: bool
    ) -> None:
        check_session_id(as_id)
        data = {**self._collect_state(), "more": more, "revision": secrets.token_hex(8)}
        data["session_id"] = as_id
        data["approvals"] = {**data["approvals"], "session_id": as_id}
        if not await save_data(storage, as_id, data, (), overwrite=overwrite):
            raise SessionConflictError(_describe_conflict(as_id, is_new=True))

    async def is_behind(self, storage: SessionStorage) -> bool:
        """Return True if another session object has saved the conversation."""
        found = await load_data(storage, self._caller.session_id)
        return found is not None and revision_of(found) not in self.revisions


def read_session(
    data: Mapping[str, Any], engine: ToolSource, approver: object, options: Mapping[str, Any]
) -> Restored:
    """Read what `to_dict` wrote, for a session that is made with these arguments.

    Raises:
        SessionError: The data is something else; the message names the place.
        ConfigurationError: As for `check_arguments`.
    """
    if not isinstance(data, Mapping):
        raise SessionError(
            "data must be what to_dict() gave, and the engine comes after it, got "
            f"{type(data).__name__}"
        )
    source, _ = check_arguments(engine, approver, options)
    with _translate_errors():
        return _read_kept(data, sources_of(source))


async def load_session(
    session_id: str, engine: ToolSource, approver: object, options: Mapping[str, Any]
) -> Restored | None:
    """Load what is kept under an id; None: nothing.

    Raises:
        ConfigurationError: As for `check_arguments`.
        SessionError: There is no storage, or it gave no session, or that of another id.
        RecordsUnavailableError: The storage failed.
    """
    check_session_id(session_id)
    source, storage = check_arguments(engine, approver, options)
    data = await load_data(check_storage(storage), session_id)
    if data is None:
        return None
    # Of a large conversation each value is looked at.
    sources = sources_of(source)
    with _translate_errors():
        restored = await asyncio.to_thread(_read_aside, data, sources)
    kept_id = restored.kept.session_id
    if kept_id != session_id:
        raise SessionError(
            f"what is kept under the id {session_id!r} is the session {kept_id!r}: save it under "
            "its own id, or use from_dict"
        )
    return restored


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise any fault in what is kept as one kind of error."""
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


def _read_kept(data: Mapping[str, Any], sources: list[str], *, in_pieces: bool = False) -> Restored:
    """Return what `to_dict` wrote, for a conversation that has these engines."""
    kept = _adapt_sources(convert_value(dict(data), KeptSession), sources)
    return Restored(kept, VariableStore.from_dict(kept.variables, in_pieces=in_pieces))


def _read_aside(data: Mapping[str, Any], sources: list[str]) -> Restored:
    """Do the same in a thread, while the loop runs on."""
    with without_collection():
        return _read_kept(data, sources, in_pieces=True)


def _adapt_sources(kept: KeptSession, sources: list[str]) -> KeptSession:
    """Return the state adapted to engines in another order, or others."""
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


def _find_labels_read(kept: KeptSession, variables: VariableStore) -> frozenset[str]:
    """Return the labels of what the model has read."""
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


def _describe_conflict(session_id: str, *, is_new: bool) -> str:
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
