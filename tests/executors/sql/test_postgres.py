"""What holds in a real PostgreSQL server."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.executors.sql.conftest import BOUND, Shop
from tests.postgres import PostgresServer
from tool_engine.errors import ToolExecutionError


async def running(server: PostgresServer, url: str) -> list[tuple[Any, ...]]:
    """What the server is doing for the database of `url`."""
    name = url.rpartition("/")[2]
    query = (
        "SELECT pid, query FROM pg_stat_activity WHERE state <> 'idle' AND datname = "  # noqa: S608 - ours
        f"'{name}' AND pid <> pg_backend_pid()"
    )
    return await asyncio.to_thread(server.ask, query)


async def until_running(server: PostgresServer, url: str) -> int:
    """The process that runs a statement, as soon as there is one."""
    while not (found := await running(server, url)):  # noqa: ASYNC110 - a server tells nobody
        await asyncio.sleep(0.05)
    return int(found[0][0])


async def until_idle(server: PostgresServer, url: str) -> None:
    async with asyncio.timeout(BOUND):
        while await running(server, url):  # noqa: ASYNC110 - a server tells nobody
            await asyncio.sleep(0.05)


TYPES = (
    ("9223372036854775807::int8", 9223372036854775807),
    ("1.50::numeric(9, 2)", "1.50"),
    ("123456789012345678901234567890::numeric", "123456789012345678901234567890"),
    ("'NaN'::numeric", "NaN"),
    ("'-infinity'::float8", "-Infinity"),
    ("true", True),
    ("'\\x00ff'::bytea", "AP8="),
    ("'2024-01-02'::date", "2024-01-02"),
    ("'100000-01-01'::date", "100000-01-01"),
    ("'infinity'::date", "infinity"),
    ("'03:04'::time", "03:04:00"),
    ("'03:04+02'::timetz", "03:04:00+02:00"),
    ("'2024-01-02 03:04:05.5'::timestamp", "2024-01-02T03:04:05.5"),
    ("'2024-01-02 03:04+00'::timestamptz AT TIME ZONE 'UTC'", "2024-01-02T03:04:00"),
    ("'infinity'::timestamptz", "infinity"),
    ("'0044-03-15 12:00 BC'::timestamp", "0044-03-15T12:00:00 BC"),
    ("interval '1 month 2 days 3 hours'", "P1M2DT3H"),
    ("'123e4567-e89b-12d3-a456-426614174000'::uuid", "123e4567-e89b-12d3-a456-426614174000"),
    ("'{\"a\": [1, null]}'::jsonb", {"a": [1, None]}),
    ("'[1e999]'::json", "[1e999]"),
    ("ARRAY[1, NULL, 3]", [1, None, 3]),
    ("ARRAY['2024-01-02'::date]", ["2024-01-02"]),
    ("ARRAY[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
    ("ROW(1, 'a', now() IS NULL)", [1, "a", False]),
    ("'[1,3)'::int4range", "[1,3)"),
    ("'10.0.0.1'::inet", "10.0.0.1"),
    ("B'101'", "101"),
    ("point(1, 2)", [1.0, 2.0]),
    ("'sad'::mood", "sad"),
    ("ROW('a', 2)::pair", {"name": "a", "number": 2}),
)


async def test_types(types: Shop) -> None:
    """Each type is exact, and times are in ISO 8601."""
    for sql, expected in TYPES:
        assert await types.rows(f"SELECT {sql} AS x") == [[expected]], sql


@pytest.fixture
async def types(server_shop: Shop) -> Shop:
    await server_shop.write("CREATE TYPE mood AS ENUM ('happy', 'sad')")
    await server_shop.write("CREATE TYPE pair AS (name text, number int)")
    return server_shop


CONDITIONS = (
    ("x = :v", 5),
    (":v = 5", "5"),
    (":v > 4.5::float8", 5),
    (":v = 12.5::numeric", 12.5),
    (":v > now()", "2999-01-01"),
    (":v::date = '2024-01-02'", "2024-01-02"),
    (":v::time < '04:00'", "03:00"),
    (":v::interval = interval '1 day'", "P1D"),
    (":v::uuid IS NOT NULL", "123e4567-e89b-12d3-a456-426614174000"),
    (":v::jsonb @> '{\"a\": 1}'", {"a": 1, "b": 2}),
    (":v::jsonb -> 0 = '1'", [1, 2]),
    (":v::jsonb = '\"a\"'", '"a"'),
    (":v = 'sad'::mood", "sad"),
    ("'sad'::mood IN :v", ["sad", "happy"]),
    ("'2024-01-02'::date IN :v", ["2024-01-02"]),
    ("'{1,2}'::int[] @> :v", [2]),
    (":v::bytea = '\\x00ff'", "AP8="),
    (":v = true", True),
    (":v = 'x'::text", "x"),
    ("'a5' = 'a' || :v", "5"),
)


async def test_values_of_every_type(types: Shop) -> None:
    """A JSON value serves for each type, with or without a cast."""
    for condition, value in CONDITIONS:
        sql = f"SELECT 1 AS n FROM (SELECT 5 AS x) AS t WHERE {condition}"  # noqa: S608 - ours
        assert await types.rows(sql, v=value) == [[1]], condition


async def test_what_does_not_fit(server_shop: Shop) -> None:
    """The message says which parameter, or what the server said."""
    with pytest.raises(ToolExecutionError, match="'id' must be of PostgreSQL's type int4 here"):
        await server_shop.run("SELECT * FROM items WHERE id = :id", id="1; DROP TABLE items")
    with pytest.raises(ToolExecutionError, match='invalid input syntax for type date: "soon"'):
        await server_shop.run("SELECT :day::date", day="soon")
    with pytest.raises(ToolExecutionError, match='relation "nothing" does not exist'):
        await server_shop.run("SELECT * FROM nothing")
    with pytest.raises(ToolExecutionError, match=":x"):
        await server_shop.run("SELECT :x::int4range", x=5)
    assert await server_shop.rows("SELECT 1 AS x") == [[1]]


async def test_the_end_of_a_statement(server_shop: Shop, postgres_server: PostgresServer) -> None:
    """At the deadline the server ends it, and the connection is used on."""
    await server_shop.rows("SELECT 1 AS x")
    with pytest.raises(TimeoutError, match="at its deadline and was ended"):
        await server_shop.run("SELECT pg_sleep(60)", 0.5)
    assert await running(postgres_server, server_shop.url) == []
    assert await server_shop.rows("SELECT 1 AS x") == [[1]]
    assert [pool.checkedin() for pool in server_shop.pools()] == [1]


async def test_a_cancelled_statement_ends(
    server_shop: Shop, postgres_server: PostgresServer
) -> None:
    """The server is told; a second cancel changes nothing."""
    for entry in (None, {"readonly": False}):
        task = asyncio.create_task(server_shop.run("SELECT pg_sleep(60)", None, _entry=entry))
        async with asyncio.timeout(BOUND):
            await until_running(postgres_server, server_shop.url)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await until_idle(postgres_server, server_shop.url)
        assert await server_shop.rows("SELECT 1 AS x") == [[1]]


async def test_a_write_that_is_ended_is_not_kept(server_shop: Shop) -> None:
    """At the deadline, and when it is cancelled."""
    sql = "WITH d AS (DELETE FROM items RETURNING 1) SELECT pg_sleep(60) FROM d"
    with pytest.raises(TimeoutError):
        await server_shop.write(sql, 0.5)
    assert await server_shop.rows("SELECT count(*) FROM items") == [[3]]


async def test_a_server_that_ended_our_connections(
    server_shop: Shop, postgres_server: PostgresServer
) -> None:
    """A connection that is gone is made anew: a restart of the server costs no call."""
    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(server_shop.rows("SELECT 1 AS x FROM pg_sleep(0.1)"))
    name = server_shop.url.rpartition("/")[2]
    ours = f"FROM pg_stat_activity WHERE datname = '{name}'"
    kill = f"SELECT pg_terminate_backend(pid) {ours}"
    await asyncio.to_thread(postgres_server.ask, kill)
    async with asyncio.timeout(BOUND):
        while await asyncio.to_thread(postgres_server.ask, f"SELECT 1 {ours}"):  # noqa: ASYNC110 - a server tells nobody
            await asyncio.sleep(0.05)
    for _ in range(6):
        assert await server_shop.rows("SELECT 1 AS x") == [[1]]


async def test_a_connection_that_is_cut_in_the_middle(
    server_shop: Shop, postgres_server: PostgresServer
) -> None:
    """The call says so, and the next one has a new connection."""
    task = asyncio.create_task(server_shop.run("SELECT pg_sleep(60)", None))
    async with asyncio.timeout(BOUND):
        pid = await until_running(postgres_server, server_shop.url)
        await asyncio.to_thread(postgres_server.ask, f"SELECT pg_terminate_backend({pid})")
        with pytest.raises(ToolExecutionError, match="no connection to the source 'shop'"):
            await task
    assert await server_shop.rows("SELECT 1 AS x") == [[1]]


async def test_a_server_that_is_not_there(postgres_server: PostgresServer) -> None:
    """Neither address nor password is in the message."""
    urls = (
        "postgresql://owner:s3cret-word@127.0.0.1:1/shop",
        postgres_server.url(password="s3cret-word"),
        postgres_server.url("no_such_database"),
    )
    for url in urls:
        shop = Shop(url)
        with pytest.raises(ToolExecutionError) as caught:
            await shop.run("SELECT 1")
        assert str(caught.value).startswith("no connection to the source 'shop': ")
        assert "s3cret-word" not in str(caught.value)
        assert "127.0.0.1" not in str(caught.value)
        await shop.executor.close()


async def test_a_changed_table_is_read_anew(server_shop: Shop) -> None:
    """A statement that was run before a table changed is run again as it is now."""
    sql = "SELECT * FROM items WHERE id = 1"
    assert (await server_shop.run(sql))["columns"] == ["id", "name", "price"]
    await server_shop.write("ALTER TABLE items ADD COLUMN stock int DEFAULT 7")
    assert await server_shop.rows(sql) == [[1, "lamp", "12.50", 7]]


async def test_rows_that_are_too_large(server_shop: Shop) -> None:
    """What the next rows would bring into memory is cut off at the connection."""
    sql = "SELECT repeat('x', :n) AS x FROM generate_series(1, 3)"
    with pytest.raises(ToolExecutionError, match="the next rows are larger than 4456448 bytes"):
        await server_shop.run(sql, n=50_000_000)
    cut = await server_shop.run(sql, n=300_000)
    assert (cut["rows"], cut["is_complete"]) == ([], False)
    assert (await server_shop.run(sql, n=80_000))["row_count"] == 3


async def test_settings_end_with_the_call(server_shop: Shop) -> None:
    """One call leaves nothing behind in the connection that the next one uses."""
    await server_shop.run("SELECT set_config('search_path', 'nowhere', false)")
    assert await server_shop.rows("SELECT count(*) FROM items") == [[3]]
    timeout = "SELECT current_setting('statement_timeout') AS t"
    assert await server_shop.rows(timeout) != [["0"]]
    assert [list(r.values()) for r in (await server_shop.run(timeout, None))["rows"]] == [["0"]]


async def test_a_wrong_url_is_told_by_the_call() -> None:
    """The message names the source."""
    with pytest.raises(ToolExecutionError, match="the engine's source 'shop': sslmode must be"):
        await Shop("postgresql://h/d?sslmode=no").run("SELECT 1")


async def test_a_server_without_encryption(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`prefer` takes a plain connection, `require` does not; the environment has no say."""
    url = await asyncio.to_thread(postgres_server.fresh_database)
    monkeypatch.setenv("PGPASSWORD", "wrong")
    monkeypatch.setenv("PGHOST", "127.0.0.2")
    monkeypatch.setenv("PGSSLMODE", "require")
    shop = Shop(url)
    assert await shop.rows("SELECT 1 AS x") == [[1]]
    await shop.executor.close()
    shop = Shop(f"{url}?sslmode=require")
    with pytest.raises(ToolExecutionError, match="the server offers no encryption"):
        await shop.run("SELECT 1")
    await shop.executor.close()
    place = f"127.0.0.1:{postgres_server.port}"
    port = f":{postgres_server.port}"
    shop = Shop(f"{url.replace(place, 'x' + port)}?host={postgres_server.folder}")
    assert await shop.rows("SELECT inet_server_addr() AS x") == [[None]]
    await shop.executor.close()


@pytest.mark.parametrize("is_noticed", [False, True])
async def test_a_connection_that_the_server_ended_while_idle(
    server_shop: Shop, postgres_server: PostgresServer, is_noticed: bool
) -> None:
    """R11: nothing of a statement can have run on a connection that ended before it; looked at:
    the pools of processes, HTTP and SQL."""
    add = "INSERT INTO items VALUES (:id, 'table', 1)"
    count = "SELECT count(*) FROM items"
    await server_shop.write(add, id=4)
    assert await server_shop.rows(count) == [[4]]
    name = server_shop.url.rpartition("/")[2]
    others = f"FROM pg_stat_activity WHERE datname = '{name}'"
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(postgres_server.ask, f"SELECT pg_terminate_backend(pid, 9999) {others}")
        if is_noticed:
            await asyncio.wrap_future(ended)
        # Blocks the loop, which has not noticed the end when the next statement comes.
        assert ended.result(BOUND) == [(True,), (True,)]
    await server_shop.write(add, id=5)
    assert await server_shop.rows(count) == [[5]]
