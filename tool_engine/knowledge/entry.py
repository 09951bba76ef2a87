"""How does a kept call become a record that may be shown?

Redaction happens here, on reading, so that a secret that is resolved after the call is hidden too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from tool_engine.knowledge.snapshot import MAX_SNAPSHOT, bounded_text, restore, snapshot
from tool_engine.model.record import CallEntry, KeptCall, ToolCallRecord
from tool_engine.model.tool import Tool
from tool_engine.redaction import HIDDEN, redact, redact_text

__all__ = ["VisibleCall", "bound", "kept_record", "record_of", "secret_names"]

_SHORTEST_SECRET: Final = 4


def secret_names(tool: Tool | None) -> frozenset[str]:
    """The parameters whose values the definition declares secret."""
    return frozenset() if tool is None else tool.secret_names


class VisibleCall:
    """What may be shown of one call: the values of its secret parameters are hidden everywhere.

    Args:
        params: The snapshot of the call's arguments.
        tool: The tool that names the secret parameters; None when there was none.
    """

    def __init__(self, params: bytes, tool: Tool | None) -> None:
        names = secret_names(tool)
        plain = _mapping(restore(params), "value")
        self._secrets = _secret_texts(plain, names)
        self.params: dict[str, Any] = self._hide(redact(plain, names))

    def result(self, data: bytes) -> dict[str, Any]:
        """The output behind a snapshot."""
        hidden: dict[str, Any] = self._hide(redact(_mapping(restore(data), "result")))
        return hidden

    def error(self, text: str | None) -> str | None:
        """An error message."""
        return None if text is None else self._hide_text(redact_text(text))

    def _hide(self, value: Any) -> Any:
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self._hide_text(value)
        if isinstance(value, dict):
            return {self._hide_text(key): self._hide(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._hide(item) for item in value]
        return HIDDEN if str(value) in self._secrets else value

    def _hide_text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text


def bound(entry: CallEntry) -> None:
    """Cuts what is too long to be kept: of each long part the beginning stays, with its full size.

    Every storage does this before it keeps an entry.
    """
    if len(entry.params) > MAX_SNAPSHOT:
        entry.params = snapshot(restore(entry.params))
    if len(entry.result) > MAX_SNAPSHOT:
        entry.result = snapshot(restore(entry.result))
    if entry.error is not None:
        entry.error = bounded_text(entry.error)


def record_of(kept: KeptCall) -> ToolCallRecord:
    """The record of a kept call, secrets hidden; a new one each time."""
    if isinstance(kept, ToolCallRecord):
        return _redacted(kept)
    tool = kept.tool
    visible = VisibleCall(kept.params, tool)
    return ToolCallRecord(
        record_id=kept.record_id,
        tool_name=kept.tool_name,
        params=visible.params,
        result=visible.result(kept.result),
        execution_time=kept.execution_time,
        is_success=kept.is_success,
        error=visible.error(kept.error),
        caller_id=kept.caller_id,
        caller_type=kept.caller_type,
        conversation_id=kept.conversation_id,
        workflow_id=kept.workflow_id,
        created_at=kept.created_at,
        call_id=kept.call_id,
        parent_call_id=kept.parent_call_id,
        error_type=kept.error_type,
        reached_executor=kept.reached_executor,
        tool_version=None if tool is None else tool.version,
        definition_hash=None if tool is None else tool.definition_hash,
        bucket=kept.bucket,
        queue_wait=kept.queue_wait,
        attempts=kept.attempts,
        priority=kept.priority,
        weight=kept.weight,
    )


def kept_record(record: ToolCallRecord) -> ToolCallRecord:
    """A record that was made elsewhere as it may be kept: copied, bounded and redacted."""
    return msgspec.structs.replace(
        record,
        params=redact(_mapping(restore(snapshot(record.params)), "value")),
        result=redact(_mapping(restore(snapshot(record.result)), "result")),
        error=None if record.error is None else redact_text(bounded_text(record.error)),
    )


def _redacted(record: ToolCallRecord) -> ToolCallRecord:
    return msgspec.structs.replace(
        record,
        params=redact(record.params),
        result=redact(record.result),
        error=None if record.error is None else redact_text(record.error),
    )


def _mapping(value: Any, key: str) -> dict[str, Any]:
    return value if isinstance(value, dict) else {key: value}


def _secret_texts(params: Mapping[str, Any], names: frozenset[str]) -> tuple[str, ...]:
    found = {text for name in names for text in _texts(params.get(name))}
    # The longest first: a secret may be part of another one.
    return tuple(sorted(found, key=len, reverse=True))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif value is not None and not isinstance(value, bool) and len(str(value)) >= _SHORTEST_SECRET:
        yield str(value)
