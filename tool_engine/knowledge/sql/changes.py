"""How is what must be known to be kept written with as few steps as can be?

Into a file in one visit to one thread: SQLAlchemy's connection takes a dozen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Executable
from sqlalchemy.dialects.sqlite import dialect
from sqlalchemy.sql.elements import TextClause


class Step(NamedTuple):
    """One statement of a change."""

    statement: Executable
    values: Mapping[str, Any] = {}
    """What stands for the names in a text."""


class Done(NamedTuple):
    """What one statement gave."""

    rows: Sequence[Any]
    changed: int
    """How many rows it has changed."""


_DIALECT: Final = dialect(paramstyle="named")


def write_for_sqlite(step: Step) -> tuple[str, Mapping[str, Any]]:
    """Return a statement as the driver takes it, and its values."""
    statement: Any = step.statement
    if isinstance(statement, TextClause) and step.values:
        return statement.text, step.values
    written = statement.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
    return str(written), written.params


async def run_step(connection: Any, step: Step) -> Done:
    """Run a statement through SQLAlchemy's connection."""
    done = await connection.execute(step.statement, dict(step.values) or None)
    return Done(done.fetchall() if done.returns_rows else (), done.rowcount)
