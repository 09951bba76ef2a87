"""What does a conversation add to the cost of a call?"""

from __future__ import annotations

from contextlib import AsyncExitStack

from tests.benchmarks import report
from tests.benchmarks.calls import engine_for
from tests.benchmarks.measure import Figures, measure
from tests.benchmarks.rows import Row, add
from tool_engine import ToolEngine, ToolGroup, ToolSession

__all__ = ["sessions"]

ENGINE = "engine.execute"
SESSION = "session.execute"
IN_GROUPS = "session.execute, five groups"
BUDGET = 8.0
"""Times a call of the engine itself."""
_GROUPS = 5
_OF_GROUP = 100
_BEFORE = 100
_TRIES = 3


async def sessions(directory: str) -> bool:
    """Measures calls of a session among the tools of `directory`; whether it keeps its budget."""
    async with AsyncExitStack() as stack:
        engine = await engine_for(stack, add, directory)
        rows = _rows(engine)
        for row in rows:
            # The first call looks at all tools, once: it says nothing of the next ones.
            await row.batch(_BEFORE)
        for attempt in range(_TRIES):
            figures = {figure.row.name: figure for figure in await measure(rows)}
            if _ratio(figures, SESSION) <= BUDGET or attempt == _TRIES - 1:
                break
            print(f"(try {attempt + 1}: {_ratio(figures, SESSION):.2f} is over {BUDGET})")
    report.calls("One call of a session", [*figures.values()], figures[ENGINE], [])
    return report.budget(f"{SESSION} / {ENGINE}", _ratio(figures, SESSION), BUDGET, "x")


def _ratio(figures: dict[str, Figures], name: str) -> float:
    return figures[name].ratio(figures[ENGINE])


def _rows(engine: ToolEngine) -> list[Row]:
    plain, grouped = ToolSession(engine, "plain"), ToolSession(engine, "grouped")
    names = [tool.name for tool in engine.list_all()]
    for number in range(_GROUPS):
        members = names[number * _OF_GROUP : (number + 1) * _OF_GROUP]
        group = ToolGroup(name=f"group_{number}", tools=("add", *members), is_enabled=True)
        grouped.toolbox.register_group(group)

    async def bare(n: int) -> None:
        for _ in range(n):
            await engine.execute("add", {"a": 1, "b": 2})

    async def in_session(n: int) -> None:
        for _ in range(n):
            await plain.execute("add", {"a": 1, "b": 2})

    async def in_groups(n: int) -> None:
        for _ in range(n):
            await grouped.execute("add", {"a": 1, "b": 2})

    everything = "is it on, may it run and be read, bounds, text, variables, labels"
    return [
        Row(ENGINE, "look-up, validation, limit, queue, deadline, record, result", bare),
        Row(SESSION, f"the same; {everything}", in_session),
        Row(IN_GROUPS, f"the same; {everything}", in_groups),
    ]
