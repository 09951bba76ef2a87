"""Is the author of an async function warned that it holds the event loop past its deadline?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.calls.audit import Audit, make_engine
from tests.calls.samples import bare
from tool_engine import ToolEngine, ToolExecutionContext

BLOCKED = "tool_blocked_loop"


def hold_loop(seconds: float) -> None:
    """Let time pass while nothing else runs, as `time.sleep` does."""
    loop: Any = asyncio.get_running_loop()
    loop.now += seconds


async def hold(seconds: float) -> None:
    hold_loop(seconds)


async def wait_and_hold(seconds: float) -> None:
    await asyncio.sleep(0.5)
    hold_loop(seconds)


async def calls(engine: ToolEngine, *sent: Any, **keys: Any) -> list[Any]:
    """The lines that calls bring of a tool with one second."""
    found: list[Any] = []
    with capture_logs() as lines:
        for name, seconds in sent:
            assert (await engine.execute(name, {"seconds": seconds}, **keys)).is_success
            found += [each["tool_name"] for each in lines if each["event"] == BLOCKED]
            lines.clear()
    return found


def add_tools(engine: ToolEngine) -> None:
    number = {"name": "seconds", "type": "number", "required": True, "description": "How long"}
    for name, function in (("hold", hold), ("other", hold), ("wait_and_hold", wait_and_hold)):
        engine.register_tool(bare(name, timeout=1, parameters=[number]), function)


@pytest.mark.parametrize("context", [None, ToolExecutionContext(caller_id="x", caller_type="y")])
@pytest.mark.parametrize("before", [(), (("hold", 0.0),)], ids=["steps", "short"])
async def test_a_tool_that_holds_the_loop(
    engine: ToolEngine, audit: Audit, before: Any, context: Any
) -> None:
    """It is named once, with what it took beyond its time, by both ways of a call."""
    del audit
    add_tools(engine)
    assert await calls(engine, *before, context=context) == []
    assert await calls(engine, ("hold", 1.05), context=context) == []
    with capture_logs() as lines:
        await engine.execute("hold", {"seconds": 3.0}, context)
    (line,) = lines
    assert (line["event"], line["log_level"]) == (BLOCKED, "warning")
    assert (line["tool_name"], line["late_seconds"]) == ("hold", 2.0)
    assert "write def in place of async def" in line["message"]
    again = await calls(engine, ("hold", 3.0), ("other", 3.0), ("other", 9.0), context=context)
    assert again == ["other"]


async def test_a_tool_that_has_waited(engine: ToolEngine, audit: Audit) -> None:
    """Who held the loop is not known then: it may have been another one."""
    del audit
    add_tools(engine)
    assert await calls(engine, ("wait_and_hold", 0.0), ("wait_and_hold", 3.0)) == []


async def test_a_call_of_a_tool_that_has_held_the_loop(engine: ToolEngine, audit: Audit) -> None:
    """What comes late because of its caller is not at fault."""
    del audit
    add_tools(engine)

    async def outer(context: ToolExecutionContext) -> Any:
        hold_loop(3.0)
        return (await context.call("hold", {"seconds": 0.01})).error_type

    engine.register_tool(bare("outer", timeout=1), outer)
    with capture_logs() as lines:
        await engine.execute("outer", {})
    assert [each.get("tool_name") for each in lines if each["event"] == BLOCKED] in ([], ["outer"])


async def test_a_tool_that_has_stood_in_line() -> None:
    """The time in the line is not its own."""
    engine = make_engine(1)
    add_tools(engine)
    await engine.execute("hold", {"seconds": 0.0})
    with capture_logs() as lines:
        sent = [("wait_and_hold", 0.0), ("hold", 0.9), ("hold", 0.9), ("other", 2.0)]
        ended = (engine.execute(name, {"seconds": seconds}) for name, seconds in sent)
        assert all(each.is_success for each in await asyncio.gather(*ended))
    named = [each["tool_name"] for each in lines if each["event"] == BLOCKED]
    assert named == ["other"]
    await engine.close()
