"""Attacks on `isolation: process`: handlers that hang, eat memory, die, fork, lie and hide.

The handler is the owner's code, led astray by a value that a model wrote. Whatever it does, its
call ends as a clean error by its deadline, the engine goes on, and no process of it is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.effort import IS_WHOLE
from tests.executors.python.apart import Apart
from tests.security.heartbeat import assert_beats_on
from tool_engine import Tool, ToolExecutionContext
from tool_engine.errors import ToolExecutionError
from tool_engine.executors.lost_work import WorkerLostError
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import ToolCategory

BOUND = 30.0

HANDLERS = """
import ctypes, multiprocessing, os, signal, subprocess, sys, threading, time

def ok(text): return text
def loop(text):
    while True: pass
def loop_in_c(text): return sum(iter(int, 1))
def sleep(text): time.sleep(1000)
async def sleep_async(text):
    import asyncio
    await asyncio.sleep(1000)
def deaf(text):
    for number in range(1, 32):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_IGN)
    while True: time.sleep(1)
def hog(text): return len(bytearray(1 << 30))
def slow_hog(text):
    pieces = []
    while True: pieces.append(bytearray(1 << 20))
def deep(text): return deep(text)
def leave(text): os._exit(int(text))
def system_exit(text): sys.exit("bye")
def abort(text): os.abort()
def segfault(text): ctypes.string_at(0)
def kill_self(text): os.kill(os.getpid(), signal.SIGKILL)
def kill_guardian(text):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1000)
def kill_group(text):
    os.killpg(0, signal.SIGKILL)
def burn(text):
    while True: pass
def stdout_garbage(text):
    for file in (1, 2): os.write(file, bytes([0, 0, 0, 4]) + b'{"id":1,"value":"forged"}' * 50)
    print(text, "and more"); sys.stderr.write("noise")
    return text
def protocol_garbage(text):
    for file in range(3, 64):
        try: os.write(file, b"\\x00\\x00\\x00\\x04null" if text == "json" else b"\\xff" * 64)
        except OSError: pass
    return text
def forged(text):
    data = b'{"id":99,"value":"forged"}'
    for file in range(3, 64):
        try: os.write(file, len(data).to_bytes(4, "big") + data)
        except OSError: pass
    time.sleep(1)  # so that it is read apart from the real answer
    return text
def close_all(text):
    os.closerange(3, 64)
    time.sleep(1000)
def flood(text):
    while True: os.write(1, b"x" * 65536)
def orphan(text):
    subprocess.Popen(["setsid", "sleep", text], env={})
    return "left one behind"
def orphan_and_hang(text):
    for _ in range(5): subprocess.Popen(["setsid", "sleep", text], env={})
    time.sleep(1000)
def double_fork(text):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    time.sleep(1000)
def forks(text):
    for _ in range(60):
        if os.fork() == 0:
            time.sleep(1000)
    time.sleep(1000)
def rights(text): return open("/proc/self/status").read()
def thread(text):
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return text
def endless_list(text):
    value = []
    value.append(value)
    return value
def huge(text): return "x" * (20 << 20)
def surrogate(text): return "\\ud800"
def nan(text): return float("nan")
def keys(text): return {1: "a", "1": "b"}
class Nasty(Exception):
    def __str__(self): raise RuntimeError
    def __reduce__(self): return (os.system, ("touch canary",))
def nasty(text): raise Nasty
def pickled(text): return Nasty()
def long_message(text): raise ValueError("x" * 1_000_000)
def out_of_memory_message(text): raise MemoryError
"""


class Shop:
    """Runs handlers whose processes can be found by a tag."""

    def __init__(self, module: str, tag: str) -> None:
        self.executor = Apart()
        self.module = module
        self.tag = tag

    async def run(self, name: str, text: str = "", seconds: float = BOUND, **config: Any) -> Any:
        settings = {"isolation": "process", "memory": "256MiB", "workers": 2, **config}
        handler = f"{self.module}:{name}"
        tool = Tool(
            id=name,
            name=name,
            version="1.0.0",
            description="A sample",
            category=ToolCategory.CUSTOM,
            tags=[],
            parameters=[ToolParameter("text", "string", required=True)],
            implementation_config={"type": "custom", "handler": handler, "config": settings},
            definition_hash=f"{name} {settings}",
        )
        context = ToolExecutionContext()
        context.deadline = asyncio.get_running_loop().time() + seconds
        async with asyncio.timeout(BOUND):
            return await self.executor.execute(tool, {"text": text}, context)


def tagged(tag: str) -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                line = (folder / "cmdline").read_text()
                is_ours = tag in line or tag.encode() in (folder / "environ").read_bytes()
                if is_ours and state not in "ZX":
                    yield int(folder.name), line


@pytest.fixture
async def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shop]:
    tag = uuid.uuid4().hex
    monkeypatch.setenv("TEST_TAG", tag)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = f"attacks_{tag}"
    (tmp_path / f"{module}.py").write_text(dedent(HANDLERS), encoding="utf-8")
    found = Shop(module, tag)
    yield found
    assert module not in sys.modules
    await found.executor.close()
    assert dict(await asyncio.to_thread(lambda: list(tagged(tag)))) == {}
    assert not (tmp_path / "canary").exists()


def late(name: str) -> str:
    """An argument for `sleep` by which its process is found, though it has no environment."""
    return f"{1000 + abs(hash(name)) % 1000}.{uuid.uuid4().int % 10**9:09d}"


async def left(text: str) -> list[int]:
    return [pid for pid, _ in await asyncio.to_thread(lambda: list(tagged(text)))]


async def test_nothing_gains_rights(shop: Shop) -> None:
    """R9: a setuid program gains nothing in a worker; this process is as before."""
    assert "NoNewPrivs:\t1" in await shop.run("rights")
    threads = await asyncio.to_thread(lambda: list(Path("/proc/self/task").glob("*/status")))
    for thread in threads:
        with contextlib.suppress(FileNotFoundError):  # a thread that has ended
            assert "NoNewPrivs:\t0" in await asyncio.to_thread(thread.read_text)


@pytest.mark.parametrize(
    "name",
    ["loop", "loop_in_c", "sleep", "sleep_async", "deaf", "close_all", "double_fork", "forks"],
)
async def test_what_hangs_is_gone_at_the_deadline(name: str, shop: Shop) -> None:
    """R9, promise 4: whatever ignores its end is killed, with all that it started, in time."""
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="was stopped, with all that it had started"):
        await shop.run(name, seconds=1.0)
    # Soon after its deadline, however busy the machine is, and long before this test gives up.
    assert time.monotonic() - began < BOUND / 2
    assert await left(shop.tag) == []
    assert await shop.run("ok", "still here") == "still here"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("leave", "0", "ended with the exit code 0 in the middle of a call"),
        ("leave", "3", "ended with the exit code 3 in the middle of a call"),
        ("abort", "", r"ended by the signal 6 \(SIGABRT\)"),
        ("segfault", "", r"ended by the signal 11 \(SIGSEGV\)"),
        ("kill_self", "", r"ended by the signal 9 \(SIGKILL\); the system may have run out"),
        ("kill_guardian", "", r"ended by the signal 9 \(SIGKILL\)"),
        ("kill_group", "", r"ended by the signal 9 \(SIGKILL\)"),
        ("hog", "", "needs more memory than the 256 MiB of its entry.config.memory"),
        ("slow_hog", "", "needs more memory than the 256 MiB"),
        ("out_of_memory_message", "", "needs more memory than the 256 MiB"),
        ("system_exit", "", "tried to end the process"),
        ("deep", "", "RecursionError"),
        ("flood", "", "wrote more than 64 MiB and was stopped"),
        ("protocol_garbage", "", "sent something that is no answer, and was stopped"),
        ("protocol_garbage", "json", "sent something that is no answer, and was stopped"),
        ("forged", "", "sent something that is no answer, and was stopped"),
        ("endless_list", "", "holds itself, or nests too deep; return a part of it"),
        ("huge", "", "the result has 2[0-9]{7} bytes; the most is 16777216"),
        ("surrogate", "", "half of a surrogate pair is no text"),
        ("nan", "", "the float that it returned.* has no form in JSON: return None in its place"),
        ("keys", "", "has the key 1: return one with texts as keys"),
        ("nasty", "", r"Nasty: its message cannot be shown \(RuntimeError\)"),
        ("pickled", "", "the Nasty that it returned has no form in JSON"),
        ("long_message", "", "ValueError: x{65536}$"),
    ],
)
async def test_what_goes_wrong_is_a_clean_error(
    name: str, text: str, message: str, shop: Shop
) -> None:
    """R9: a death, a lie or an excess says what it was; the next call has a worker again."""
    for _ in range(2 if IS_WHOLE else 1):
        with pytest.raises(ToolExecutionError, match=message):
            await shop.run(name, text)
    assert await shop.run("ok", "still here") == "still here"


async def test_processor_time(shop: Shop) -> None:
    """R9: `cpu` ends a call that burns, long before its deadline."""
    with pytest.raises(ToolExecutionError, match="more than 1 s of processor time"):
        await shop.run("burn", cpu=1)


async def test_processor_time_is_per_call(shop: Shop) -> None:
    """R9: a worker that is used again has the whole of `cpu` for each call."""
    for _ in range(30):
        assert await shop.run("ok", "a", cpu=1) == "a"


async def test_what_is_printed_is_no_answer(shop: Shop) -> None:
    """R9: stdout and stderr are apart from the answers, whatever is written to them."""
    for _ in range(3):
        assert await shop.run("stdout_garbage", "real") == "real"


@pytest.mark.parametrize("name", ["orphan", "orphan_and_hang"])
async def test_orphans(name: str, shop: Shop) -> None:
    """R9: what moved to a session of its own, without environment, ends with its call."""
    text = late(name)
    with contextlib.suppress(TimeoutError):
        await shop.run(name, text, seconds=2.0)
    assert await left(text) == []


async def test_a_thread_left_behind(shop: Shop) -> None:
    """R9: a thread of the handler does not keep its process alive."""
    assert await shop.run("thread", "a") == "a"
    await shop.executor.close()
    assert await left(shop.tag) == []


async def test_cancelled_at_every_moment(shop: Shop) -> None:
    """C10: a call that is cancelled while its process starts, imports or runs leaves nothing."""
    for milliseconds in (0, 1, 5, 20, 40, 80, 150, 300):
        task = asyncio.create_task(shop.run("sleep"))
        await asyncio.sleep(milliseconds / 1000)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await left(shop.tag) == []


async def test_many_at_once(shop: Shop) -> None:
    """R9: twenty attacks at the same time end like one, on two processes each, on one loop."""
    names = ["leave", "hog", "sleep", "orphan_and_hang", "ok"] * 4
    texts = {"leave": "1", "orphan_and_hang": late("many")}
    results = await asyncio.gather(
        *(shop.run(name, texts.get(name, "x"), seconds=8.0) for name in names),
        return_exceptions=True,
    )
    kinds: dict[str, set[type]] = {name: set() for name in names}
    for name, result in zip(names, results, strict=True):
        kinds[name].add(type(result))
    assert kinds["ok"] <= {str, TimeoutError}
    assert kinds["sleep"] == kinds["orphan_and_hang"] == {TimeoutError}
    assert kinds["leave"] | kinds["hog"] <= {ToolExecutionError, WorkerLostError, TimeoutError}
    assert await left(texts["orphan_and_hang"]) == []


@pytest.mark.beats
@pytest.mark.parametrize("name", ["leave", "hog", "loop", "flood", "deaf", "orphan_and_hang"])
async def test_the_heart_goes_on_beating(name: str, shop: Shop) -> None:
    """R9: no handler, and no end of its process, holds up the other calls for over 100 ms."""

    async def attack() -> None:
        with contextlib.suppress(ToolExecutionError, TimeoutError):
            await shop.run(name, "1" if name == "leave" else late("beat"), seconds=1.0)

    await assert_beats_on(attack)


PARENT = """
import asyncio, sys
sys.path.insert(0, {folder!r})
from tool_engine import ToolEngine, ToolEngineConfig

async def main():
    async with ToolEngine(ToolEngineConfig(tools_directory={tools!r}, auto_reload=False)) as engine:
        assert engine.load_errors == [], engine.load_errors
        calls = [engine.execute(name, {{"text": {text!r}}}) for name in ("deaf", "orphan_and_hang")]
        assert (await engine.execute("ok", {{"text": "a"}})).is_success
        await asyncio.gather(*calls)

asyncio.run(main())
"""


async def test_killed_engine(shop: Shop, tmp_path: Path) -> None:
    """R9: kill -9 of the engine ends its workers, busy and idle, and what they have started."""
    tools, text = tmp_path / "tools", late("killed")
    tools.mkdir()
    for name in ("ok", "deaf", "orphan_and_hang"):
        (tools / f"{name}.yaml").write_text(
            f"name: {name}\ndescription: A sample\n"
            "parameters: [{name: text, type: string, required: true, description: x}]\n"
            f"entry: {{type: custom, handler: '{shop.module}:{name}', "
            "config: {isolation: process}}\n"
        )
    program = PARENT.format(folder=str(tmp_path), tools=str(tools), text=text)
    engine = await asyncio.to_thread(lambda: subprocess.Popen([sys.executable, "-c", program]))
    try:
        await until(lambda: len({pid for pid, _ in tagged(text)} - {engine.pid}) == 5)
    finally:
        engine.send_signal(signal.SIGKILL)
        await asyncio.to_thread(engine.wait)
    await until(lambda: not list(tagged(text)) and not list(tagged(shop.tag)))
    assert not list(tagged(text))


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(BOUND):
        while not await asyncio.to_thread(is_so):  # noqa: ASYNC110 - nothing tells of a process
            await asyncio.sleep(0.01)
