"""A server may do what it likes: its calls end typed, and nothing of it stays."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.executors.mcp.conftest import LIMIT, count_running
from tests.security.heartbeat import assert_beats_on
from tool_engine import ToolEngine, ToolExecutionContext, ToolExecutionResult
from tool_engine.executors.mcp.connection import _REST
from tool_engine.executors.mcp.mcp_source import MCPSource, shorten_name
from tool_engine.executors.mcp.peer import _check_numbers

PROGRAM = str(Path(__file__).with_name("hostile_program.py"))
RUN = uuid4().hex
"""Marks the processes of these tests, beside those of other runs."""
SECRET = "swordfish-4711-swordfish"


def make_source(*words: str, **settings: Any) -> MCPSource:
    command = [sys.executable, PROGRAM, *words]
    return MCPSource("evil", command=command, env={"TOKEN": SECRET, "TEST_RUN": RUN}, **settings)


def processes_left() -> list[str]:
    """The programs of these tests that run, and what they have started."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if f"TEST_RUN={RUN}".encode() in (folder / "environ").read_bytes():
                found.append(folder.name)
    return found


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        return stat.rpartition(")")[2].split()[0] not in "ZX"
    return False


@pytest.fixture(autouse=True)
async def nothing_is_left(engine: ToolEngine) -> AsyncIterator[None]:
    """After each test no slot is held, and after the engine no process runs."""
    yield
    assert count_running(engine) == 0
    await engine.close()
    assert await asyncio.to_thread(processes_left) == []


async def call(engine: ToolEngine, name: str, timeout: float = LIMIT) -> ToolExecutionResult:  # noqa: ASYNC109 - of the call
    result = await engine.execute(name, {}, ToolExecutionContext(timeout=timeout))
    assert SECRET not in repr(result.to_dict())
    return result


def faults_of(engine: ToolEngine) -> str:
    return "\n".join(words for _, words in engine.load_errors)


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ("endless", "its list of tools does not end after 20,100 tools"),
        ("same cursor", "its list of tools does not end"),
        ("empty page", "its list of tools does not end"),
        ("no list", "its list of tools is none: tools should be a valid list"),
        ("odd revision", r"it speaks the revision '9999-01-01\x1b', which is none of 2024-11-05"),
        ("odd cursor", "its list of tools is none: nextCursor should be a valid string"),
        (
            "never",
            "it did not answer within 1 s; raise its connect_timeout if it takes longer to start",
        ),
    ],
)
async def test_a_list_that_is_none(engine: ToolEngine, listed: str, words: str) -> None:
    """It is a fault with its reason, and no tool comes of it."""
    limit = 1.0 if listed == "never" else LIMIT
    await engine.add_source(make_source(listed, connect_timeout=limit))
    assert words in faults_of(engine)
    assert [tool for tool in engine.index if tool.origin == "mcp:evil"] == []


async def test_odd_tools_do_not_hide_the_others(engine: ToolEngine) -> None:
    """Each tool that cannot be read is a fault of its own; nothing is fetched; names are safe."""
    dialled = []
    listener = await asyncio.start_server(lambda *streams: dialled.append(1), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener:
        await engine.add_source(make_source("odd tools", f"http://127.0.0.1:{port}"))
    tools = {tool.name: tool for tool in engine.index if tool.origin == "mcp:evil"}
    faults = faults_of(engine)

    assert {"good", shorten_name("../../x"), "long", "slow"} < set(tools)
    assert not {"bomb", "deep", "far", "twice", "no schema", "odd output", ""} & set(tools)
    for words in (
        "it is no tool: inputSchema is missing",
        "it is no tool: outputSchema.type is missing",
        "gives the tool 'twice' twice",
        "'bomb' of the source 'mcp:evil' is left out",
        "nested more than 50 levels deep",
        "nothing is fetched",
    ):
        assert words in faults
    assert dialled == []
    assert all(len(name) <= 64 and name.isascii() and name.isprintable() for name in tools)
    assert len(tools["long"].description) == 4_000
    assert "\x1b" not in tools["long"].description
    assert "\u202e" not in tools["long"].description


@pytest.mark.beats
async def test_the_heart_beats_on_while_a_pattern_backtracks(engine: ToolEngine) -> None:
    """A pattern of a server is tried for a bounded time."""
    await engine.add_source(make_source("odd tools", "http://127.0.0.1:9"))
    backtracking = {"a": "a" * 40 + "!"}
    await assert_beats_on(lambda: engine.execute("slow", backtracking))
    assert (await engine.execute("slow", backtracking)).error_type == "validation_error"


@pytest.mark.parametrize(
    ("name", "error_type", "words"),
    [
        ("endless_line", "worker_lost", "it sent a line of more than 16 MiB"),
        ("huge_error", "worker_lost", "it sent a line of more than 16 MiB"),
        ("die", "worker_lost", "its program was ended by SIGKILL"),
        ("fork_and_die", "worker_lost", "its program was ended by SIGKILL"),
        ("silent", "timeout", "did not finish within 1 s"),
        ("stop", "timeout", "did not finish within 1 s"),
        ("both", "execution_error", "answered with an error: both (1)"),
        ("no_result", "execution_error", "its answer is no result: content should be"),
        ("empty_result", "execution_error", "its answer is no result: content is missing"),
        ("input", "execution_error", "its answer is no result"),
        ("nan", "execution_error", "its answer holds a number that JSON has not (NaN or Infinity)"),
        ("late_nan", "execution_error", "its answer holds a number that JSON has not"),
        ("no_kind", "execution_error", "did not answer as it should: its answer is no message of"),
        (
            "deep_answer",
            "execution_error",
            "did not answer as it should: its answer cannot be read: it is no JSON (recursion",
        ),
        ("surrogate", "execution_error", "its answer cannot be read: it is no JSON (unexpected"),
        ("password", "execution_error", "Elicitation not supported"),
        ("leak", "execution_error", "answered with an error: it is [hidden] (5)"),
    ],
)
async def test_calls_that_fail(engine: ToolEngine, name: str, error_type: str, words: str) -> None:
    """Each ends typed, and says what the server did."""
    await engine.add_source(make_source("calls"))
    waits = error_type == "timeout"
    result = await call(engine, name, timeout=1.0 if waits else LIMIT)
    assert (result.error_type, words in str(result.error)) == (error_type, True), result.error
    assert len(str(result.error)) < 3_000
    if not waits:
        assert (await call(engine, "plain")).is_success


@pytest.mark.parametrize("name", ["garbage", "odd_progress", "odd_answers", "flood_errors"])
async def test_noise_changes_nothing(engine: ToolEngine, name: str) -> None:
    """Lines that are none, notices that are none and answers to nothing are left out."""
    await engine.add_source(make_source("calls"))
    texts = [(await call(engine, each)).output for each in (name, "plain")]
    words = {"garbage": "between", "odd_progress": "odd", "odd_answers": "right"}
    assert [each["content"][0]["text"] for each in texts] == [words.get(name, "flooded"), "plain"]


async def test_changes_without_end_are_read_now_and_then(engine: ToolEngine) -> None:
    """The newest list comes all the same, also after one that is none."""
    begun = time.monotonic()
    await engine.add_source(make_source("changes"))
    async with asyncio.timeout(LIMIT):
        while (tool := engine.get("count")) is None or tool.description < "Reading 6.":  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.05)
    result = await call(engine, "count")
    most = 2 + (time.monotonic() - begun) / _REST
    assert int(result.output["content"][0]["text"]) <= most


@pytest.mark.beats
@pytest.mark.parametrize("name", ["flood_progress", "big_error", "flood_errors", "many_parts"])
async def test_the_heart_beats_on_while_much_comes(engine: ToolEngine, name: str) -> None:
    """Other calls go on while a server sends much."""
    await engine.add_source(make_source("calls", "10000"))
    await assert_beats_on(lambda: call(engine, name))


def test_many_numbers_are_looked_at_in_turns() -> None:
    """The SDK has read them in one turn; the loop is not held for another."""
    few: Any = {"a": [1, {"b": 2.5}, "c"]}
    many: Any = {"structuredContent": {"rows": [0] * 200_000, "b": {"c": few}}}
    assert [len(list(_check_numbers(each))) for each in (few, many)] == [0, 4]


@pytest.mark.parametrize("name", ["fork_and_stay", "fork_and_die"])
async def test_what_it_started_ends_with_it(engine: ToolEngine, name: str) -> None:
    """Processes that it leaves behind, in sessions of their own too, are ended."""
    source = make_source("calls")
    await engine.add_source(source)
    result = await call(engine, name)
    said = result.output["content"][0]["text"] if result.is_success else str(result.error)
    pids = [int(each) for each in re.findall(r"\d+", said)]
    assert len(pids) == 2
    await engine.close()
    assert [pid for pid in pids if await asyncio.to_thread(is_alive, pid)] == []


async def test_what_may_run_twice_is_sent_again(engine: ToolEngine) -> None:
    """Only a tool that says so is called again when its server was lost."""
    tools = {"die": {"effect": "read"}}
    await engine.add_source(make_source("calls", tools=tools))
    result = await call(engine, "die")
    assert result.error_type == "worker_lost"
