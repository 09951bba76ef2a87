"""How does one listen to whoever holds an event bus?"""

from __future__ import annotations

from collections.abc import Callable

from tool_engine.events.bus import EventBus, EventTypes, ToolNames
from tool_engine.events.stream import EventStream
from tool_engine.interfaces import EventCallback

__all__ = ["EventsView"]


class EventsView:
    """The ways to be told of events."""

    _bus: EventBus

    def subscribe(
        self,
        callback: EventCallback,
        event_types: EventTypes = None,
        tool_name: ToolNames = None,
    ) -> Callable[[], None]:
        """Calls `callback` with every event from now on; returns what ends that.

        Args:
            callback: A plain function, called at once, or an async one, called soon, in order.
            event_types: Only these; None: all.
            tool_name: Only events of this tool, or these; None: all.

        Raises:
            ConfigurationError: An event type is unknown.
        """
        return self._bus.subscribe(callback, event_types, tool_name)

    def events(
        self,
        event_types: EventTypes = None,
        tool_name: ToolNames = None,
        *,
        buffer: int = 1000,
    ) -> EventStream:
        """An async iterator over the events from now on.

        It ends when the engine closes. It keeps at most `buffer` events for a slow reader and
        counts in `dropped` what it let go, the oldest first.
        """
        return self._bus.events(event_types, tool_name, buffer)
