"""How does a session run one call, and what does it look at for that?"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from tests.way import list_files, list_passed
from tool_engine import (
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolExecutionResult,
    ToolSession,
)
from tool_engine.model.permission import ExecutionPolicy, Permission, ResultPolicy
from tool_engine.session import combine
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.reading.presentation import Presentation
from tool_engine.session.variables.call_variables import UnmadeCall

MOST_CALLS = 46
MOST_FILES = 19


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:

        @engine.tool
        async def echo(text: str) -> str:
            """Gives a text back."""
            return text

        yield engine


async def test_a_call_looks_at_what_differs_between_calls_alone(engine: ToolEngine) -> None:
    """X1: what is the same for all calls of a tool is found at the first one.

    A person who follows one call opens as many files.
    """
    session = ToolSession(engine, "chat-1")
    passed = await list_passed(lambda: session.execute("echo", {"text": "hi"}))
    assert len(passed) <= MOST_CALLS, passed
    assert len(list_files(passed)) <= MOST_FILES, list_files(passed)


async def test_a_table_is_not_looked_at_again_after_the_engine_has_packed_it(
    engine: ToolEngine,
) -> None:
    """X1: the engine knows how large an output is, and one pass of C copies it: no walk."""
    rows = [{"id": at, "name": f"name {at}", "ok": True} for at in range(200)]

    @engine.tool
    async def list_rows() -> dict[str, Any]:
        """Lists rows."""
        return {"rows": rows}

    session = ToolSession(engine, "chat-1")
    await session.execute("list_rows", {})
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = await session.execute("list_rows", {})
    finally:
        sys.setprofile(before)
    assert result.result_variable is not None
    assert not [
        each for each in files if each.endswith(("json/weighing.py", "json/returned_value.py"))
    ]
    rows.clear()
    assert len(session.variables.get(result.result_variable).value["rows"]) == 200


@pytest.mark.parametrize(("count", "most"), [(1_500, 0), (20_000, 1)])
async def test_a_large_output_is_measured_once_at_most_before_a_thread_takes_it(
    engine: ToolEngine, count: int, most: int
) -> None:
    """X1: whether it is large is asked of the loop, which does nothing else meanwhile.

    Of a table of some 50 KB the engine knows it; of a record that is cut it does not.
    """
    rows = [{"id": at, "name": f"name {at}", "ok": True} for at in range(count)]

    @engine.tool
    async def list_rows() -> dict[str, Any]:
        """Lists rows."""
        return {"rows": rows}

    session = ToolSession(engine, "chat-1", {"limit": 100})
    passed: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == "is_quick":
            passed.append(",".join(frame.f_locals["value"]))

    before = sys.getprofile()
    # The threads that read and keep it have their own.
    sys.setprofile(note)
    try:
        result = await session.execute("list_rows", {})
    finally:
        sys.setprofile(before)
    assert passed.count("rows") <= most, passed
    assert result.result_variable is not None
    assert len(session.variables.get(result.result_variable).value["rows"]) == count


async def test_a_record_that_is_cut_does_not_say_how_large_an_output_is(
    engine: ToolEngine,
) -> None:
    """S29: what is kept of a very long text is short; the variable has all of it."""

    @engine.tool
    async def write(text: str) -> dict[str, Any]:
        """Writes much."""
        return {"text": text * 1_000_000, "more": [[1]]}

    session = ToolSession(engine, "chat-1")
    result = await session.execute("write", {"text": "x"})
    assert result.result_variable is not None
    assert session.variables.chars > 1_000_000
    assert len(session.variables.get(result.result_variable).value["text"]) == 1_000_000


async def test_a_variable_holds_what_the_source_of_the_tool_made_of_the_output() -> None:
    """S29: a source may give another output than its engine has recorded."""

    class Multiplied(ToolEngine):
        async def execute(self, *call: Any, **more: Any) -> ToolExecutionResult:
            result = await super().execute(*call, **more)
            return msgspec.structs.replace(result, output={"rows": [[1]] * 20_000})

    async with Multiplied() as engine:

        @engine.tool
        async def list_rows() -> dict[str, Any]:
            """Lists rows."""
            return {"rows": [[1]]}

        session = ToolSession(engine, "chat-1")
        result = await session.execute("list_rows", {})
        assert result.result_variable is not None
        unread = [each for each in session.variables._used.values() if isinstance(each, UnmadeCall)]
        assert not unread
        assert session.variables.chars > 60_000
        assert len(session.variables.get(result.result_variable).value["rows"]) == 20_000


async def test_which_tool_a_name_means_is_found_anew_after_a_change(
    engine: ToolEngine, tmp_path: Path
) -> None:
    """U47, labels: a tool that comes from another source now is another tool."""
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as other:

        async def find(text: str) -> str:
            """Finds a text."""
            return text

        session = ToolSession(combine(engine, other), "chat-1", {"max_uses": {"find": 1}})
        other.tool(name="find")(find)
        here = await session.execute("find", {"text": "a"})
        assert here.is_success
        assert session.variables.get("find_1_result").labels == {
            "tool:source-2:find effect:unknown"
        }
        assert (await session.execute("find", {"text": "a"})).error_type == "limit_reached"
        other.unregister_tool("find")
        engine.tool(name="find")(find)
        assert (await session.execute("find", {"text": "a"})).is_success
        assert "tool:find effect:unknown" in session.variables.get("find_3_result").labels


DENIED = Permission(execution=ExecutionPolicy.DENY)
WITHHELD = Permission(result=ResultPolicy.ALWAYS)


async def test_who_asks_about_a_call_is_found_anew_after_a_change(engine: ToolEngine) -> None:
    """X3: that nothing asked about the last call says nothing after a change of the rules."""
    session = ToolSession(engine, "chat-1")

    async def call() -> str | None:
        return (await session.execute("echo", {"text": "hi"})).error_type

    assert [await call(), await call()] == [None, None]
    with session.policy.also(ToolCallConfig(permission=DENIED)):
        assert await call() == "execution_rejected"
    session.toolbox.config = ToolCallConfig(permission=DENIED)
    assert await call() == "execution_rejected"
    session.toolbox.config = ToolCallConfig()
    assert [await call(), await call()] == [None, None]
    session.toolbox.set_tool_enabled("echo", enabled=False)
    assert await call() == "rejected"
    session.toolbox.set_tool_enabled("echo", enabled=True)
    assert await call() is None
    engine.unregister_tool("echo")
    engine.register_tool(
        {
            "name": "echo",
            "description": "Gives a text back.",
            "parameters": [
                {"name": "text", "type": "string", "required": True, "description": "What."}
            ],
            "permission": {"execution": "deny"},
        },
        lambda text: text,
    )
    assert await call() == "execution_rejected"


async def test_rules_that_change_while_a_tool_runs_are_about_its_result(engine: ToolEngine) -> None:
    """X3: who may read a result is decided when there is one."""
    session, rules = ToolSession(engine, "chat-1"), [ToolCallConfig(), ToolCallConfig()]

    @engine.tool
    async def change() -> str:
        """Changes the rules."""
        session.toolbox.config = rules.pop()
        return "done"

    for _ in range(2):
        assert (await session.execute("change")).is_success
    rules.append(ToolCallConfig(permission=WITHHELD))
    read = await session.execute("change")
    assert (read.error_type, read.final_text) == ("result_rejected", None)


async def test_settings_hold_from_the_next_call_on(engine: ToolEngine) -> None:
    """S7, A9: what was found for a tool is not kept over a change of the settings."""
    session, seen = ToolSession(engine, "chat-1"), list[float | None]()

    def tell(context: ToolExecutionContext) -> str:
        seen.append(context.timeout)
        return "x" * 500

    session.register_tool({"name": "tell", "description": "Tells."}, tell)
    assert not (await session.execute("tell")).is_truncated
    session.toolbox.config = ToolCallConfig(limit=100, timeout=7.0)
    assert (await session.execute("tell")).is_truncated
    assert seen == [30.0, 7.0]
    session.toolbox.config = ToolCallConfig(show="none")
    assert (await session.execute("tell")).is_hidden
    session.presentations["tell"] = Presentation(limit=200)
    session.toolbox.config = ToolCallConfig()
    assert (await session.execute("tell")).is_truncated
