"""How does a program subscribe to the owner of an event bus?"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tool_engine.events.buffer import DROP_OLDEST
from tool_engine.events.bus import EventBus, Subscription
from tool_engine.events.event_filter import EventTypes, Names
from tool_engine.events.stream import EventStream
from tool_engine.interfaces import EventCallback
from tool_engine.model.checks.bounds import check_count
from tool_engine.model.event import ToolEngineEvent

if TYPE_CHECKING:
    from tool_engine.events.missed import MissedEvents


class EventsView:
    """Methods to receive events."""

    _bus: EventBus

    def subscribe(
        self,
        callback: EventCallback,
        event_types: EventTypes = None,
        tool_name: Names = None,
        *,
        call_id: Names = None,
        conversation_id: Names = None,
        buffer: int | None = None,
        policy: str = DROP_OLDEST,
    ) -> Subscription:
        """Call `callback` with every event from now on; return what ends that.

        Args:
            callback: A plain function, called at once, inside the call, which waits for it: one
                that is slow is called in a thread from its second time on. Or an async one, called
                soon. Both in order.
            event_types: Only these; None: all.
            tool_name: Only events of this tool, or these; None: all.
            call_id: Only events of this call, or these; None: all.
            conversation_id: Only events of calls of this conversation, or these; None: all.
            buffer: The most events that wait for an async callback; None: 10,000.
            policy: What is dropped when more come: `drop_oldest`, `drop_newest`, or `block_none`:
                no loss is silent, the subscription ends.

        Raises:
            ConfigurationError: An event type is unknown, or the buffer or its policy cannot be.
        """
        return self._bus.subscribe(
            callback,
            event_types,
            tool_name,
            call_id=call_id,
            conversation_id=conversation_id,
            buffer=buffer,
            policy=policy,
        )

    def events(
        self,
        event_types: EventTypes = None,
        tool_name: Names = None,
        *,
        call_id: Names = None,
        conversation_id: Names = None,
        buffer: int = 1000,
        policy: str = DROP_OLDEST,
        after: int | None = None,
    ) -> EventStream:
        """Return an async iterator over events from now on, or after number `after`.

        It ends when the engine closes. It keeps at most `buffer` events for a slow reader, counts
        in `dropped` what it dropped, and `policy` says which: see `subscribe`. With `after` it
        begins with what `keep_events` kept, and leaves nothing out, however slow the reader is.

        Raises:
            ConfigurationError: A filter or the buffer cannot be, or there is nothing to go back to.
        """
        return self._bus.events(
            event_types,
            tool_name,
            buffer,
            call_id=call_id,
            conversation_id=conversation_id,
            policy=policy,
            after=after,
        )

    async def find_missed_events(self, numbers: Sequence[int]) -> MissedEvents:
        """Return what a reader has missed in other engines that keep events in this database.

        Args:
            numbers: The number of the event that it read last, and those of the last ones that it
                read of other engines; none: it begins now.

        Raises:
            ConfigurationError: The engine is not loaded.
            RecordsUnavailableError: The database does not answer.
        """
        # By name: only what outlives an engine misses any.
        missed: type[MissedEvents] = import_module("tool_engine.events.missed").MissedEvents
        return await missed.find(self._bus.log, numbers)

    async def read_call_events(self, call_id: str, limit: int = 1_000) -> list[ToolEngineEvent]:
        """Return the events of a call that `keep_events` kept, the oldest first.

        Args:
            call_id: The call, on its way or ended.
            limit: The most events.

        Raises:
            ConfigurationError: The limit is below 1.
            RecordsUnavailableError: The database does not answer.
        """
        check_count("limit", limit, minimum=1)
        return list(await self._bus.log.read_call(call_id, limit))

    def get_event_statistics(self) -> dict[str, Any]:
        """Return counts of events and subscribers.

        `sequence` is the newest number, `subscribers` how many there are, `failed` the
        failures of subscribers, `slow` the plain functions that held up calls and are called in
        threads since, `dropped` the events that subscribers were too slow for, and `unkept`
        those that should have been kept for replay and were not. `epoch` says
        whose numbers these are: after a restart it is another one, or empty where they go on.
        `is_kept` says whether they are kept for replay.
        """
        bus = self._bus
        return {
            "sequence": bus.log.sequence,
            "subscribers": bus.subscribers,
            "failed": bus.failed,
            "slow": bus.slow,
            "dropped": bus.dropped,
            "unkept": bus.log.unkept,
            "epoch": bus.log.epoch,
            "is_kept": bus.log.is_kept,
        }
