"""What can a hostile value, or a hostile tool's answer, make a workflow do?

Each test is an attack on a workflow that runs in a real engine. The attacker writes the arguments
of the call, and whatever the called tools return; the definition is the author's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.calls.audit import check_idle
from tests.executors.workflow.samples import make_workflow, step
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.executors.executor_registry import ExecutorRegistry

LIMIT = 20.0
SECRET = "s3cret-of-the-owner"
LURES = (
    "${params.token}",
    "${env:WORKFLOW_SECRET}",
    "$${params.token}",
    "${steps.first.output}",
    "{token} {{token}} %(token)s `whoami` ${jndi:ldap://x} {{7*7}}",
    "'} ?? params.token",
    "${" * 1000,
    "\0\u202e${params.token}",
)


@pytest.fixture
async def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ToolEngine]:
    monkeypatch.setenv("WORKFLOW_SECRET", SECRET)
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as engine:

        async def answer(text: str = "") -> dict[str, str]:
            return {"text": text}

        parameters = [{"name": "text", "type": "string", "description": "A sample"}]
        about = {"description": "A sample", "parameters": parameters}
        engine.register_tool({"name": "answer", **about}, answer)
        yield engine
        check_idle(engine)


async def run(engine: ToolEngine, name: str = "flow", **params: Any) -> Any:
    async with asyncio.timeout(LIMIT):
        return await engine.execute(name, params)


@pytest.mark.parametrize("lure", LURES)
async def test_a_value_is_never_a_reference(engine: ToolEngine, lure: str) -> None:
    """D21: a text that looks like a reference comes out as it went in, through all steps."""
    first = step("first", "answer", params={"text": "${params.text}"})
    second = step("second", "answer", params={"text": "<${steps.first.output.text}>"})
    third = step("third", "answer", params={"text": "${steps.second.output.text}"})
    third["if"] = "params.token != ''"
    engine.register_tool(make_workflow(first, second, third, params=("text", "token")))
    result = await run(engine, text=lure, token=SECRET)
    assert result.output == {"text": f"<{lure}>"}
    assert SECRET not in json.dumps(result.output)


@pytest.mark.parametrize("lure", ["true", "params.x == 1", "1 or true", "' or 'a' == 'a", "yes"])
async def test_a_value_is_never_a_condition(engine: ToolEngine, lure: str) -> None:
    """D21: no text makes a condition true, and none is read as a part of one."""
    guarded = step("a", "answer", **{"if": "params.text == 'open sesame'"})
    engine.register_tool(make_workflow(guarded, params=("text",), output="${steps.a.status}"))
    assert (await run(engine, text=lure)).output == {"result": "skipped"}
    bare = make_workflow(
        step("a", "answer", **{"if": "params.text"}), params=("text",), name="bare"
    )
    engine.register_tool(bare)
    result = await run(engine, "bare", text=lure)
    assert "a text, not true or false" in (result.error or "")


@pytest.mark.parametrize("tool", ["${params.tool}", "a${params.tool}", "${steps.a.output.tool}"])
def test_a_value_chooses_no_tool(tool: str) -> None:
    """D21: a workflow whose tool is a reference does not load."""
    found = ExecutorRegistry().check(make_workflow(step("b", tool), params=("tool",)))
    assert "no value chooses what runs" in found[0].message


async def test_a_list_without_end(engine: ToolEngine) -> None:
    """D21: a list that is too long makes no call at all."""
    each = step("a", "answer", for_each="${params.items}", max_parallel=32)
    engine.register_tool(make_workflow(each, params=("items:array",)))
    result = await run(engine, items=list(range(50_000)))
    assert "for_each has 50000 items, and the limit is 100" in (result.error or "")
    assert len(await engine.query_call_records()) == 1


async def test_calls_that_multiply(engine: ToolEngine) -> None:
    """D21: a hundred calls of a hundred calls of a hundred calls end at a thousand."""
    each = step("a", "answer", for_each="${params.items}", on_error="continue", max_parallel=8)
    engine.register_tool(make_workflow(each, params=("items:array!",), name="level_0"))
    for level in (1, 2):
        again = {**each, "tool": f"level_{level - 1}", "params": {"items": "${params.items}"}}
        engine.register_tool(make_workflow(again, params=("items:array!",), name=f"level_{level}"))
    result = await run(engine, "level_2", items=list(range(100)))
    assert "the run has made 1000 calls, which is the most" in (result.error or "")
    metrics = engine.controller.get_metrics()
    assert metrics.total_acquired == metrics.total_released
    records = await engine.query_call_records(limit=5000)
    assert len(records) == 1001


async def test_workflows_without_end(engine: ToolEngine) -> None:
    """D21: workflows that call one another do not run; nothing is called."""
    engine.register_tool(make_workflow(step("x", "answer"), step("y", "b"), name="a"))
    engine.register_tool(make_workflow(step("x", "answer"), step("y", "a"), name="b"))
    for name in "ab":
        assert "without end" in ((await run(engine, name)).error or "")
    assert {record.tool_name for record in await engine.query_call_records()} == {"a", "b"}


async def test_an_answer_that_is_too_deep(engine: ToolEngine) -> None:
    """D21: what cannot be compared or put into a text is an error of its step, no crash."""

    async def deep() -> Any:
        value: list[Any] = []
        for _ in range(3000):
            value = [value]
        return {"value": value}

    engine.register_tool({"name": "deep", "description": "A sample"}, deep)
    text = step("b", "answer", params={"text": "<${steps.a.output}>"})
    same = step("b", "answer", **{"if": "steps.a.output == steps.c.output"})
    for second in (text, same):
        engine.register_tool(make_workflow(step("a", "deep"), step("c", "deep"), second))
        result = await run(engine)
        assert result.error_type == "execution_error"
        assert len(result.error or "") < 2500
        engine.unregister_tool("flow")


async def test_a_secret_is_not_told_in_a_failure(engine: ToolEngine) -> None:
    """D21: messages and details name keys and kinds of values, never the values."""
    first = step("a", "answer", params={"text": SECRET})
    second = step("b", "answer", params={"text": "${steps.a.output.txet}"})
    engine.register_tool(make_workflow(first, second))
    result = await run(engine)
    assert "did you mean 'text'?" in (result.error or "")
    assert SECRET not in json.dumps([result.error, result.metadata])
