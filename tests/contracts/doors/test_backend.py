"""Every backend keeps to the contract of `ExecutionBackend`; a new one adds a line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from tests.calls.audit import EMPTY_FOLDER, make_engine
from tests.calls.samples import Stubborn
from tests.contracts.doors.far_backend import FarBackend
from tests.contracts.doors.wire import Wire
from tool_engine import (
    Tool,
    ToolConfigLoader,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolExecutionError,
)
from tool_engine.backends import LocalBackend
from tool_engine.executors.handler import executor_for
from tool_engine.interfaces import ExecutionBackend

BOUND = 1_000.0
"""Virtual seconds after which a test has hung."""

DEFINITION = {
    "name": "remote",
    "version": "1.0.0",
    "description": "Runs somewhere",
    "category": "custom",
    "parameters": [
        {"name": "text", "type": "string", "default": "é\n", "description": "x"},
        {"name": "number", "type": "number", "default": 1.5, "description": "x"},
        {"name": "count", "type": "integer", "default": 2, "description": "x"},
        {"name": "flag", "type": "boolean", "default": False, "description": "x"},
        {"name": "items", "type": "array", "default": [1, None], "description": "x"},
        {"name": "options", "type": "object", "default": {"a": {}}, "description": "x"},
    ],
    "entry": {"type": "custom", "handler": "remote"},
}


@pytest.fixture
async def engine() -> AsyncIterator[ToolEngine]:
    async with asyncio.timeout(BOUND), make_engine() as made:
        yield made


class Returning:
    """An executor that returns what it was given, and knows no more."""

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        del tool
        return {"arguments": params, "caller": context.caller_id}


BACKENDS: dict[str, Callable[[], ExecutionBackend]] = {
    "local": LocalBackend,
    "far": lambda: FarBackend(Wire()),
}
"""One line per backend."""


@pytest.fixture(params=list(BACKENDS))
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[ExecutionBackend]:
    made = BACKENDS[request.param]()
    async with asyncio.timeout(BOUND):
        yield made
        assert await made.close(1.0) == 0


def tool_and_context(seconds: float = 20.0) -> tuple[Tool, ToolExecutionContext]:
    context = ToolExecutionContext(caller_id="ann")
    context.deadline = asyncio.get_running_loop().time() + seconds
    return ToolConfigLoader().from_mapping(DEFINITION), context


async def test_execute(backend: ExecutionBackend) -> None:
    """C7: one attempt, once; what the executor returns is returned, and by `function_for` too."""
    tool, context = tool_and_context()
    executor = Returning()
    assert backend.takes(executor, tool)
    assert not backend.leaves_on_cancel(executor)
    expected = {"arguments": {"count": 1}, "caller": "ann"}
    assert await backend.execute(executor, tool, {"count": 1}, context) == expected
    assert await backend.function_for(executor)(tool, {"count": 1}, context) == expected


async def test_what_is_raised(backend: ExecutionBackend) -> None:
    """C7: what a tool raises is raised, by its own type or as an execution error."""
    tool, context = tool_and_context()
    runs: list[int] = []

    async def fail() -> None:
        runs.append(1)
        raise ValueError("no such thing")

    with pytest.raises((ValueError, ToolExecutionError), match="no such thing"):
        await backend.execute(executor_for(fail), tool, {}, context)
    assert runs == [1]


async def test_cancelled(backend: ExecutionBackend) -> None:
    """C8: a cancelled attempt ends when its work has stopped, and not before."""
    tool, context = tool_and_context(100.0)
    stubborn = Stubborn(seconds=5.0)
    attempt = asyncio.create_task(backend.execute(executor_for(stubborn), tool, {}, context))
    await stubborn.started.wait()
    attempt.cancel()
    await asyncio.wait([attempt])
    assert stubborn.ended.is_set()


async def test_cancelled_before_it_came(backend: ExecutionBackend) -> None:
    """C8: an attempt that is cancelled at once runs not at all, or is stopped."""
    tool, context = tool_and_context()
    running: list[int] = []

    async def work() -> None:
        running.append(1)
        try:
            await asyncio.Event().wait()
        finally:
            running.pop()

    attempt = asyncio.create_task(backend.execute(executor_for(work), tool, {}, context))
    await asyncio.sleep(0)
    attempt.cancel()
    await asyncio.wait([attempt])
    await asyncio.sleep(30.0)
    assert not running


async def test_what_crosses_is_json() -> None:
    """C7, K30: name, hash, arguments, seconds left and the context's wire form survive JSON."""
    far = FarBackend(Wire())
    engine = ToolEngine(ToolEngineConfig(tools_directory=EMPTY_FOLDER), backend=far)
    tool = engine.register_tool(DEFINITION)
    engine.register_executor("remote", Returning())
    context = ToolExecutionContext.for_conversation(
        "agent", "conv", timeout=5, priority=2, variables={"a": [1, {"b": None}]}
    )
    result = await engine.execute("remote", {"count": 3}, context)
    assert result.is_success, result.error
    assert result.output["arguments"] == {
        "text": "é\n",
        "number": 1.5,
        "count": 3,
        "flag": False,
        "items": [1, None],
        "options": {"a": {}},
    }
    assert result.output["caller"] == "agent"
    request = json.loads(far.messages[0])
    assert (request["tool"], request["definition_hash"]) == ("remote", tool.definition_hash)
    assert 0 < request["seconds_left"] <= 5
    assert request["context"] == {
        "caller_id": "agent",
        "caller_type": "conversation_agent",
        "conversation_id": "conv",
        "workflow_id": None,
        "session_id": None,
        "retry_count": 0,
        "max_retries": 3,
        "priority": 2,
        "call_id": result.call_id,
        "parent_call_id": None,
        "variables": {"a": [1, {"b": None}]},
    }
    await engine.close()


async def test_a_tool_that_is_not_taken() -> None:
    """C7: what a backend does not take runs in the engine's process, with all that it has there."""
    far = FarBackend(Wire())
    engine = ToolEngine(ToolEngineConfig(tools_directory=EMPTY_FOLDER), backend=far)
    engine.register_tool({**DEFINITION, "name": "here_it_is"})
    engine.register_executor("remote", Returning())
    assert (await engine.execute("here_it_is")).is_success
    assert not far.messages
    await engine.close()


async def test_wire_form_makes_a_context_again() -> None:
    """K30: the wire form is what a context of the other process is made of."""
    context = ToolExecutionContext.for_workflow("wf", "node", max_retries=1, variables={"x": 1})
    wire = json.loads(json.dumps(context.to_wire()))
    again = ToolExecutionContext(**wire)
    assert again.to_wire() == context.to_wire()
    # Nothing of this process crosses: neither its clock nor what binds a context to its call.
    assert not {"deadline", "timeout", "_nested", "_slot"} & set(wire)


async def test_definition_crosses_by_hash() -> None:
    """K51: the same definition has the same hash wherever it is loaded, another has another."""
    loader = ToolConfigLoader()
    first, again = loader.from_mapping(DEFINITION), loader.from_mapping(dict(DEFINITION))
    assert first.definition_hash == again.definition_hash
    other = loader.from_mapping({**DEFINITION, "description": "Runs elsewhere"})
    assert other.definition_hash != first.definition_hash
    assert msgspec.json.decode(msgspec.json.encode(first.definition_hash)) == first.definition_hash


async def test_result_crosses_back(engine: ToolEngine) -> None:
    """K50: a result is JSON too, however the call ended."""

    async def fail() -> None:
        raise ValueError("no")

    async def succeed() -> dict[str, int]:
        return {"a": 1}

    engine.register_tool({**DEFINITION, "name": "ok", "parameters": []}, succeed)
    entry = {"type": "custom", "handler": "bad"}
    engine.register_tool({**DEFINITION, "name": "bad", "parameters": [], "entry": entry}, fail)
    for name in ("ok", "bad", "missing"):
        result = (await engine.execute(name)).to_dict()
        assert json.loads(json.dumps(result, allow_nan=False)) == result
