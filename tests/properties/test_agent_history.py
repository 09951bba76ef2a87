"""Whatever an agent did, its records tell the same as its memory."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.calls.audit import EMPTY_FOLDER
from tests.effort import share_of
from tool_engine.config import ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.errors import ToolExecutionError
from tool_engine.model.call import ToolExecutionContext
from tool_engine.subagent import ToolSubAgent

BOUND = 20.0
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.fixed_dictionaries({"a": st.integers(0, 9) | st.text()})),
        st.tuples(st.just("say"), st.fixed_dictionaries({"value": JSON})),
        st.tuples(st.just("fail"), st.fixed_dictionaries({"password": st.text(max_size=30)})),
        st.tuples(st.just("outer"), st.just({})),
        st.tuples(st.sampled_from(["none", "", "no tool", "sk-" + "a" * 30]), st.just({"x": 1})),
        st.sampled_from([3, "text", ("add",), ("add", "text"), None]),
        st.just("cancel"),
    ),
    max_size=8,
)


def engine_with(records: str | None) -> ToolEngine:
    config = ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False, records=records)
    engine = ToolEngine(config)

    @engine.tool(name="add")
    async def add(a: int) -> int:
        """Adds one."""
        return a + 1

    @engine.tool(name="say")
    async def say(value: Any) -> Any:
        """Says it."""
        return value

    @engine.tool(name="fail")
    async def fail(password: str) -> None:
        """Fails."""
        raise ToolExecutionError(f"refused {password}")

    @engine.tool(name="outer")
    async def outer(context: ToolExecutionContext) -> Any:
        """Calls another tool."""
        return (await context.call("add", {"a": 1})).output

    @engine.tool(name="hang")
    async def hang() -> None:
        """Waits."""
        await asyncio.Event().wait()

    return engine


async def take_steps(engine: ToolEngine, steps: list[Any], *, parallel: bool) -> ToolSubAgent:
    agent = ToolSubAgent("agent", engine, "planner", conversation_id="chat", max_history=5)
    for step in steps:
        if step == "cancel":
            call = asyncio.create_task(agent.execute("hang"))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
    await agent.execute_batch([step for step in steps if step != "cancel"], parallel)
    return agent


async def check(records: str | None, steps: list[Any], *, parallel: bool) -> None:
    async with asyncio.timeout(BOUND), engine_with(records) as engine:
        await ToolSubAgent("other", engine).execute("add", {"a": 1})
        agent = await take_steps(engine, steps, parallel=parallel)
        restored = await ToolSubAgent.restore("agent", engine, "planner", max_history=5)
        assert restored.get_execution_summary() == agent.get_execution_summary()
        assert restored.get_brief_summary() == agent.get_brief_summary()
        assert repr(restored) == repr(agent)
        before = agent.get_execution_summary()
    if records is not None:
        async with asyncio.timeout(BOUND), engine_with(records) as engine:
            again = await ToolSubAgent.restore("agent", engine, "planner", max_history=5)
            assert again.get_execution_summary() == before


def run(check: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(check())  # type: ignore[arg-type]


@given(steps=STEPS, parallel=st.booleans())
@settings(max_examples=share_of(60))
def test_memory_tells_the_same(steps: list[Any], *, parallel: bool) -> None:
    """K19-K21: the summaries of a restored agent are those of the agent, to the last field."""
    run(lambda: check(None, steps, parallel=parallel))


@given(steps=STEPS, parallel=st.booleans())
@settings(max_examples=share_of(12))
def test_database_tells_the_same(steps: list[Any], *, parallel: bool) -> None:
    """K19-K21: also from SQLite, and once more by another engine on the same file."""
    with TemporaryDirectory() as folder:
        run(lambda: check(f"sqlite:///{folder}/calls.db", steps, parallel=parallel))


PROGRAM = """
import asyncio, json, sys
from tests.properties.test_agent_history import engine_with, take_steps

async def main():
    async with engine_with(sys.argv[1]) as engine:
        steps = [("add", {"a": 1}), ("fail", {"password": "made-up"}), 3, ("outer", {}), "cancel"]
        agent = await take_steps(engine, steps, parallel=False)
        print(json.dumps(agent.get_execution_summary()))

asyncio.run(main())
"""


async def test_another_process_tells_the_same(tmp_path: Path) -> None:
    """K21: after a restart of the process the history is there, and goes on."""
    import json

    url = f"sqlite:///{tmp_path}/calls.db"
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", PROGRAM, url],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    before = json.loads(done.stdout)
    async with asyncio.timeout(BOUND), engine_with(url) as engine:
        agent = await ToolSubAgent.restore("agent", engine, "planner")
        assert agent.get_execution_summary() == before
        assert agent.conversation_id == "chat"
        await agent.execute("add", {"a": 2})
        assert agent.get_execution_summary()["total_calls"] == before["total_calls"] + 1


@pytest.mark.parametrize("records", [None, "sqlite"])
async def test_calls_of_a_batch_that_are_none_have_records(
    records: str | None, tmp_path: Path
) -> None:
    """What the agent itself refuses is recorded as well: a result without a record there is not."""
    url = None if records is None else f"sqlite:///{tmp_path}/calls.db"
    async with asyncio.timeout(BOUND), engine_with(url) as engine:
        agent = ToolSubAgent("agent", engine, conversation_id="chat")
        await agent.execute_batch([3, ("add", "text")])  # type: ignore[list-item]
        kept = await engine.query_call_records(conversation_id="chat")
        assert [each.tool_name for each in kept] == ["add", ""]
        assert {each.error_type for each in kept} == {"validation_error"}
        assert not any(each.reached_executor for each in kept)
