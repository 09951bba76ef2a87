"""Other code is another question, in whatever way a program gave the engine its code.

Looked at: all that runs a tool and is held by an object of the engine, since the engine's own code
does not count: functions of `import_tools`, and functions that are given a context of another name
or values that a hint asks for, counted as that.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tool_engine import (
    ApprovalDecision,
    CallbackApprover,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolSession,
)
from tool_engine.interfaces import CatalogSource
from tool_engine.model.tool import Tool

NAME = "pay"
DEFINITION = {"name": NAME, "description": "Pays.", "entry": {"type": "custom", "handler": NAME}}
LISTED = [{"name": NAME, "description": "Pays.", "inputSchema": {"type": "object"}}]


class Account(BaseModel):
    owner: str = "ann"


class First:
    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> str:
        return "first"

    async def pay(self, *_: Any) -> str:
        return "first"


class Other:
    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> str:
        return "other"

    async def pay(self, *_: Any) -> str:
        return "other"


async def first(*_: Any) -> str:
    return "first"


async def other(*_: Any) -> str:
    return "other"


def plain_first(*_: Any) -> str:
    return "first"


def plain_other(*_: Any) -> str:
    return "other"


async def dated_first(day: dt.date = dt.date(2026, 1, 1)) -> str:
    return "first"


async def dated_other(day: dt.date = dt.date(2026, 1, 1)) -> str:
    return "other"


async def context_first(given: ToolExecutionContext) -> str:
    return "first"


async def context_other(given: ToolExecutionContext) -> str:
    return "other"


async def model_first(account: Account | None = None) -> str:
    return "first"


async def model_other(account: Account | None = None) -> str:
    return "other"


class Given(CatalogSource):
    origin = "own:given"

    def __init__(self, executor: Any) -> None:
        self.executor = executor

    async def read_tools(self) -> list[Any]:
        return [{"name": NAME, "description": "Pays."}]

    def follow(self, notify: Callable[[], object]) -> None:
        self.notify = notify


Put = Callable[[ToolEngine, Any], Awaitable[None]]


async def register(engine: ToolEngine, code: Any) -> None:
    if engine.get(NAME):
        engine.unregister_tool(NAME)
    engine.register_tool(DEFINITION, code)


async def decorate(engine: ToolEngine, code: Any) -> None:
    if engine.get(NAME):
        engine.unregister_tool(NAME)
    engine.tool(NAME, description="Pays.")(code)


async def bring_list(engine: ToolEngine, code: Any) -> None:
    if engine.get(NAME):
        await engine.remove_source("import:tools")
    await engine.import_tools(LISTED, code)


async def bring_source(engine: ToolEngine, code: Any) -> None:
    if engine.get(NAME):
        await engine.remove_source("own:given")
    await engine.add_source(Given(code))


WAYS: dict[str, tuple[Put, Any, Any]] = {
    "async function": (register, first, other),
    "plain function": (register, plain_first, plain_other),
    "partial": (register, functools.partial(first), functools.partial(other)),
    "method": (register, First().pay, Other().pay),
    "decorator": (decorate, dated_first, dated_other),
    "decorator with a model": (decorate, model_first, model_other),
    "decorator with a context": (decorate, context_first, context_other),
    "list with an async function": (bring_list, first, other),
    "list with a plain function": (bring_list, plain_first, plain_other),
    "list with a partial": (bring_list, functools.partial(first), functools.partial(other)),
    "list with a method": (bring_list, First().pay, Other().pay),
    "list with an executor": (bring_list, First(), Other()),
    "source with an executor": (bring_source, First(), Other()),
}
OF_SOURCES = [name for name, way in WAYS.items() if way[0] in (bring_list, bring_source)]


@pytest.mark.parametrize("always", [None, "tool"])
@pytest.mark.parametrize("way", WAYS)
async def test_other_code_is_asked_about_again(
    way: str, always: str | None, tmp_path: Path
) -> None:
    """E14: what ran is what was consented to: in the conversation, and always for a principal."""
    put, code, changed = WAYS[way]
    asked: list[str] = []

    def allow(request: Any) -> ApprovalDecision:
        asked.append(request.tool_name)
        return ApprovalDecision(is_approved=True, always=always)

    settings = {"rules": {NAME: "ask_once"}}
    async with ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False)) as engine:
        session = ToolSession(engine, "s", settings, CallbackApprover(allow), principal="ann")
        for each, questions, output in (
            (code, 1, "first"),
            (code, 1, "first"),
            (changed, 2, "other"),
        ):
            await put(engine, each)
            result = await session.execute(NAME)
            assert (result.output, len(asked)) == ({"result": output}, questions), result.error


@pytest.mark.parametrize("way", OF_SOURCES)
async def test_other_code_of_a_source_is_quarantined(way: str, tmp_path: Path) -> None:
    """`lock_tools` approves the code that this program registered to run a tool."""
    put, code, changed = WAYS[way]
    folder = tmp_path / "tools"
    folder.mkdir()
    config = ToolEngineConfig(str(folder), auto_reload=False, lock="enforce")
    async with ToolEngine(config) as engine:
        await put(engine, code)
        await engine.lock_tools([NAME])
        assert (await engine.execute(NAME)).output == {"result": "first"}
        if put is bring_list:
            await engine.remove_source("import:tools")
        else:
            await engine.remove_source("own:given")
        await put(engine, changed)
        assert [each.reason for each in engine.quarantined()] == ["handler_changed"]
        assert (await engine.execute(NAME)).error_type == "tool_quarantined"
