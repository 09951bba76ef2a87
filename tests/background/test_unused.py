"""What do tasks and a server cost an engine whose calls use neither? Nothing, counted in steps."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.server import create_app

CALLS = 20
ALONE = """
import asyncio, sys
from tool_engine import ToolEngine

async def add(a: int, b: int) -> int:
    "Add two numbers."
    await asyncio.sleep(0)
    return a + b

async def main() -> None:
    async with ToolEngine() as engine:
        engine.tool(effect="read")(add)
        assert (await engine.execute("add", {"a": 1, "b": 2})).is_success

asyncio.run(main())
rooms = ("background", "server", "access", "studio", "mcp_server")
found = [name for name in sys.modules if name.startswith(tuple(f"tool_engine.{r}." for r in rooms))]
print(*found, *(name for name in ("starlette", "uvicorn", "jwt") if name in sys.modules))
"""


def make_engine(folder: Path) -> ToolEngine:
    config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False)
    return ToolEngine(config)


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    await asyncio.sleep(0)
    return a + b


async def count_steps(engine: ToolEngine) -> Counter[str]:
    """How often each function of the package is called in some calls, by its place."""
    steps: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "tool_engine" in frame.f_code.co_filename:
            steps[f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}"] += 1

    sys.setprofile(note)
    try:
        for _ in range(CALLS):
            assert (await engine.execute("add", {"a": 1, "b": 2})).is_success
    finally:
        sys.setprofile(None)
    return steps


async def test_a_call_takes_the_same_steps(tmp_path: Path) -> None:
    """Whether its engine has tasks and is served, or not."""
    async with make_engine(tmp_path) as alone, make_engine(tmp_path) as engine:
        for each in (alone, engine):
            each.tool(effect="read")(add)
            assert (await each.execute("add", {"a": 1, "b": 2})).is_success
        assert (await (await engine.start("add", {"a": 1, "b": 2})).wait()).is_success
        await asyncio.to_thread(create_app, engine, mcp=True, studio=True)
        # What both do beside their calls, such as a look at the clock, comes now and then.
        expected, found = await count_steps(alone), await count_steps(engine)
        used = {name: count // CALLS for name, count in found.items() if count >= CALLS}
        assert used == {name: n // CALLS for name, n in expected.items() if n >= CALLS}
        assert len(used) > 5


def test_what_is_not_used_is_not_loaded(tmp_path: Path) -> None:
    """A program without both loads nothing of them."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stdout.split() == []
