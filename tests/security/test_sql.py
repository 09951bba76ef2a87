"""Attacks on SQL tools: a real SQLite file and a real PostgreSQL server, asked again afterwards.

A model writes every value; the definition is its author's. The worst that a value may reach is to
be one value, and a tool that only reads must not write whatever its statement says.
"""

# ruff: noqa: S608 - every statement that is put together here is the tests' own

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from tests.effort import IS_WHOLE
from tests.postgres import PostgresServer
from tests.security.heartbeat import assert_beats_on
from tool_engine import Tool, ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.errors import DefinitionError, ToolExecutionError
from tool_engine.executors.sql import sql_entry as entry_module
from tool_engine.executors.sql.sql_executor import SQLExecutor
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.settings.databases import checked_sources
from tool_engine.model.tool import ToolCategory

BOUND = 30.0
SECRET = "s3cr3t-of-the-owner"
TABLES = f"""
    CREATE TABLE items (id integer PRIMARY KEY, name text);
    INSERT INTO items VALUES (1, 'lamp'), (2, 'chair');
    CREATE TABLE secrets (word text);
    INSERT INTO secrets VALUES ('{SECRET}');
"""

HOSTILE = (
    "'",
    "''",
    '"',
    "`",
    "\\",
    "\\'",
    "%",
    "_",
    ";",
    "--",
    "#",
    "/*",
    "*/",
    "$$",
    "$1",
    "?1",
    ":name",
    ":id",
    "{name}",
    "${env:HOME}",
    "NULL",
    "lamp'",
    "' OR '1'='1",
    "' OR 1=1 --",
    "' OR 1=1 #",
    "' OR 1=1 /*",
    '" OR ""="',
    "') OR ('1'='1",
    "')) OR (('1'='1",
    "' || (SELECT word FROM secrets) || '",
    "' UNION SELECT word FROM secrets --",
    "' UNION ALL SELECT word, word FROM secrets --",
    "lamp' AND (SELECT count(*) FROM secrets) > 0 --",
    "'; DROP TABLE items; --",
    "'; DROP TABLE items CASCADE; SELECT '",
    "1; DELETE FROM items",
    "'; INSERT INTO items VALUES (9, 'x'); --",
    "'; UPDATE items SET name = 'x'; COMMIT; --",
    "'; ATTACH DATABASE '/tmp/x.db' AS x; --",
    "'; PRAGMA query_only = 0; --",
    "'; SET default_transaction_read_only = off; --",
    "'; COPY items TO PROGRAM 'touch canary'; --",
    "'; SELECT pg_sleep(60); --",
    "' || pg_sleep(60) || '",
    "' AND 1 = randomblob(1000000000) --",
    "'; SELECT load_extension('evil'); --",
    "\\'; DROP TABLE items; --",
    "\\\\' OR 1=1 --",
    "$$; DROP TABLE items; $$",
    "$x$ OR 1=1 $x$",
    "E'\\x27 OR 1=1",
    "U&'\\0027' OR 1=1",
    "\u02bc OR 1=1 --",
    "\uff07 OR 1=1 --",
    "\u2019 OR \u20191\u2019=\u20191",
    "\x1a",
    "\x08'",
    "\r\n'; DROP TABLE items; --",
    "lamp\u0000",
    "lamp /* */",
    " lamp",
    "lamp ",
    "LAMP",
    "x" * 100_000,
    "'" * 100_000,
    "(" * 10_000,
    "",
)


class Bench:
    """One database, and what it takes to attack and to look at it."""

    def __init__(self, kind: str, url: str, folder: Path, server: Any = None) -> None:
        self.kind, self.url, self.folder, self.server = kind, url, folder, server
        self.executor = SQLExecutor(checked_sources({"shop": url}))

    async def run(
        self, sql: str, seconds: float = BOUND, /, _entry: Any = None, **params: Any
    ) -> Any:
        kinds = {str: "string", int: "integer", list: "array"}
        tool = Tool(
            id="attacked",
            name="attacked",
            version="1.0.0",
            description="A sample",
            category=ToolCategory.DATABASE,
            tags=[],
            parameters=[
                ToolParameter(name, kinds.get(type(value), "any"), required=True)
                for name, value in params.items()
            ],
            implementation_config={"sql": sql, "source": "shop", **(_entry or {})},
        )
        context = ToolExecutionContext()
        context.deadline = asyncio.get_running_loop().time() + seconds
        async with asyncio.timeout(BOUND):
            return await self.executor.execute(tool, params, context)

    async def look(self) -> list[tuple[Any, ...]]:
        """The rows of items, as another program sees them."""
        query = "SELECT id, name FROM items ORDER BY id"
        if self.server is not None:
            name = self.url.rpartition("/")[2]
            found: list[tuple[Any, ...]] = await asyncio.to_thread(self.server.ask, query, name)
            return found
        return await asyncio.to_thread(self._look_into_file, query)

    def _look_into_file(self, query: str) -> list[tuple[Any, ...]]:
        path = self.url.removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(path)) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture
async def sqlite_bench(tmp_path: Path) -> AsyncIterator[Bench]:
    path = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(TABLES)
    bench = Bench("sqlite", f"sqlite:///{path}", tmp_path)
    yield bench
    await bench.executor.close()
    assert await bench.look() == [(1, "lamp"), (2, "chair")]
    assert await asyncio.to_thread(os.listdir, tmp_path) == ["shop.db"]


@pytest.fixture
async def server_bench(postgres_server: PostgresServer, tmp_path: Path) -> AsyncIterator[Bench]:
    url = await asyncio.to_thread(postgres_server.fresh_database, TABLES)
    bench = Bench("postgresql", url, tmp_path, postgres_server)
    yield bench
    await bench.executor.close()
    assert await bench.look() == [(1, "lamp"), (2, "chair")]


@pytest.fixture(params=["sqlite", "postgresql"])
def bench(request: pytest.FixtureRequest) -> Bench:
    name = "sqlite_bench" if request.param == "sqlite" else "server_bench"
    found: Bench = request.getfixturevalue(name)
    return found


@pytest.fixture
def allow_every_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the checks of a definition away, so that only the database stands in the way."""
    monkeypatch.setattr(entry_module, "_NO_STATEMENT_OF_A_TOOL", {})
    monkeypatch.setattr(entry_module, "_WRITES", frozenset())
    monkeypatch.setattr(entry_module, "_INNER_WRITES", frozenset())


async def test_a_value_stays_a_value(bench: Bench) -> None:
    """Sixty ways out of a string: each is compared with the names as it is, and finds none."""
    assert len(HOSTILE) > 60
    for value in HOSTILE:
        places = {
            "SELECT id FROM items WHERE name = :name": value,
            "SELECT id FROM items WHERE name IN :name": [value, "nothing"],
            "SELECT id FROM items WHERE name IN (:name)": value,
        }
        for sql, sent in places.items():
            if "\0" in value:
                # SQLite would read it up to there, and find the lamp.
                with pytest.raises(ToolExecutionError, match="a NUL character"):
                    await bench.run(sql, name=sent)
            else:
                assert (await bench.run(sql, name=sent))["rows"] == [], value


async def test_a_value_comes_back_as_it_was(bench: Bench) -> None:
    """Nothing is escaped, doubled or cut on the way."""
    sql = "SELECT :name AS x" if bench.kind == "sqlite" else "SELECT :name::text AS x"
    for value in HOSTILE:
        if "\0" not in value:
            assert (await bench.run(sql, name=value))["rows"] == [{"x": value}]


async def test_a_value_is_no_number_of_another_kind(bench: Bench) -> None:
    """A text for a number finds nothing or is refused; it is never read as SQL."""
    sql = "SELECT name FROM items WHERE id = :id LIMIT :most"
    for value in ("1 OR 1=1", "1; DROP TABLE items", "(SELECT 1)", "1--", "0x01", "1e0 OR 1"):
        if bench.kind == "sqlite":
            assert (await bench.run(sql, id=value, most=5))["rows"] == []
        else:
            with pytest.raises(ToolExecutionError, match="'id' must be of PostgreSQL's type int4"):
                await bench.run(sql, id=value, most=5)
    with pytest.raises(ToolExecutionError):
        await bench.run(sql, id=1, most="1 UNION SELECT word FROM secrets")


@pytest.mark.usefixtures("allow_every_statement")
@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO items VALUES (9, 'x')",
        "UPDATE items SET name = 'x'",
        "DELETE FROM items",
        "DROP TABLE items",
        "CREATE TABLE more (x int)",
        "ALTER TABLE items ADD COLUMN x int",
        "INSERT INTO items SELECT 9, 'x' RETURNING id",
        "WITH x AS (SELECT 9 AS id) INSERT INTO items SELECT id, 'x' FROM x",
        "CREATE INDEX more ON items (name)",
        "CREATE VIEW more AS SELECT 1",
    ],
)
async def test_a_reading_tool_does_not_write(bench: Bench, sql: str) -> None:
    """The database refuses it, even where no word of the statement was checked."""
    with pytest.raises(ToolExecutionError, match="the database refused the statement"):
        await bench.run(sql)


@pytest.mark.usefixtures("allow_every_statement")
@pytest.mark.parametrize("is_readonly", [True, False])
@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH DATABASE 'FOLDER/canary.db' AS x",
        "ATTACH DATABASE ':memory:' AS x",
        "DETACH DATABASE main",
        "PRAGMA query_only = 0",
        "PRAGMA writable_schema = 1",
        "PRAGMA journal_mode = WAL",
        "PRAGMA temp_store_directory = 'FOLDER'",
        "SELECT * FROM pragma_database_list",
        "SELECT * FROM pragma_query_only(0)",
        "VACUUM INTO 'FOLDER/canary.db'",
        "VACUUM",
        "SELECT load_extension('FOLDER/evil')",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('FOLDER/canary', 'x')",
        "SELECT edit('x', 'touch FOLDER/canary')",
        "SELECT fts3_tokenizer('simple')",
        "CREATE VIRTUAL TABLE x USING fts5(y)",
        "CREATE VIRTUAL TABLE x USING csv(filename='/etc/passwd')",
        "COMMIT",
        "SAVEPOINT x",
    ],
)
async def test_sqlite_stays_in_its_file(sqlite_bench: Bench, sql: str, is_readonly: bool) -> None:
    """Neither for reading nor for writing is there a way to another file or another mode."""
    with pytest.raises(ToolExecutionError):
        await sqlite_bench.run(
            sql.replace("FOLDER", str(sqlite_bench.folder)), _entry={"readonly": is_readonly}
        )


@pytest.mark.usefixtures("allow_every_statement")
@pytest.mark.parametrize(
    "sql",
    [
        "WITH x AS (DELETE FROM items RETURNING id) SELECT id FROM x",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT set_config('transaction_read_only', 'off', true)",
        "SET TRANSACTION READ WRITE",
        "DO $$ BEGIN SET TRANSACTION READ WRITE; DELETE FROM items; END $$",
        "DO $$ BEGIN DELETE FROM items; END $$",
        "DO $$ BEGIN COMMIT; DELETE FROM items; END $$",
        "SELECT nextval('numbers')",
        "SELECT * FROM items FOR UPDATE",
        "COPY items TO PROGRAM 'touch FOLDER/canary'",
        "COPY items FROM PROGRAM 'echo 9'",
        "TRUNCATE items",
        "PREPARE TRANSACTION 'x'",
        "VACUUM",
        "CREATE TEMP TABLE x (y int)",
        "SELECT 1; DELETE FROM items",
    ],
)
async def test_a_reading_transaction_stays_one(server_bench: Bench, sql: str) -> None:
    """There is no way out of it with one statement, whatever is in it."""
    if "numbers" in sql:
        await server_bench.run("CREATE SEQUENCE numbers", _entry={"readonly": False})
    with pytest.raises((ToolExecutionError, DefinitionError)):
        await server_bench.run(sql.replace("FOLDER", str(server_bench.folder)))
    assert not (server_bench.folder / "canary").exists()


@pytest.mark.usefixtures("allow_every_statement")
async def test_what_the_server_lets_pass_is_rolled_back(server_bench: Bench) -> None:
    """Some functions write in a read-only transaction; with its end nothing of that is there."""
    for sql in (
        "SELECT lo_create(0), lo_from_bytea(0, 'x')",
        "LOCK TABLE items IN EXCLUSIVE MODE",
        "SELECT pg_notify('x', 'y')",
        "LISTEN x",
    ):
        await server_bench.run(sql)
    name = server_bench.url.rpartition("/")[2]
    for query in (
        "SELECT 1 FROM pg_largeobject_metadata",
        "SELECT 1 FROM pg_locks WHERE mode = 'ExclusiveLock' AND relation IS NOT NULL",
    ):
        assert await asyncio.to_thread(server_bench.server.ask, query, name) == []
    assert (await server_bench.run("SELECT * FROM pg_listening_channels()"))["rows"] == []


@pytest.mark.usefixtures("allow_every_statement")
async def test_what_a_session_sets_does_not_last(server_bench: Bench) -> None:
    """The next call on the same connection is as read-only as the first."""
    for sql in (
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SET default_transaction_read_only = off",
        "SET statement_timeout = 0",
        "SET search_path = nowhere",
        "SELECT set_config('default_transaction_read_only', 'off', false)",
    ):
        await server_bench.run(sql)
        with pytest.raises(ToolExecutionError, match="read-only"):
            await server_bench.run("DELETE FROM items")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; DELETE FROM items",
        "SELECT 1;;; DROP TABLE items",
        "SELECT 1; -- x\n DELETE FROM items",
        "SELECT ';' ; SELECT 2",
        "DELETE FROM items WHERE id = 1; SELECT 1",
    ],
)
async def test_stacked_statements(bench: Bench, sql: str) -> None:
    """More than one statement is refused when the tool is read, for writing too."""
    for is_readonly in (True, False):
        with pytest.raises(DefinitionError, match="more than one statement"):
            await bench.run(sql, _entry={"readonly": is_readonly})


NUMBERS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
TRIPLE = "SELECT count(*) FROM {0} AS a, {0} AS b, {0} AS c"
BOMBS = {
    "sqlite": (
        NUMBERS + "SELECT max(x) FROM n",
        NUMBERS + "SELECT count(*) FROM n AS a, n AS b",
        NUMBERS + "SELECT x FROM n ORDER BY x DESC",
        TRIPLE.format("json_each(:many)"),
    ),
    "postgresql": (
        "SELECT pg_sleep(60)",
        NUMBERS + "SELECT max(x) FROM n",
        "SELECT count(*) FROM generate_series(1, 1000000000)",
        TRIPLE.format("unnest(:many::int[])"),
    ),
}


async def test_bombs_end_at_the_deadline(bench: Bench) -> None:
    """Each ends in time, the connection lives on, and the server does nothing any more."""
    for sql in BOMBS[bench.kind]:
        params = {"many": list(range(2000))} if ":many" in sql else {}
        with pytest.raises(TimeoutError, match="at its deadline and was ended"):
            await bench.run(sql, 0.4, **params)
        assert (await bench.run("SELECT 1 AS x"))["rows"] == [{"x": 1}]
    if bench.server is not None:
        query = (
            "SELECT query FROM pg_stat_activity WHERE state = 'active' AND query ILIKE '%n AS %'"
        )
        assert (
            await asyncio.to_thread(bench.server.ask, query + " AND pid <> pg_backend_pid()") == []
        )


FLOOD = NUMBERS + "SELECT x, 'text' AS y FROM n"


async def test_floods_of_rows(bench: Bench) -> None:
    """Only what the result has room for is ever fetched."""
    result = await bench.run(FLOOD, _entry={"config": {"max_rows": 100_000}})
    assert not result["is_complete"]
    assert 1000 < result["row_count"] < 20_000


GIGANTIC = 100_000_000 if IS_WHOLE else 20_000_000


async def test_huge_values(bench: Bench) -> None:
    """A value that a parameter makes gigantic fills no memory."""
    calls = {
        "sqlite": (
            "SELECT zeroblob(:n) AS x",
            "SELECT hex(randomblob(:n)) AS x",
            "SELECT printf('%.*c', :n, 'x') AS x",
            "SELECT replace(printf('%.1000000c', 'x'), 'x', printf('%.*c', :n, 'y')) AS x",
        ),
        "postgresql": ("SELECT repeat('x', :n) AS x", "SELECT lpad('x', :n) AS x"),
    }
    for sql in calls[bench.kind]:
        with contextlib.suppress(ToolExecutionError):
            result = await bench.run(sql, n=GIGANTIC)
            assert len(str(result)) < 1000
    with pytest.raises(ToolExecutionError, match="larger than 4456448 bytes"):
        await bench.run(calls[bench.kind][0], n=GIGANTIC)
    assert (await bench.run("SELECT 1 AS x"))["rows"] == [{"x": 1}]


async def test_evil_patterns(bench: Bench) -> None:
    """LIKE with a hundred wildcards takes no noticeable time, or ends at the deadline."""
    sql = "SELECT count(*) AS n FROM items WHERE CAST(:text AS text) LIKE :pattern"
    for pattern in ("%a" * 100 + "b", "_" * 50_000, "%" * 50_000, "%_" * 2_000):
        with contextlib.suppress(TimeoutError, ToolExecutionError):
            await bench.run(sql, 2.0, text="a" * 2_000, pattern=pattern)
    assert (await bench.run("SELECT 1 AS x"))["rows"] == [{"x": 1}]


SLOW_ROWS = """
    WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000)
    SELECT count(*) AS n FROM numbers WHERE (:text || n) LIKE :pattern
"""


async def test_slow_rows_end_at_the_deadline(sqlite_bench: Bench) -> None:
    """Where each row takes half a second, the statement ends with the first row that is late."""
    pattern = "%" + "a_" * 480 + "b"
    async with asyncio.timeout(BOUND):
        with pytest.raises(TimeoutError, match="at its deadline"):
            await sqlite_bench.run(SLOW_ROWS, 0.2, text="a" * 400_000, pattern=pattern)
        slow = asyncio.create_task(
            sqlite_bench.run(SLOW_ROWS, BOUND, text="a" * 400_000, pattern=pattern)
        )
        await asyncio.sleep(0.2)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow


async def test_a_pattern_is_bounded(sqlite_bench: Bench) -> None:
    """SQLite compares one value with a pattern to the end, so the pattern may not be long."""
    for operator in ("LIKE", "GLOB"):
        with pytest.raises(ToolExecutionError, match="is longer than 1000 bytes"):
            await sqlite_bench.run(f"SELECT :text {operator} :p AS x", text="a", p="a" * 1001)
        found = await sqlite_bench.run(f"SELECT :text {operator} :p AS x", text="a", p="a" * 1000)
        assert found["rows"] == [{"x": 0}]


@pytest.mark.beats
@pytest.mark.thinned(2)
@pytest.mark.parametrize("number", [0, 1, 2])
async def test_the_heart_beats_on(bench: Bench, number: int) -> None:
    """No bomb or flood holds up the other calls of the process for more than 100 ms."""
    await bench.run("SELECT 1 AS x")

    async def attack() -> None:
        if number == 2:
            await bench.run(FLOOD, _entry={"config": {"max_rows": 100_000}})
        else:
            with pytest.raises(TimeoutError):
                await bench.run(BOMBS[bench.kind][number], 0.5)

    await assert_beats_on(attack)


async def test_no_secret_in_what_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_server: PostgresServer
) -> None:
    """Neither result, error, record, event nor repr holds the password of a source."""
    password = "p@ss/word:with%odd?signs"
    monkeypatch.setenv("SHOP_PASSWORD", password)
    definition = """
name: look
description: Looks at something in the shop
category: database
effect: read
parameters:
  - {name: x, type: string, required: true, description: A text}
entry:
  type: builtin
  source: SOURCE
  sql: SELECT :x::text AS x, current_user AS u
"""
    for source in ("shop", "gone"):
        text = definition.replace("SOURCE", source).replace("look", f"look_{source}")
        (tmp_path / f"look_{source}.yaml").write_text(text, encoding="utf-8")
    role = f"CREATE ROLE reader LOGIN PASSWORD '{password}'"
    await asyncio.to_thread(postgres_server.ask, role)
    place = f"127.0.0.1:{postgres_server.port}"
    sources: Any = {
        "shop": f"postgresql://reader:${{env:SHOP_PASSWORD}}@{place}/postgres",
        "gone": f"postgresql://nobody:${{env:SHOP_PASSWORD}}@{place}/postgres",
        "plain": f"postgresql://reader:other-{SECRET}@{place}/postgres?sslcert={SECRET}",
    }
    config = ToolEngineConfig(tools_directory=str(tmp_path), sources=sources)
    seen: list[Any] = [repr(config), repr(config.sources)]
    async with ToolEngine(config) as engine:
        engine.subscribe(lambda event: seen.append(f"{event!r} {asdict(event)}"))
        answered = await engine.execute("look_shop", {"x": f"it is {password}"})
        refused = await engine.execute("look_gone", {"x": "a"})
        seen += [repr(answered.to_dict()), repr(refused.to_dict()), repr(engine)]
        seen += [repr(each) for each in await engine.query_call_records()]
    assert answered.output["rows"] == [{"x": "it is [hidden]", "u": "reader"}]
    assert "no connection to the source 'gone'" in str(refused.error)
    for text in seen:
        assert password not in text
        assert "p%40ss" not in text
        assert SECRET not in text
