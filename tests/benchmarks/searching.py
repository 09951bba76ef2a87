"""How long does it take to find a tool among 10,000?"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from functools import partial
from statistics import median, quantiles

from msgspec.structs import replace

from tests.benchmarks import report
from tests.catalog.search_catalog import JUDGED, catalog
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.search import Terms, ToolSearch
from tool_engine.model.tool import Tool

__all__ = ["searching"]

MANY = 10_000
MOST = 5.0
"""Milliseconds for 19 of 20 queries."""
REPEATS = 5
_WEIGHTS = "6, 3, 1.5, 0.6"


def searching() -> bool:
    """Prints the table; whether the budget is kept."""
    tools = many_tools()
    index = ToolIndex(tools)
    search = ToolSearch()
    built = seconds_for(lambda: search.find(index, "", 1), repeats=1)
    queries = list(JUDGED)
    times = [seconds_for(partial(search.find, index, query, 10)) for query in queries]
    sqlite = full_text_table(tools)
    peer = [seconds_for(partial(ask_sqlite, sqlite, query)) for query in queries]
    plain = [seconds_for(partial(index.search, query), 1) for query in queries]
    words = " ".join((" ".join(queries).split() * 5)[:1000])
    changed = replace(tools[0], description="Was changed.")
    after = ToolIndex([changed, *tools[1:]])
    report.seconds(
        f"Finding tools among {MANY:,}",
        {
            "search_tools, the first search": built,
            "search_tools, median query": median(times),
            "search_tools, 19 of 20 queries": quantiles(times, n=20)[-1],
            "search_tools, 1,000 words": seconds_for(lambda: search.find(index, words, 10)),
            "search_tools, two words that all tools have": seconds_for(
                lambda: search.find(index, "only customers", 10)
            ),
            "search_tools, after one tool changed": seconds_for(
                lambda: search.find(after, "weather", 10), repeats=1
            ),
            "SQLite FTS5 with the same terms, median query": median(peer),
            "SQLite FTS5 with the same terms, 19 of 20 queries": quantiles(peer, n=20)[-1],
            "list --search (substring), median query": median(plain),
        },
    )
    return report.budget("search_tools", 1000 * quantiles(times, n=20)[-1], MOST, " ms")


def many_tools() -> list[Tool]:
    """The judged catalog, once for each of many companies."""
    tools: list[Tool] = []
    while len(tools) < MANY:
        company = f"company{len(tools)}"
        tools += [
            replace(
                tool,
                name=f"{company}_{tool.name}",
                description=f"{tool.description} For customers of {company} only.",
            )
            for tool in catalog()
        ]
    return tools[:MANY]


def full_text_table(tools: list[Tool]) -> sqlite3.Connection:
    """What one would build with the standard library instead."""
    terms = Terms()
    rows = [
        [
            " ".join(terms.of(text))
            for text in (
                tool.name,
                " ".join(tool.tags),
                tool.description,
                " ".join(f"{each.name} {each.description}" for each in tool.parameters),
            )
        ]
        for tool in tools
    ]
    table = sqlite3.connect(":memory:")
    table.execute("CREATE VIRTUAL TABLE t USING fts5(name, tags, description, parameters)")
    table.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    return table


def ask_sqlite(table: sqlite3.Connection, query: str) -> list[tuple[str]]:
    """The best 10 of a full-text table."""
    words = " OR ".join(f'"{term}"' for term in dict.fromkeys(Terms().of(query)))
    found = table.execute(
        f"SELECT name FROM t WHERE t MATCH ? ORDER BY bm25(t, {_WEIGHTS}) LIMIT 10",  # noqa: S608 - constants
        (words or '""',),
    )
    return found.fetchall()


def seconds_for(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The best of a few tries."""
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best
