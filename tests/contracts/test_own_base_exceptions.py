"""Foreign code that raises a `BaseException` of its own fails like any other foreign code.

`pytest.fail` raises one. Each part of `PARTS` makes one call whose result must arrive, be recorded
once, and leave no slot held. Looked at: subscribers, approvers, previews, hooks of sessions and
replies, callbacks of sub-agents, controllers, storages, protocols, executors at the end,
presentations and rules of groups. `KeyboardInterrupt`, the end of a generator and the caller's own
cancellation go up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import pytest

from tests.calls.audit import EMPTY_FOLDER
from tool_engine import (
    CallbackApprover,
    ConcurrencyConfig,
    ToolConcurrencyController,
    ToolEngine,
    ToolEngineConfig,
    ToolKnowledgeStore,
    ToolSession,
    ToolSubAgent,
    get_protocol,
    process_tool_calls,
)
from tool_engine.knowledge.memory import MemoryStorage
from tool_engine.model.foreign import ends_caller
from tool_engine.protocols import CycleOptions

KINDS: tuple[type[BaseException], ...] = (pytest.fail.Exception, SystemExit)
REPLY = '<function_call>{"name":"echo","arguments":{}}</function_call>'

Fail = Callable[..., NoReturn]


def engine_with(**parts: Any) -> ToolEngine:
    engine = ToolEngine(ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False), **parts)

    async def echo() -> str:
        return "said"

    engine.register_tool({"name": "echo", "description": "E."}, echo)
    engine.register_tool({"name": "ask", "description": "A.", "permission": "ask_always"}, echo)
    return engine


async def in_a_subscriber(fail: Fail) -> tuple[ToolEngine, str | None]:
    engine, seen = engine_with(), []
    engine.subscribe(fail)
    engine.subscribe(lambda event: seen.append(event.event_type.value))
    result = await engine.execute("echo")
    assert seen == ["execution_started", "execution_completed"]
    assert engine.get_event_statistics()["failed"] == 2
    return engine, result.error_type


async def in_an_async_subscriber(fail: Fail) -> tuple[ToolEngine, str | None]:
    engine = engine_with()

    async def hear(event: Any) -> None:
        fail()

    engine.subscribe(hear)
    result = await engine.execute("echo")
    await engine.close()
    assert engine.get_event_statistics()["failed"] == 2
    return engine, result.error_type


async def in_an_approver(fail: Fail) -> tuple[ToolEngine, str | None]:
    engine = engine_with()

    async def say(request: Any) -> bool:
        fail()

    result = await ToolSession(engine, "s", {}, CallbackApprover(say)).execute("ask")
    assert "no approver could be asked" in str(result.error)
    return engine, result.error_type


async def in_the_engines_approver(fail: Fail) -> tuple[ToolEngine, str | None]:
    """The other call of the batch keeps its result."""

    async def say(request: Any) -> bool:
        fail()

    engine = engine_with(approver=CallbackApprover(say))
    agent = ToolSubAgent("a", engine)
    asked, free = await agent.execute_batch([("ask", {}), ("echo", {})], parallel=True)
    assert free.is_success
    return engine, asked.error_type


async def in_a_preview(fail: Fail) -> tuple[ToolEngine, str | None]:
    engine = engine_with()

    class Previewing:
        async def execute(self, tool: Any, params: Any, context: Any) -> str:
            return "said"

        def preview(self, tool: Any, params: Any) -> str:
            fail()

        async def close(self) -> None:
            fail()

    engine.register_executor("own", Previewing())
    entry = {"type": "custom", "handler": "own"}
    own = {"name": "own", "description": "O.", "permission": "ask_always", "entry": entry}
    engine.register_tool(own)
    session = ToolSession(engine, "s", {}, CallbackApprover(lambda request: True))
    return engine, (await session.execute("own")).error_type


async def in_on_before_execute(fail: Fail) -> tuple[ToolEngine, str | None]:
    engine = engine_with()
    options = CycleOptions(on_before_execute=fail)
    cycle = await process_tool_calls(engine, REPLY, "function_call", options)
    return engine, cycle.execution_results[0].error_type


async def in_on_result(fail: Fail) -> tuple[ToolEngine, str | None]:
    engine = engine_with()
    options = CycleOptions(on_result=fail)
    cycle = await process_tool_calls(engine, REPLY, "function_call", options)
    return engine, cycle.execution_results[0].error_type


async def in_a_result_callback(fail: Fail) -> tuple[ToolEngine, str | None]:
    engine = engine_with()
    result = await ToolSubAgent("a", engine, on_result_callback=fail).execute("echo")
    return engine, result.error_type


async def in_a_protocol(fail: Fail) -> tuple[ToolEngine, str | None]:
    engine = engine_with()
    protocol = get_protocol("function_call")
    protocol.format_results = fail  # type: ignore[method-assign]
    cycle = await process_tool_calls(engine, REPLY, protocol)
    assert cycle.formatted is None
    return engine, cycle.execution_results[0].error_type


async def in_a_controller(fail: Fail) -> tuple[ToolEngine, str | None]:
    inner = ToolConcurrencyController(ConcurrencyConfig())

    class Broken:
        def __getattr__(self, name: str) -> Any:
            return fail if name == "admit_nowait" else getattr(inner, name)

        async def drain(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as there
            fail()

    engine = engine_with(controller=Broken())
    return engine, (await engine.execute("echo")).error_type


async def in_a_storage(fail: Fail) -> tuple[ToolEngine, str | None]:
    class Broken(MemoryStorage):
        def add(self, record: Any) -> None:
            if record.tool_name == "lost":
                fail()
            super().add(record)

    engine = engine_with(store=ToolKnowledgeStore(Broken()))
    assert (await engine.execute("lost")).error_type == "tool_not_found"
    return engine, (await engine.execute("echo")).error_type


PARTS: dict[Callable[[Fail], Awaitable[tuple[ToolEngine, str | None]]], str | None] = {
    in_a_subscriber: None,
    in_an_async_subscriber: None,
    in_an_approver: "execution_rejected",
    in_the_engines_approver: "execution_rejected",
    in_a_preview: None,
    in_on_before_execute: "rejected",
    in_on_result: None,
    in_a_result_callback: None,
    in_a_protocol: None,
    in_a_controller: None,
    in_a_storage: None,
}
"""Part -> the error type of its call."""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
async def test_a_call_ends_once(part: Any, kind: type[BaseException]) -> None:
    """It has its result, one record and no slot; the engine closes."""

    def fail(*args: Any, **kwargs: Any) -> NoReturn:
        raise kind("its own")

    engine, error_type = await part(fail)
    assert error_type == PARTS[part]
    records = await engine.query_call_records()
    assert error_type in [each.error_type for each in records]
    assert len({each.call_id for each in records}) == len(records)
    assert engine.controller.get_metrics().active == 0
    await engine.close()


@pytest.mark.parametrize(
    ("kind", "goes_up"),
    [
        (KeyboardInterrupt, True),
        (GeneratorExit, True),
        (asyncio.CancelledError, True),
        (SystemExit, False),
        (pytest.fail.Exception, False),
        (ValueError, False),
    ],
)
def test_what_ends_the_caller(kind: type[BaseException], goes_up: bool) -> None:
    """A person's Ctrl-C and a cancellation are not foreign failures."""
    assert ends_caller(kind("x")) is goes_up


async def test_an_interrupt_in_a_subscriber_goes_up() -> None:
    """Ctrl-C while a subscriber runs ends the program, as it does in a tool."""
    engine = engine_with()

    def hear(event: Any) -> NoReturn:
        raise KeyboardInterrupt

    end = engine.subscribe(hear)
    with pytest.raises(KeyboardInterrupt):
        await engine.execute("echo")
    end()
    await engine.close()
