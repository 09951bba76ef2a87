"""Do SQL tools meet a database of their test, and no other?"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testing.checked import cases_of, problems
from tool_engine import ToolExecutionError
from tool_engine.testing.report import CaseStatus
from tool_engine.testing.scratch_sources import ScratchSources

TOOL = """
name: stock
description: How much there is.
category: database
parameters:
  - {name: item, type: string, required: true, description: Item}
entry:
  {type: builtin, handler: sql_query, source: shop, sql: "SELECT n FROM stock WHERE item = :item"}
tests:
"""
WRITES = """
name: sell
description: Sells.
category: database
effect: write
parameters:
  - {name: item, type: string, required: true, description: Item}
entry:
  type: builtin
  handler: sql_query
  source: shop
  readonly: false
  sql: "UPDATE stock SET n = n - 1 WHERE item = :item RETURNING n"
tests:
"""
SCRIPT = "CREATE TABLE stock (item TEXT, n INT); INSERT INTO stock VALUES ('lamp', 3), ('bulb', 0)"
TEST = f"""
  - params: {{item: lamp}}
    sources: {{shop: "{SCRIPT}"}}
    expect_part: {{rows: [{{n: NUMBER}}]}}
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary folders are made; nothing may be left there."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    yield place
    assert list(place.iterdir()) == []


@pytest.mark.usefixtures("temporary")
async def test_a_statement_runs_in_the_database_of_its_test(tmp_path: Path) -> None:
    """The rows come from the script; the values are bound as ever."""
    tests = TEST.replace("NUMBER", "3") + TEST.replace("lamp}", '"\' OR 1=1 --"}').replace(
        "[{n: NUMBER}]", "[]"
    )
    assert problems(await cases_of(tmp_path / "tools", TOOL + tests)) == []


@pytest.mark.usefixtures("temporary")
async def test_what_one_test_writes_the_next_does_not_see(tmp_path: Path) -> None:
    """Each test has databases of its own."""
    tests = 2 * TEST.replace("NUMBER", "2")
    assert problems(await cases_of(tmp_path / "tools", WRITES + tests)) == []


@pytest.mark.usefixtures("temporary")
async def test_a_difference_fails(tmp_path: Path) -> None:
    """What the database returned is held against what was written."""
    (problem,) = problems(await cases_of(tmp_path / "tools", TOOL + TEST.replace("NUMBER", "4")))
    assert problem == "output.rows[0].n: expected 4, got 3"


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """A database that is named by the engine."""
    path = tmp_path / "real.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCRIPT)
    return path


def digest(path: Path) -> str:
    """What tells two files apart."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def test_a_test_with_sources_never_asks_the_real_one(tmp_path: Path, real: Path) -> None:
    """Not even where it gives another one than its tool names."""
    tests = '  - {params: {item: lamp}, sources: {show: ""}, expect_part: {}}\n'
    settings = {"sources": {"shop": f"sqlite:///{real}"}}
    (problem,) = problems(await cases_of(tmp_path / "tools", TOOL + tests, **settings))
    assert "the test has no source 'shop', and the real one is not used" in problem


async def test_without_sources_nothing_is_written(tmp_path: Path, real: Path) -> None:
    """The real database stays as it is, and the cure is told."""
    before = digest(real)
    tests = "  - {params: {item: lamp}, expect_part: {}}\n"
    settings = {"sources": {"shop": f"sqlite:///{real}"}}
    (problem,) = problems(await cases_of(tmp_path / "tools", WRITES + tests, **settings))
    assert "would write to the real source 'shop', which a test leaves alone" in problem
    assert 'sources: {shop: "CREATE TABLE …"}' in problem
    assert digest(real) == before


async def test_without_sources_reading_is_as_ever(tmp_path: Path, real: Path) -> None:
    """The database that the engine names is asked; where it names none, both cures are told."""
    tests = "  - {params: {item: lamp}, expect_part: {rows: [{n: 3}]}}\n"
    settings = {"sources": {"shop": f"sqlite:///{real}"}}
    assert problems(await cases_of(tmp_path / "tools", TOOL + tests, **settings)) == []
    (problem,) = problems(await cases_of(tmp_path / "tools", TOOL + tests))
    assert "the engine has no source 'shop'; name it below [sources] in tool-engine.toml" in problem
    assert 'give the test a database of its own: sources: {shop: "CREATE TABLE …"}' in problem
    text = TOOL.replace("FROM stock", "FROM stok") + tests
    (problem,) = problems(await cases_of(tmp_path / "tools", text, **settings))
    assert problem.endswith("the database refused the statement: no such table: stok")


@pytest.mark.usefixtures("temporary")
async def test_a_broken_script_fails_its_test_only(tmp_path: Path) -> None:
    """The test is told with the database's own words; the next one is run."""
    tests = '\n  - {params: {item: a}, sources: {shop: "CREATE TABL x"}, expect_part: {}}'
    first, second = await cases_of(tmp_path / "tools", TOOL + tests + TEST.replace("NUMBER", "3"))
    assert first.problems == ['sources.shop: SQLite refused the script: near "TABL": syntax error']
    assert first.status is CaseStatus.FAILED
    assert second.problems == []


@pytest.mark.usefixtures("temporary")
async def test_a_database_that_nothing_asks_fails(tmp_path: Path) -> None:
    """A test that no statement has run in shows nothing about databases."""
    text = "name: echo\ndescription: E.\nentry: {type: builtin, handler: echo}\ntests:\n"
    text += '  - {params: {}, sources: {shop: ""}, expect: {}}\n'
    (problem,) = problems(await cases_of(tmp_path / "tools", text))
    assert problem.startswith("sources: the tool asked no database; remove it")


@pytest.mark.usefixtures("temporary")
async def test_without_the_libraries_a_test_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told with the cure, never passed; what needs no database is run."""
    monkeypatch.delitem(sys.modules, "tool_engine.executors.sql.sqlite", raising=False)
    monkeypatch.delitem(sys.modules, "tool_engine.executors.sql.connection_pool", raising=False)
    monkeypatch.setitem(sys.modules, "sqlalchemy.exc", None)
    tests = TEST.replace("NUMBER", "3") + "  - {params: {}, expect_error: validation_error}\n"
    skipped, run = await cases_of(tmp_path / "tools", TOOL + tests)
    assert skipped.status is CaseStatus.SKIPPED
    assert "pip install 'tool-engine[sql]'" in skipped.problems[0]
    assert run.status is CaseStatus.PASSED


@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("ATTACH '{victim}' AS v; CREATE TABLE v.t(a)", "may only make its own database"),
        ("CREATE TABLE t(a); VACUUM INTO '{victim}'", "may only make its own database"),
        ("PRAGMA journal_mode = wal", "may only make its own database"),
        ("PRAGMA max_page_count = 1000000000", "may only make its own database"),
        ("SELECT load_extension('{victim}')", "not authorized to use function: load_extension"),
        ("CREATE VIRTUAL TABLE t USING fts5(a)", "may only make its own database"),
        ("CREATE TEMP TABLE t(a)", "may only make its own database"),
        ("SELECT 'a' LIKE printf('%.200c', 'a')", "LIKE or GLOB pattern too complex"),
        ("SELECT 1; nonsense", "SQLite refused the script"),
        ("SELECT 'a\0b'", "SQLite refused the script"),
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n FROM t) SELECT count(*) FROM t",
            "runs for more than 0.2 s",
        ),
        (
            (
                "CREATE TABLE t(a); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) "
                "INSERT INTO t SELECT zeroblob(100000) FROM n"
            ),
            "gets larger than 1 MiB",
        ),
        ("SELECT length(zeroblob(100000000))", "SQLite refused the script: string or blob too big"),
    ],
)
def test_a_script_stays_in_its_database(
    script: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes a definition gets no file, no library and no hour of the machine."""
    room = "tool_engine.testing.scratch_sources"
    monkeypatch.setattr(f"{room}._SECONDS", 0.2 if "count(*)" in script else 5.0)
    monkeypatch.setattr(f"{room}._MOST_PAGES", 256)
    victim = tmp_path / "victim.db"
    with pytest.raises(ToolExecutionError, match=r"^sources\.shop: ") as caught:
        ScratchSources(
            {"first": "CREATE TABLE t(a)", "shop": script.replace("{victim}", str(victim))}
        )
    assert message in str(caught.value)
    assert not victim.exists()


@pytest.mark.usefixtures("temporary")
def test_a_script_may_use_transactions() -> None:
    """What a dump of a database holds is fine, but for its PRAGMAs."""
    made = ScratchSources({"a/../b": "BEGIN; CREATE TABLE t(a); INSERT INTO t VALUES (1); COMMIT;"})
    assert set(made.sources) == {"a/../b"}
    made.remove()
