"""Texts that begin in some way, as each database finds them."""

import sqlite3

import pytest
from sqlalchemy import column
from sqlalchemy.dialects import postgresql, sqlite

from tool_engine.knowledge.sql.queries import begins_with

TEXTS = ["call-1", "call-10", "call-2", "CALL-1", "call_1", "call-1%", "", "é"]


@pytest.mark.parametrize("prefix", ["call-1", "call-", "CALL", "call_", "%", "", "é", "zz"])
def test_beginning_is_no_pattern(prefix: str) -> None:
    """As `str.startswith` finds them: case counts, and no character stands for others."""
    statement = begins_with(column("name"), prefix).compile(
        dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}
    )
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (name TEXT)")
    connection.executemany("INSERT INTO t VALUES (?)", [(text,) for text in TEXTS])
    text = str(statement).replace("%%", "%")
    found = {name for (name,) in connection.execute(f"SELECT name FROM t WHERE {text}")}  # noqa: S608 - our own
    connection.close()
    assert found == {text for text in TEXTS if text.startswith(prefix)}


def test_beginning_on_a_server() -> None:
    """PostgreSQL has a function for it, which knows no patterns either."""
    statement = begins_with(column("name"), "it's").compile(
        dialect=postgresql.dialect(),  # type: ignore[no-untyped-call]
        compile_kwargs={"literal_binds": True},
    )
    assert str(statement) == "starts_with(name, 'it''s')"
