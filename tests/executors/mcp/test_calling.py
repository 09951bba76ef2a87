"""A call of a server's tool is a call like any other, and always ends."""

from __future__ import annotations

import asyncio
import os
import signal
from copy import deepcopy
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.lowlevel.server import Server
from msgspec.structs import replace

from tests.executors.mcp.conftest import COMMAND, LIMIT, count_running, serve_http, until
from tests.ports import free_port
from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.executors.mcp.mcp_source import MCPSource
from tool_engine.model.progress import ToolProgress
from tool_engine.testing import virtual_loop


async def test_results(engine: ToolEngine, source: MCPSource) -> None:
    """Its text, its values and its failures arrive."""
    changes = await engine.add_source(source)
    assert "echo" in changes["added"]
    echoed = await engine.execute("echo", {"text": "hello"})
    assert echoed.output == {"content": [{"type": "text", "text": "hello"}]}
    both = await engine.execute("both", {})
    assert both.output["structuredContent"] == {"number": 1}
    failed = await engine.execute("fail", {"text": "money"})
    assert (failed.error_type, failed.error) == ("execution_error", "no money")
    told = await engine.execute("fail", {"text": "as_data"})
    assert (told.error_type, told.error) == ("execution_error", '{"why": "disk full"}')
    wrong = await engine.execute("echo", {"text": 3})
    assert wrong.error_type == "validation_error"
    assert [record.tool_name for record in await engine.store.query_call_records()][:1] == ["echo"]


async def test_a_server_in_memory_has_arguments_of_its_own(engine: ToolEngine) -> None:
    """What it changes in them is not in its next round, which has what the caller sent."""
    seen: list[Any] = []

    async def list_tools(ctx: Any, params: Any) -> Any:
        schema = {"type": "object", "properties": {"rows": {"type": "array"}}}
        return types.ListToolsResult(tools=[types.Tool(name="take", input_schema=schema)])

    async def call_tool(ctx: Any, params: Any) -> Any:
        seen.append(deepcopy(params.arguments))
        params.arguments["rows"][0]["left"] = params.arguments["rows"].pop()
        if len(seen) > 1:
            return types.CallToolResult(content=[])
        return types.InputRequiredResult(input_requests={"name": types.ListRootsRequest()})

    async def list_roots(context: Any) -> Any:
        return types.ListRootsResult(roots=[])

    server = Server("greedy", on_list_tools=list_tools, on_call_tool=call_tool)
    answers = {"list_roots_callback": list_roots}
    await engine.add_source(MCPSource("greedy", in_memory=server, callbacks=answers))
    result = await engine.execute("take", {"rows": [{"left": [1]}, "end"]})
    assert result.is_success, result.error
    assert seen == [{"rows": [{"left": [1]}, "end"]}] * 2


async def test_progress(engine: ToolEngine, source: MCPSource) -> None:
    """What the server reports is the call's progress."""
    await engine.add_source(source)
    heard: list[ToolProgress] = []
    context = ToolExecutionContext(on_progress=heard.append)
    assert (await engine.execute("steps", {"text": "3"}, context)).is_success
    assert [each.done for each in heard][-1] == 3.0
    assert heard[0].message == "step 1"


async def test_deadline_and_cancellation(engine: ToolEngine, source: MCPSource) -> None:
    """A call that is given up ends at once, and the connection is as good as before."""
    await engine.add_source(source)
    late = await engine.execute("slow", {}, ToolExecutionContext(timeout=0.2))
    assert late.error_type == "timeout"
    task = asyncio.create_task(engine.execute("slow", {}))
    await until(lambda: count_running(engine) == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await engine.execute("echo", {"text": "on"})).is_success
    assert source.connection.is_connected


@pytest.mark.parametrize("revision", [None, "2025-11-25"])
async def test_the_server_hears_of_each_call_that_is_given_up(
    engine: ToolEngine, source: MCPSource, revision: str | None
) -> None:
    """By a task, by a scope of anyio, which cancels again and again, or by the deadline."""
    await engine.add_source(MCPSource(replace(source.settings, revision=revision)))

    async def list_given_up() -> str:
        said = await engine.execute("given_up", {})
        return str(said.output["content"][0]["text"])

    async def give_up(word: str) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(engine.execute, "slow", {"text": word})
            await until(lambda: count_running(engine) == 1)
            await engine.execute("echo", {})  # behind it on the way: the server has it
            group.cancel_scope.cancel()

    await give_up("scope")
    task = asyncio.create_task(engine.execute("slow", {"text": "task"}))
    await until(lambda: count_running(engine) == 1)
    await engine.execute("echo", {})
    task.cancel()
    late = ToolExecutionContext(timeout=1.0)
    assert (await engine.execute("slow", {"text": "late"}, late)).error_type == "timeout"
    async with asyncio.timeout(LIMIT):
        while sorted((await list_given_up()).split()) != ["late", "scope", "task"]:  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.01)
        assert sorted((await list_given_up()).split()) == ["late", "scope", "task"]
    assert count_running(engine) == 0


@pytest.mark.parametrize("revision", [None, "2025-11-25"])
def test_no_sign_of_progress(tmp_path: Path, revision: str | None) -> None:
    """`idle_timeout` ends a silent call; progress extends it, and the deadline ends that one."""

    async def list_tools(*_: Any) -> Any:
        schema = {"type": "object"}
        names = ("silent", "steps")
        return types.ListToolsResult(tools=[types.Tool(name=n, input_schema=schema) for n in names])

    async def call_tool(ctx: Any, params: Any) -> Any:
        for step in range(10 if params.name == "steps" else 0):
            await ctx.session.report_progress(step + 1, 10)
            await asyncio.sleep(1.4)
        await asyncio.sleep(0 if params.name == "steps" else 600)
        return types.CallToolResult(content=[])

    async def call_each() -> list[tuple[Any, int]]:
        server = Server("odd", on_list_tools=list_tools, on_call_tool=call_tool)
        source = MCPSource("odd", in_memory=server, idle_timeout=1.5, revision=revision)
        ends = []
        async with ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path))) as engine:
            await engine.add_source(source)
            for name, limit in (("silent", 60), ("steps", 60), ("steps", 5)):
                begun = asyncio.get_running_loop().time()
                result = await engine.execute(name, {}, ToolExecutionContext(timeout=limit))
                took = asyncio.get_running_loop().time() - begun
                ends.append((result.error, round(10 * took)))
        return ends

    silent, steps, late = virtual_loop.run(call_each())
    assert silent == ("the server 'odd' gave no sign of progress for 1.5 s (idle_timeout)", 15)
    assert steps == (None, 140)
    assert late == ("tool 'steps' did not finish within 5 s; raise its timeout or ask for less", 50)


async def test_killed_in_a_call(engine: ToolEngine) -> None:
    """Nobody knows whether it ran; the next call finds a new process."""
    await engine.add_source(MCPSource("odd", command=COMMAND))
    before = await engine.execute("whoami", {})
    lost = await engine.execute("die", {})
    assert lost.error_type == "worker_lost"
    assert "its program was ended by SIGKILL" in str(lost.error)
    assert "whether the tool ran is unknown; look before" in str(lost.error)
    after = await engine.execute("whoami", {})
    assert after.is_success
    assert after.output != before.output


async def test_what_may_run_twice_does(engine: ToolEngine) -> None:
    """A call that only reads is made again by itself, once."""
    tools = {name: {"effect": "read"} for name in ("slow", "whoami")}
    source = MCPSource("odd", command=COMMAND, tools=tools)
    await engine.add_source(source)
    first = pid_in(await engine.execute("whoami", {}))
    call = asyncio.create_task(engine.execute("slow", {}, ToolExecutionContext(timeout=LIMIT)))
    await until(lambda: count_running(engine) == 1)
    assert pid_in(await engine.execute("whoami", {})) == first  # behind it on the way
    os.kill(first, signal.SIGKILL)
    second = pid_in(await engine.execute("whoami", {}))
    assert second != first
    assert not call.done()
    os.kill(second, signal.SIGKILL)
    result = await call
    assert result.error_type == "worker_lost"


def pid_in(result: object) -> int:
    return int(result.output["content"][0]["text"].split()[0])  # type: ignore[attr-defined]


async def test_a_server_that_is_away(engine: ToolEngine) -> None:
    """Over HTTP, a call says since when; its tools stay, and it comes back by itself."""
    port = free_port()
    with serve_http(port) as url:
        source = MCPSource("odd", url=url)
        await engine.add_source(source)
        assert (await engine.execute("echo", {"text": "a"})).is_success
    down = await engine.execute("echo", {"text": "b"})
    assert down.error_type == "execution_error"
    assert "the server 'odd' is down since" in str(down.error)
    assert engine.get("echo") is not None
    with serve_http(port):
        assert (await engine.execute("echo", {"text": "c"})).is_success


async def test_closing_in_a_call(engine: ToolEngine, source: MCPSource) -> None:
    """The calls of a removed source go on; the engine's end ends them."""
    await engine.add_source(source)
    steps = asyncio.create_task(engine.execute("steps", {"text": "4"}))
    await until(lambda: count_running(engine) == 1)
    await engine.remove_source(source)
    assert engine.get("steps") is None
    assert (await steps).is_success
    await until(lambda: source.connection.state == "is closed")
