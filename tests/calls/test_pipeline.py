"""How long is the way of a call through the engine?"""

from __future__ import annotations

from pathlib import Path

from tests.way import list_files, list_passed
from tool_engine import ToolEngine, ToolEngineConfig

MOST_CALLS = 10
MOST_FILES = 8


async def test_a_call_is_one_page_and_few_files(tmp_path: Path) -> None:
    """DESIGN 3: who reads the pipeline has read nearly all that a plain call does."""
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:

        @engine.tool
        async def echo(text: str) -> str:
            """Gives a text back."""
            return text

        passed = await list_passed(lambda: engine.execute("echo", {"text": "hi"}))
    assert len(passed) <= MOST_CALLS, passed
    assert len(list_files(passed)) <= MOST_FILES, list_files(passed)
