"""Which statements give tasks to a worker?

Each is one statement that writes, and says itself who may have them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, select, text, true, update
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from tool_engine.knowledge.sql.changes import Step
from tool_engine.knowledge.sql.schema.tables import tasks

ROW: Final = tuple(
    tasks.c[name]
    for name in (
        *("task_id", "number", "turn", "priority", "worker", "bound_to", "call_key"),
        *("state", "data"),
    )
)
# As written in the index of the line, else it is not used.
IS_FREE: Final = and_(text("status = 'queued'"), tasks.c.worker.is_(None))
# As in no index: what names tasks by their numbers is not to read all that wait.
_IS_STILL_FREE: Final = and_(text("'' || status = 'queued'"), tasks.c.worker.is_(None))
LINE: Final = tasks.c.priority, tasks.c.turn, tasks.c.number
"""The order in which tasks are begun."""
_SPARE: Final = 8
"""How many times as many tasks of a tool are looked at as an engine takes."""


class _IsOfOthers(FunctionElement[Any]):
    """Whether a free task is of none of some tools, and a worker may run it.

    It has no type: of what is a truth value SQLite would be asked whether it is 1, for each row.

    It looks at the first ones of each other tool: those of full tools, of which any number may
    wait, would be passed over one by one.

    Args:
        worker: Who may run it.
        most: How many of each other tool.
        full: The tools.
    """

    inherit_cache = True


_MAY_RUN: Final = (
    "{0}.status = 'queued' AND {0}.worker IS NULL "
    "AND ({0}.bound_to IS NULL OR {0}.bound_to = {{worker}})"
)
_LINES: Final = """
WITH RECURSIVE lines (tool) AS (
    SELECT min(tool_name) FROM tool_tasks WHERE status = 'queued' AND worker IS NULL
    UNION ALL SELECT (
        SELECT min(each.tool_name) FROM tool_tasks AS each
        WHERE each.status = 'queued' AND each.worker IS NULL AND each.tool_name > lines.tool
    ) FROM lines WHERE lines.tool IS NOT NULL
)
SELECT found.number FROM lines CROSS JOIN {first}
WHERE lines.tool IS NOT NULL AND lines.tool NOT IN ({full})"""
_FIRST: Final = f"""(
    SELECT near.number FROM tool_tasks AS near
    WHERE {_MAY_RUN.format("near")} AND near.tool_name = lines.tool
    ORDER BY near.priority, near.turn, near.number LIMIT {{most}}
)"""  # noqa: S608 - constants; values are bound


@compiles(_IsOfOthers, "sqlite")
def _look_in_file(element: Any, compiler: Any, **options: Any) -> str:
    worker, most, *full = (compiler.process(each, **options) for each in element.clauses)
    first = _FIRST.format(worker=worker, most=most)
    lines = _LINES.format(first="tool_tasks AS found", full=", ".join(full))
    return f"tool_tasks.number IN ({lines} AND found.number IN {first})"


@compiles(_IsOfOthers, "postgresql")
def _look_at_server(element: Any, compiler: Any, **options: Any) -> str:
    worker, most, *full = (compiler.process(each, **options) for each in element.clauses)
    first = _FIRST.format(worker=worker, most=most)
    lines = _LINES.format(first=f"LATERAL {first} AS found", full=", ".join(full))
    # As an array, whose few numbers are looked up: a set is taken for much larger than it is.
    return f"tool_tasks.number = ANY (ARRAY ({lines}))"


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
        free = free.where(IS_FREE, may_run, tasks.c.tool_name.not_in(full) if full else true())
    free = free.order_by(*LINE).limit(limit)
    return _give_tasks(worker, _pick_once(free))


def claim_expired(worker: str, now: float, limit: int) -> Step:
    """Gives queued tasks to a worker whose time is over."""
    old = select(tasks.c.number).where(IS_FREE, tasks.c.expires_at <= now).limit(limit)
    return _give_tasks(worker, _pick_once(old))


class _IsPicked(FunctionElement[Any]):
    """Whether a task's number is one of those that a query picks.

    Args:
        picked: The query.
    """

    inherit_cache = True


@compiles(_IsPicked, "sqlite")
def _find_in_file(element: Any, compiler: Any, **options: Any) -> str:
    return f"tool_tasks.number IN {compiler.process(element.clauses, **options)}"


@compiles(_IsPicked, "postgresql")
def _find_at_server(element: Any, compiler: Any, **options: Any) -> str:
    # As an array: joined with a set, each task of the line would be compared with each number.
    return f"tool_tasks.number = ANY (ARRAY {compiler.process(element.clauses, **options)})"


def _pick_once(numbers: Select[Any]) -> _IsPicked:
    """Names the rows that a query gives.

    As a part of its own: else PostgreSQL may ask again for each row, and locks more than the limit.
    """
    picked = numbers.with_for_update(skip_locked=True).cte("picked")
    return _IsPicked(select(picked.c.number).scalar_subquery())


def take_tasks(task_ids: Collection[str], worker: str) -> Step:
    """Gives queued tasks to a worker."""
    named = list(task_ids)
    if len(named) == 1:
        # It waits for another engine that has just looked at it.
        return _give_tasks(worker, tasks.c.task_id == named[0])
    free = select(tasks.c.number).where(tasks.c.task_id.in_(named), _IS_STILL_FREE)
    return _give_tasks(worker, _pick_once(free))


def _give_tasks(worker: str, which: ColumnElement[bool]) -> Step:
    # Once more: another engine may have been first.
    given = update(tasks).where(which, _IS_STILL_FREE).values(worker=worker)
    return Step(given.returning(*ROW))
