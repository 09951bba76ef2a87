"""One text in the place of a list of names is refused with the list that was meant."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine import ConfigurationError, ToolEngine, ToolEngineConfig

ECHO = "name: echo\ndescription: Says it.\ntags: [text]\nentry: {type: builtin, handler: echo}\n"
TAKERS: dict[str, Callable[[ToolEngine, Any], Any]] = {
    "tool_definitions": lambda engine, names: engine.tool_definitions("openai", names),
    "read_definitions": lambda engine, names: engine.read_definitions("openai", names),
    "find_by_tags": lambda engine, tags: engine.find_by_tags(tags),
    "find_by_any_tag": lambda engine, tags: engine.find_by_any_tag(tags),
    "tool": lambda engine, tags: engine.tool("mine", description="It.", tags=tags)(lambda: None),
}
LOCKERS: dict[str, Callable[[ToolEngine, Any], Any]] = {
    "lock_tools": lambda engine, names: engine.lock_tools(names),
    "check_lock": lambda engine, names: engine.check_lock(names),
}
"""What takes one name as well."""


async def given(engine: ToolEngine, taker: str, value: object) -> Any:
    found = {**TAKERS, **LOCKERS}[taker](engine, value)
    return await found if hasattr(found, "__await__") else found


@pytest.fixture
def tools(tmp_path: Path) -> ToolEngineConfig:
    (tmp_path / "echo.yaml").write_text(ECHO)
    return ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)


@pytest.mark.parametrize("taker", TAKERS)
async def test_a_text_is_no_list(tools: ToolEngineConfig, taker: str) -> None:
    """What the message writes out is taken, and finds what was meant."""
    word = "echo" if "definitions" in taker else "text"
    async with ToolEngine(tools) as engine:
        with pytest.raises(
            ConfigurationError, match=f"must be a list of .*, got '{word}'"
        ) as error:
            await given(engine, taker, word)
        written = re.search(r"; write (\[.*\])$", str(error.value))
        assert written is not None
        assert written[1] == f"['{word}']"
        assert await given(engine, taker, [word])


@pytest.mark.parametrize("taker", [*TAKERS, *LOCKERS])
@pytest.mark.parametrize("value", [3, [3], b"echo"])
async def test_what_holds_no_names(tools: ToolEngineConfig, taker: str, value: object) -> None:
    async with ToolEngine(tools) as engine:
        with pytest.raises(ConfigurationError, match="must be a list of"):
            await given(engine, taker, value)


async def test_one_name_of_the_lock(tools: ToolEngineConfig) -> None:
    """`check_lock` takes one name as `lock_tools` does."""
    async with ToolEngine(tools) as engine:
        assert [state.name for state in await engine.check_lock("echo")] == ["echo"]
        assert [state.name for state in await engine.check_lock(["echo"])] == ["echo"]
