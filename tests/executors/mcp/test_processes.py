"""A server's program belongs to one process, and ends whatever state it is in."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests import warm
from tests.executors.mcp.conftest import COMMAND, LIMIT, serve_http, until
from tests.executors.mcp.test_hostile_servers import PROGRAM, is_alive
from tool_engine import MCPSource, ToolEngine, ToolExecutionContext
from tool_engine.executors.mcp.stdio import StdioTransport

FORKING = """
import asyncio, os, sys
from tool_engine import MCPSource, ToolEngine

async def main():
    async with ToolEngine() as engine:
        await engine.add_source(MCPSource("odd", {way}))
        before = await engine.execute("whoami", {{}})
        child = os.fork()
        if child == 0:
            try:
                await engine.execute("whoami", {{}})
            except Exception as error:
                print("child:", error, flush=True)
            # The end of the loop cancels all of its tasks, those of connections too.
            raise SystemExit
        while not os.waitpid(child, os.WNOHANG)[0]:
            await asyncio.sleep(0.01)
        for _ in range(2):
            after = await engine.execute("whoami", {{}})
            print("same:", before.output == after.output, after.error, flush=True)
        # Not by its close: the child has taken some of the loop, which both have, with it.
        os._exit(0)

asyncio.run(main())
"""


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_forked_process_leaves_the_server_alone(transport: str, tmp_path: Path) -> None:
    """A call there says what to do, and its end ends nothing of its parent."""
    with serve_http() as url:
        reached = f"url={url!r}" if transport == "http" else f"command={COMMAND!r}"
        words = ["-c", FORKING.format(way=reached)]
        ended = await asyncio.to_thread(warm.run, words, timeout=LIMIT, cwd=tmp_path)
    assert ended.stdout.count("same: True None") == 2, ended
    assert "child: " in ended.stdout


USING = """
import asyncio, json, os, signal, sys, threading
from tool_engine import MCPSource, ToolEngine, ToolExecutionContext

def list_pipes():
    links = [f"/proc/self/fd/{{each}}" for each in os.listdir("/proc/self/fd")]
    return [os.readlink(each) for each in links if os.path.islink(each)]

async def use():
    words = []
    async with ToolEngine() as another:
        await another.add_source(source)
        words += [error for _, error in another.load_errors]
    try:
        await source.connection.call("whoami", {{}})
    except Exception as error:
        words.append(str(error))
    words += [f"the server 'odd' {{source.connection.state}}"]
    await source.close()
    return words

async def main():
    global source
    pipes = list_pipes()
    async with ToolEngine() as engine:
        source = MCPSource("odd", {way})
        await engine.add_source(source)
        before = await engine.execute("whoami", {{}})
        if not os.fork():
            signal.alarm(15)
            held = set(list_pipes()) - set(pipes)
            # It has the parent's loop, too, in a thread that does not run it.
            thread = threading.Thread(target=lambda: print(json.dumps(asyncio.run(use()))))
            thread.start()
            thread.join()
            print(json.dumps([each for each in held if each.startswith("pipe")]), flush=True)
            os._exit(0)
        await asyncio.to_thread(os.wait)
        after = await engine.execute("whoami", {{}})
        print(json.dumps(before.output == after.output), flush=True)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_forked_process_cannot_use_the_server(transport: str, tmp_path: Path) -> None:
    """It says so at once, and what to do; the program's pipes are the parent's only."""
    (tmp_path / "tools").mkdir()
    with serve_http() as url:
        reached = f"url={url!r}" if transport == "http" else f"command={COMMAND!r}"
        words = ["-c", USING.format(way=reached)]
        ended = await asyncio.to_thread(warm.run, words, timeout=LIMIT, cwd=tmp_path)
    assert ended.stdout.count("\n") == 3, ended
    said, held, is_same = map(json.loads, ended.stdout.splitlines())
    assert len(said) == 3
    for each in said:
        assert "the server 'odd' cannot be used here: it was opened in process " in each
        assert each.endswith("make a new one in each process, after the fork")
        assert "Error" not in each
    assert held == []
    assert is_same


async def test_a_stopped_program_ends_in_its_own_way(engine: ToolEngine, tmp_path: Path) -> None:
    """It goes on at the end, sees that of its input, and can leave things tidy."""
    trace = tmp_path / "trace"
    words = [sys.executable, PROGRAM, "calls"]
    await engine.add_source(MCPSource("evil", command=words, env={"TRACE": str(trace)}))
    late = await engine.execute("stop", {}, ToolExecutionContext(timeout=0.5))
    assert late.error_type == "timeout"
    await engine.close()
    assert trace.exists()


async def test_a_stopped_program_ends_with_its_engine(engine: ToolEngine) -> None:
    """Its list stays, a reload does not wait for it, and nothing of it is left."""
    await engine.add_source(MCPSource("evil", command=[sys.executable, PROGRAM, "calls"]))
    source = MCPSource("odd", command=COMMAND)
    await engine.add_source(source)
    pid = int((await engine.execute("whoami", {})).output["content"][0]["text"].split()[0])
    os.kill(pid, signal.SIGSTOP)
    late = await engine.execute("echo", {}, ToolExecutionContext(timeout=0.2))
    assert late.error_type == "timeout"
    source.connection.refresh()
    async with asyncio.timeout(LIMIT):
        await engine.reload()
        assert engine.get("echo") is not None
        assert (await engine.execute("plain", {})).is_success
        await engine.close()
    await until(lambda: not is_alive(pid))


def count_files() -> int:
    """How many files this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc here")
@pytest.mark.parametrize("connected", [None, 0, 1, 2])
async def test_a_start_that_is_given_up(connected: int | None) -> None:
    """Its program ends and no pipe stays open: given up while the program starts (None), or when
    this many of its pipes are connected to the loop.
    """
    before = count_files()
    transport = StdioTransport([sys.executable, "-c", "import sys; sys.stdin.read()"], {}, None)
    starting = asyncio.create_task(transport.__aenter__())
    async with asyncio.timeout(LIMIT):
        await asyncio.sleep(0)
        while connected is not None and (  # noqa: ASYNC110 - the moment is a turn of the loop
            transport._process is None or len(transport._connected) < connected
        ):
            await asyncio.sleep(0)
        assert connected is None or len(transport._connected) == connected
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled()
        program = transport._process
        assert program is not None
        assert program.returncode is not None
        while count_files() > before:  # noqa: ASYNC110 - the loop closes some
            await asyncio.sleep(0)
        pipes = (program.stdin, program.stdout, program.stderr)
        assert [pipe is None or pipe.closed for pipe in pipes] == [True] * 3


@pytest.mark.parametrize("is_end", [True, False], ids=["the loop ends", "cancelled twice"])
async def test_a_start_that_is_given_up_again(
    is_end: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program ends also where all tasks are cancelled, or the one that waits is once more."""
    begins, goes_on = threading.Event(), threading.Event()
    transport = StdioTransport([sys.executable, "-c", "import sys; sys.stdin.read()"], {}, None)
    start, started = transport._start_program, list[subprocess.Popen[bytes]]()

    def start_late() -> subprocess.Popen[bytes]:
        begins.set()
        assert goes_on.wait(LIMIT)
        started.append(start())
        return started[0]

    monkeypatch.setattr(transport, "_start_program", start_late)
    others = asyncio.all_tasks()
    starting = asyncio.create_task(transport.__aenter__())
    async with asyncio.timeout(LIMIT):
        assert await asyncio.to_thread(begins.wait, LIMIT)
        for _ in range(2):
            for task in asyncio.all_tasks() - others if is_end else {starting}:
                task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        goes_on.set()
        await asyncio.wait([starting])
        # Its thread may have been left behind.
        while not started:  # noqa: ASYNC110 - a thread has no event of the loop
            await asyncio.sleep(0)
    assert starting.cancelled()
    with started[0] as program:
        assert program.poll() is not None
