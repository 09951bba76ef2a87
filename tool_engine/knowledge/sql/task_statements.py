"""Which statements keep tasks?

Each that gives a task to a worker is one statement that writes, and says itself who may have it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Delete,
    Select,
    Update,
    and_,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    text,
    union,
    update,
)
from sqlalchemy.dialects.sqlite import insert as insert_here
from sqlalchemy.sql.dml import ReturningUpdate

from tool_engine.knowledge.sql.schema.tables import tasks, workers
from tool_engine.model.task import FINAL, QUEUED, RUNNING

_ROW: Final = tuple(
    tasks.c[name]
    for name in ("task_id", "number", "priority", "worker", "bound_to", "call_key", "state", "data")
)
_is_open: Final = tasks.c.status.not_in(FINAL)
# As written in the index of the line, else it is not used.
_is_free: Final = and_(text("status = 'queued'"), tasks.c.worker.is_(None))
_FEW: Final = 500
"""Rows that are removed at once."""


def insert_task(row: Mapping[str, Any]) -> Any:
    """Keeps a task, unless its owner has one with its key, and gives its number."""
    made = insert_here(tasks).values(**row).on_conflict_do_nothing()
    return made.returning(tasks.c.number)


def select_open() -> Select[Any]:
    """A task that has not ended."""
    return select(tasks.c.number).where(_is_open).limit(1)


def select_task(task_id: str) -> Select[Any]:
    """One task."""
    return select(*_ROW).where(tasks.c.task_id == task_id)


def select_by_key(owner: str, key: str | None) -> Select[Any]:
    """The task of an owner with a key."""
    return select(*_ROW).where(tasks.c.owner == owner, tasks.c.call_key == key)


def select_tasks(
    owner: str | None, status: str | None, limit: int, after: str | None
) -> Select[Any]:
    """Tasks, the newest first."""
    found = select(*_ROW)
    if owner is not None:
        found = found.where(tasks.c.owner == owner)
    if status is not None:
        found = found.where(tasks.c.status == status)
    if after is not None:
        number = select(tasks.c.number).where(tasks.c.task_id == after).scalar_subquery()
        found = found.where(tasks.c.number < number)
    return found.order_by(tasks.c.number.desc()).limit(limit)


def count_ahead(priority: int, number: int) -> Select[Any]:
    """How many queued tasks come before a place in line."""
    comes_before = (tasks.c.priority < priority) | (
        (tasks.c.priority == priority) & (tasks.c.number < number)
    )
    return select(func.count()).select_from(tasks).where(_is_free, comes_before)


def claim(worker: str, limit: int, full: Collection[str]) -> ReturningUpdate[Any]:
    """Gives the first queued tasks to a worker."""
    may_run = (tasks.c.bound_to.is_(None)) | (tasks.c.bound_to == worker)
    free = select(tasks.c.number).where(_is_free, may_run)
    if full:
        free = free.where(tasks.c.tool_name.not_in(full))
    free = free.order_by(tasks.c.priority, tasks.c.number).limit(limit)
    return _give(worker, tasks.c.number.in_(free.with_for_update(skip_locked=True)))


def claim_expired(worker: str, now: float, limit: int) -> ReturningUpdate[Any]:
    """Gives queued tasks to a worker whose time is over."""
    old = select(tasks.c.number).where(_is_free, tasks.c.expires_at <= now).limit(limit)
    return _give(worker, tasks.c.number.in_(old.with_for_update(skip_locked=True)))


def take(task_id: str, worker: str) -> ReturningUpdate[Any]:
    """Gives one queued task to a worker."""
    return _give(worker, tasks.c.task_id == task_id)


def _give(worker: str, which: ColumnElement[bool]) -> ReturningUpdate[Any]:
    # Once more: another engine may have been first.
    given = update(tasks).where(which, _is_free).values(worker=worker)
    return given.returning(*_ROW)


def change_task(task_id: str, worker: str | None, changed: Mapping[str, Any]) -> Update:
    """Changes an open task of a worker; its row count says whether it was that."""
    is_its = tasks.c.worker.is_(None) if worker is None else tasks.c.worker == worker
    return update(tasks).where(tasks.c.task_id == task_id, is_its, _is_open).values(**changed)


def ask_cancel(task_id: str, reason: str) -> Update:
    """Notes why an open task is to be cancelled."""
    return update(tasks).where(tasks.c.task_id == task_id, _is_open).values(cancel_reason=reason)


def select_own(worker: str) -> Select[Any]:
    """Ids of a worker's tasks, and why they are to be cancelled."""
    return select(tasks.c.task_id, tasks.c.cancel_reason).where(tasks.c.worker == worker)


def retire(worker: str) -> list[Update | Delete]:
    """Queues again what a worker has not begun; of one that leaves nothing else, forgets it."""
    own = tasks.c.worker == worker
    is_left = exists().where(or_(own, tasks.c.bound_to == worker), _is_open)
    begun = tasks.c.status == RUNNING
    return [
        update(tasks).where(own, _is_open, ~begun).values(worker=None, status=QUEUED),
        delete(workers).where(workers.c.worker == worker, ~is_left),
    ]


def beat(worker: str) -> Any:
    """Counts a worker's number up."""
    made = insert_here(workers).values(worker=worker, beat=1)
    return made.on_conflict_do_update(
        index_elements=[workers.c.worker], set_={"beat": workers.c.beat + literal(1)}
    )


def select_workers() -> CompoundSelect[Any]:
    """All workers with their numbers; 0 for one that has tasks, and never counted."""
    counts = select(workers.c.worker, workers.c.beat)
    is_new = tasks.c.worker.not_in(select(workers.c.worker))
    has_one = select(tasks.c.worker, literal(0)).where(tasks.c.worker.is_not(None), is_new)
    is_newer = tasks.c.bound_to.not_in(select(workers.c.worker))
    alone = select(tasks.c.bound_to, literal(0)).where(
        tasks.c.bound_to.is_not(None), is_newer, _is_open
    )
    return union(counts, has_one, alone)


def inherit(worker: str, heir: str) -> ReturningUpdate[Any]:
    """Gives the tasks of a worker to another one, and those that only it could run."""
    is_its = (tasks.c.worker == worker) | (tasks.c.bound_to == worker)
    return update(tasks).where(is_its, _is_open).values(worker=heir).returning(*_ROW)


def forget_worker(worker: str) -> Delete:
    """Forgets a worker."""
    return delete(workers).where(workers.c.worker == worker)


def remove_expired(now: float) -> Delete:
    """Removes ended tasks whose time is over, some at once."""
    old = select(tasks.c.number).where(tasks.c.status.in_(FINAL), tasks.c.expires_at <= now)
    return delete(tasks).where(tasks.c.number.in_(old.limit(_FEW)))
