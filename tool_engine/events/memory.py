"""How are the newest events kept in memory for replay?"""

from __future__ import annotations

from collections import deque
from importlib import import_module
from itertools import islice
from threading import Lock

from tool_engine.config import ToolEngineConfig
from tool_engine.errors import ConfigurationError, EventsExpiredError
from tool_engine.interfaces import EventStorage
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.event import ToolEngineEvent
from tool_engine.model.json.copying import refuse_copying


@refuse_copying("make another one for each engine")
class MemoryEventStorage:
    """Keeps the newest events of one engine; see `interfaces.EventStorage`.

    Args:
        max_events: The most that are kept; the oldest go first.

    Raises:
        ConfigurationError: `max_events` is less than 1.

    Example:
        >>> engine = ToolEngine(event_storage=MemoryEventStorage(5_000))
    """

    def __init__(self, max_events: int = 10_000) -> None:
        check_count("max_events", max_events, minimum=1)
        self.newest = 0
        """The number of the newest event; 0 before the first."""
        self._events: deque[ToolEngineEvent] = deque(maxlen=max_events)
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._events)

    def __repr__(self) -> str:
        return f"<MemoryEventStorage {len(self)} of {self._events.maxlen}, newest {self.newest}>"

    @property
    def oldest(self) -> int:
        """The number of the oldest kept event; of the next one where none is kept."""
        return self.newest - len(self._events) + 1

    def append(self, event: ToolEngineEvent) -> None:
        """Keep one event, numbered one higher than the one before; never waits."""
        with self._lock:
            self._events.append(event)
            self.newest += 1

    async def read(self, after: int, limit: int) -> list[ToolEngineEvent]:
        """Return the events that follow number `after`, oldest first, at most `limit`.

        Raises:
            EventsExpiredError: Some of them are not kept any more.
            ConfigurationError: There is no event `after` yet.
        """
        with self._lock:
            if after > self.newest:
                raise ConfigurationError(
                    f"there is no event {after}: the newest is {self.newest}; go on after "
                    f"{self.newest}, or leave the number out"
                )
            if after < self.oldest - 1:
                raise EventsExpiredError(after, self.oldest)
            start = after - self.oldest + 1
            return list(islice(self._events, start, start + limit))


def event_storage_for(config: ToolEngineConfig, records: str | None = None) -> EventStorage | None:
    """Return the event storage of the settings, not opened yet; None: none are kept.

    Args:
        config: The settings.
        records: The URL of the database; None: the one of the settings.
    """
    records = config.records if records is None else records
    if not config.keep_events:
        return None
    if records is None:
        return MemoryEventStorage(config.keep_events)
    # Loaded late: most engines keep their events in memory.
    module = import_module("tool_engine.knowledge.sql.sql_events")
    storage: EventStorage = module.SQLEventStorage(records, config.keep_events)
    return storage
