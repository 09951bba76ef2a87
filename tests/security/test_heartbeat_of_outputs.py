"""Do all other calls go on while a large output is held to what its tool declares?

A heartbeat as in `test_heartbeat`. Two and a half megabytes may hold the loop for as long as all
attacks there, so that no megabyte does for 40 ms.
"""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.calls.samples import bare
from tests.security.heartbeat import assert_beats_on
from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionResult

pytestmark = pytest.mark.beats

UNIQUE: dict[str, Any] = {"type": "array", "uniqueItems": True}
VALUES: dict[str, Any] = {
    "numbers": list(range(400_000)),
    "fractions": [number + 0.5 for number in range(300_000)],
    "objects": [{"a": number, "b": f"x{number}"} for number in range(110_000)],
    "huge numbers": [2**64 + number for number in range(100_000)],
}
PLACES: dict[str, Any] = {
    "itself": UNIQUE,
    "a form": {"anyOf": [UNIQUE, {"type": "null"}]},
    "a reference": {"$ref": "#/$defs/u"},
    "plain, behind a reference": {"$ref": "#/$defs/plain"},
}


LARGE: dict[str, Any] = {
    "letters": lambda: {"content": [{"type": "text", "text": "é" * 75_000_000}]},
    "letters alone": lambda: "é" * 75_000_000,
    "letters among numbers": lambda: {"status": 0, "stdout": "é" * 75_000_000},
    "numbers": lambda: {"rows": [0] * 15_000_000},
}


@pytest.mark.parametrize("kind", LARGE)
async def test_the_heart_beats_on_while_a_large_output_is_kept(tmp_path: Path, kind: str) -> None:
    """It is passed on as it is, and its record says how large it was."""
    values: list[Any] = []
    results: list[ToolExecutionResult] = []
    async with ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False)) as engine:

        async def give() -> Any:
            return values[-1]

        def call() -> Awaitable[Any]:
            values.append(LARGE[kind]())
            return keep_result()

        async def keep_result() -> None:
            results.append(await engine.execute("give", {}))

        engine.register_tool(bare("give"), give)
        await assert_beats_on(call)
        record, *_ = await engine.store.query_call_records()
    output = results[-1].output
    assert (output.get("result") if kind == "letters alone" else output) is values[-1]
    assert record.result["_truncated"] == {"size": len(msgspec.msgpack.encode(output))}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", VALUES)
async def test_the_heart_beats_on_while_an_output_is_judged(
    tmp_path: Path, kind: str, place: str
) -> None:
    """17.4: wherever the rule stands, and whatever the items are."""
    schema = {
        "type": "object",
        "properties": {"rows": PLACES[place]},
        "$defs": {"u": UNIQUE, "plain": {"type": "array", "items": {"type": ["number", "object"]}}},
    }
    results: list[ToolExecutionResult] = []
    async with ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False)) as engine:

        async def give() -> Any:
            return {"rows": VALUES[kind]}

        async def call() -> None:
            results.append(await engine.execute("give", {}))

        engine.register_tool(bare("give", output={"schema": schema}), give)
        await assert_beats_on(call)
    assert all(result.is_success for result in results), results[0].error


async def test_the_heart_beats_on_while_huge_numbers_are_judged(tmp_path: Path) -> None:
    """X5: forty kilobytes of numbers beyond 64 bits took three seconds on the loop."""
    definition = {
        "name": "take",
        "description": "d",
        "parameters": [
            {
                "name": "a",
                "type": "array",
                "description": "d",
                "required": True,
                "schema": {"uniqueItems": True},
            }
        ],
    }
    async with ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False)) as engine:

        async def take(a: list[int]) -> int:
            return len(a)

        engine.register_tool(definition, take)
        sent = {"a": [2**64 + number for number in range(2_000)]}
        await assert_beats_on(lambda: engine.execute("take", sent))
        assert (await engine.execute("take", sent)).output == {"result": 2_000}
