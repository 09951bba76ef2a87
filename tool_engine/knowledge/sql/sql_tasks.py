"""How does a database keep tasks for several engines, so that each runs once?

Each change names the worker that may make it, in the statement itself: of two engines that want one
task, the database lets one have it. What was given to a worker stays its own until that one is dead
for sure, whatever any clock says.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from tool_engine.errors import RecordsUnavailableError
from tool_engine.interfaces import RecordStorage
from tool_engine.knowledge.entry import VisibleCall
from tool_engine.knowledge.snapshot import restore_value, take_snapshot
from tool_engine.knowledge.sql.connection.opening import LazyDatabase
from tool_engine.knowledge.sql.database_errors import BadRowsError
from tool_engine.knowledge.sql.held_records import HeldRecords
from tool_engine.knowledge.sql.schema.damage import read_row
from tool_engine.knowledge.sql.schema.harmless import Harmless
from tool_engine.knowledge.sql.schema.rows import Batch
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.json.halves import escape_halves
from tool_engine.model.json.returned_value import copy_plain
from tool_engine.model.record import CallEntry
from tool_engine.model.task import QUEUED, KeptTask, TaskState, fields_of
from tool_engine.redaction import redact

_T = TypeVar("_T")
KEEPING: Final = (
    "the tasks in {place} cannot be kept or read: {reason}; what was kept before stays, so try "
    "again once the database works"
)
_MANY: Final = 100
"""Rows that are read on the loop."""


def _take_none(record: CallEntry) -> None:
    """Stand for a storage that keeps no records."""


class _Asked(msgspec.Struct, kw_only=True):
    """What of a task never changes."""

    params: dict[str, Any] | None
    context: dict[str, Any] | None
    definition_hash: str
    ttl: float
    is_repeatable: bool
    digest: str
    is_awaited: bool = False


@refuse_copying("open the same address again")
class SQLTaskStorage:
    """Keeps tasks beside the records of their calls; it is `SQLRecordStorage.tasks`.

    Arguments with secrets are not written: such a task can run only in the process that started it.
    Secrets of results are hidden.

    Args:
        database: The database of the records, which opens and closes it.
        add: Takes a record there that is not written with its task; left out: none is.
    """

    is_shared = True

    def __init__(
        self, database: LazyDatabase, add: Callable[[CallEntry], None] = _take_none
    ) -> None:
        self._database = database
        self.clock = database.clock
        """What time it is for all of them."""
        self.records = HeldRecords(add)
        self._harmless = Harmless()

    @property
    def may_put_late(self) -> bool:
        """True if the database took what it was last given."""
        return self._database.is_ready

    async def has_open(self) -> bool:
        """Return True if there is a task that has not ended."""
        rows = await self._read_rows(_load_sql().has_open())
        return bool(rows[0][0])

    async def read_time(self) -> float | None:
        """Return the time that all who share the database agree on, Unix time in seconds."""
        return await self._database.read_time()

    async def put(self, task: KeptTask) -> KeptTask:
        """Keep a new task, and return it; or the one with its owner and its `key`."""
        state = task.state
        row = {
            "task_id": state.id,
            "owner": _hash_owner(state.owner),
            "tool_name": _as_text(state.tool_name),
            "status": state.status,
            "priority": task.priority,
            "worker": None if state.is_final else task.worker,
            "bound_to": task.bound_to,
            "call_key": task.key,
            "expires_at": state.expires_at.timestamp(),
            "state": b"",
            "data": _pack_asked(task),
        }
        step = _load_sql().insert_task(row)
        if state.is_final:
            (done,) = await self._write_end(task, state, step)
        else:
            row["state"] = _pack_state(task, state)
            locks = [_load_sql().lock_line(row)] if self._has_to_lock(row) else []
            *_, done = await self._database.change((*locks, step), KEEPING)
        if done.rows:
            task.number, task.turn = done.rows[0]
            return task
        found = await self._read_rows(_load_sql().select_by_key(row["owner"], row["call_key"]))
        # It may have been forgotten in between.
        return _task_of(found[0]) if found else await self.put(task)

    def _has_to_lock(self, row: dict[str, Any]) -> bool:
        """Return True if another connection may give an owner's next task the same turn."""
        is_server = not self._database.is_file and self._database.address is not None
        return is_server and row["status"] == QUEUED and row["worker"] is None

    def put_nowait(self, task: KeptTask) -> None:
        """Do nothing: a database takes its time."""

    async def get(self, task_id: str, owner: str | None = None) -> KeptTask | None:
        """Return a task, or None; with an owner, one of others is none."""
        named = None if owner is None else _hash_owner(owner)
        found = await self._read_rows(_load_sql().select_task(_as_text(task_id), named))
        return _task_of(found[0]) if found else None

    async def get_by_key(self, owner: str, key: str) -> KeptTask | None:
        """Return the task that an owner has started with a key, or None."""
        found = await self._read_rows(_load_sql().select_by_key(_hash_owner(owner), key))
        return _task_of(found[0]) if found else None

    async def count_kept(self, owner: str) -> int:
        """Return how many tasks of an owner are kept."""
        rows = await self._read_rows(_load_sql().count_kept(_hash_owner(owner)))
        return int(rows[0][0])

    async def find_first_end(self, owner: str) -> datetime | None:
        """Return when the first of an owner's ended tasks is forgotten."""
        rows = await self._read_rows(_load_sql().select_first_end(_hash_owner(owner)))
        first: float | None = rows[0][0]
        return None if first is None else datetime.fromtimestamp(first, UTC)

    async def list(
        self,
        owner: str | None,
        status: str | None,
        limit: int,
        after: str | None,
        tool_name: str | None = None,
        *,
        results: bool = False,
        now: datetime | None = None,
    ) -> Sequence[TaskState]:
        """Return states, the newest first."""
        named = None if owner is None else _hash_owner(owner)
        tool = None if tool_name is None else _as_text(tool_name)
        until = None if now is None else now.timestamp()
        asked = _load_sql().select_states(named, status, limit, after, tool, until, results=results)
        return await _make_all(_state_of, await self._read_rows(asked))

    async def count_ahead(self, task: KeptTask, most: int) -> int:
        """Return how many queued tasks come before a queued one, or `most` where more do."""
        rows = await self._read_rows(_load_sql().count_ahead(_place_of(task), most))
        return int(rows[0][0])

    async def claim(
        self, worker: str, limit: int, full: Collection[str] = (), *, is_own: bool = False
    ) -> Sequence[KeptTask]:
        """Give queued tasks to a worker, the first in order."""
        return await self._change_all(
            _load_claims().claim_tasks(worker, limit, full, is_own=is_own)
        )

    async def claim_expired(self, worker: str, now: datetime, limit: int) -> Sequence[KeptTask]:
        """Give queued tasks to a worker whose time is over."""
        return await self._change_all(_load_claims().claim_expired(worker, now.timestamp(), limit))

    async def take(self, task_ids: Collection[str], worker: str) -> Sequence[KeptTask]:
        """Give queued tasks to a worker."""
        return await self._change_all(_load_claims().take_tasks(task_ids, worker))

    async def change(self, task: KeptTask, state: TaskState) -> bool:
        """Write a state; False: the task has ended, or belongs to another worker, or is gone."""
        worker, is_news = None if state.is_final else task.worker, state is task.state
        if state.result is None:
            packed = _pack_state(task, state)
            (done,) = await self._make_changes(_load_sql().change_task(task, state, packed, worker))
        else:
            step = _load_sql().change_task(task, state, b"", None)
            (done,) = await self._write_end(task, state, step)
        if done.changed and not is_news:
            # How it was before would take the place of what it came to meanwhile.
            task.take_state(state)
        return bool(done.changed)

    async def end_all(self, ends: Sequence[tuple[KeptTask, TaskState]]) -> Collection[str]:
        """Write the last states of tasks of one worker, at a server in one statement."""
        if not ends:
            return ()
        if self._database.is_file:
            # What is asked of a file at once shares a commit, also with their records.
            writing = [asyncio.ensure_future(self.change(*each)) for each in ends]
            await asyncio.wait(writing)
            done = zip(ends, writing, strict=True)
            return {state.id for (_, state), each in done if not each.exception() and each.result()}
        packed = await asyncio.to_thread(
            lambda: [_pack_state(*each, self._harmless) for each in ends]
        )
        (done,) = await self._make_changes(_load_sql().end_tasks(ends, packed))
        written = {task_id for (task_id,) in done.rows}
        for task, state in ends:
            if state.id in written:
                task.take_state(state)
        return written

    def change_nowait(self, task: KeptTask, state: TaskState) -> None:
        """Do nothing: a database takes its time."""

    def hold_record(self, task_id: str, record: CallEntry, records: RecordStorage) -> bool:
        """Take a record, to write it with the end of its task; False: `records` is to take it."""
        address = self._database.address
        is_file = address is not None and address.kind == "sqlite"
        if not is_file or records.add is not self.records.add:
            return False
        self.records.hold(task_id, record)
        return True

    def release_record(self, task_id: str) -> None:
        """Let the storage of records take what was not written with the end of a task."""
        self.records.release(task_id)

    async def give_back(self, task: KeptTask) -> bool:
        """Queue a task again."""
        state = replace(task.state, status=QUEUED, started_at=None)
        packed = _pack_state(task, state)
        (done,) = await self._make_changes(_load_sql().give_back(task, state, packed))
        return bool(done.changed)

    async def ask_cancel(self, task_ids: Collection[str], reason: str) -> Collection[str]:
        """Note that tasks are to be cancelled by their workers; return those that are open."""
        (done,) = await self._make_changes(_load_sql().ask_cancel(task_ids, _as_text(reason)))
        return [task_id for (task_id,) in done.rows]

    async def beat(self, worker: str) -> dict[str, int]:
        """Count a worker's number up, and return the numbers of all that have tasks or count."""
        _, found = await self._make_changes(*_load_sql().beat_worker(worker))
        return {name: int(beat) for name, beat in found.rows}

    async def list_own(self, worker: str) -> Sequence[tuple[str, str | None]]:
        """Return the ids of a worker's tasks, and why they are to be cancelled."""
        rows = await self._read_rows(_load_sql().select_own(worker))
        return [(task_id, reason) for task_id, reason in rows]

    async def retire(self, worker: str) -> None:
        """Queue again what a worker has taken and not begun, and forget it."""
        await self._make_changes(*_load_sql().retire_worker(worker))

    async def inherit(self, worker: str, heir: str) -> Sequence[KeptTask]:
        """Give the tasks of a dead worker to another one, and forget the dead one."""
        sql = _load_sql()
        found, _ = await self._make_changes(
            sql.inherit_tasks(worker, heir), sql.forget_worker(worker)
        )
        return await _make_tasks(found.rows)

    async def remove(self, task_id: str) -> bool:
        """Forget a task that has ended; False: it has not, or is gone."""
        (done,) = await self._make_changes(_load_sql().remove_task(_as_text(task_id)))
        return bool(done.changed)

    async def remove_expired(self, now: datetime) -> int:
        """Forget the ended tasks whose time is over."""
        (done,) = await self._make_changes(_load_sql().remove_expired(now.timestamp()))
        return int(done.changed)

    async def _write_end(self, task: KeptTask, state: TaskState, step: Any) -> Sequence[Any]:
        """Write how a task ended and, if it is held, the record of its call."""
        held = self.records.take(state.id)

        def prepare() -> Batch | None:
            step.values["state"] = _pack_state(task, state, self._harmless)
            return None if held is None else self.records.make_rows(held)

        try:
            with self.records.writing(state.id, held):
                return await self._database.change((step,), KEEPING, prepare)
        except RecordsUnavailableError as error:
            if held is None or not isinstance(error.__cause__, BadRowsError):
                raise
            # What is wrong with its record costs the task nothing.
            held = None
            return await self._database.change((step,), KEEPING, prepare)

    async def _read_rows(self, statement: Any) -> Sequence[Any]:
        return await self._database.read(statement, KEEPING)

    async def _change_all(self, step: Any) -> Sequence[KeptTask]:
        (done,) = await self._make_changes(step)
        return sorted(await _make_tasks(done.rows), key=_place_of)

    async def _make_changes(self, *steps: Any) -> Sequence[Any]:
        return await self._database.change(steps, KEEPING)


async def _make_tasks(rows: Sequence[Any]) -> list[KeptTask]:
    return await _make_all(_task_of, rows)


async def _make_all(make: Callable[[Any], _T], rows: Sequence[Any]) -> list[_T]:
    if len(rows) <= _MANY:
        return list(map(make, rows))
    return await asyncio.to_thread(lambda: list(map(make, rows)))


def _state_of(row: Any) -> TaskState:
    task_id, state = row
    # Where its result was left out, the end is missing, too.
    whole = state if state.endswith(b"}") else state + b"}"
    return _decode_part(TaskState, whole, task_id)


def _decode_part(kind: type[_T], data: bytes, task_id: str) -> _T:
    place, cure = f"the task {task_id!r} (a row of tool_tasks)", "delete the row"
    found: _T = read_row(lambda: msgspec.json.decode(data, type=kind), place, cure)
    return found


def _task_of(row: Any) -> KeptTask:
    task_id, number, turn, priority, worker, bound_to, key, state, data = row
    kept = _decode_part(TaskState, state, task_id)
    asked = _decode_part(_Asked, data, task_id)
    context = None if asked.context is None else ToolExecutionContext(**asked.context)
    return KeptTask(
        state=kept,
        params=asked.params,
        context=context,
        priority=priority,
        definition_hash=asked.definition_hash,
        ttl=asked.ttl,
        is_repeatable=asked.is_repeatable,
        is_awaited=asked.is_awaited,
        bound_to=bound_to,
        key=key,
        digest=asked.digest,
        worker=worker,
        turn=turn,
        number=number,
    )


def _place_of(task: KeptTask) -> tuple[int, int, int]:
    return task.priority, task.turn, task.number


def _pack_asked(task: KeptTask) -> bytes:
    is_kept = not task.is_bound and task.context is not None
    asked = _Asked(
        params=task.params if is_kept else None,
        context=fields_of(task.context) if is_kept and task.context is not None else None,
        definition_hash=task.definition_hash,
        ttl=task.ttl,
        is_repeatable=task.is_repeatable,
        digest=task.digest,
        is_awaited=task.is_awaited,
    )
    return msgspec.json.encode(asked)


def _pack_state(task: KeptTask, state: TaskState, harmless: Harmless | None = None) -> bytes:
    """Return what is written of a state: JSON values, with secrets hidden.

    Whatever a tool has returned: a task whose end cannot be written would run again and again.
    """
    result = state.result
    if result is not None:
        output = result.output
        if task.is_bound and task.params is not None:
            secret = VisibleCall(take_snapshot(task.params), task.tool)
            output = secret.value(_make_plain(output))
        if harmless is not None:
            harmless.refresh()
        result = replace(
            result,
            output=_hide_in(output, harmless),
            metadata=_hide_in_metadata(result.metadata, harmless),
            validation_errors=_hide_in(result.validation_errors, harmless),
        )
        state = replace(state, result=result)
    try:
        return msgspec.json.encode(state, enc_hook=str)
    except (OverflowError, ValueError):
        # Halves of characters, and whole numbers too long to be written.
        values = _make_plain(msgspec.to_builtins(state, enc_hook=str))
        return msgspec.json.encode(escape_halves(values))


def _make_plain(value: Any) -> Any:
    try:
        return copy_plain(value)
    except Exception:  # noqa: BLE001 - a value of a tool may raise anything
        return restore_value(take_snapshot(value))


def _hide_in(value: Any, harmless: Harmless | None) -> Any:
    if harmless is not None and harmless.is_so(value):
        return value
    return redact(_make_plain(value))


def _hide_in_metadata(metadata: dict[str, Any], harmless: Harmless | None) -> Any:
    # What names the call and its task is new each time, and made here: looking costs as much as all
    # the rest.
    ids = {name: metadata[name] for name in ("call_id", "task_id") if name in metadata}
    rest = {name: value for name, value in metadata.items() if name not in ids}
    return _hide_in(rest, harmless) | ids


def _hash_owner(owner: str | None) -> str:
    if owner is None:
        return ""
    return hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()


def _as_text(name: str) -> str:
    """Return a name that a database takes, and that no other one becomes."""
    return (
        name.replace("\\", "\\\\").replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    )


def _load_sql() -> Any:
    from tool_engine.knowledge.sql import task_statements

    return task_statements


def _load_claims() -> Any:
    from tool_engine.knowledge.sql import task_claims

    return task_claims
