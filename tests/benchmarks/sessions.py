"""What does a conversation add to the cost of a call?"""

from __future__ import annotations

from contextlib import AsyncExitStack

from tests.benchmarks import report
from tests.benchmarks.calls import engine_for
from tests.benchmarks.measure import measure_often, median_of
from tests.benchmarks.rows import Row, add
from tool_engine import ToolEngine, ToolGroup, ToolSession

__all__ = ["sessions"]

ENGINE = "engine.execute"
SESSION = "session.execute"
ENGINE_TABLE = "engine.execute, 15 KB"
SESSION_TABLE = "session.execute, 15 KB"
IN_GROUPS = "session.execute, five groups"
BUDGET = 5.5
"""Times a call of the engine itself."""
TABLE_BUDGET = 3.0
"""The same of a call that returns a table, whose text nothing reads."""
_ROWS = [{"id": at, "name": f"name {at}", "value": at * 1.5, "ok": True} for at in range(270)]
_GROUPS = 5
_OF_GROUP = 100
_BEFORE = 600
"""Calls after which a conversation is full: each one more drops what an older one left."""


async def sessions(directory: str) -> bool:
    """Measures calls of a session among the tools of `directory`; whether it keeps its budget."""
    async with AsyncExitStack() as stack:
        engine = await engine_for(stack, add, directory)
        rows = _rows(engine)
        for row in rows:
            # The first call looks at all tools, once, and none of the first ones has to make room.
            await row.batch(_BEFORE)
        runs = await measure_often(rows)
    small = median_of(runs, SESSION, ENGINE)
    large = median_of(runs, SESSION_TABLE, ENGINE_TABLE)
    report.calls("One call of a session", [*runs[-1].values()], runs[-1][ENGINE], [])
    is_kept = report.budget(f"{SESSION} / {ENGINE}", small, BUDGET, "x")
    return report.budget(f"{SESSION_TABLE} / {ENGINE_TABLE}", large, TABLE_BUDGET, "x") and is_kept


def _rows(engine: ToolEngine) -> list[Row]:
    plain, grouped = ToolSession(engine, "plain"), ToolSession(engine, "grouped")
    names = [tool.name for tool in engine.list_all()]
    for number in range(_GROUPS):
        members = names[number * _OF_GROUP : (number + 1) * _OF_GROUP]
        group = ToolGroup(name=f"group_{number}", tools=("add", *members), is_enabled=True)
        grouped.toolbox.register_group(group)

    async def list_rows() -> dict[str, object]:
        """List rows."""
        return {"rows": _ROWS}

    engine.tool(list_rows)

    ways = "look-up, validation, limit, queue, deadline, record, result"
    everything = "the same; is it on, may it run and be read, bounds, text, variables, labels"
    two = {"a": 1, "b": 2}
    return [
        _row(ENGINE, ways, engine, "add", two),
        _row(SESSION, everything, plain, "add", two),
        _row(IN_GROUPS, everything, grouped, "add", two),
        _row(ENGINE_TABLE, "as the first", engine, "list_rows", {}),
        _row(SESSION_TABLE, everything, plain, "list_rows", {}),
    ]


def _row(
    name: str, includes: str, caller: ToolEngine | ToolSession, tool: str, params: dict[str, int]
) -> Row:
    async def batch(n: int) -> None:
        for _ in range(n):
            await caller.execute(tool, {**params})

    return Row(name, includes, batch)
