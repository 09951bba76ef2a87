"""Which statements keep tasks?

Those that give tasks to a worker are in `task_claims`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CompoundSelect,
    Double,
    LargeBinary,
    Select,
    Text,
    TextClause,
    bindparam,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    text,
    tuple_,
    union,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from tool_engine.knowledge.sql.changes import Step
from tool_engine.knowledge.sql.schema.tables import tasks, workers
from tool_engine.knowledge.sql.task_claims import IS_FREE, LINE, ROW
from tool_engine.model.task import (
    FINAL,
    QUEUED,
    RUNNING,
    WAITING,
    KeptTask,
    TaskState,
)

_is_open: Final = tasks.c.status.not_in(FINAL)
_UNWRITTEN: Final = ("number", "turn", "cancel_reason")
_KINDS: Final[dict[str, TypeEngine[Any]]] = {
    "priority": BigInteger(),
    "expires_at": Double(),
    "state": LargeBinary(),
    "data": LargeBinary(),
}
_FEW: Final = 500
"""Rows that are removed at once."""


_COLUMNS: Final = tuple(each.name for each in tasks.c if each.name not in _UNWRITTEN)
_IN_LINE: Final = "status = 'queued' AND worker IS NULL"
_TURN: Final = f"""(SELECT max(turns.turn) FROM (
SELECT 1 + coalesce(
    (SELECT turn FROM tool_tasks WHERE {_IN_LINE} AND tool_name = :tool_name
        AND priority = :priority AND turn > 0 ORDER BY turn LIMIT 1),
    (SELECT max((SELECT max(taken.turn) FROM tool_tasks AS taken
        WHERE taken.worker = tool_workers.worker AND taken.priority = :priority))
        FROM tool_workers),
    (SELECT turn FROM tool_tasks WHERE {_IN_LINE}
        AND priority = :priority AND turn > 0 ORDER BY turn LIMIT 1),
    0
) AS turn
UNION ALL SELECT 2 + max(turn) FROM tool_tasks WHERE {_IN_LINE}
    AND owner = :owner AND tool_name = :tool_name AND priority = :priority
) AS turns)"""  # noqa: S608 - constants; values are bound
"""The turn of a task that has to wait: see `tool_engine.knowledge.memory_line`."""


def _write_insert(turn: str) -> TextClause:
    return text(
        f"INSERT INTO tool_tasks ({', '.join(_COLUMNS)}, turn) "  # noqa: S608 - constants
        f"VALUES ({', '.join(f':{name}' for name in _COLUMNS)}, {turn}) "
        "ON CONFLICT DO NOTHING RETURNING number, turn"
    ).bindparams(*(bindparam(name, type_=_KINDS.get(name, Text())) for name in _COLUMNS))


_INSERT: Final = _write_insert("0")
_INSERT_IN_LINE: Final = _write_insert(_TURN)
_LOCK: Final = text("SELECT pg_advisory_xact_lock(:line)").bindparams(
    bindparam("line", type_=BigInteger())
)
_BEAT: Final = text(
    "INSERT INTO tool_workers (worker, beat) VALUES (:worker, 1) ON CONFLICT (worker) "
    "DO UPDATE SET beat = tool_workers.beat + 1"
)


_OTHERS: Final = ("status", "worker", "state", "task_id", "own")


def _write_change(also: str, names: tuple[str, ...]) -> TextClause:
    return text(
        f"UPDATE tool_tasks SET status = :status, worker = :worker, state = :state{also} "  # noqa: S608 - constants
        "WHERE task_id = :task_id AND coalesce(worker, '') = :own "
        f"AND status NOT IN {FINAL} "
        # What is written late does not say of a task that runs that it waits.
        f"AND (:worker IS NULL OR status <> '{RUNNING}' OR :status NOT IN {WAITING})"
    ).bindparams(*(bindparam(name, type_=_KINDS.get(name, Text())) for name in names))


_CHANGE: Final = _write_change("", _OTHERS)
_CHANGE_EXPIRY: Final = _write_change(", expires_at = :expires_at", (*_OTHERS, "expires_at"))
"""Apart: what is set is written into its index, too, though it is the same."""
_GIVE_BACK: Final = _write_change(", turn = 0", _OTHERS)


_END: Final = text(
    f"WITH picked AS (SELECT number FROM tool_tasks WHERE task_id = ANY (:ids) AND worker = :own "  # noqa: S608 - constants
    f"AND status NOT IN {FINAL} ORDER BY number FOR UPDATE) "
    "UPDATE tool_tasks SET status = given.status, worker = NULL, state = given.state, "
    "expires_at = given.expires_at FROM picked, unnest(:ids, :statuses, :states, :expiries) "
    "AS given (task_id, status, state, expires_at) "
    "WHERE tool_tasks.number = picked.number AND tool_tasks.task_id = given.task_id "
    "RETURNING tool_tasks.task_id"
).bindparams(
    bindparam("own", type_=Text()),
    bindparam("ids", type_=ARRAY(Text())),
    bindparam("statuses", type_=ARRAY(Text())),
    bindparam("states", type_=ARRAY(LargeBinary())),
    bindparam("expiries", type_=ARRAY(Double())),
)
"""In order of their numbers, as `ask_cancel` goes through them."""


def lock_line(row: Mapping[str, Any]) -> Step:
    """Has the new tasks of an owner in one line wait for one another.

    Apart, before the statement that looks for its turn: that sees what was there when it began.
    """
    line = "\0".join((row["owner"], row["tool_name"], str(row["priority"])))
    digest = hashlib.blake2b(line.encode(), digest_size=8).digest()
    return Step(_LOCK, {"line": int.from_bytes(digest, "big", signed=True)})


def insert_task(row: Mapping[str, Any]) -> Step:
    """Keeps a task, unless its owner has one with its key, and gives its number and turn."""
    is_in_line = row["status"] == QUEUED and row["worker"] is None
    return Step(_INSERT_IN_LINE if is_in_line else _INSERT, row)


def has_open() -> Select[Any]:
    """Whether there is a task that has not ended: one that waits in line, or one that is taken."""
    free = select(tasks.c.number).where(IS_FREE).exists()
    taken = select(tasks.c.number).where(tasks.c.worker.is_not(None)).exists()
    return select(or_(free, taken))


def select_task(task_id: str, owner: str | None) -> Select[Any]:
    """One task; with an owner, if it is its own."""
    found = select(*ROW).where(tasks.c.task_id == task_id)
    return found if owner is None else found.where(tasks.c.owner == owner)


def select_by_key(owner: str, key: str | None) -> Select[Any]:
    """The task of an owner with a key."""
    return select(*ROW).where(tasks.c.owner == owner, tasks.c.call_key == key)


def count_kept(owner: str) -> Select[Any]:
    """How many tasks an owner has."""
    return select(func.count()).select_from(tasks).where(tasks.c.owner == owner)


def select_first_end(owner: str) -> Select[Any]:
    """When the first ended task of an owner is over."""
    ended = tasks.c.status.in_(FINAL)
    return select(func.min(tasks.c.expires_at)).where(tasks.c.owner == owner, ended)


class _WithoutResult(FunctionElement[bytes]):
    """A state up to its result, its last field: the database does not hand that out.

    No text before it can hold those bytes, for a quotation mark in a text has a backslash.
    """

    type = LargeBinary()
    inherit_cache = True


_LAST_FIELD: Final = b',"result":'.hex()


@compiles(_WithoutResult, "sqlite")
def _write_for_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    state = compiler.process(element.clauses, **options)
    end = f"instr({state}, X'{_LAST_FIELD}')"
    return f"CASE WHEN {end} > 0 THEN substr({state}, 1, {end} - 1) ELSE {state} END"


@compiles(_WithoutResult, "postgresql")
def _write_for_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    state = compiler.process(element.clauses, **options)
    end = f"position('\\x{_LAST_FIELD}'::bytea IN {state})"
    return f"CASE WHEN {end} > 0 THEN substring({state} FROM 1 FOR {end} - 1) ELSE {state} END"


def select_states(
    owner: str | None,
    status: str | None,
    limit: int,
    after: str | None,
    tool_name: str | None,
    now: float | None,
    *,
    results: bool,
) -> Select[Any]:
    """Ids and states of tasks, the newest first; without `results` up to their results.

    What is to be forgotten by `now` is left out.
    """
    found = select(tasks.c.task_id, tasks.c.state if results else _WithoutResult(tasks.c.state))
    if owner is not None:
        found = found.where(tasks.c.owner == owner)
    if status is not None:
        # As in the index of lists: SQLite would take one of the column itself for claims, too.
        found = found.where(text("(status || '') = :listed").bindparams(listed=status))
    if tool_name is not None:
        found = found.where(tasks.c.tool_name == tool_name)
    if now is not None:
        found = found.where(or_(tasks.c.expires_at > now, _is_open))
    if after is not None:
        number = select(tasks.c.number).where(tasks.c.task_id == after).scalar_subquery()
        found = found.where(tasks.c.number < number)
    return found.order_by(tasks.c.number.desc()).limit(limit)


def count_ahead(place: tuple[int, int, int], most: int) -> Select[Any]:
    """How many queued tasks come before a place in line; no more than `most` are counted."""
    # As one range of the index, of which no more is read than is counted.
    values = (literal(each, column.type) for each, column in zip(place, LINE, strict=True))
    comes_before = tuple_(*LINE) < tuple_(*values)
    found = select(tasks.c.number).where(IS_FREE, comes_before).limit(most)
    return select(func.count()).select_from(found.subquery())


def change_task(task: KeptTask, state: TaskState, packed: bytes, worker: str | None) -> Step:
    """Changes an open task of its worker, and whose it is; its count says whether it was that."""
    row: dict[str, Any] = {
        "status": state.status,
        "worker": worker,
        "state": packed,
        "task_id": state.id,
        "own": task.worker or "",
    }
    if state.expires_at == task.state.expires_at:
        return Step(_CHANGE, row)
    return Step(_CHANGE_EXPIRY, row | {"expires_at": state.expires_at.timestamp()})


def give_back(task: KeptTask, state: TaskState, packed: bytes) -> Step:
    """Queues a task of its worker again, before those that wait; its count as of `change_task`."""
    changed = change_task(task, state, packed, None)
    return Step(_GIVE_BACK, changed.values)


def end_tasks(ends: Sequence[tuple[KeptTask, TaskState]], packed: Sequence[bytes]) -> Step:
    """Writes the last states of open tasks of one worker, and gives the ids of those that it has.

    Of a server alone: a file takes many statements as fast as one.
    """
    row = {
        "own": ends[0][0].worker,
        "ids": [state.id for _, state in ends],
        "statuses": [state.status for _, state in ends],
        "expiries": [state.expires_at.timestamp() for _, state in ends],
        "states": list(packed),
    }
    return Step(_END, row)


def ask_cancel(task_ids: Collection[str], reason: str) -> Step:
    """Notes why open tasks are to be cancelled, and gives their ids."""
    # In order, so that of two that ask for the same ones none waits for the other for ever.
    is_meant = tasks.c.task_id.in_(list(task_ids)), _is_open
    picked = select(tasks.c.number).where(*is_meant).order_by(tasks.c.number).with_for_update()
    asked = update(tasks).where(tasks.c.number.in_(select(picked.cte("picked").c.number)), _is_open)
    return Step(asked.values(cancel_reason=reason).returning(tasks.c.task_id))


def select_own(worker: str) -> Select[Any]:
    """Ids of a worker's tasks, and why they are to be cancelled."""
    return select(tasks.c.task_id, tasks.c.cancel_reason).where(tasks.c.worker == worker)


def retire_worker(worker: str) -> list[Step]:
    """Queues again what a worker has not begun; of one that leaves nothing else, forgets it."""
    own = tasks.c.worker == worker
    is_left = exists().where(or_(own, tasks.c.bound_to == worker), _is_open)
    begun = tasks.c.status == RUNNING
    return [
        Step(update(tasks).where(own, _is_open, ~begun).values(worker=None, status=QUEUED, turn=0)),
        Step(delete(workers).where(workers.c.worker == worker, ~is_left)),
    ]


def beat_worker(worker: str) -> list[Step]:
    """Counts a worker's number up, and gives those of all."""
    return [Step(_BEAT, {"worker": worker}), Step(_select_workers())]


def _select_workers() -> CompoundSelect[Any]:
    """All workers with their numbers; 0 for one that has tasks, and never counted."""
    counts = select(workers.c.worker, workers.c.beat)
    is_new = tasks.c.worker.not_in(select(workers.c.worker))
    has_one = select(tasks.c.worker, literal(0)).where(tasks.c.worker.is_not(None), is_new)
    is_newer = tasks.c.bound_to.not_in(select(workers.c.worker))
    alone = select(tasks.c.bound_to, literal(0)).where(
        tasks.c.bound_to.is_not(None), is_newer, _is_open
    )
    return union(counts, has_one, alone)


def inherit_tasks(worker: str, heir: str) -> Step:
    """Gives the tasks of a worker to another one, and those that only it could run."""
    is_its = (tasks.c.worker == worker) | (tasks.c.bound_to == worker)
    given = update(tasks).where(is_its, _is_open).values(worker=heir)
    return Step(given.returning(*ROW))


def forget_worker(worker: str) -> Step:
    """Forgets a worker."""
    return Step(delete(workers).where(workers.c.worker == worker))


def remove_task(task_id: str) -> Step:
    """Removes a task that has ended."""
    return Step(delete(tasks).where(tasks.c.task_id == task_id, tasks.c.status.in_(FINAL)))


def remove_expired(now: float) -> Step:
    """Removes ended tasks whose time is over, some at once."""
    old = select(tasks.c.number).where(tasks.c.status.in_(FINAL), tasks.c.expires_at <= now)
    return Step(delete(tasks).where(tasks.c.number.in_(old.limit(_FEW))))
