"""How does a kept call become a row, and a row a record?

Secrets are hidden before anything is written, and again when it is read: by then more of them may
be known.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from hashlib import blake2b, sha256
from math import inf
from time import time
from typing import Any, Final, TypeAlias

import msgspec

from tool_engine.knowledge.entry import VisibleCall, bound_entry, kept_record, secret_names
from tool_engine.knowledge.snapshot import MAX_SNAPSHOT, pack, restore_value
from tool_engine.knowledge.sql.schema.damage import FLAG, INTEGER, SECONDS, check_values, read_row
from tool_engine.knowledge.sql.schema.harmless import Harmless
from tool_engine.knowledge.sql.schema.keys import (
    KeyMaker,
    date_of,
    key_of_id,
    microseconds_of,
    record_id_of,
)
from tool_engine.knowledge.sql.schema.schema import COLUMNS
from tool_engine.model.outcome import Outcome
from tool_engine.model.record import AGENTS, CallEntry, KeptCall, ToolCallRecord
from tool_engine.model.statistics import time_bin
from tool_engine.model.tool import Tool
from tool_engine.process_names import ENGINE_LENGTH
from tool_engine.redaction import redact, redact_text

LONGEST_INLINE: Final = 4_096
"""Bytes of a result's JSON up to which it stands in its row; a longer one is kept once, packed."""
_Large: TypeAlias = tuple[bytes, bytes]
"""A large result as MessagePack, and its digest."""
_INTEGERS: Final = 2**63
_SMALL: Final = 2**31
_encode: Final = msgspec.json.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder().decode
_decode: Final = msgspec.json.Decoder().decode
_KINDS: Final = {
    "reached_executor": FLAG,
    **dict.fromkeys(("queue_wait", "execution_time"), SECONDS),
    **dict.fromkeys(("definition_id", "generation", "priority", "finished_at"), INTEGER),
    **dict.fromkeys(
        ("weight", "attempts", "result_size"), lambda value: INTEGER(value) and value >= 0
    ),
}
"""What the columns hold that are no texts."""
_OPTIONAL: Final = frozenset(
    (
        *("record_id", "call_id", "parent_call_id", "definition_id", "generation", "error_type"),
        *("caller_id", "conversation_id", "workflow_id", "agent_id", "session_id", "task_id"),
        *("bucket", "admission_key", "result_size", "error", "result"),
        *("version", "definition_hash", "origin", "process", "decided_by"),
    )
)
_UNKNOWN: Final = (None, None, None)
"""The version, hash and origin of a call that ran no tool."""
_UNREAD: Final = ("key", "wait_bin", "time_bin", "result_hash", "whole_hash")
_READ: Final = (
    *(name for name in COLUMNS if name not in _UNREAD),
    *("version", "definition_hash", "origin", "process"),
)


class Batch(msgspec.Struct):
    """What one transaction writes."""

    rows: list[tuple[Any, ...]]
    """By `schema.COLUMNS`."""
    values: dict[bytes, tuple[bytes, int, int, bytes]]
    """Rows of `tool_values`, by their hash."""
    definitions: dict[int, tuple[int, str, str | None, str | None, str | None]]
    """Rows of `tool_definitions`, by their id."""
    processes: dict[str, tuple[str, str, int]] = {}
    """Rows of `tool_processes`, by the engine."""
    tools: dict[int, tuple[int, int, bool]] = {}
    """By the `id` of a tool: the id of its definition, its weight, and whether it has secrets."""
    unreadable: int = 0
    """Calls that no row could be made of."""
    error: str = ""
    """Why, for the last of them."""
    under_way: Callable[[], None] | None = None
    """Called when the database begins to work on the rows and needs nothing more for a while."""
    prepared: Any = None
    """What the database made of the rows ahead; None: nothing yet."""

    def part(self, start: int, stop: int | None) -> Batch:
        """Some of its rows, with all that they refer to."""
        return Batch(self.rows[start:stop], self.values, self.definitions, self.processes)


def merge_batches(batches: Sequence[Batch]) -> Batch:
    """One batch of the rows of several, with all that they refer to."""
    if len(batches) == 1:
        return batches[0]
    whole = Batch([], {}, {}, {})
    for each in batches:
        whole.rows += each.rows
        whole.values |= each.values
        whole.definitions |= each.definitions
        whole.processes |= each.processes
    return whole


def _note_process(kept: KeptCall, finished: int, batch: Batch) -> None:
    process, engine = kept.process, (kept.call_id or "")[:ENGINE_LENGTH]
    # The ids of other makers need not begin with the name of an engine.
    if process is not None and engine not in batch.processes and engine.startswith("call-"):
        batch.processes[engine] = (plain_text(engine) or "", plain_text(process) or "", finished)


def plain_text(value: object) -> str | None:
    r"""A text as every database takes it: half characters and NUL escaped (`\ud800`, `\x00`)."""
    if value is None:
        return None
    text = value if isinstance(value, str) else str(value)
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


class RowMaker:
    """Makes the rows of one process; in one thread at a time."""

    def __init__(self) -> None:
        self._keys = KeyMaker()
        self._harmless = Harmless()
        self._texts = _Texts()
        self._date: datetime | None = None
        self._time = 0

    def batch(self, kept: Iterable[KeptCall]) -> Batch:
        """The rows of some calls; one that cannot be read costs no other."""
        batch = Batch([], {}, {}, {})
        self._harmless.refresh()
        self._texts.refresh()
        for each in kept:
            try:
                if type(each) is CallEntry:
                    batch.rows.append(self._make_entry_row(each, batch))
                else:
                    batch.rows.append(self._make_record_row(each, batch))
            except Exception as error:  # noqa: BLE001 - what was kept may hold foreign values
                batch.unreadable += 1
                batch.error = f"{type(error).__name__}: {error}"
        return batch

    def _make_entry_row(self, entry: CallEntry, batch: Batch) -> tuple[Any, ...]:
        tool, facts, texts = entry.tool, entry.facts, self._texts
        definition, weight, has_secrets = (
            (None, 1, False) if tool is None else self._find_tool(tool, batch)
        )
        params, result, large, whole, error = self._encode_shown(entry, tool, has_secrets)
        if entry.date is not self._date:
            self._date, self._time = entry.date, microseconds_of(entry.date)
        finished = self._time + int(entry.after * 1e6)
        _note_process(entry, finished, batch)
        result_hash = None if large is None else _keep_content(*large, batch, finished)
        whole_hash = None if whole is None else _keep_content(*_with_digest(whole), batch, finished)
        caller, caller_type = texts[entry.caller_id], texts[entry.caller_type]
        seconds, waited = entry.execution_time, entry.queue_wait
        if not (0.0 <= seconds < inf and 0.0 <= waited < inf):
            seconds, waited = _fit_seconds(seconds), _fit_seconds(waited)
        return (
            self._keys.key(finished),
            None,
            plain_text(entry.call_id),
            texts[entry.parent_call_id],
            texts[entry.tool_name] if tool is not None else _model_text(entry.tool_name),
            definition,
            None if facts is None else facts["generation"],
            "succeeded" if entry.is_success else entry.outcome.value,
            texts[entry.error_type],
            entry.reached_executor,
            caller,
            caller_type or "",
            texts[entry.conversation_id],
            texts[entry.workflow_id],
            caller if caller_type in AGENTS else None,
            texts[entry.session_id],
            plain_text(entry.task_id),
            None if facts is None else texts[facts["bucket"]],
            texts[entry.key],
            _fit_integer(entry.priority),
            weight,
            entry.attempts,
            finished,
            waited,
            seconds,
            time_bin(waited) if waited else 0,
            time_bin(seconds),
            len(entry.result) if whole is None else len(entry.whole or b""),
            error,
            params.decode(),
            None if result is None else result.decode(),
            result_hash,
            whole_hash,
            texts[entry.decided_by],
        )

    def _encode_shown(
        self, entry: CallEntry, tool: Tool | None, has_secrets: bool
    ) -> tuple[bytes, bytes | None, _Large | None, bytes | None, str | None]:
        """What a row has of a call, without secrets.

        Arguments and result as JSON; a large result, and the whole one, packed; the error.
        """
        params, result = entry.params, entry.result
        too_large = len(params) > MAX_SNAPSHOT or len(result) > MAX_SNAPSHOT
        if not (has_secrets or too_large or entry.error is not None or entry.whole is not None):
            sent = self._encode_harmless(params)
            if sent is not None and len(result) > LONGEST_INLINE:
                digest = _hash_content(result)
                if self._harmless.is_packed(result, digest):
                    return sent, None, (result, digest), None, None
            returned = None if sent is None else self._encode_harmless(result)
            if sent is not None and returned is not None:
                if len(returned) <= LONGEST_INLINE:
                    return sent, returned, None, None, None
                return sent, None, _with_digest(result), None, None
        bound_entry(entry)
        visible, whole = VisibleCall(entry.params, tool, entry.secrets), entry.whole
        return (
            _encode(visible.params),
            *_encode_result(visible.result(entry.result)),
            None if whole is None else pack(visible.result(whole)),
            plain_text(visible.error(entry.error)),
        )

    def _encode_harmless(self, data: bytes) -> bytes | None:
        """A packed object as JSON; None: it may hold what is hidden."""
        try:
            value = _unpack(data)
        except (msgspec.DecodeError, RecursionError, TypeError):
            return None
        return _encode(value) if type(value) is dict and self._harmless.is_so(value) else None

    def _find_tool(self, tool: Tool, batch: Batch) -> tuple[int, int, bool]:
        found = batch.tools.get(id(tool))
        if found is None:
            facts = (tool.version, tool.definition_hash, tool.origin)
            number = _intern_definition(tool.name, facts, batch)
            found = (number, tool.concurrency.weight, bool(secret_names(tool)))
            batch.tools[id(tool)] = found
        return found

    def _make_record_row(self, record: KeptCall, batch: Batch) -> tuple[Any, ...]:
        """The row of a record that was made elsewhere, perhaps by another storage like this."""
        if not isinstance(record, ToolCallRecord):
            raise TypeError(f"neither a CallEntry nor a ToolCallRecord: {type(record).__name__}")
        shown = kept_record(record)
        finished = microseconds_of(record.created_at)
        _note_process(record, finished, batch)
        result, large = _encode_result(shown.result)
        key = key_of_id(record.record_id)
        definition, facts = None, (record.tool_version, record.definition_hash, record.origin)
        if facts != _UNKNOWN:
            definition = _intern_definition(record.tool_name, facts, batch)
        seconds, waited = _fit_seconds(record.execution_time), _fit_seconds(record.queue_wait)
        return (
            self._keys.key(finished) if key is None else key,
            plain_text(record.record_id) if key is None else None,
            plain_text(record.call_id),
            plain_text(record.parent_call_id),
            plain_text(record.tool_name),
            definition,
            _optional_integer(record.generation),
            record.outcome.value,
            plain_text(record.error_type),
            bool(record.reached_executor),
            plain_text(record.caller_id),
            plain_text(record.caller_type) or "",
            plain_text(record.conversation_id),
            plain_text(record.workflow_id),
            plain_text(record.agent_id),
            plain_text(record.session_id),
            plain_text(record.task_id),
            plain_text(record.bucket),
            plain_text(record.key),
            _fit_integer(record.priority),
            _fit_integer(record.weight),
            _fit_integer(record.attempts),
            finished,
            waited,
            seconds,
            time_bin(waited),
            time_bin(seconds),
            _optional_integer(record.result_size),
            plain_text(shown.error),
            _encode(shown.params).decode(),
            None if result is None else result.decode(),
            None if large is None else _keep_content(*large, batch, finished),
            None,
            plain_text(record.decided_by),
        )


class _Texts(dict[Any, str | None]):
    """Texts as every database takes them, remembered: most of them come again and again."""

    most: Final = 10_000

    def __missing__(self, value: Any) -> str | None:
        found = self[value] = plain_text(value)
        return found

    def refresh(self) -> None:
        if len(self) > self.most:
            self.clear()


def _model_text(text: str) -> str | None:
    """The name of a tool that there is not: text that a model wrote."""
    return plain_text(redact_text(text))


def _intern_definition(
    name: str, facts: tuple[str | None, str | None, str | None], batch: Batch
) -> int:
    version, digest, origin = map(plain_text, facts)
    row = plain_text(name) or "", version, digest, origin
    # The id says what it stands for, so that no query has to ask the database for it.
    number = int.from_bytes(blake2b(_encode(row), digest_size=8).digest(), "big", signed=True)
    batch.definitions[number] = (number, *row)
    return number


def _encode_result(value: dict[str, Any]) -> tuple[bytes | None, _Large | None]:
    """A result as JSON or, if that is large, packed."""
    data = _encode(value)
    return (data, None) if len(data) <= LONGEST_INLINE else (None, _with_digest(pack(value)))


def _with_digest(data: bytes) -> _Large:
    return data, _hash_content(data)


def _hash_content(data: bytes) -> bytes:
    # Most processors have instructions for it.
    return sha256(data).digest()[:16]


def _keep_content(data: bytes, digest: bytes, batch: Batch, finished: int) -> bytes:
    # Not before the call that uses it: a value goes when all calls are younger.
    used_at = max(int(time()), finished // 1_000_000)
    known = batch.values.get(digest)
    if known is None:
        batch.values[digest] = (digest, len(data), used_at, zlib.compress(data, 1))
    elif known[2] < used_at:
        batch.values[digest] = (digest, known[1], used_at, known[3])
    return digest


def _fit_integer(value: float) -> int:
    if type(value) is int and -_SMALL < value < _SMALL:
        return value
    return max(-_INTEGERS, min(int(value), _INTEGERS - 1))


def _optional_integer(value: float | None) -> int | None:
    return None if value is None else _fit_integer(value)


def _read_result(values: dict[str, Any]) -> Any:
    """A result, which stands in its row or, if it is large, once for all calls."""
    digest = values["wanted"]
    if digest is None:
        if values["result"] is None:
            raise ValueError("it has no result")
        return _decode(values["result"])
    if values["large"] is None:
        raise ValueError("its result is not in tool_values any more")
    data = zlib.decompress(values["large"])
    is_json = data[:1] == b"{"  # as former versions kept it
    if (blake2b(data, digest_size=16).digest() if is_json else _hash_content(data)) != digest:
        raise ValueError("what is in tool_values is another result than its own")
    return _decode(data) if is_json else restore_value(data)


def _fit_seconds(value: float) -> float:
    value = float(value)
    return value if 0.0 <= value < inf else 0.0


def record_of_row(row: Sequence[Any]) -> ToolCallRecord:
    """The record of a row: `COLUMNS`, the definition, and a large result with its hash.

    Raises:
        RecordsUnavailableError: The row is damaged.
    """
    values: dict[str, Any] = row._asdict()  # type: ignore[attr-defined]
    key = values["key"]
    name = record_id_of(key) if values["record_id"] is None else values["record_id"]
    return read_row(
        lambda: _read_record(values),
        f"the record {name!r} (row {key} of tool_calls)",
        f"read those around it with before={name!r} or after={name!r}, remove it with "  # noqa: S608 - a message
        f"DELETE FROM tool_calls WHERE key = {key}, or take the database from a copy",
    )


def _read_record(values: dict[str, Any]) -> ToolCallRecord:
    check_values(((name, values[name]) for name in _READ), _KINDS, _OPTIONAL)
    key, error = values["key"], values["error"]
    params, result = _decode(values["params"]), _read_result(values)
    if type(params) is not dict or type(result) is not dict:
        raise ValueError("params or result is no object")
    facts = (values["version"], values["definition_hash"], values["origin"])
    if values["definition_id"] is not None and facts == _UNKNOWN:
        raise ValueError("its definition is not in tool_definitions any more")
    is_success = Outcome(values["outcome"]) is Outcome.SUCCEEDED
    record = ToolCallRecord(
        values["record_id"] or record_id_of(key),
        values["tool_name"]
        if values["definition_id"] is not None
        else redact_text(values["tool_name"]),
        redact(params),
        redact(result),
        values["execution_time"],
        is_success,
        None if error is None else redact_text(error),
        values["caller_id"],
        values["caller_type"],
        values["conversation_id"],
        values["workflow_id"],
        date_of(values["finished_at"]),
        process=values["process"],
        decided_by=values["decided_by"],
        call_id=values["call_id"],
        parent_call_id=values["parent_call_id"],
        error_type=values["error_type"],
        reached_executor=bool(values["reached_executor"]),
        tool_version=values["version"],
        definition_hash=values["definition_hash"],
        generation=values["generation"],
        bucket=values["bucket"],
        key=values["admission_key"],
        queue_wait=values["queue_wait"],
        attempts=values["attempts"],
        priority=values["priority"],
        weight=values["weight"],
        result_size=values["result_size"],
        agent_id=values["agent_id"],
        session_id=values["session_id"],
        task_id=values["task_id"],
        origin=values["origin"],
    )
    if record.enqueued_at > record.created_at:  # no date is so long ago: it raises
        raise ValueError("it ended before it began")
    return record
