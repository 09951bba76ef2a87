"""A shop in a SQLite file and in a real PostgreSQL server, and short ways to ask it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import PostgresServer
from tool_engine.executors.sql.sql_executor import SQLExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.settings.databases import checked_sources
from tool_engine.model.tool import Tool, ToolCategory

BOUND = 30.0
KINDS = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}
TABLES = """
    CREATE TABLE items (id integer PRIMARY KEY, name text, price numeric(10, 2));
    INSERT INTO items VALUES (1, 'lamp', 12.50), (2, 'chair', 80), (3, NULL, NULL);
"""


def make_sql_tool(
    sql: str, *parameters: ToolParameter, effect: str = "unknown", **entry: Any
) -> Tool:
    """A tool that runs `sql` in the source `shop`."""
    return Tool(
        id="sample",
        name="sample",
        version="1.0.0",
        description="A sample",
        category=ToolCategory.DATABASE,
        tags=[],
        parameters=list(parameters),
        implementation_config={"sql": sql, "source": "shop", **entry},
        effect=effect,
    )


class Shop:
    """Runs statements; a parameter is declared for each value that is given."""

    def __init__(self, url: str, **source: Any) -> None:
        self.url = url
        self.executor = SQLExecutor(checked_sources({"shop": {"url": url, **source}}))

    async def run(
        self, sql: str, seconds: float | None = BOUND, /, _entry: Any = None, **params: Any
    ) -> Any:
        parameters = [
            ToolParameter(name, KINDS.get(type(value), "any"), required=True)
            for name, value in params.items()
        ]
        return await self.call(make_sql_tool(sql, *parameters, **(_entry or {})), params, seconds)

    async def write(self, sql: str, seconds: float = BOUND, /, **params: Any) -> Any:
        return await self.run(sql, seconds, _entry={"readonly": False}, **params)

    async def rows(self, sql: str, /, **params: Any) -> list[list[Any]]:
        result = await self.run(sql, **params)
        assert result["is_complete"], result
        return [list(row.values()) for row in result["rows"]]

    async def until_busy(self) -> None:
        """Waits until a connection is in use."""
        async with asyncio.timeout(BOUND):
            while not self.is_busy():  # noqa: ASYNC110 - a pool tells nobody
                await asyncio.sleep(0.01)

    def is_busy(self) -> bool:
        return any(pool.checkedout() for pool in self.pools())

    def pools(self) -> list[Any]:
        """SQLAlchemy's pools, which know how many connections there are."""
        databases: list[Any] = [opened.database for opened in self.executor._opened.values()]
        return [database._pool._engine.pool for database in databases]

    async def call(self, tool: Tool, params: dict[str, Any], seconds: float | None = BOUND) -> Any:
        context = ToolExecutionContext()
        if seconds is not None:
            context.deadline = asyncio.get_running_loop().time() + seconds
        async with asyncio.timeout(BOUND):
            return await self.executor.execute(tool, params, context)


@pytest.fixture
def shop_file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.executescript(TABLES)
    connection.close()
    return path


@pytest.fixture
async def shop(shop_file: Path) -> AsyncIterator[Shop]:
    found = Shop(f"sqlite:///{shop_file}")
    yield found
    await found.executor.close()


@pytest.fixture
async def server_shop(postgres_server: PostgresServer) -> AsyncIterator[Shop]:
    url = await asyncio.to_thread(postgres_server.fresh_database, TABLES)
    found = Shop(url)
    yield found
    await found.executor.close()


@pytest.fixture(params=["sqlite", "postgresql"])
async def any_shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    """The same shop in both databases."""
    if request.param == "sqlite":
        url = f"sqlite:///{request.getfixturevalue('shop_file')}"
    else:
        server = request.getfixturevalue("postgres_server")
        url = await asyncio.to_thread(server.fresh_database, TABLES)
    found = Shop(url)
    yield found
    await found.executor.close()


@pytest.fixture
def make_tool() -> Callable[..., Tool]:
    return make_sql_tool
