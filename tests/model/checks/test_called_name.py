"""What is wrong with a tool's name that is no text?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tool_engine import (
    ConfigurationError,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolNotFoundError,
    ToolSession,
    ToolSubAgent,
)
from tool_engine.model.checks.called_name import word_no_name

ADD = {"name": "add", "description": "Adds.", "parameters": []}


def make_wrong(kind: str) -> Any:
    tool = ToolConfigLoader().from_mapping(ADD)
    return {"tool": tool, "none": None, "mapping": ADD, "bytes": b"add", "list": ["add"]}[kind]


@pytest.mark.parametrize("kind", ["tool", "none", "mapping", "bytes", "list"])
@pytest.mark.parametrize("caller", ["engine", "session", "sub-agent"])
async def test_what_is_no_name_is_said_to_be_none(kind: str, caller: str, tmp_path: Path) -> None:
    """A tool in the place of its name has one, which is the cure; it is never a TypeError."""
    folder = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(folder) as engine:
        engine.register_tool(ADD, lambda: 3)
        wrong = make_wrong(kind)
        callers: dict[str, Any] = {
            "engine": engine,
            "session": ToolSession(engine, "s"),
            "sub-agent": ToolSubAgent("a", engine),
        }
        result = await callers[caller].execute(wrong, {})
        assert (result.is_success, result.error_type) == (False, "tool_not_found")
        assert "a tool is called by its name, a text; got" in str(result.error)
        if kind in ("tool", "mapping"):
            assert 'pass its name, "add"' in str(result.error)
            assert (await callers[caller].execute("add", {})).output == {"result": 3}
        with pytest.raises((ConfigurationError, ToolNotFoundError), match="called by its name"):
            engine.unregister_tool(wrong)


def test_only_a_name_that_can_be_typed_is_shown() -> None:
    """A function has one under another key, and a name of strange characters is none."""
    assert "pass the name" in word_no_name({"name": "a\nb"})
    assert "pass the name" in word_no_name(len)
