"""What holds in a SQLite file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.executors.sql.conftest import BOUND, Shop
from tool_engine.errors import ToolExecutionError

FOREVER = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"


@contextmanager
def other_connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, timeout=5, isolation_level=None)) as connection:
        yield connection


async def test_values(shop: Shop) -> None:
    """Types come back as they are stored; what JSON cannot hold says what it is."""
    sql = (
        "SELECT 9223372036854775807 AS i, 1.5 AS f, 1e308 * 10 AS inf, x'00ff' AS b, NULL AS n, "
        "'é' AS t, CAST(x'ff41' AS TEXT) AS broken"
    )
    assert await shop.rows(sql) == [
        [9223372036854775807, 1.5, "Infinity", "AP8=", None, "é", "\ufffdA"]
    ]


async def test_lists_and_objects_are_json_texts(shop: Shop) -> None:
    """A list that stands elsewhere than behind IN is for the JSON functions."""
    sql = "SELECT json_extract(:o, '$.a') AS a, json_array_length(:l) AS n"
    assert await shop.rows(sql, o={"a": "x"}, l=[1, 2]) == [["x", 2]]
    mixed = "SELECT id FROM items WHERE name IN :names OR id IN :ids"
    assert await shop.rows(mixed, names=[None, "chair"], ids=["1"]) == [[1], [2]]


async def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """A wrong path is an error, for reading and for writing, and leaves no empty database."""
    path = tmp_path / "other.db"
    shop = Shop(f"sqlite:///{path}")
    for run in (shop.run, shop.write):
        with pytest.raises(ToolExecutionError, match="the file of the source 'shop' cannot be op"):
            await run("SELECT 1")
    assert not path.exists()
    path.write_bytes(b"this is no database at all, whatever its name says")
    with pytest.raises(ToolExecutionError, match="'shop' is no SQLite database"):
        await shop.run("SELECT 1 FROM items")
    await shop.executor.close()
    folder = Shop(f"sqlite:///{tmp_path}")
    with pytest.raises(ToolExecutionError, match="the file of the source 'shop' cannot be"):
        await folder.run("SELECT 1")


async def test_a_relative_path_counts_from_the_working_directory(
    shop_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sqlite:///shop.db` is the file in the folder that the program runs in."""
    monkeypatch.chdir(shop_file.parent)
    shop = Shop("sqlite:///shop.db")
    assert await shop.rows("SELECT count(*) FROM items") == [[3]]
    await shop.executor.close()


async def test_odd_names_of_files(tmp_path: Path) -> None:
    """A name stays a name: nothing in it is an option of how the file is opened."""
    for name in ("a b#c.db", "50%.db", "ü&mode=memory.db"):
        with other_connection(tmp_path / name) as connection:
            connection.execute("CREATE TABLE t AS SELECT 1 AS x")
        shop = Shop(f"sqlite:///{tmp_path}/{name.replace('%', '%25')}")
        assert await shop.rows("SELECT x FROM t") == [[1]]
        await shop.executor.close()


async def test_the_end_of_a_statement(shop: Shop) -> None:
    """At the deadline SQLite itself ends it, and the connection is used on."""
    with pytest.raises(TimeoutError, match="at its deadline and was ended"):
        await shop.run(FOREVER, 0.3)
    assert await shop.rows("SELECT 1 AS x") == [[1]]
    assert [pool.checkedin() for pool in shop.pools()] == [1]


async def test_a_count_behind_a_with(shop: Shop) -> None:
    """A statement that begins with WITH tells how many rows it wrote, as every other does."""
    rows = "WITH more(id) AS (VALUES (7), (8)) "
    for statement, count in (
        ("INSERT INTO items (id) SELECT id FROM more", 2),
        ("DELETE FROM items WHERE id IN (SELECT id + 1 FROM more)", 1),
        ("DELETE FROM items WHERE id IN (SELECT -id FROM more)", 0),
    ):
        assert await shop.write(rows + statement) == {"row_count": count}
    assert await shop.write("CREATE TABLE other (id integer)") == {"row_count": 0}


async def test_a_cancelled_statement_ends(shop: Shop) -> None:
    """Nobody waits for it, so it does not run on; a second cancel changes nothing."""
    task = asyncio.create_task(shop.run(FOREVER, None))
    await shop.until_busy()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(BOUND):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await shop.rows("SELECT 1 AS x") == [[1]]


async def test_a_locked_file(shop: Shop, shop_file: Path) -> None:
    """A call waits for the lock of another program, and not longer than its deadline."""
    with other_connection(shop_file) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(TimeoutError, match="still waiting for a lock"):
            await shop.write("DELETE FROM items", 0.3)
        task = asyncio.create_task(shop.write("DELETE FROM items WHERE id = 1"))
        await asyncio.sleep(0.1)
        connection.execute("ROLLBACK")
        assert await task == {"row_count": 1}
        connection.execute("BEGIN EXCLUSIVE")
        task = asyncio.create_task(shop.rows("SELECT count(*) FROM items"))
        await asyncio.sleep(0.1)
        connection.execute("ROLLBACK")
        assert await task == [[2]]


async def test_a_commit_waits_for_readers(shop: Shop, shop_file: Path) -> None:
    """What another program is reading is not written under it, nor lost."""
    with other_connection(shop_file) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM items").fetchone()
        task = asyncio.create_task(shop.write("DELETE FROM items WHERE id = 1"))
        await asyncio.sleep(0.2)
        assert not task.done()
        connection.execute("ROLLBACK")
        assert await task == {"row_count": 1}
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM items").fetchone()
        with pytest.raises(TimeoutError):
            await shop.write("DELETE FROM items", 0.3)
        connection.execute("ROLLBACK")
    assert await shop.rows("SELECT count(*) FROM items") == [[2]]


async def test_a_write_is_not_kept_when_its_time_is_over(shop: Shop) -> None:
    """A statement that ends late is rolled back like one that is ended."""
    sql = f"INSERT INTO items (id) SELECT 10 FROM ({FOREVER})"  # noqa: S608 - ours
    with pytest.raises(TimeoutError):
        await shop.write(sql, 0.3)
    assert await shop.rows("SELECT count(*) FROM items") == [[3]]


async def test_other_programs_are_seen(shop: Shop, shop_file: Path) -> None:
    """No call sees an old state, and a changed table is read anew."""
    sql = "SELECT * FROM items WHERE id = 1"
    assert (await shop.run(sql))["columns"] == ["id", "name", "price"]
    with other_connection(shop_file) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("ALTER TABLE items ADD COLUMN stock")
        connection.execute("UPDATE items SET stock = 7")
        assert await shop.rows(sql) == [[1, "lamp", 12.5, 7]]


async def test_foreign_keys_hold(shop: Shop, shop_file: Path) -> None:
    """What the tables promise is kept, although SQLite leaves that off."""
    with other_connection(shop_file) as connection:
        connection.execute("CREATE TABLE parts (item REFERENCES items (id))")
    with pytest.raises(ToolExecutionError, match="FOREIGN KEY constraint failed"):
        await shop.write("INSERT INTO parts VALUES (99)")
