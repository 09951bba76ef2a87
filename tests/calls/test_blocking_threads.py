"""Code that cannot await calls an engine: scripts, Flask's threads, notebooks."""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, assert_type

import pytest

from tests.calls.audit import make_engine
from tests.calls.samples import bare
from tool_engine import (
    EngineClosedError,
    ToolEngine,
    ToolEngineError,
    ToolExecutionContext,
    ToolSession,
)

BOUND = 60.0
LOOP = "tool-engine-loop"


def own_loops() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == LOOP]


async def one() -> int:
    return 1


@pytest.fixture
def engine() -> Iterator[ToolEngine]:
    engine = make_engine(2)
    engine.register_tool(bare("one"), one)
    yield engine
    engine.sync().close()
    assert own_loops() == []


def test_call(engine: ToolEngine) -> None:
    """A script calls, without load; the call has its record; the loop's thread ends with it."""
    assert engine.execute_sync("one").output == {"result": 1}
    assert engine.sync().execute("none").error_type == "tool_not_found"
    assert len(engine.sync().run(engine.query_call_records)) == 2
    assert len(own_loops()) == 1


def test_block(engine: ToolEngine) -> None:
    with engine.sync() as tools:
        assert tools.execute("one").is_success
    assert own_loops() == []
    tools.close()
    assert engine.execute_sync("one").error_type == "engine_closed"
    assert own_loops() == []
    with pytest.raises(EngineClosedError):
        tools.load()


async def test_inside_a_running_loop(engine: ToolEngine) -> None:
    """A notebook's cell; async callers on its loop then share the same home."""
    assert engine.execute_sync("one").is_success
    assert (await engine.execute("one")).is_success
    assert engine.execute_sync("one").is_success


async def test_async_close_ends_the_thread(engine: ToolEngine) -> None:
    assert engine.execute_sync("one").is_success
    (thread,) = own_loops()
    await engine.close()
    await asyncio.to_thread(thread.join, BOUND)
    assert not thread.is_alive()
    assert (await engine.execute("one")).error_type == "engine_closed"


async def test_on_the_home_loop(engine: ToolEngine) -> None:
    """The loop that the engine lives on cannot wait for itself: an error, and no deadlock."""
    await engine.load()
    with pytest.raises(ToolEngineError, match=r"cannot block here.*await engine\.execute"):
        engine.execute_sync("one")
    result = await asyncio.to_thread(engine.execute_sync, "one")
    assert result.is_success
    assert own_loops() == []
    await engine.close()


def test_within_an_async_tool(engine: ToolEngine) -> None:
    async def outer() -> Any:
        return engine.execute_sync("one").output

    engine.register_tool(bare("outer"), outer)
    result = engine.execute_sync("outer")
    assert result.error_type == "execution_error"
    assert "cannot block here" in str(result.error)


@pytest.mark.parametrize("is_sync", [True, False], ids=["sync", "async"])
def test_within_a_plain_tool(engine: ToolEngine, is_sync: bool) -> None:
    """It belongs to the call of its tool: its record says so, and it needs no slot of its own."""
    engine.register_tool(bare("outer"), lambda: engine.execute_sync("one").output)
    tools = engine.sync()
    outer = tools.execute("outer") if is_sync else asyncio.run(_load_and_call(engine, "outer"))
    assert outer.output == {"result": 1}, outer.error
    records = tools.run(engine.query_call_records)
    inner = next(record for record in records if record.tool_name == "one")
    assert inner.parent_call_id == outer.call_id


async def _load_and_call(engine: ToolEngine, name: str) -> Any:
    await engine.load()
    return await engine.execute(name)


async def test_limits_hold_across_all_callers(engine: ToolEngine) -> None:
    """Threads and loops share one controller: never more than two run."""
    running, most = 0, 0

    async def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    engine.register_tool(bare("count"), count)
    engine.execute_sync("one")
    with ThreadPoolExecutor(16) as pool:
        loop = asyncio.get_running_loop()
        threads = [loop.run_in_executor(pool, engine.execute_sync, "count") for _ in range(64)]
        calls = [engine.execute("count") for _ in range(64)]
        results = await asyncio.gather(*threads, *calls)
    assert all(result.is_success for result in results)
    assert most == 2
    assert engine.controller.get_metrics().current_concurrent == 0


def test_threads_that_start_at_once(engine: ToolEngine) -> None:
    """The first calls of many threads find one loop."""
    barrier = threading.Barrier(16)

    def call(_: int) -> bool:
        barrier.wait(BOUND)
        return engine.execute_sync("one").is_success

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(call, range(16)))
    assert len(own_loops()) == 1


def test_deadline(engine: ToolEngine) -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    engine.register_tool(bare("hang"), hang)
    result = engine.execute_sync("hang", {}, ToolExecutionContext(timeout=0.01))
    assert result.error_type == "timeout"


def test_context_variables(engine: ToolEngine) -> None:
    user = contextvars.ContextVar("user", default="none")

    async def ask() -> str:
        return user.get()

    engine.register_tool(bare("ask"), ask)
    token = user.set("ann")
    try:
        assert engine.execute_sync("ask").output == {"result": "ann"}
    finally:
        user.reset(token)


def test_keyboard_interrupt(engine: ToolEngine) -> None:
    """Ctrl-C cancels the call, waits for its clean-up, and leaves the engine usable."""
    cleaned = False

    async def hang() -> None:
        nonlocal cleaned
        _thread.interrupt_main()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned = True

    engine.register_tool(bare("hang"), hang)
    with pytest.raises(KeyboardInterrupt):
        engine.execute_sync("hang")
    assert cleaned
    (record,) = engine.sync().run(engine.query_call_records)
    assert record.error_type == "cancelled"
    assert engine.execute_sync("one").is_success


def test_tool_raises_keyboard_interrupt(engine: ToolEngine) -> None:
    """It goes to the caller, and ends neither the loop nor the calls of others."""

    async def stop() -> None:
        raise KeyboardInterrupt

    engine.register_tool(bare("stop"), stop)
    with pytest.raises(KeyboardInterrupt):
        engine.execute_sync("stop")
    assert engine.execute_sync("one").is_success
    assert len(own_loops()) == 1


def test_types_of_what_runs(engine: ToolEngine) -> None:
    """17.9: a type checker knows what an async and a plain function return."""
    tools = engine.sync()
    assert_type(tools.run(one), int)
    assert_type(tools.run(engine.list_names), list[str])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
@pytest.mark.parametrize("is_late", [False, True])
def test_what_runs_raises_it(engine: ToolEngine, error: BaseException, *, is_late: bool) -> None:
    """17.9: it is its caller's, and the engine goes on."""

    async def work() -> None:
        await asyncio.sleep(0.01 if is_late else 0)
        raise error

    with pytest.raises(type(error)):
        engine.sync().run(work)
    assert engine.execute_sync("one").is_success


def test_close_during_a_call() -> None:
    engine = make_engine(close_timeout=0.01)
    started = threading.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    engine.register_tool(bare("hang"), hang)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(engine.execute_sync, "hang")
        assert started.wait(BOUND)
        engine.sync().close()
        assert call.result(BOUND).error_type == "engine_closed"
    assert own_loops() == []


def test_home_loop_ends() -> None:
    """A thread that waits for the loop of an async program does not outwait it."""
    engine = make_engine()
    pool = ThreadPoolExecutor(1)
    started = threading.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    engine.register_tool(bare("hang"), hang)

    async def main() -> Any:
        await engine.load()
        call = pool.submit(engine.execute_sync, "hang")
        await asyncio.to_thread(started.wait, BOUND)
        return call

    call = asyncio.run(main())
    with pytest.raises(EngineClosedError, match="ended while the call ran"):
        call.result(BOUND)
    pool.shutdown()
    engine.sync().close()


def test_session(engine: ToolEngine) -> None:
    session = ToolSession(engine, "s")
    tools = engine.sync()
    assert tools.run(session.execute, "one").is_success
    assert tools.run(lambda: 5) == 5


def run_apart(folder: Path, script: str) -> Any:
    head = """
import asyncio, json, os, sys, threading, time
from tool_engine import *
folder = sys.argv[1]
engine = ToolEngine(ToolEngineConfig(
    tools_directory=folder, auto_reload=False, records=f"sqlite:///{folder}/c.db"))
@engine.tool
async def one() -> int:
    "Say one."
    return 1
@engine.tool
async def hang() -> int:
    "Hang."
    started.set()
    await asyncio.Event().wait()
started = threading.Event()
"""
    # Since 3.12 Python warns of each fork where there are threads, as here on purpose.
    quiet = ["-W", "ignore::DeprecationWarning"]
    done = subprocess.run(
        [sys.executable, *quiet, "-c", head + script, str(folder)],
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


COUNT = """
engine = ToolEngine(ToolEngineConfig(
    tools_directory=folder, auto_reload=False, records=f"sqlite:///{folder}/c.db"))
with engine.sync() as tools:
    records = tools.run(engine.query_call_records)
    print(json.dumps(sorted(r.tool_name for r in records)))
"""


def test_exit_without_close(tmp_path: Path) -> None:
    """The interpreter ends at once and without a word, and the records are in the database."""
    script = """
tools = engine.sync()
tools.load()
for _ in range(3): tools.execute("one")
threading.Thread(target=tools.execute, args=("hang",), daemon=True).start()
started.wait()
print(json.dumps("end"))
"""
    assert run_apart(tmp_path, script) == "end"
    records = run_apart(tmp_path, COUNT)
    assert records == ["hang", "one", "one", "one"]


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there is no fork")
def test_fork(tmp_path: Path) -> None:
    """A worker gets a loop of its own for an engine that was not loaded; else an error."""
    script = """
def child():
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            told = str(engine.execute_sync("one").output)
            engine.sync().close()
        except BaseException as error:
            told = type(error).__name__
        os.write(write, told.encode())
        os._exit(0)
    os.close(write)
    with open(read) as file: told = file.read()
    os.waitpid(pid, 0)
    return told
told = [child()]
engine.sync().load()
told += [child(), str(engine.execute_sync("one").output)]
engine.sync().close()
print(json.dumps(told))
"""
    assert run_apart(tmp_path, script) == ["{'result': 1}", "EngineClosedError", "{'result': 1}"]
