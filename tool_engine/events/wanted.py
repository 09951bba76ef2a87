"""Which events does a subscriber want?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

__all__ = ["EventTypes", "Names", "ToolNames", "WantedEvents", "conversation_of"]

EventTypes: TypeAlias = str | Iterable[str] | None
"""One event type, several, or None for all; a `ToolEngineEventType` is a string too."""
Names: TypeAlias = str | Iterable[str] | None
"""One name, several, or None for all events, those without it included."""
ToolNames: TypeAlias = Names
"""One tool name, several, or None for all events, those without a tool included."""

_ALL_TYPES: Final = frozenset(kind.value for kind in ToolEngineEventType)


class WantedEvents(msgspec.Struct, frozen=True):
    """What must be true of an event, all of it."""

    event_types: frozenset[str] = _ALL_TYPES
    tool_names: frozenset[str] | None = None
    call_ids: frozenset[str] | None = None
    conversation_ids: frozenset[str] | None = None

    @classmethod
    def of(
        cls,
        event_types: EventTypes = None,
        tool_name: Names = None,
        call_id: Names = None,
        conversation_id: Names = None,
    ) -> WantedEvents:
        """What the keywords of `subscribe` say.

        Raises:
            ConfigurationError: A filter that can never match.
        """
        types = _names("event_types", event_types)
        for name in sorted((types or frozenset()) - _ALL_TYPES):
            known = sorted(_ALL_TYPES)
            hint = suggest_near(name, known) or f"; known: {', '.join(known)}"
            raise ConfigurationError(f"unknown event type {name!r}{hint}")
        return cls(
            _ALL_TYPES if types is None else types,
            _names("tool_name", tool_name),
            _names("call_id", call_id),
            _names("conversation_id", conversation_id),
        )

    def has(self, event: ToolEngineEvent) -> bool:
        """Whether the event is one of them."""
        return event.event_type in self.event_types and self.has_subject(event)

    @property
    def is_choosy(self) -> bool:
        """Whether not every event of its types is one of them."""
        return not (self.tool_names is self.call_ids is self.conversation_ids is None)

    def has_subject(self, event: ToolEngineEvent) -> bool:
        """The same for an event whose type is known to be wanted."""
        return (
            (self.tool_names is None or event.tool_name in self.tool_names)
            and (self.call_ids is None or event.call_id in self.call_ids)
            and (self.conversation_ids is None or conversation_of(event) in self.conversation_ids)
        )


def conversation_of(event: ToolEngineEvent) -> str | None:
    """The conversation that an event belongs to; None also for what cannot name one."""
    found = event.data.get("conversation_id")
    return found if isinstance(found, str) else None


def _names(field: str, value: Names) -> frozenset[str] | None:
    if value is None:
        return None
    try:
        listed: list[object] = [value] if isinstance(value, str) else list(value)
    except TypeError:
        listed = [value]
    wrong = [each for each in listed if not isinstance(each, str)]
    if wrong or not listed:
        found = repr(wrong[0]) if wrong else "none"
        raise ConfigurationError(f"{field} must name at least one, as text, got {found}")
    return frozenset(each for each in listed if isinstance(each, str))
