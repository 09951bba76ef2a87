"""Which row has something in it that cannot be summed up?"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from sqlalchemy import BigInteger, Boolean, ColumnElement
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class _FirstOdd(FunctionElement[int]):
    """Has the column that names a row, then those whose numbers are summed up."""

    type = BigInteger()
    inherit_cache = True


def first_odd(name: ColumnElement[Any], *columns: ColumnElement[Any]) -> ColumnElement[int]:
    """The smallest name of a row that has something else than a number of 0 or more there.

    A sum would count what is none as 0.
    """
    return _FirstOdd(name, *columns)


@compiles(_FirstOdd)
def _by_value(element: _FirstOdd, compiler: SQLCompiler, **options: Any) -> str:
    name, *columns = (compiler.process(each, **options) for each in element.clauses)
    # NaN is greater than all numbers there.
    odd = " OR ".join(f"{each} < 0 OR {each} > 1e300" for each in columns)
    return f"min(CASE WHEN {odd} THEN {name} END)"


@compiles(_FirstOdd, "sqlite")
def _by_kind(element: _FirstOdd, compiler: SQLCompiler, **options: Any) -> str:
    name, *columns = (compiler.process(each, **options) for each in element.clauses)
    odd = " OR ".join(
        f"typeof({each}) NOT IN ('integer', 'real') OR {each} < 0 OR {each} > 1e300"
        for each in columns
    )
    return f"min(CASE WHEN {odd} THEN {name} END)"


class _Odd(FunctionElement[bool]):
    """Has one column."""

    type = Boolean()
    inherit_cache = True
    rule: ClassVar[str] = "typeof({0}) NOT IN ('integer', 'real')"


class _NoInteger(_Odd):
    inherit_cache = True
    rule = "typeof({0}) <> 'integer'"


class _NoFlag(_Odd):
    inherit_cache = True
    rule = "typeof({0}) <> 'integer' OR {0} NOT IN (0, 1)"


_ODD: Final = {"number": _Odd, "integer": _NoInteger, "flag": _NoFlag}


def is_odd(column: ColumnElement[Any], kind: str) -> ColumnElement[bool]:
    """Whether a column holds no such thing, so that a condition would leave out its row.

    Args:
        column: The column.
        kind: `number`, `integer` or `flag`.
    """
    return _ODD[kind](column)


@compiles(_Odd)
def _compile_false(element: _Odd, compiler: SQLCompiler, **options: Any) -> str:
    return "FALSE"


@compiles(_Odd, "sqlite")
def _of_kind(element: _Odd, compiler: SQLCompiler, **options: Any) -> str:
    (column,) = (compiler.process(each, **options) for each in element.clauses)
    return f"({element.rule.format(column)})"
