"""Which statements keep tasks?

Each that gives a task to a worker is one statement that writes, and says itself who may have it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    CompoundSelect,
    Double,
    LargeBinary,
    Select,
    Text,
    TextClause,
    and_,
    bindparam,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    text,
    true,
    tuple_,
    union,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from tool_engine.knowledge.sql.changes import Step
from tool_engine.knowledge.sql.schema.tables import tasks, workers
from tool_engine.model.task import (
    FINAL,
    INPUT_REQUIRED,
    QUEUED,
    RUNNING,
    WAITING,
    KeptTask,
    TaskState,
)

_ROW: Final = tuple(
    tasks.c[name]
    for name in ("task_id", "number", "priority", "worker", "bound_to", "call_key", "state", "data")
)
_is_open: Final = tasks.c.status.not_in(FINAL)
# As written in the index of the line, else it is not used.
_is_free: Final = and_(text("status = 'queued'"), tasks.c.worker.is_(None))
_UNWRITTEN: Final = ("number", "cancel_reason")
_KINDS: Final[dict[str, TypeEngine[Any]]] = {
    "priority": BigInteger(),
    "expires_at": Double(),
    "state": LargeBinary(),
    "data": LargeBinary(),
}
_SPARE: Final = 8
"""How many times as many tasks of a tool are looked at as an engine takes."""
_FEW: Final = 500
"""Rows that are removed at once."""


_COLUMNS: Final = tuple(each.name for each in tasks.c if each.name not in _UNWRITTEN)
_INSERT: Final = text(
    f"INSERT INTO tool_tasks ({', '.join(_COLUMNS)}) "  # noqa: S608 - names of columns
    f"VALUES ({', '.join(f':{name}' for name in _COLUMNS)}) "
    "ON CONFLICT DO NOTHING RETURNING number"
).bindparams(*(bindparam(name, type_=_KINDS.get(name, Text())) for name in _COLUMNS))
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


def insert_task(row: Mapping[str, Any]) -> Step:
    """Keeps a task, unless its owner has one with its key, and gives its number."""
    return Step(_INSERT, row)


def has_open() -> Select[Any]:
    """Whether there is a task that has not ended: one that waits in line, or one that is taken."""
    free = select(tasks.c.number).where(_is_free).exists()
    taken = select(tasks.c.number).where(tasks.c.worker.is_not(None)).exists()
    return select(or_(free, taken))


def select_task(task_id: str, owner: str | None) -> Select[Any]:
    """One task; with an owner, if it is its own."""
    found = select(*_ROW).where(tasks.c.task_id == task_id)
    return found if owner is None else found.where(tasks.c.owner == owner)


def select_by_key(owner: str, key: str | None) -> Select[Any]:
    """The task of an owner with a key."""
    return select(*_ROW).where(tasks.c.owner == owner, tasks.c.call_key == key)


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
        found = found.where(tasks.c.status == status)
    if status in (RUNNING, INPUT_REQUIRED):
        # As the index of them says it: else all that wait would be passed over.
        found = found.where(tasks.c.worker.is_not(None))
    if tool_name is not None:
        found = found.where(tasks.c.tool_name == tool_name)
    if now is not None:
        found = found.where(or_(tasks.c.expires_at > now, _is_open))
    if after is not None:
        number = select(tasks.c.number).where(tasks.c.task_id == after).scalar_subquery()
        found = found.where(tasks.c.number < number)
    return found.order_by(tasks.c.number.desc()).limit(limit)


def count_ahead(priority: int, number: int, most: int) -> Select[Any]:
    """How many queued tasks come before a place in line; no more than `most` are counted."""
    # As one range of the index, of which no more is read than is counted.
    columns = tasks.c.priority, tasks.c.number
    place = (
        literal(each, column.type) for each, column in zip((priority, number), columns, strict=True)
    )
    comes_before = tuple_(*columns) < tuple_(*place)
    found = select(tasks.c.number).where(_is_free, comes_before).limit(most)
    return select(func.count()).select_from(found.subquery())


class _IsOfOthers(FunctionElement[bool]):
    """Whether a free task is of none of some tools, and a worker may run it.

    PostgreSQL looks at the first ones of each other tool: it would read each row of those tools to
    pass it over, however many wait. SQLite passes them over in its index, 15 million in a second.

    Args:
        worker: Who may run it.
        most: How many of each other tool.
        full: The tools.
    """

    type = Boolean()
    inherit_cache = True


_MAY_RUN: Final = (
    "{0}.status = 'queued' AND {0}.worker IS NULL "
    "AND ({0}.bound_to IS NULL OR {0}.bound_to = {{worker}})"
)
_LINES: Final = f"""tool_tasks.number = ANY (ARRAY (
WITH RECURSIVE lines (tool) AS (
    SELECT min(tool_name) FROM tool_tasks WHERE status = 'queued' AND worker IS NULL
    UNION ALL SELECT (
        SELECT min(each.tool_name) FROM tool_tasks AS each
        WHERE each.status = 'queued' AND each.worker IS NULL AND each.tool_name > lines.tool
    ) FROM lines WHERE lines.tool IS NOT NULL
)
SELECT found.number FROM lines CROSS JOIN LATERAL (
    SELECT near.number FROM tool_tasks AS near
    WHERE {_MAY_RUN.format("near")} AND near.tool_name = lines.tool
    ORDER BY near.priority, near.number LIMIT {{most}}
) AS found WHERE lines.tool IS NOT NULL AND lines.tool NOT IN ({{full}})
))"""  # noqa: S608 - constants; values are bound
"""As an array, whose few numbers are looked up: a set is taken for much larger than it is."""


@compiles(_IsOfOthers, "sqlite")
def _pass_over_full(element: Any, compiler: Any, **options: Any) -> str:
    worker, _, *full = (compiler.process(each, **options) for each in element.clauses)
    may_run = _MAY_RUN.format("tool_tasks").format(worker=worker)
    return f"{may_run} AND tool_tasks.tool_name NOT IN ({', '.join(full)})"


@compiles(_IsOfOthers, "postgresql")
def _look_at_others(element: Any, compiler: Any, **options: Any) -> str:
    worker, most, *full = (compiler.process(each, **options) for each in element.clauses)
    return _LINES.format(worker=worker, most=most, full=", ".join(full))


def claim_tasks(worker: str, limit: int, full: Collection[str], *, is_own: bool) -> Step:
    """Gives the first queued tasks to a worker; with `is_own` those that it alone can run."""
    may_run = tasks.c.bound_to == worker
    if not is_own:
        may_run |= tasks.c.bound_to.is_(None)
    free = select(tasks.c.number)
    if full and not is_own:
        # More than are taken, since another engine may take the first ones at the same time.
        free = free.where(_IsOfOthers(worker, _SPARE * limit, *sorted(full)))
    else:
        free = free.where(_is_free, may_run, tasks.c.tool_name.not_in(full) if full else true())
    free = free.order_by(tasks.c.priority, tasks.c.number).limit(limit)
    return _give_tasks(worker, _pick_once(free))


def claim_expired(worker: str, now: float, limit: int) -> Step:
    """Gives queued tasks to a worker whose time is over."""
    old = select(tasks.c.number).where(_is_free, tasks.c.expires_at <= now).limit(limit)
    return _give_tasks(worker, _pick_once(old))


def _pick_once(numbers: Select[Any]) -> ColumnElement[bool]:
    """Names the rows that a query gives.

    As a part of its own: else PostgreSQL may ask again for each row, and locks more than the limit.
    """
    picked = numbers.with_for_update(skip_locked=True).cte("picked")
    return tasks.c.number.in_(select(picked.c.number))


def take_task(task_id: str, worker: str) -> Step:
    """Gives one queued task to a worker."""
    return _give_tasks(worker, tasks.c.task_id == task_id)


def _give_tasks(worker: str, which: ColumnElement[bool]) -> Step:
    # Once more: another engine may have been first.
    given = update(tasks).where(which, _is_free).values(worker=worker)
    return Step(given.returning(*_ROW))


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


def ask_cancel(task_id: str, reason: str) -> Step:
    """Notes why an open task is to be cancelled."""
    asked = update(tasks).where(tasks.c.task_id == task_id, _is_open)
    return Step(asked.values(cancel_reason=reason))


def select_own(worker: str) -> Select[Any]:
    """Ids of a worker's tasks, and why they are to be cancelled."""
    return select(tasks.c.task_id, tasks.c.cancel_reason).where(tasks.c.worker == worker)


def retire_worker(worker: str) -> list[Step]:
    """Queues again what a worker has not begun; of one that leaves nothing else, forgets it."""
    own = tasks.c.worker == worker
    is_left = exists().where(or_(own, tasks.c.bound_to == worker), _is_open)
    begun = tasks.c.status == RUNNING
    return [
        Step(update(tasks).where(own, _is_open, ~begun).values(worker=None, status=QUEUED)),
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
    return Step(given.returning(*_ROW))


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
