"""How does a kept call become a record that may be shown?

Redaction happens here, on reading, so that a secret that is resolved after the call is hidden too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import msgspec

from tool_engine.knowledge.snapshot import (
    MAX_SNAPSHOT,
    RestoredItems,
    bounded_text,
    pack,
    restore_value,
    shorten_snapshot,
    take_snapshot,
)
from tool_engine.model.record import CallEntry, KeptCall, ToolCallRecord
from tool_engine.model.tool import Tool
from tool_engine.redaction import HIDDEN, NO_SECRETS, OwnSecrets, redact, redact_text, secrets_of

_MOST_LOOKED_AT: Final = 262_144
"""Characters of one value's cut texts that are searched for secrets."""
_MOST_FINDS: Final = 4_000
"""No more texts are kept of a value with more secrets: it was made to take long."""


def secret_names(tool: Tool | None) -> frozenset[str]:
    """Return the parameters, and parts of them, that the definition declares secret."""
    return frozenset() if tool is None else tool.secret_names | tool.secret_parts


class VisibleCall:
    """The visible parts of one call, with secret values hidden everywhere.

    Args:
        params: The snapshot of the call's arguments.
        tool: The tool that names the secret parameters; None when there was none.
        secrets: What `bound_entry` found in arguments that were cut since; None: they are whole.
    """

    def __init__(self, params: bytes, tool: Tool | None, secrets: OwnSecrets | None = None) -> None:
        self._packed = params
        few = _read_few(params, tool)
        if secrets is None:
            sent = self._plain_arguments if few is None else few
            secrets = OwnSecrets({}) if tool is None else secrets_of(tool, sent)
        self.secrets = secrets
        # Arguments sent as one text have no separate names.
        is_told_apart = few is not None or self._is_mapping or not secret_names(tool)
        self.names = secrets.names if is_told_apart else frozenset(self._plain_arguments)
        """These arguments are hidden entirely."""

    @cached_property
    def _sent_value(self) -> Any:
        return restore_value(self._packed)

    @property
    def _is_mapping(self) -> bool:
        return isinstance(self._sent_value, dict)

    @property
    def _plain_arguments(self) -> dict[str, Any]:
        return _as_mapping(self._sent_value, "value")

    @cached_property
    def params(self) -> dict[str, Any]:
        """The arguments; computed when needed, which is rarely."""
        shown: dict[str, Any] = self.value(self._plain_arguments, self.names)
        return shown

    def result(self, data: bytes) -> dict[str, Any]:
        output: dict[str, Any] = self.value(_as_mapping(restore_value(data), "result"))
        return output

    def value(self, value: Any, names: frozenset[str] = frozenset()) -> Any:
        """Return any value of the call; `names` are hidden entirely."""
        return self.secrets.value(value, names)

    def error(self, text: str | None) -> str | None:
        return None if text is None else self.secrets.text(text)


def without_values(params: bytes) -> bytes:
    """Return a snapshot of the names of arguments, which no definition says more about."""
    try:
        return pack(dict.fromkeys(RestoredItems(params), HIDDEN))
    except (msgspec.DecodeError, RecursionError, TypeError):
        return pack({"value": HIDDEN})


def _read_few(params: bytes, tool: Tool | None) -> Mapping[str, Any] | None:
    """Return the arguments for who reads few of them; None: all are to be read."""
    if tool is not None and tool.secret_parts:
        return None
    try:
        return RestoredItems(params)
    except (msgspec.DecodeError, RecursionError, TypeError):
        return None


def bound_entry(entry: CallEntry) -> None:
    """Cut what is too long to keep: to its beginning and full size.

    Every storage does this before it keeps an entry.
    """
    is_long = max(len(entry.params), len(entry.result)) > MAX_SNAPSHOT
    if is_long and secret_names(entry.tool):
        _cut_with_secrets(entry)
    if len(entry.params) > MAX_SNAPSHOT:
        entry.params = shorten_snapshot(entry.params)
    if len(entry.result) > MAX_SNAPSHOT:
        entry.result = shorten_snapshot(entry.result)
    if entry.error is not None:
        entry.error = bounded_text(entry.error)


def _cut_with_secrets(entry: CallEntry) -> None:
    """Cut long parts, with secrets around each cut hidden first.

    Half a secret would not be recognised. Otherwise secrets are hidden on reading, so only the
    beginning is searched, however long the value is.
    """
    visible = VisibleCall(entry.params, entry.tool, entry.secrets)
    if len(entry.result) > MAX_SNAPSHOT:
        entry.result = shorten_snapshot(entry.result, _Beginnings(visible.secrets))
    if len(entry.params) > MAX_SNAPSHOT:
        # After the cut the secret could not be found any more.
        entry.secrets = visible.secrets
        names, parts = visible.names, visible.secrets.parts
        entry.params = shorten_snapshot(entry.params, _Beginnings(visible.secrets), names, parts)


class _Beginnings:
    """Hides secrets in the beginnings of one value's texts, up to a number."""

    def __init__(self, secrets: OwnSecrets) -> None:
        self._secrets = secrets
        self._left = _MOST_LOOKED_AT
        self._finds_left = _MOST_FINDS

    def __call__(self, text: str) -> str:
        if self._left <= 0 or self._finds_left <= 0:
            return HIDDEN
        shown = self._secrets.beginning(text)
        self._left -= len(text)
        self._finds_left -= shown.count(HIDDEN)
        return shown


def record_of(kept: KeptCall, *, whole: bool = False) -> ToolCallRecord:
    """Return a new record of a kept call, with secrets hidden.

    Args:
        kept: The call.
        whole: Whether its result is wanted whole; that may take a second, so do it in a thread.
    """
    if isinstance(kept, ToolCallRecord):
        return _redact_record(kept)
    tool = kept.tool
    visible = VisibleCall(kept.params, tool, kept.secrets)
    return ToolCallRecord(
        record_id=kept.record_id,
        # A name that no tool has is text that a model wrote.
        tool_name=kept.tool_name if tool is not None else redact_text(kept.tool_name),
        params=visible.params,
        result=visible.result(kept.whole if whole and kept.whole is not None else kept.result),
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
        generation=kept.generation,
        key=kept.key,
        result_size=kept.result_size,
        agent_id=kept.agent_id,
        session_id=kept.session_id,
        task_id=kept.task_id,
        origin=kept.origin,
        process=kept.process,
        decided_by=kept.decided_by,
    )


def secrets_of_kept(kept: KeptCall) -> OwnSecrets | None:
    """Return a kept call's secrets, to hide them in a storage's errors.

    None: they are not known.
    """
    if isinstance(kept, ToolCallRecord):
        return NO_SECRETS
    return secrets_sent(kept.params, kept.tool, kept.secrets)


def secrets_sent(
    params: bytes, tool: Tool | None, secrets: OwnSecrets | None = None
) -> OwnSecrets | None:
    """Return the secrets of a call with these arguments, as for `VisibleCall`."""
    if not secret_names(tool):
        return NO_SECRETS
    try:
        return VisibleCall(params, tool, secrets).secrets
    except Exception:  # noqa: BLE001 - code of others may have changed what was kept
        return None


def kept_record(record: ToolCallRecord) -> ToolCallRecord:
    """Return a foreign record as it may be kept: copied, bounded and redacted."""
    return msgspec.structs.replace(
        record,
        params=redact(_as_mapping(restore_value(take_snapshot(record.params)), "value")),
        result=redact(_as_mapping(restore_value(take_snapshot(record.result)), "result")),
        error=None if record.error is None else redact_text(bounded_text(record.error)),
    )


def _redact_record(record: ToolCallRecord) -> ToolCallRecord:
    return msgspec.structs.replace(
        record,
        params=redact(record.params),
        result=redact(record.result),
        error=None if record.error is None else redact_text(record.error),
    )


def _as_mapping(value: Any, key: str) -> dict[str, Any]:
    return value if isinstance(value, dict) else {key: value}
