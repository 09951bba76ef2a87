"""A server of 2026-07-28 may do what it likes, too: nothing of it is taken for what it is not."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.executors.mcp.conftest import LIMIT, count_running
from tool_engine import ToolEngine, ToolExecutionContext
from tool_engine.executors.mcp.mcp_source import MCPSource

PROGRAM = str(Path(__file__).with_name("hostile_modern_program.py"))


@pytest.fixture
async def engine(engine: ToolEngine) -> AsyncIterator[ToolEngine]:
    """An engine with the tools of the server; after each test no slot is held."""
    await engine.add_source(MCPSource("evil", command=[sys.executable, PROGRAM]))
    yield engine
    assert count_running(engine) == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("task", "its answer is of a kind that it was not asked for: 'task'"),
        ("odd_kind", "its answer is of a kind that it was not asked for: 'later'"),
        ("no_kind", "resultType is missing"),
        ("rounds", "it asked for input 10 times"),
        ("password", "it asks for input that it does not get: Elicitation not supported"),
        ("odd_question", "its answer is no result"),
    ],
)
async def test_calls_that_fail(engine: ToolEngine, name: str, words: str) -> None:
    """What is no result is no success without content, and no question is answered."""
    context = ToolExecutionContext(timeout=LIMIT)
    result = await engine.execute(name, {}, context)
    assert (result.error_type, words in str(result.error)) == ("execution_error", True), result
    assert (await engine.execute("plain", {}, context)).is_success


async def test_a_tool_that_the_protocol_forbids_is_a_fault(engine: ToolEngine) -> None:
    """It is left out, and an operator reads why."""
    assert engine.get("header") is None
    (fault,) = [words for _, words in engine.load_errors]
    assert "the tool 'header' of the source 'mcp:evil' is left out" in fault
    assert "its x-mcp-header is not as the protocol has it" in fault


async def test_streams_that_end_at_once_are_begun_ever_more_rarely(engine: ToolEngine) -> None:
    """After each the list may have changed, so it is read: not ten times a second for ever."""
    async with asyncio.timeout(LIMIT):
        while engine.get("reading_3") is None:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
        await asyncio.sleep(1.5)
    # 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 3.2 s lie between them.
    found = {tool.name for tool in engine.index if tool.name.startswith("reading_")}
    assert found <= {f"reading_{number}" for number in range(3, 8)}
