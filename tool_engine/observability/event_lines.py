"""Which events become log lines, and at which level?

Only those of a program that has configured structlog: others pay nothing for log lines, and
failures stand in results anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tool_engine.errors import EngineClosedError
from tool_engine.logger import get_logger, is_configured, watch_configuring
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

EVENTS_LOGGER: Final = "tool_engine.events"
"""The field `logger` of these lines."""
_log: Final = get_logger(EVENTS_LOGGER)

LINES: Final = {
    ToolEngineEventType.TOOL_LOADED: "debug",
    ToolEngineEventType.TOOL_ADDED: "info",
    ToolEngineEventType.TOOL_UPDATED: "info",
    ToolEngineEventType.TOOL_REMOVED: "info",
    ToolEngineEventType.GROUP_ADDED: "info",
    ToolEngineEventType.GROUP_REMOVED: "info",
    ToolEngineEventType.RELOAD_STARTED: "debug",
    ToolEngineEventType.RELOAD_COMPLETED: "info",
    ToolEngineEventType.VALIDATION_ERROR: "info",
    ToolEngineEventType.EXECUTION_QUEUED: "debug",
    ToolEngineEventType.EXECUTION_STARTED: "debug",
    ToolEngineEventType.EXECUTION_RETRIED: "debug",
    ToolEngineEventType.EXECUTION_COMPLETED: "debug",
    ToolEngineEventType.EXECUTION_FAILED: "warning",
    ToolEngineEventType.EXECUTION_CANCELLED: "info",
    ToolEngineEventType.EXECUTION_PROGRESS: "debug",
    ToolEngineEventType.EXECUTION_LOGGED: "info",
    ToolEngineEventType.APPROVAL_REQUESTED: "info",
    ToolEngineEventType.APPROVAL_ANSWERED: "info",
    ToolEngineEventType.DECISION_KEPT: "info",
    ToolEngineEventType.DECISION_REVOKED: "info",
    ToolEngineEventType.TOOL_TOGGLED: "info",
    ToolEngineEventType.GROUP_TOGGLED: "info",
    ToolEngineEventType.LIMIT_ADAPTED: "info",
}
"""The level of each event that becomes a line here; others are logged where they arise."""
_NOBODYS_FAULT: Final = ("tool_not_found", "tool_quarantined", "engine_closed", "cancelled")
"""Failures that the caller causes; the engine needs no repair."""
_OF_RESULTS: Final = ("error_type", "execution_time")
_OF_METADATA: Final = ("attempts", "tool_version")
_LISTED: Final = 20


class EventLines:
    """Writes the events of one engine as log lines of the same names.

    Args:
        subscribe: The engine's method.
    """

    def __init__(
        self,
        subscribe: Callable[[Callable[[ToolEngineEvent], None], Sequence[str]], Callable[[], None]],
    ) -> None:
        self._subscribe = subscribe
        self._types: list[str] = []
        self._unsubscribe: Callable[[], None] | None = None
        watch_configuring(self)
        self.refresh()

    def refresh(self) -> None:
        """Subscribe to the events whose lines structlog would write now."""
        is_on = is_configured()
        types = [kind.value for kind in LINES if is_on and _log.is_enabled(_highest_level(kind))]
        if types == self._types:
            return
        self.end()
        if types:
            try:
                self._unsubscribe = self._subscribe(_write_line, types)
            except EngineClosedError:
                return
        self._types = types

    def end(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._unsubscribe, self._types = None, []


def _highest_level(kind: ToolEngineEventType) -> str:
    # A tool says at which level its line is.
    return "error" if kind is ToolEngineEventType.EXECUTION_LOGGED else LINES[kind]


def level_of(event: ToolEngineEvent) -> str:
    if event.event_type is ToolEngineEventType.EXECUTION_LOGGED:
        return str(event.data["level"])
    result = event.execution_result
    if result is not None and result.error_type in _NOBODYS_FAULT:
        return "info"
    if event.event_type is ToolEngineEventType.RELOAD_COMPLETED and event.error is not None:
        return "warning"
    return LINES[event.event_type]


def _write_line(event: ToolEngineEvent) -> None:
    fields: dict[str, Any] = {
        "tool_name": event.tool_name,
        "call_id": event.call_id,
        "error": event.error,
        "sequence": event.sequence,
        "generation": event.generation,
    }
    result = event.execution_result
    if result is not None:
        fields |= {name: getattr(result, name) for name in _OF_RESULTS}
        fields |= {name: result.metadata.get(name) for name in _OF_METADATA}
    fields |= {name: _shorten_value(value) for name, value in event.data.items()}
    shown = {name: value for name, value in fields.items() if value is not None}
    _log.write(level_of(event), event.event_type.value, shown)


def _shorten_value(value: object) -> object:
    """Replace what can be long, such as the names of ten thousand tools, by its count."""
    if isinstance(value, list) and len(value) > _LISTED:
        return [*value[:_LISTED], f"... {len(value) - _LISTED} more"]
    return value
