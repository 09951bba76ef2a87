"""A prompt is made once for as long as the tools are the same. A25, A26."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import msgspec
import pytest

from tests.protocols.line_protocol import LineProtocol
from tool_engine.config import ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.errors import ConfigurationError, ToolNotFoundError
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.protocols import prompts
from tool_engine.protocols.prompts import forget_prompts, prompt

DEFINITION = """
name: {name}
version: "1.0.0"
description: {description}
status: {status}
entry: {{type: builtin, handler: echo}}
"""


def write(folder: Path, name: str, description: str, status: str = "published") -> None:
    text = DEFINITION.format(name=name, description=description, status=status)
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def sample(name: str = "echo", **fields: object) -> Tool:
    made = Tool(name, name, "1.0.0", "A sample", ToolCategory.CUSTOM, [], [], {})
    return msgspec.structs.replace(made, **fields)


async def test_a_reload_makes_a_new_prompt(tmp_path: Path) -> None:
    """Made once for many turns, and again only when a reload changes a tool."""
    write(tmp_path, "one", "First")
    write(tmp_path, "old", "Not shown", "deprecated")
    protocol = LineProtocol()
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with asyncio.timeout(20), ToolEngine(config) as engine:
        assert [prompt(engine, protocol) for _ in range(3)] == ["one: First"] * 3
        assert protocol.made == 1
        await engine.reload()
        assert prompt(engine, protocol) == "one: First"
        assert protocol.made == 1
        write(tmp_path, "one", "Changed")
        await engine.reload()
        assert prompt(engine, protocol) == "one: Changed"
        engine.register_tool(sample("two"))
        assert prompt(engine, protocol) == "one: Changed\ntwo: A sample"
        assert protocol.made == 3
        assert prompt(engine, protocol, ["two", "one"]) == "two: A sample\none: Changed"
        with pytest.raises(ToolNotFoundError):
            prompt(engine, protocol, ["three"])


def test_tools_without_a_catalog() -> None:
    """A list of tools does, too: what is in a tool counts, not which object it is."""
    protocol = LineProtocol()
    assert prompt([sample()], protocol) == prompt([sample()], protocol) == "echo: A sample"
    assert protocol.made == 1
    assert prompt([sample(description="Other")], protocol) == "echo: Other"
    hashed = sample("hashed", definition_hash="h")
    prompt([hashed], protocol)
    told = prompt([msgspec.structs.replace(hashed, description="[web] A sample")], protocol)
    assert told == "hashed: [web] A sample"
    protocol.made = 2
    changed = sample(parameters=[ToolParameter("n", "integer")])
    prompt([changed], protocol)
    assert protocol.made == 3
    assert prompt([sample(), sample("b")], protocol, iter(["b"])) == "b: A sample"
    with pytest.raises(ToolNotFoundError, match="there is no tool 'c' among 1 tools"):
        prompt([sample()], protocol, ["c"])


def test_few_are_kept() -> None:
    """The longest unused prompt goes, and those of a protocol that is gone go with it."""
    protocol = LineProtocol()
    for number in range(100):
        prompt([sample(f"t{number}")], protocol)
    prompt([sample("t99")], protocol)
    assert protocol.made == 100
    prompt([sample("t0")], protocol)
    assert protocol.made == 101
    kept = len(prompts._kept)
    del protocol
    gc.collect()
    assert len(prompts._kept) == kept - 1


def test_by_name() -> None:
    """The name of a protocol with its options stands for one object; two languages are two."""
    forget_prompts()
    english = prompt([sample()], "function_call")
    assert "echo" in english
    assert prompt([sample()], "function_call", language="zh") != english
    assert len(prompts._named) == 2
    assert prompt([sample()], "function_call") == english
    assert prompt([sample()], "openai") == ""
    for number in range(40):
        prompt([sample()], "openai", tools=[sample(f"t{number}")])
    assert len(prompts._named) <= 32
    forget_prompts()
    assert not prompts._named


def test_options_go_with_a_name() -> None:
    """An object was made with its options already."""
    with pytest.raises(ConfigurationError, match="language"):
        prompt([sample()], LineProtocol(), language="zh")


def test_an_object_that_cannot_be_kept() -> None:
    """One that has no hash, say, is asked each time."""

    class Unhashable(LineProtocol):
        __hash__ = None  # type: ignore[assignment]

    protocol = Unhashable()
    assert prompt([sample()], protocol) == prompt([sample()], protocol) == "echo: A sample"
    assert protocol.made == 2
