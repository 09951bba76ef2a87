"""Does one call ever see, or change, what belongs to another, to its caller or to its record?"""

from __future__ import annotations

import asyncio
from typing import Any

from tests.calls.audit import Audit
from tests.calls.samples import bare
from tool_engine import ToolEngine, ToolExecutionContext

LISTS = [
    {"name": "items", "type": "array", "default": [1], "description": "x"},
    {"name": "options", "type": "object", "default": {"a": [1]}, "description": "x"},
]


async def test_arguments_changed_by_the_tool(engine: ToolEngine, audit: Audit) -> None:
    """K28: what a tool does to its arguments reaches neither its caller nor the record."""

    async def spoil(items: list[int], options: dict[str, Any]) -> None:
        items.append(2)
        options["a"].append(2)

    engine.register_tool(bare("spoil", parameters=LISTS), spoil)
    mine = {"items": [7], "options": {"a": [7]}}
    await engine.execute("spoil", mine)
    assert mine == {"items": [7], "options": {"a": [7]}}
    assert (await audit.last()).params == mine


async def test_arguments_changed_by_the_caller(engine: ToolEngine, audit: Audit) -> None:
    """K28: what a caller does to its arguments while the tool runs, or later, changes nothing."""

    async def look(items: list[int], options: dict[str, Any]) -> Any:
        await asyncio.sleep(1)
        return {"items": items, "options": options}

    engine.register_tool(bare("look", parameters=LISTS), look)
    mine: dict[str, Any] = {"items": [7], "options": {"a": [7]}}
    call = asyncio.create_task(engine.execute("look", mine))
    await asyncio.sleep(0.5)
    mine["items"].append(8)
    mine["options"]["a"].append(8)
    result = await call
    assert result.output == {"items": [7], "options": {"a": [7]}}
    mine["items"].append(9)
    assert (await audit.last()).params == {"items": [7], "options": {"a": [7]}}


async def test_output_changed_afterwards(engine: ToolEngine, audit: Audit) -> None:
    """K28: neither the tool nor the caller changes the record through the output."""
    kept: dict[str, list[int]] = {"values": [1]}

    async def give() -> dict[str, list[int]]:
        return kept

    engine.register_tool(bare("give"), give)
    result = await engine.execute("give")
    kept["values"].append(2)
    result.output["more"] = True
    assert (await audit.last()).result == {"values": [1]}


async def test_defaults_are_not_shared(engine: ToolEngine, audit: Audit) -> None:
    """K51: each call gets its own copy of a default."""

    async def spoil(items: list[int], options: dict[str, Any]) -> int:
        items.append(2)
        options["a"].append(2)
        return len(items) + len(options["a"])

    tool = engine.register_tool(bare("spoil", parameters=LISTS), spoil)
    outputs = [(await engine.execute("spoil")).output for _ in range(3)]
    assert outputs == [{"result": 4}] * 3
    assert [parameter.default for parameter in tool.parameters] == [[1], {"a": [1]}]


async def test_variables_of_anonymous_calls(engine: ToolEngine, audit: Audit) -> None:
    """K30: calls without a context do not share variables; those with one context do."""

    async def count(context: ToolExecutionContext) -> int:
        context.variables["n"] = context.variables.get("n", 0) + 1
        await asyncio.sleep(1)
        return int(context.variables["n"])

    engine.register_tool(bare("count"), count)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(engine.execute("count")) for _ in range(3)]
    assert [call.result().output for call in calls] == [{"result": 1}] * 3
    mine = ToolExecutionContext()
    await engine.execute("count", {}, mine)
    assert (await engine.execute("count", {}, mine)).output == {"result": 2}
    assert mine.variables == {"n": 2}


async def test_handler_cannot_change_the_callers_context(engine: ToolEngine, audit: Audit) -> None:
    """K30: a handler's context is a copy: who calls, and for how long, stays what it was."""

    async def change(context: ToolExecutionContext) -> None:
        context.caller_id = "somebody else"
        context.timeout = 1.0

    engine.register_tool(bare("change"), change)
    mine = ToolExecutionContext(caller_id="me", timeout=50)
    await engine.execute("change", {}, mine)
    assert (mine.caller_id, mine.timeout) == ("me", 50)
    assert (await audit.last()).caller_id == "me"


async def test_arguments_that_no_encoding_holds(engine: ToolEngine, audit: Audit) -> None:
    """K24, K28: whatever the arguments are, the call ends as a result and is recorded."""

    class Strange:
        def __repr__(self) -> str:
            raise ValueError("no words")

    async def take(items: list[Any], options: dict[str, Any]) -> None:
        del items, options

    engine.register_tool(bare("take", parameters=LISTS), take)
    endless: list[Any] = []
    endless.append(endless)
    for strange in (Strange(), {1: Strange()}, endless, 2**5000, "\ud800", b"x", {1, 2}):
        result = await engine.execute("take", {"items": strange})
        assert result.error_type == "validation_error"
    huge = ["x" * 100] * 2_000
    assert (await engine.execute("take", {"items": huge})).is_success


async def test_strange_outputs(engine: ToolEngine, audit: Audit) -> None:
    """K28, U17: what only Python holds in full is a success, and recorded."""

    outputs = iter((2**5000, "\ud800", float("nan"), {1}, b"x", [2**70]))

    async def give() -> Any:
        return next(outputs)

    engine.register_tool(bare("give"), give)
    for _ in range(6):
        assert (await engine.execute("give")).is_success
    assert len(await audit.records()) == 6


async def test_call_ids_are_unique(engine: ToolEngine, audit: Audit) -> None:
    """K41: no two calls, of whichever engine, have the same id."""
    other = ToolEngine()
    results = [await each.execute("nothing") for each in (engine, other) for _ in range(50)]
    assert len({result.call_id for result in results}) == 100
    await other.close()


async def test_secret_parameters_are_hidden(engine: ToolEngine, audit: Audit) -> None:
    """K41: a secret parameter reaches the tool, and neither the record nor an error."""

    async def fail(key: str) -> None:
        assert key == "hunter2-hunter2"
        raise ValueError(f"refused {key}")

    parameters = [
        {"name": "key", "type": "string", "required": True, "description": "x", "secret": True}
    ]
    engine.register_tool(bare("fail", parameters=parameters), fail)
    await engine.execute("fail", {"key": "hunter2-hunter2"})
    record = await audit.last()
    assert record.params == {"key": "[hidden]"}
    assert "hunter2" not in str(record.to_dict())
