"""Do all other calls go on while a source of ten thousand tools comes, changes and goes?

Its readings are made in a thread, and compared with the last one in small parts; the swap is one
step of the event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.security.heartbeat import assert_beats_on
from tests.sources_of_tools import ListSource, definition, tool
from tool_engine import ToolEngine, ToolEngineConfig

pytestmark = pytest.mark.beats

MANY = 10_000
PARAMETERS = [{"name": "x", "type": "string", "description": "One.", "min_length": 1}]
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
FORMS: dict[str, Any] = {
    "plain": lambda number: definition(f"t{number:05}"),
    "parameters": lambda number: definition(f"t{number:05}", parameters=PARAMETERS),
    "schema": lambda number: definition(f"t{number:05}", parameters=SCHEMA),
    "tools": lambda number: tool(f"t{number:05}"),
}


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    async with ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False)) as made:
        yield made


@pytest.mark.parametrize("form", FORMS)
async def test_the_loop_is_not_held_up(engine: ToolEngine, form: str) -> None:
    """While all are added, one is replaced, one is removed, and all of them go."""
    items = [FORMS[form](number) for number in range(MANY)]
    other = tool("t05000", version="2.0.0")

    async def attack() -> None:
        source = ListSource("own:many", items)
        assert len((await engine.add_source(source))["added"]) == MANY
        source.items = [*items[:5_000], other, *items[5_001:]]
        assert (await engine.reload())["modified"] == ["t05000"]
        del source.items[2_000]
        assert (await engine.reload())["removed"] == ["t02000"]
        assert len((await engine.remove_source(source))["removed"]) == MANY - 1

    await assert_beats_on(attack)


async def test_thousands_that_change_at_once(engine: ToolEngine) -> None:
    """Each is compared with what it was: beside the loop."""
    source = ListSource("own:many", [FORMS["schema"](number) for number in range(MANY // 2)])
    await engine.add_source(source)
    numbers = count()

    async def attack() -> None:
        words = f"Other words, {next(numbers)}."
        source.items = [{**each, "description": words} for each in source.items]
        assert len((await engine.reload())["modified"]) == MANY // 2

    await assert_beats_on(attack)


async def test_thousands_that_are_wrong(engine: ToolEngine) -> None:
    """Each is an entry of `load_errors`; they do not hold up the loop, nor does their going."""

    async def attack() -> None:
        source = ListSource("own:many", [{"name": f"t{number}"} for number in range(MANY)])
        await engine.add_source(source)
        assert len(engine.load_errors) == MANY
        await engine.remove_source(source)
        assert engine.load_errors == []

    await assert_beats_on(attack)
