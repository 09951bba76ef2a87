"""What is known of a result is kept, and what was left out is told, whatever the way it came."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.executors.mcp.conftest import LIMIT, count_running
from tests.executors.mcp.content_program import CONTENT
from tool_engine import ToolEngine, ToolExecutionContext
from tool_engine.executors.mcp.mcp_source import MCPSource

PROGRAM = str(Path(__file__).with_name("content_program.py"))
KNOWN = {"type": "text", "text": "known"}
LEFT_OUT = {
    "hologram": "1 part of the result left out, not known here or not whole: 'hologram'",
    "bad_image": "1 part of the result left out, not known here or not whole: 'image'",
    "no_text": "1 part of the result left out, not known here or not whole: 'text'",
    "no_mapping": "3 parts of the result left out, not known here or not whole: no type",
    "bad_link": "1 part of the result left out, not known here or not whole: 'resource_link'",
    "only_unknown": "1 part of the result left out, not known here or not whole: 'hologram'",
    "many": (
        "5,000 parts of the result left out, not known here or not whole: 'kind-0', 'kind-1', "
        "'kind-2' and others"
    ),
}


@pytest.fixture(params=["2025-11-25", "2026-07-28"])
async def engine(engine: ToolEngine, request: pytest.FixtureRequest) -> AsyncIterator[ToolEngine]:
    source = MCPSource("odd", command=[sys.executable, PROGRAM], revision=request.param)
    await engine.add_source(source)
    yield engine
    assert count_running(engine) == 0


async def read(engine: ToolEngine, name: str) -> list[dict[str, Any]]:
    result = await engine.execute(name, {}, ToolExecutionContext(timeout=LIMIT))
    assert result.is_success, result.error
    content: list[dict[str, Any]] = result.output["content"]
    return content


@pytest.mark.parametrize("name", LEFT_OUT)
async def test_the_known_parts_are_kept(engine: ToolEngine, name: str) -> None:
    content = await read(engine, name)
    assert content[-1] == {"type": "text", "text": f"[{LEFT_OUT[name]}]"}
    assert content[:-1] == [
        each for each in CONTENT[name] if each in (KNOWN, CONTENT["hologram"][2])
    ]


async def test_what_is_whole_is_as_it_came(engine: ToolEngine) -> None:
    assert await read(engine, "plain") == [KNOWN]


async def test_a_part_stays_without_what_is_wrong_beside_it(engine: ToolEngine) -> None:
    """Whom its annotations name is no reason to withhold a text."""
    assert await read(engine, "bad_notes") == [KNOWN]


async def test_a_type_is_told_in_a_line_that_can_be_seen(engine: ToolEngine) -> None:
    said = (await read(engine, "long_type"))[-1]["text"]
    assert len(said) < 200
    assert "\x1b" not in said


async def test_content_that_is_no_list_is_no_result(engine: ToolEngine) -> None:
    result = await engine.execute("no_list", {}, ToolExecutionContext(timeout=LIMIT))
    assert result.error_type == "execution_error"
    assert "its answer is no result: content should be a" in str(result.error)


async def test_the_words_of_a_failure_are_kept(engine: ToolEngine) -> None:
    result = await engine.execute("hologram-error", {}, ToolExecutionContext(timeout=LIMIT))
    assert result.error == f"known\nlast\n[{LEFT_OUT['hologram']}]"
