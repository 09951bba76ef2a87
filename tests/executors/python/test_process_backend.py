"""R9: isolated handlers run in processes that are used again, within limits, and let go of."""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import signal
import sys
import termios
from collections.abc import AsyncIterator, Callable
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.executors.python.apart import Apart
from tool_engine.errors import DefinitionError, ToolExecutionError
from tool_engine.executors.python import guest
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]
Write = Callable[[str], str]

BOUND = 30.0

HANDLERS = """
import asyncio, os, sys, time
def pid(): return os.getpid()
def echo(value): return value
async def echo_async(value):
    await asyncio.sleep(0)
    return value
async def same_loop():
    global loop
    known = globals().get("loop")
    loop = asyncio.get_running_loop()
    return known is None or known is loop
def who(context): return {**context.to_wire(), "seconds": context.deadline - time.monotonic()}
async def call(context): return await context.call("other", {})
def plain(context=None): return context is None
def fail(value):
    from tool_engine import ToolExecutionError
    raise ToolExecutionError("only 20 are left", details={"left": 20, "odd": value})
def fail_oddly():
    from tool_engine import ToolExecutionError
    raise ToolExecutionError("odd", details={"x": object()}, is_final=True)
def slow(seconds): time.sleep(seconds); return os.getpid()
def times_out(): raise TimeoutError
def silent(): raise ValueError
def own_environment(): return os.environ.get("OF_TEST")
def where(): return os.getcwd()
def arguments(): return sys.argv
def speak(): print("some words"); os._exit(4)
def mark(path, text):
    with open(path, "a") as file: file.write(".")
    return os.getpid()
def mark_and_die(path): mark(path, ""); os.kill(os.getpid(), 9)
max_of_c = max
"""


class Bench:
    def __init__(self, make: Make, module: str) -> None:
        self.executor = Apart()
        self.make, self.module = make, module
        self.context = ToolExecutionContext(caller_id="me", variables={"a": [1]})

    def tool(self, name: str, *parameters: str, **config: Any) -> Tool:
        entry = {"handler": f"{self.module}:{name}", "config": {"isolation": "process", **config}}
        return self.make(entry, *parameters, name=name)

    async def run(self, tool: Tool | str, seconds: float | None = BOUND, **params: Any) -> Any:
        if isinstance(tool, str):
            tool = msgspec.structs.replace(self.tool(tool, *params), definition_hash=tool)
        context = msgspec.structs.replace(self.context)
        if seconds is not None:
            context.deadline = asyncio.get_running_loop().time() + seconds
        async with asyncio.timeout(BOUND):
            return await self.executor.execute(tool, params, context)


@pytest.fixture
async def bench(make: Make, write: Write) -> AsyncIterator[Bench]:
    found = Bench(make, write(HANDLERS))
    yield found
    await found.executor.close()
    assert found.module not in sys.modules


async def test_values_cross(bench: Bench) -> None:
    """R9: what JSON can say crosses both ways, for plain and async functions."""
    value = {"é": [1, 2.5, None, True, "\n", {"deep": []}], "large": 2**80, "": "\U0001f600"}
    assert await bench.run("echo", value=value) == value
    assert await bench.run("echo_async", value=value) == value
    assert await bench.run("echo", seconds=None, value=7) == 7


async def test_workers_are_used_again(bench: Bench) -> None:
    """R9: one process answers call after call, on one event loop of its own."""
    tool = bench.tool("pid", workers=1)
    found = {await bench.run(tool) for _ in range(5)}
    assert len(found) == 1
    assert os.getpid() not in found
    assert "pid=" in repr(bench.executor)
    loops = bench.tool("same_loop", workers=1)
    assert [await bench.run(loops) for _ in range(3)] == [True] * 3


async def test_as_many_as_workers(bench: Bench) -> None:
    """R9: no more processes than `workers`; calls beyond wait for one."""
    tool = bench.tool("slow", "seconds", workers=2)
    async with asyncio.TaskGroup() as group:
        run = bench.executor.execute
        tasks = [group.create_task(run(tool, {"seconds": 0.05}, bench.context)) for _ in range(8)]
    assert len({task.result() for task in tasks}) == 2


async def test_waiting_for_a_worker_has_an_end(bench: Bench) -> None:
    """Promise 4: a call that finds no worker ends by its deadline, or when it is cancelled."""
    tool = bench.tool("slow", "seconds", workers=1)
    busy = asyncio.create_task(bench.executor.execute(tool, {"seconds": 20}, bench.context))
    await asyncio.sleep(0.3)
    context = ToolExecutionContext()
    context.deadline = asyncio.get_running_loop().time() + 0.2
    with pytest.raises(TimeoutError, match="did not end in time"):
        await bench.executor.execute(tool, {"seconds": 0}, context)
    waiting = asyncio.create_task(bench.executor.execute(tool, {"seconds": 0}, bench.context))
    await asyncio.sleep(0.05)
    waiting.cancel()
    busy.cancel()
    for task in (waiting, busy):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert isinstance(await bench.executor.execute(tool, {"seconds": 0}, bench.context), int)


async def test_context(bench: Bench) -> None:
    """R9: the part of the context that is JSON crosses, with the seconds that are left."""
    found = await bench.run("who")
    assert 0 < found.pop("seconds") < BOUND
    assert found == bench.context.to_wire()
    assert await bench.run("plain") is False
    with pytest.raises(ToolExecutionError, match="runs apart from the engine; return what is"):
        await bench.run("call")


async def test_variables_that_are_no_json(bench: Bench) -> None:
    """R9: they stay behind, and the call is made; on a fleet it is the same part that crosses."""
    loop: list[Any] = []
    loop.append(loop)
    bench.context.variables.update(
        connection=object(), loop=loop, half="\ud800", when=date(2026, 1, 2), text="x"
    )
    assert (await bench.run("who"))["variables"] == {
        "a": [1],
        "when": "2026-01-02",
        "text": "x",
    }


async def test_errors_cross(bench: Bench) -> None:
    """R9: an exception comes back as its type and message; our own as what it says."""
    with pytest.raises(ToolExecutionError, match=r"^only 20 are left$") as caught:
        await bench.run("fail", value="x")
    assert caught.value.details == {"left": 20, "odd": "x"}
    assert caught.value.is_final is False
    with pytest.raises(ToolExecutionError, match=r"^odd$") as caught:
        await bench.run("fail_oddly")
    assert caught.value.details == {}
    assert caught.value.is_final is True
    with pytest.raises(TimeoutError, match="gave up waiting"):
        await bench.run("times_out")
    with pytest.raises(ToolExecutionError, match=r"^ValueError$"):
        await bench.run("silent")
    with pytest.raises(ToolExecutionError, match="exit code 4 in the middle of a call: some words"):
        await bench.run("speak")


async def test_surroundings(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """R9: a worker has the environment and the folder of the engine, and no arguments."""
    monkeypatch.setenv("OF_TEST", "set")
    assert await bench.run("own_environment") == "set"
    assert await bench.run("where") == str(Path.cwd())
    assert await bench.run("arguments") == [""]


async def test_what_is_not_async_loads_no_loop(bench: Bench, write: Write) -> None:
    """It takes as long as all the rest of a worker's start."""
    bench.module = write("import sys\ndef loaded(): return 'asyncio' in sys.modules\n")
    assert await bench.run("loaded") is False


async def test_a_function_in_c(bench: Bench) -> None:
    """R9: a function without signature is called with what there is."""
    with pytest.raises(ToolExecutionError, match="TypeError: max"):
        await bench.run("max_of_c", value=[1])


async def test_a_changed_definition_starts_anew(bench: Bench, tmp_path: Path) -> None:
    """K15: a definition that was edited runs the code of now, in processes of its own."""
    file = tmp_path / f"{bench.module}.py"
    first = msgspec.structs.replace(bench.tool("version"), definition_hash="1")
    file.write_text("def version(): return 'old'")
    assert await bench.run(first) == "old"
    file.write_text("def version(): return 'newer'")
    assert await bench.run(first) == "old"
    again = msgspec.structs.replace(bench.tool("version"), definition_hash="1")
    assert await bench.run(again) == "old"
    second = msgspec.structs.replace(first, definition_hash="2")
    assert await bench.run(second) == "newer"


async def test_an_import_that_fails_at_the_call(bench: Bench, write: Write) -> None:
    """R9: a module that was right when it was checked, and is not any more, says so."""
    bench.module = write("def f(): ...\n1 / 0")
    with pytest.raises(ToolExecutionError, match=":f cannot be imported: ZeroDivisionError"):
        await bench.run("f")
    with pytest.raises(DefinitionError, match="names no function"):
        await bench.run("f f")


async def test_a_large_argument(bench: Bench) -> None:
    """R9: arguments beyond the limit are refused, those below cross whole."""
    text = "é" * 4_000_000
    assert await bench.run("echo", value=text) == text
    with pytest.raises(ToolExecutionError, match="where 16777216 are the most; send less"):
        await bench.run("echo", value="x" * guest.MAX_MESSAGE)
    with pytest.raises(ToolExecutionError, match="cannot be sent as JSON"):
        await bench.run("echo", value=object())
    assert await bench.run("echo", value=1) == 1


async def test_close(bench: Bench) -> None:
    """C24: closing ends idle workers at once and a busy one after its call; it may be repeated."""
    tool = bench.tool("slow", "seconds", workers=2)
    idle = await bench.executor.execute(tool, {"seconds": 0}, bench.context)
    busy = asyncio.create_task(bench.executor.execute(tool, {"seconds": 0.5}, bench.context))
    other = asyncio.create_task(bench.executor.execute(tool, {"seconds": 0.5}, bench.context))
    await asyncio.sleep(0.25)
    await bench.executor.close()
    await bench.executor.close()
    pids = {idle, await busy, await other}
    for pid in pids:
        await gone(pid)
    assert await bench.executor.execute(tool, {"seconds": 0}, bench.context) not in pids


async def test_a_worker_that_died_while_idle(bench: Bench) -> None:
    """R9: a worker that ended between two calls, as after long idleness, is replaced."""
    tool = bench.tool("pid", workers=1)
    first = await bench.run(tool)
    os.kill(first, 9)
    await gone(first)
    assert await bench.run(tool) != first


async def test_a_worker_that_is_ending_while_idle(bench: Bench) -> None:
    """R9: the guest is dead and its guardian has not noticed it yet: it takes no call."""
    tool = bench.tool("pid", workers=1)
    first = await bench.run(tool)
    os.kill(_parent(first), signal.SIGSTOP)
    os.kill(first, signal.SIGKILL)
    await gone(first)
    assert await bench.run(tool) != first


@pytest.mark.parametrize("size", [1, 4_000_000])
@pytest.mark.parametrize("who", ["guest", "guardian"])
async def test_a_worker_that_dies_before_it_has_read_the_call(
    bench: Bench, tmp_path: Path, who: str, size: int
) -> None:
    """R9: nothing of the call can have run, so another worker takes it, and it runs once."""
    marks = tmp_path / "marks"
    tool = msgspec.structs.replace(bench.tool("mark", "path", "text", workers=1))
    first = await bench.run(tool, path=str(marks), text="")
    os.kill(first, signal.SIGSTOP)
    call = asyncio.create_task(bench.run(tool, path=str(marks), text="x" * size))
    async with asyncio.timeout(BOUND):
        while not _has_mail(_parent(first)):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
    os.kill(first if who == "guest" else _parent(first), signal.SIGKILL)
    assert await call != first
    assert marks.read_text() == "." * 2


async def test_workers_that_are_killed_between_calls(bench: Bench, tmp_path: Path) -> None:
    """R9: at whatever moment an idle worker dies, each call runs once and has its result."""
    marks = tmp_path / "marks"
    tool = bench.tool("mark", "path", "text", workers=2)
    for number in range(1, 16):
        pid = await bench.run(tool, path=str(marks), text="")
        if number % 2:
            os.kill(pid, signal.SIGKILL)
        else:
            # The guest outlives its guardian by a moment, in which it may begin with a call.
            guest = os.pidfd_open(pid)
            os.kill(_parent(pid), signal.SIGKILL)
            await asyncio.to_thread(select.select, [guest], [], [], BOUND)
            os.close(guest)
        assert marks.read_text() == "." * number


async def test_a_worker_that_dies_in_a_call(bench: Bench, tmp_path: Path) -> None:
    """R9: what has begun is not run again: what it had done already would be done twice."""
    marks = tmp_path / "marks"
    tool = bench.tool("mark_and_die", "path", workers=1)
    for number in (1, 2):
        with pytest.raises(ToolExecutionError, match="ended by the signal 9"):
            await bench.run(tool, path=str(marks))
        assert marks.read_text() == "." * number


async def test_words_of_an_earlier_call_are_not_shown(
    bench: Bench, write: Write, tmp_path: Path
) -> None:
    """P6: a thread that a call has left prints its secret; the call that dies next is another's."""
    bench.module = write(
        """
        import os, pathlib, threading, time
        def leave(folder):
            if not folder: os._exit(4)
            def say():
                while not pathlib.Path(folder, "go").exists(): time.sleep(0.005)
                print("a secret", flush=True)
                pathlib.Path(folder, "said").touch()
            threading.Thread(target=say, daemon=True).start()
        """
    )
    tool = bench.tool("leave", "folder", workers=1)
    await bench.run(tool, folder=str(tmp_path))
    (tmp_path / "go").touch()
    async with asyncio.timeout(BOUND):
        while not (tmp_path / "said").exists():  # noqa: ASYNC110 - a file rings no bell
            await asyncio.sleep(0.005)
    with pytest.raises(ToolExecutionError, match=r"exit code 4 in the middle of a call$"):
        await bench.run(tool, folder="")


async def test_a_worker_that_dies_before_its_first_call(
    bench: Bench, write: Write, tmp_path: Path
) -> None:
    """R9: a module that ends its process is at fault; no row of processes is started for it."""
    bench.module = write(
        f"""
        import os, select
        with open({str(tmp_path / "marks")!r}, "a") as file: file.write(".")
        select.select = lambda *_: os._exit(3)
        def f(): return 1
        """
    )
    with pytest.raises(ToolExecutionError, match="exit code 3"):
        await bench.run("f")
    assert (tmp_path / "marks").read_text() == "."


async def test_no_more_files(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has used up its files says so, and nothing is left of the attempt."""

    def refuse() -> tuple[int, int]:
        raise OSError(24, "Too many open files")

    tool = bench.tool("pid")
    monkeypatch.setattr("tool_engine.executors.python.worker.os.pipe", refuse)
    with pytest.raises(ToolExecutionError, match=r"cannot be started: .*Too many open files"):
        await bench.run(tool)
    monkeypatch.undo()


async def test_other_systems(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """R9: where nothing can be promised about processes, none is started."""
    monkeypatch.setattr("tool_engine.executors.python.process_backend.sys.platform", "win32")
    with pytest.raises(ToolExecutionError, match="works on Linux only, this is win32"):
        await bench.run("pid")


async def gone(pid: int) -> None:
    async with asyncio.timeout(BOUND):
        while await asyncio.to_thread(_is_there, pid):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _has_mail(guardian: int) -> bool:
    """Whether a request is in the pipe that the worker of this guardian reads."""
    number = Path(f"/proc/{guardian}/cmdline").read_text().split("\0")[-3]
    pipe = os.open(f"/proc/{guardian}/fd/{number}", os.O_RDONLY | os.O_NONBLOCK)
    try:
        return any(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    finally:
        os.close(pipe)


def _is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
