"""Which subscribers receive an event?

Subscribers to one call, one conversation or one tool are indexed by it, so that an event costs no
more when a thousand streams each follow a conversation of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from tool_engine.events.event_filter import WantedEvents, conversation_of
from tool_engine.events.subscriber import Subscriber
from tool_engine.model.event import ToolEngineEvent

Key: TypeAlias = tuple[str, str | None]
Group: TypeAlias = dict[Subscriber, None]
"""Subscribers in the order in which they came."""


class Listeners(NamedTuple):
    """The subscribers that receive one event."""

    buffered: tuple[Subscriber, ...] = ()
    plain: tuple[Subscriber, ...] = ()

    @classmethod
    def of(cls, subscribers: Iterable[Subscriber]) -> Listeners:
        """Split the subscribers by how they receive events."""
        listed = list(subscribers)
        return cls(
            tuple(each for each in listed if not each.is_plain),
            tuple(each for each in listed if each.is_plain),
        )


NO_LISTENERS: Final = Listeners()
"""Says that a type of events has no subscribers at all."""


class Audience:
    """Finds the subscribers that may want an event; for one thread at a time.

    What it returns does not change afterwards, so a delivery can go on while others subscribe.
    """

    def __init__(self) -> None:
        self.kinds: dict[str, _Kind] = {}
        """The types of events that have subscribers, and who they are."""

    def __len__(self) -> int:
        return len(self.kinds)

    def add(self, subscriber: Subscriber) -> None:
        for kind in subscriber.wanted.event_types:
            self.kinds.setdefault(kind, _Kind()).add(subscriber)

    def remove(self, subscriber: Subscriber) -> None:
        """Remove a subscriber; no effect if it is not there."""
        for kind in subscriber.wanted.event_types:
            found = self.kinds.get(kind)
            if found is not None and found.remove(subscriber):
                del self.kinds[kind]

    def of(self, event: ToolEngineEvent) -> Listeners:
        """Return the subscribers to the event's type that may want it, or `NO_LISTENERS`."""
        kind = self.kinds.get(event.event_type)
        if kind is None:
            return NO_LISTENERS
        return kind.of(event) if kind.everyone is None else kind.everyone


class _Kind:
    """The subscribers to events of one type."""

    __slots__ = ("_everyone_free", "_free", "everyone", "keyed")

    def __init__(self) -> None:
        self._free: Group = {}
        """Those without a filter that can be indexed."""
        self.keyed: dict[Key, Group] = {}
        """The others, by the call, conversation or tool that they follow."""
        self._everyone_free: Listeners | None = None
        """Cached listeners of those without a filter; None after a change."""
        self.everyone: Listeners | None = None
        """The same if there are no others; else None, and `of` finds who may want an event."""

    def add(self, subscriber: Subscriber) -> None:
        self.everyone = self._everyone_free = None
        for group in self._find_groups(subscriber.wanted):
            group[subscriber] = None

    def remove(self, subscriber: Subscriber) -> bool:
        """Remove a subscriber; True if none is left."""
        self.everyone = self._everyone_free = None
        for key in _list_keys(subscriber.wanted):
            group = self.keyed.get(key, {})
            group.pop(subscriber, None)
            if not group:
                self.keyed.pop(key, None)
        self._free.pop(subscriber, None)
        return not self._free and not self.keyed

    def of(self, event: ToolEngineEvent) -> Listeners:
        listeners = self._everyone_free
        if listeners is None:
            listeners = self._everyone_free = Listeners.of(self._free)
        if not self.keyed:
            self.everyone = listeners
            return listeners
        about = (
            ("call_id", event.call_id),
            ("conversation_id", conversation_of(event)),
            ("tool_name", event.tool_name),
        )
        found = [each for key in about for each in self.keyed.get(key, ())]
        if not found:
            return listeners
        more = Listeners.of(found)
        return Listeners(listeners.buffered + more.buffered, listeners.plain + more.plain)

    def _find_groups(self, wanted: WantedEvents) -> Iterator[Group]:
        keys = _list_keys(wanted)
        if not keys:
            yield self._free
        for key in keys:
            yield self.keyed.setdefault(key, {})


def _list_keys(wanted: WantedEvents) -> list[Key]:
    """Return the keys of which a wanted event has one; empty: no such filter."""
    for field, names in (
        ("call_id", wanted.call_ids),
        ("conversation_id", wanted.conversation_ids),
        ("tool_name", wanted.tool_names),
    ):
        if names is not None:
            return [(field, name) for name in names]
    return []
