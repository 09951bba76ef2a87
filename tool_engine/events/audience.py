"""Who hears of an event, of the many who may listen?

Whoever wants one call, one conversation or one tool is found by that, so that a thousand streams,
each of a conversation of its own, cost an event no more than one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from tool_engine.events.subscriber import Subscriber
from tool_engine.events.wanted import WantedEvents, conversation_of
from tool_engine.model.event import ToolEngineEvent

__all__ = ["Audience", "Listeners"]

Key: TypeAlias = tuple[str, str | None]
Group: TypeAlias = dict[Subscriber, None]
"""Subscribers in the order in which they came."""


class Listeners(NamedTuple):
    """Who hears of one event."""

    buffered: tuple[Subscriber, ...] = ()
    plain: tuple[Subscriber, ...] = ()

    @classmethod
    def of(cls, subscribers: Iterable[Subscriber]) -> Listeners:
        """The subscribers, parted by how they are told."""
        listed = list(subscribers)
        return cls(
            tuple(each for each in listed if not each.is_plain),
            tuple(each for each in listed if each.is_plain),
        )


_NOBODY: Final = Listeners()


class Audience:
    """Finds those who may want an event; for one thread at a time.

    What it gives is not changed afterwards: who is being told goes on with it.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}

    def __contains__(self, event_type: str) -> bool:
        return event_type in self._kinds

    def __len__(self) -> int:
        return len(self._kinds)

    def add(self, subscriber: Subscriber) -> None:
        """Takes one up."""
        for kind in subscriber.wanted.event_types:
            self._kinds.setdefault(kind, _Kind()).add(subscriber)

    def remove(self, subscriber: Subscriber) -> None:
        """Lets one go; again does nothing."""
        for kind in subscriber.wanted.event_types:
            found = self._kinds.get(kind)
            if found is not None and found.remove(subscriber):
                del self._kinds[kind]

    def of(self, event: ToolEngineEvent) -> Listeners:
        """Those who want events of its type, and perhaps this one."""
        kind = self._kinds.get(event.event_type)
        return _NOBODY if kind is None else kind.of(event)


class _Kind:
    """Those who want the events of one type."""

    __slots__ = ("_all", "_everyone", "_keyed")

    def __init__(self) -> None:
        self._everyone: Group = {}
        """Those who may want any."""
        self._keyed: dict[Key, Group] = {}
        """The others, by what an event must be about."""
        self._all: Listeners | None = None
        """`_everyone`, where that has not changed since."""

    def add(self, subscriber: Subscriber) -> None:
        self._all = None
        for group in self._groups(subscriber.wanted):
            group[subscriber] = None

    def remove(self, subscriber: Subscriber) -> bool:
        """Lets one go; whether nobody is left."""
        self._all = None
        for key in _keys(subscriber.wanted):
            group = self._keyed.get(key, {})
            group.pop(subscriber, None)
            if not group:
                self._keyed.pop(key, None)
        self._everyone.pop(subscriber, None)
        return not self._everyone and not self._keyed

    def of(self, event: ToolEngineEvent) -> Listeners:
        listeners = self._all
        if listeners is None:
            listeners = self._all = Listeners.of(self._everyone)
        if not self._keyed:
            return listeners
        about = (
            ("call_id", event.call_id),
            ("conversation_id", conversation_of(event)),
            ("tool_name", event.tool_name),
        )
        found = [each for key in about for each in self._keyed.get(key, ())]
        if not found:
            return listeners
        more = Listeners.of(found)
        return Listeners(listeners.buffered + more.buffered, listeners.plain + more.plain)

    def _groups(self, wanted: WantedEvents) -> Iterator[Group]:
        keys = _keys(wanted)
        if not keys:
            yield self._everyone
        for key in keys:
            yield self._keyed.setdefault(key, {})


def _keys(wanted: WantedEvents) -> list[Key]:
    """What an event must have one of to be wanted; empty: it need not."""
    for field, names in (
        ("call_id", wanted.call_ids),
        ("conversation_id", wanted.conversation_ids),
        ("tool_name", wanted.tool_names),
    ):
        if names is not None:
            return [(field, name) for name in names]
    return []
