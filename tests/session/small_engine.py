"""An engine with a few tools, for the tests of sessions and of what they use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tool_engine import ToolEngine, ToolEngineConfig


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of definitions."""
    made = tmp_path / "tools"
    made.mkdir()
    return made


@pytest.fixture
async def engine(folder: Path) -> AsyncIterator[ToolEngine]:
    """`half` reads, `put` writes into `engine.puts`, `numbers` returns much, `fail` fails."""
    async with ToolEngine(ToolEngineConfig(tools_directory=str(folder), auto_reload=False)) as made:

        @made.tool(effect="read")
        async def half(number: float) -> float:
            """Halves a number."""
            return number / 2

        @made.tool(effect="write")
        async def put(text: str) -> str:
            """Puts a text."""
            puts.append(text)
            return f"put {text}"

        @made.tool(effect="read")
        async def numbers(count: int) -> list[int]:
            """Counts."""
            return list(range(count))

        @made.tool(effect="read")
        async def fail() -> str:
            """Fails."""
            raise ValueError("no luck")

        puts: list[str] = []
        made.puts = puts  # type: ignore[attr-defined]
        yield made
