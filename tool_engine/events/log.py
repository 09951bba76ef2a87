"""Which number does an event get, and where is it kept?"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import force_setattr, replace

from tool_engine.errors import ConfigurationError, EventsExpiredError
from tool_engine.interfaces import EventLife, EventStorage
from tool_engine.interfaces.checking import check_part
from tool_engine.interfaces.failing_storage import ask_for_all, ask_storage
from tool_engine.logger import get_logger
from tool_engine.model.checks.setting_kinds import check_function
from tool_engine.model.event import PASSING, ToolEngineEvent
from tool_engine.model.foreign import ends_caller
from tool_engine.redaction import OwnSecrets, secrets_if_known, words_of

_log: Final = get_logger(__name__)
_LOG_EVERY: Final = 100
_PAGE: Final = 1_000
"""Events that are looked through at once."""


class EventLog:
    """Numbers the events of one engine and passes them to its storage, if any.

    Args:
        storage: Where all events are kept; None: nowhere.
        generation: The number of the present tools, for events that do not say which they mean.
    """

    def __init__(
        self, storage: EventStorage | None = None, generation: Callable[[], int] | None = None
    ) -> None:
        if storage is not None:
            check_part("event_storage", storage, EventStorage)
        if generation is not None:
            check_function("generation", generation, "that returns a number")
        self.unkept = 0
        """Events that the storage refused, against its contract, or that came before it opened."""
        self._storage = storage
        self._generation = generation
        self.find_secrets: Callable[[ToolEngineEvent], OwnSecrets | None] = _know_none
        """Returns the secrets of an event's call; None: they are not known."""
        goes_on = getattr(storage, "goes_on", False)
        self.epoch = "" if goes_on else os.urandom(4).hex()
        """Whose numbers these are; empty: they go on after a restart."""
        self._sequence: int | None = 0 if storage is None else None

    def name_process(self, process: str) -> None:
        """Have kept events bear the name of this process, where the storage is shared."""
        if hasattr(self._storage, "process"):
            self._storage.process = process  # type: ignore[union-attr]

    @property
    def is_kept(self) -> bool:
        """True if there is a storage."""
        return self._storage is not None

    @property
    def sequence(self) -> int | None:
        """The number of the newest event; None until the storage says where numbers go on."""
        if self._sequence is None and self._storage is not None:
            self._sequence = self._storage.newest
        return self._sequence

    @property
    def first(self) -> int:
        """The number with which this engine begins, once the storage is open."""
        return getattr(self._storage, "first", 1)

    @property
    def has_lives(self) -> bool:
        """True if the storage has events of other engines, each with its own numbers."""
        return getattr(self._storage, "list_lives", None) is not None

    async def open(self) -> None:
        """Open the storage."""
        if getattr(self._storage, "open", None) is not None:
            await ask_storage("event", self._storage, "open")

    async def close(self) -> None:
        """Let the storage write what is left and release its resources."""
        if getattr(self._storage, "close", None) is not None:
            await ask_storage("event", self._storage, "close")

    def take(self, event: ToolEngineEvent) -> ToolEngineEvent:
        """Write the next number into the event, and keep it; for one thread at a time."""
        if event.sequence is not None:  # it was published before
            event = replace(event, sequence=None)
        if event.generation is None and self._generation is not None:
            force_setattr(event, "generation", self._generation())
        if event.event_type in PASSING:
            return event
        newest = self._sequence
        if newest is None and (newest := self.sequence) is None:
            self.unkept += 1
            return event
        self._sequence = newest + 1
        force_setattr(event, "sequence", newest + 1)
        if self._storage is not None:
            try:
                self._storage.append(event)
            except BaseException as error:  # a storage must not fail the call
                if ends_caller(error):
                    raise
                self._note_lost(event, error)
        return event

    def current(self) -> int:
        """Return the number of the newest event.

        Raises:
            ConfigurationError: The storage is not open.
        """
        newest = self.sequence
        if newest is None:
            raise ConfigurationError(
                "the events that are kept can be read once the engine is loaded: use 'async with' "
                "or await engine.load()"
            )
        return newest

    async def read(self, after: int, limit: int) -> Sequence[ToolEngineEvent]:
        """Return kept events; see `interfaces.EventStorage`."""
        if self._storage is None:
            return []
        return await ask_for_all("event", self._storage, "read", ToolEngineEvent, after, limit)

    async def list_lives(self) -> Sequence[EventLife]:
        """Return the numbers of other engines; see `interfaces.EventStorage`."""
        return await ask_for_all("event", self._storage, "list_lives", EventLife)

    async def read_life(self, after: int, until: int, limit: int) -> Sequence[ToolEngineEvent]:
        """Return kept events of another engine; see `interfaces.EventStorage`."""
        wanted = (after, until, limit)
        return await ask_for_all("event", self._storage, "read_life", ToolEngineEvent, *wanted)

    async def read_call(self, call_id: str, limit: int) -> Sequence[ToolEngineEvent]:
        """Return the kept events of a call, the oldest first; at most `limit`."""
        if getattr(self._storage, "read_call", None) is not None:
            kind = ToolEngineEvent
            return await ask_for_all("event", self._storage, "read_call", kind, call_id, limit)
        found: list[ToolEngineEvent] = []
        after = 0
        while len(found) < limit:
            try:
                page = await self.read(after, _PAGE)
            except EventsExpiredError as error:
                after = max(after + 1, error.oldest - 1)
                continue
            if not page:
                break
            found += [each for each in page if each.call_id == call_id]
            after = page[-1].sequence or after + len(page)
            await asyncio.sleep(0)  # what is kept may be long
        return found[:limit]

    def _note_lost(self, event: ToolEngineEvent, error: BaseException) -> None:
        self.unkept += 1
        if self.unkept % _LOG_EVERY == 1:
            _log.error(
                "event_lost",
                event_type=event.event_type.value,
                sequence=event.sequence,
                error=words_of(error, self.find_secrets(event)),
                lost=self.unkept,
            )


def _know_none(event: ToolEngineEvent) -> OwnSecrets | None:
    return secrets_if_known(event.tool, None)
