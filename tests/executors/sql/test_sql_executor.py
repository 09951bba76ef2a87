"""A SQL tool does the same in both databases."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.executors.sql.conftest import Shop, make_sql_tool
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.errors import DefinitionError, MissingExtraError, ToolExecutionError
from tool_engine.executors.sql import sql_executor as executor_module
from tool_engine.executors.sql.sql_executor import SQLExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.parameter import ToolParameter


async def test_a_row_by_its_key(any_shop: Shop) -> None:
    """A value goes to its place with its type, and the row comes back as a mapping."""
    assert await any_shop.run("SELECT id, name FROM items WHERE id = :id", id=2) == {
        "columns": ["id", "name"],
        "rows": [{"id": 2, "name": "chair"}],
        "row_count": 1,
        "is_complete": True,
    }
    assert await any_shop.rows("SELECT id FROM items WHERE name = :name", name="' OR 1=1 --") == []


async def test_lists(any_shop: Shop) -> None:
    """A list of any length, the empty one included, means what a person expects."""
    within = "SELECT id FROM items WHERE id IN :ids ORDER BY id"
    without = "SELECT id FROM items WHERE id NOT IN (:ids) ORDER BY id"
    assert await any_shop.rows(within, ids=[2, 1, 9]) == [[1], [2]]
    assert await any_shop.rows(without, ids=[2, 9]) == [[1], [3]]
    assert await any_shop.rows(within, ids=[]) == []
    assert await any_shop.rows(without, ids=[]) == [[1], [2], [3]]
    assert await any_shop.rows(within, ids=list(range(50_000))) == [[1], [2], [3]]
    named = "SELECT id FROM items WHERE name IN :names"
    assert await any_shop.rows(named, names=["lamp", "x' OR 'a'='a"]) == [[1]]
    assert await any_shop.rows("SELECT id FROM items WHERE id IN (:id)", id=2) == [[2]]


async def test_an_optional_value_is_null(any_shop: Shop) -> None:
    """What a call leaves out is NULL, so that one statement serves both."""
    sql = "SELECT id FROM items WHERE (:name IS NULL OR name = :name) ORDER BY id"
    tool = make_sql_tool(sql, ToolParameter("name", "string"))
    assert (await any_shop.call(tool, {}))["row_count"] == 3
    assert (await any_shop.call(tool, {"name": "lamp"}))["row_count"] == 1


async def test_identifiers_are_chosen(any_shop: Shop) -> None:
    """A column and an order come from an enum; anything else is refused here as well."""
    tool = make_sql_tool(
        "SELECT id FROM items WHERE id < 3 ORDER BY {column} {order}",
        ToolParameter("column", "string", required=True, validation={"enum": ["id", "name"]}),
        ToolParameter("order", "string", required=True, validation={"enum": ["asc", "DESC"]}),
    )
    for column, order, expected in (("name", "asc", [2, 1]), ("id", "DESC", [2, 1])):
        result = await any_shop.call(tool, {"column": column, "order": order})
        assert [row["id"] for row in result["rows"]] == expected
    for wrong in ("price", "id; DROP TABLE items", "ID", "", None, ["id"]):
        with pytest.raises(ToolExecutionError, match="'column' must be one of id, name, got"):
            await any_shop.call(tool, {"column": wrong, "order": "asc"})


async def test_a_write_is_kept_or_not_at_all(any_shop: Shop) -> None:
    """Success commits; a failure leaves nothing of the statement."""
    insert = "INSERT INTO items (id, name) VALUES (:id, :name)"
    assert await any_shop.write(insert, id=4, name="desk") == {"row_count": 1}
    assert await any_shop.rows("SELECT name FROM items WHERE id = 4") == [["desk"]]
    several = "INSERT INTO items (id) SELECT id + 1 FROM items ORDER BY id DESC"
    with pytest.raises(ToolExecutionError, match="the database refused the statement"):
        await any_shop.write(several.replace(" DESC", ""))
    assert len(await any_shop.rows("SELECT id FROM items")) == 4
    assert await any_shop.write("UPDATE items SET name = :name", name="x") == {"row_count": 4}
    assert await any_shop.write("DELETE FROM items WHERE id > :id", id=9) == {"row_count": 0}


async def test_a_write_that_returns_rows(any_shop: Shop) -> None:
    """All is written whatever the result has room for, and counted."""
    many = (
        "INSERT INTO items (id, name) WITH RECURSIVE n(x) AS (SELECT 100 UNION ALL SELECT x + 1 "
        "FROM n WHERE x < 1099) SELECT x, 'new' FROM n RETURNING id"
    )
    result = await any_shop.run(many, _entry={"readonly": False, "config": {"max_rows": 10}})
    assert (len(result["rows"]), result["row_count"]) == (10, 1000)
    assert not result["is_complete"]
    assert await any_shop.rows("SELECT count(*) FROM items") == [[1003]]


async def test_limits(any_shop: Shop) -> None:
    """Rows, columns and bytes have an end, and the note says so."""
    flood = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 100000000) "
        "SELECT x FROM n"
    )
    cut = await any_shop.run(flood + " LIMIT 5", _entry={"config": {"max_rows": 4}})
    assert (cut["row_count"], cut["is_complete"]) == (4, False)
    assert (await any_shop.run(flood + " LIMIT 4", _entry={"config": {"max_rows": 4}}))[
        "is_complete"
    ]
    cut = await any_shop.run("SELECT 1 AS a, 2 AS b, 3 AS c", _entry={"config": {"max_columns": 2}})
    assert (cut["rows"], cut["is_complete"]) == ([{"a": 1, "b": 2}], False)
    config = {"config": {"max_bytes": 200, "max_rows": 1000}}
    cut = await any_shop.run(
        "SELECT name, id FROM items, (SELECT 1 UNION SELECT 2) AS x, "
        "(SELECT 3 UNION SELECT 4) AS y",
        _entry=config,
    )
    assert 0 < cut["row_count"] < 12
    assert "200 bytes" in cut["note"]


async def test_values_that_no_database_takes(any_shop: Shop) -> None:
    """They end as an error that says why, and the next call works."""
    sql = "SELECT id FROM items WHERE name = :x"
    with pytest.raises(ToolExecutionError, match="half a character"):
        await any_shop.run(sql, x="\ud800")
    for nul in ("a\0b", ["\0"], {"\0": 1}, {"a": ["x\0"]}):
        with pytest.raises(ToolExecutionError, match="a text holds a NUL character"):
            await any_shop.run(sql, x=nul)
    assert await any_shop.rows(sql, x="\\u0000") == []
    with pytest.raises(ToolExecutionError):
        await any_shop.run("SELECT id FROM items WHERE id = :x", x=2**70)
    assert await any_shop.rows(sql, x="lamp") == [[1]]


async def test_many_at_once(any_shop: Shop) -> None:
    """More calls than connections wait for one another, and all are answered."""
    sql = "SELECT name FROM items WHERE id = :id"
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        tasks = [group.create_task(any_shop.rows(sql, id=1 + n % 2)) for n in range(60)]
    assert [task.result() for task in tasks] == [[["lamp"]], [["chair"]]] * 30


async def test_a_deadline_while_all_connections_are_in_use(any_shop: Shop, shop_file: Path) -> None:
    """Waiting for a connection counts, and a call that gives up waits no longer."""
    slow = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    shop = Shop(any_shop.url, pool_size=1)
    try:
        task = asyncio.create_task(shop.run(slow))
        await shop.until_busy()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await shop.run("SELECT 1")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await shop.rows("SELECT 1 AS x") == [[1]]
    finally:
        await shop.executor.close()


async def test_cancelled_at_every_moment(any_shop: Shop) -> None:
    """Wherever a writing call is cancelled, the next one finds whole rows and a connection."""
    sql = "UPDATE items SET name = :name RETURNING id"
    for turns in range(0, 60, 3):
        task = asyncio.create_task(any_shop.write(sql, name=f"name {turns}"))
        for _ in range(turns):
            await asyncio.sleep(0.0005)
        task.cancel()
        await asyncio.wait([task], timeout=10)
        names = await any_shop.rows("SELECT DISTINCT name FROM items")
        assert len(names) == 1 or turns == 0 or names[0] != names[1]
    assert await any_shop.write(sql, name="last") is not None
    assert await any_shop.rows("SELECT DISTINCT name FROM items") == [["last"]]


async def test_closing(any_shop: Shop) -> None:
    """Threads and connections end with it; a call after that opens anew."""
    await any_shop.rows("SELECT 1 AS x")
    await any_shop.executor.close()
    await any_shop.executor.close()
    assert await any_shop.rows("SELECT 1 AS x") == [[1]]


def test_two_loops_have_connections_of_their_own(shop_file: Path) -> None:
    """An executor may be used by one loop after another."""
    shop = Shop(f"sqlite:///{shop_file}")

    async def once() -> Any:
        found = await shop.rows("SELECT 1 AS x")
        await shop.executor.close()
        return found

    assert [asyncio.run(once()), asyncio.run(once())] == [[[1]], [[1]]]


def test_a_loop_that_still_runs_closes_its_own(shop_file: Path) -> None:
    """Closing from another loop does not touch connections in the wrong one."""
    shop = Shop(f"sqlite:///{shop_file}")
    other = asyncio.new_event_loop()
    thread = threading.Thread(target=other.run_forever)
    thread.start()
    try:
        future = asyncio.run_coroutine_threadsafe(shop.rows("SELECT 1 AS x"), other)
        assert future.result(10) == [[1]]
        asyncio.run(shop.executor.close())
        # The other loop closes them in its own time.
        for each in threading.enumerate():
            if "worker_thread" in each.name:
                each.join(10)
                assert not each.is_alive()
    finally:
        other.call_soon_threadsafe(other.stop)
        thread.join(10)
        other.close()


async def test_sources(shop_file: Path, make_tool: Callable[..., Any]) -> None:
    """A call says which source is missing, or may not be written."""
    tool = make_tool("SELECT 1", source="shops")
    with pytest.raises(ToolExecutionError, match="has no source 'shops'; name it below"):
        await SQLExecutor().execute(tool, {}, ToolExecutionContext())
    shop = Shop(f"sqlite:///{shop_file}", readonly=True)
    with pytest.raises(ToolExecutionError, match="the engine's source 'shop' is read-only"):
        await shop.write("DELETE FROM items")
    with pytest.raises(DefinitionError):
        await shop.run("SELECT :x")


@pytest.mark.parametrize(
    ("url", "extra"),
    [("sqlite:///x.db", "sql"), ("postgresql://localhost/x", "postgres")],
)
async def test_a_missing_library(monkeypatch: pytest.MonkeyPatch, url: str, extra: str) -> None:
    """Without the libraries the message holds the command that installs them."""

    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name="sqlalchemy")

    monkeypatch.setattr(executor_module, "import_module", missing)
    with pytest.raises(MissingExtraError) as caught:
        await Shop(url).run("SELECT 1")
    assert str(caught.value).endswith(f"needs sqlalchemy: pip install 'tool-engine[{extra}]'")


async def test_in_an_engine(tmp_path: Path, shop_file: Path) -> None:
    """A YAML file and a source are a tool: loaded, validated, run, and closed with the engine."""
    (tmp_path / "find_item.yaml").write_text(
        """
name: find_item
description: Finds an item by its name
category: database
effect: read
parameters:
  - {name: name, type: string, required: true, description: The name}
entry:
  type: builtin
  source: shop
  sql: SELECT id, price FROM items WHERE name = :name
""",
        encoding="utf-8",
    )
    sources: Any = {"shop": f"sqlite:///{shop_file}"}
    config = ToolEngineConfig(tools_directory=str(tmp_path), sources=sources)
    async with ToolEngine(config) as engine:
        assert engine.load_errors == []
        result = await engine.execute("find_item", {"name": "lamp"})
        assert (result.error, result.output["rows"]) == (None, [{"id": 1, "price": 12.5}])
        assert (await engine.execute("find_item", {})).error_type == "validation_error"
    sources = {"shops": "sqlite:///x.db"}
    other = ToolEngineConfig(tools_directory=str(tmp_path), sources=sources)
    async with ToolEngine(other) as engine:
        ((_, message),) = engine.load_errors
        assert "entry.source: the engine has no source 'shop'; did you mean 'shops'?" in message
