"""Mistakes in a SQL tool are found when it is loaded, all at once, with the cure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tool_engine.errors import DefinitionError
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.executors.sql.sql_entry import check_entry, check_source, compile_entry
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.settings.databases import checked_sources
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]
A = ToolParameter("a", "string", required=True)
MANY = ToolParameter("many", "array", required=True)
COLUMN = ToolParameter("c", "string", required=True, validation={"enum": ["id", "name"]})


def found(tool: Tool) -> str:
    return "\n".join(str(problem) for problem in check_entry(tool))


def test_a_right_entry(make_tool: Make) -> None:
    """Nothing is said about it, and the plan holds what it says."""
    sql = "SELECT id FROM t WHERE a = :a AND b IN :many ORDER BY {c}"
    tool = make_tool(sql, A, MANY, COLUMN, config={"max_rows": 5})
    assert check_entry(tool) == []
    plan = compile_entry(tool)
    assert (plan.source, plan.is_readonly, plan.max_rows) == ("shop", True, 5)
    assert set(plan.lists) == {"many"}
    assert {name: set(each) for name, each in plan.choices.items()} == {"c": {"id", "name"}}


@pytest.mark.parametrize(
    ("sql", "parameters", "part"),
    [
        (5, (), "entry.sql: must be a text, got the number 5"),
        (None, (), "entry.sql: is missing; write a statement such as SELECT"),
        ("SELECT 1; SELECT 2", (), "holds more than one statement"),
        ("SELECT :b", (), "takes :b, which is not a declared parameter; declare it"),
        ("SELECT :aa", (A,), "takes :aa, which is not a declared parameter; did you mean 'a'?"),
        ("SELECT {b}", (), "takes {b}, which is not a declared parameter"),
        ("SELECT 1", (A,), "never uses the parameter 'a'; use it as :a"),
        ("SELECT ':a'", (A,), "never uses the parameter 'a'"),
        ("SELECT 1", (ToolParameter("user-id", "string"),), "letters, digits and _ only: rename"),
        ("SELECT 1 WHERE 1 IN :a", (A,), "IN :a needs a list; declare 'a' with type: array"),
        ("SELECT {a}", (A,), "{a} is put into the text, so the parameter 'a' needs an enum"),
        ("COMMIT", (), "COMMIT is no statement of a tool: the engine begins and ends"),
        ("set role x", (), "SET is no statement of a tool: a connection is used"),
        ("ATTACH 'x' AS y", (), "ATTACH is no statement of a tool: a tool stays in"),
        ("pragma journal_mode", (), "PRAGMA is no statement of a tool"),
        ("COPY t TO PROGRAM 'sh'", (), "COPY is no statement of a tool"),
        ("DELETE FROM t", (), "has DELETE, which writes, and the tool is read-only"),
        ("WITH x AS (INSERT INTO t SELECT 1 RETURNING 1) SELECT 1", (), "has INSERT, which"),
        ("drop table t", (), "has DROP, which writes"),
    ],
)
def test_mistakes_in_the_statement(
    make_tool: Make, sql: Any, parameters: tuple[ToolParameter, ...], part: str
) -> None:
    """Each is told with its place and what to write instead."""
    problems = found(make_tool(sql, *parameters))
    assert part in problems
    assert "entry.sql" in problems


@pytest.mark.parametrize(
    ("enum", "part"),
    [
        (["id", "name; DROP TABLE t"], "its enum has 'name; DROP TABLE t'"),
        (["t.id"], "its enum has 't.id'"),
        (['"id"'], "its enum has"),
        ([1, "id"], "its enum has 1"),
        (["x" * 64], "its enum has"),
        (["größe"], "its enum has 'größe'"),
        (["id\n"], "its enum has"),
        ([], "needs an enum"),
        ("id", "needs an enum"),
    ],
)
def test_only_plain_names_are_put_into_the_text(make_tool: Make, enum: Any, part: str) -> None:
    """An enum that holds anything else is refused as a whole."""
    parameter = ToolParameter("c", "string", required=True, validation={"enum": enum})
    assert part in found(make_tool("SELECT {c} FROM t", parameter))


def test_an_identifier_is_always_there(make_tool: Make) -> None:
    """Without it there is no statement; a default or `required` says what it is."""
    enum = {"enum": ["id"]}
    sql = "SELECT {c} FROM t"
    assert "cannot be left out" in found(
        make_tool(sql, ToolParameter("c", "string", validation=enum))
    )
    with_default = ToolParameter("c", "string", default="id", schema=enum)
    assert found(make_tool(sql, with_default)) == ""


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ({"source": None}, "entry.source: is missing; name a database"),
        ({"source": 5}, "entry.source: must be a name, got the number 5"),
        ({"readonly": "yes"}, "entry.readonly: must be true or false, got the text 'yes'"),
        ({"sourc": "x"}, "entry.sourc: unknown key 'sourc'; did you mean 'source'?"),
        ({"config": {"max_row": 5}}, "unknown key 'max_row'; did you mean 'max_rows'?"),
        ({"config": {"max_rows": 0}}, "max_rows: must be a whole number between 1 and 100000"),
        ({"config": {"max_columns": True}}, "between 1 and 2000, got true"),
        ({"config": {"max_bytes": 10**9}}, "between 1 and 16777216, got the number 1000000000"),
        ({"readonly": False, "effect": "read"}, "is false, and the effect of the tool is read"),
    ],
)
def test_other_mistakes(make_tool: Make, entry: dict[str, Any], part: str) -> None:
    """Keys, limits and the source are checked too."""
    assert part in found(make_tool("SELECT 1", **entry))


def test_all_mistakes_at_once(make_tool: Make) -> None:
    """One look shows everything; running it names them as well."""
    tool = make_tool("SELECT :b", A, source="", config={"max_rows": -1})
    assert len(check_entry(tool)) == 4
    with pytest.raises(DefinitionError) as caught:
        compile_entry(tool)
    assert len(caught.value.problems) == 4


def test_a_writing_tool_may_write(make_tool: Make) -> None:
    """With readonly: false the same words are right."""
    assert check_entry(make_tool("DELETE FROM t WHERE a=:a", A, readonly=False)) == []
    assert check_entry(make_tool("SELECT 1", readonly=False, effect="write")) == []


def test_sources_of_the_engine(make_tool: Make) -> None:
    """An unknown source is told with the nearest one; a read-only one refuses a writing tool."""
    sources = checked_sources(
        {"shop_eu": "sqlite:///a.db", "log": {"url": "sqlite:///b.db", "readonly": True}}
    )
    registry = ExecutorRegistry(sources=sources)
    (problem,) = registry.check(make_tool("SELECT 1", source="shop_uk"))
    assert problem.path == "entry.source"
    assert "the engine has no source 'shop_uk'; did you mean 'shop_eu'?" in problem.message
    assert "it has log, shop_eu" in registry.check(make_tool("SELECT 1", source="x"))[0].message
    assert registry.check(make_tool("SELECT 1", source="log")) == []
    (problem,) = registry.check(make_tool("DELETE FROM t", source="log", readonly=False))
    assert problem.message == "is false, and the engine's source 'log' is read-only"
    assert check_source(make_tool("SELECT 1", source=None), sources) == []
    # Without any source it is a call that says so: a linter knows none.
    assert ExecutorRegistry().check(make_tool("SELECT 1", source="x")) == []


def test_what_checks_depend_on() -> None:
    """Answers that were kept for other sources are not used again."""
    one = checked_sources({"a": "sqlite:///a.db"})
    other = checked_sources({"a": {"url": "sqlite:///a.db", "readonly": True}})
    keys = {ExecutorRegistry(sources=each).check_key() for each in (None, one, other)}
    assert len(keys) == 3
