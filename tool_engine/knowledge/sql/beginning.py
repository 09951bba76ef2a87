"""Which rows have a text that begins with a prefix?

The index of the text serves where the database sorts texts by character, as SQLite does.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, ColumnElement
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class _BeginsWith(FunctionElement[bool]):
    """Has two clauses: the column and the prefix."""

    type = Boolean()
    inherit_cache = True


def begins_with(column: ColumnElement[Any], prefix: str) -> ColumnElement[bool]:
    """Return the condition that `column` begins with `prefix`, case-sensitively."""
    return _BeginsWith(column, prefix)


@compiles(_BeginsWith)
def _by_function(element: _BeginsWith, compiler: SQLCompiler, **options: Any) -> str:
    column, prefix = (compiler.process(each, **options) for each in element.clauses)
    return f"starts_with({column}, {prefix})"


@compiles(_BeginsWith, "sqlite")
def _by_range(element: _BeginsWith, compiler: SQLCompiler, **options: Any) -> str:
    column, prefix = element.clauses
    name = compiler.process(column, **options)
    # No text with this prefix is greater than this: char(1114111) is the last character.
    lowest = compiler.process(prefix, **options)
    highest = f"{compiler.process(prefix, **options)} || char(1114111)"
    return f"({name} >= {lowest} AND {name} < {highest})"
