"""Which events does a subscriber want?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

EventTypes: TypeAlias = str | Iterable[str] | None
"""One event type, several, or None for all; a `ToolEngineEventType` is a string too."""
Names: TypeAlias = str | Iterable[str] | None
"""One name, several, or None for all events, those without it included."""

_ALL_TYPES: Final = frozenset(kind.value for kind in ToolEngineEventType)


class WantedEvents(msgspec.Struct, frozen=True):
    """The filters of a subscriber; an event must match all of them."""

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
        """Build the filters from the keywords of `subscribe`.

        Raises:
            ConfigurationError: A filter that can never match.
        """
        types = _check_names("event_types", event_types)
        for name in sorted((types or frozenset()) - _ALL_TYPES):
            known = sorted(_ALL_TYPES)
            hint = suggest_near(name, known) or f"; known: {', '.join(known)}"
            raise ConfigurationError(f"unknown event type {name!r}{hint}")
        return cls(
            _ALL_TYPES if types is None else types,
            _check_names("tool_name", tool_name),
            _check_names("call_id", call_id),
            _check_names("conversation_id", conversation_id),
        )

    def has(self, event: ToolEngineEvent) -> bool:
        """True if the event matches all filters."""
        return event.event_type in self.event_types and self.has_subject(event)

    @property
    def is_choosy(self) -> bool:
        """True if some events of the wanted types do not match."""
        return not (self.tool_names is self.call_ids is self.conversation_ids is None)

    def has_subject(self, event: ToolEngineEvent) -> bool:
        """True if an event of a wanted type matches the other filters."""
        return (
            (self.tool_names is None or event.tool_name in self.tool_names)
            and (self.call_ids is None or event.call_id in self.call_ids)
            and (self.conversation_ids is None or conversation_of(event) in self.conversation_ids)
        )


def conversation_of(event: ToolEngineEvent) -> str | None:
    """Return the event's conversation; None also if its context cannot name one."""
    found = event.data.get("conversation_id")
    return found if isinstance(found, str) else None


def _check_names(field: str, value: Names) -> frozenset[str] | None:
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
