"""Tools that run on a fleet, for tests: their module, and engines that have them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from tests.effort import IS_WHOLE
from tests.ray_nodes import RayCluster, is_alive
from tool_engine import (
    ConcurrencyConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionContext,
    ToolExecutionResult,
)

BOUND = 100.0
"""Seconds after which a test has failed."""
ROUNDS = 20 if IS_WHOLE else 1
"""How often a failure is tried."""
SPAWNING = """
import asyncio, sys
from pathlib import Path
from tests.fleet.samples import fleet_engine
async def main():
    folder = Path(sys.argv[1])
    sys.path.insert(0, str(folder))
    async with fleet_engine(folder, "spawn") as bench:
        await bench.call("spawn", seconds=1000.0)
asyncio.run(main())
"""
"""A program whose engine has a handler start others; it is given the folder of the handlers."""
HANDLERS = '''
import asyncio, contextlib, os, signal, subprocess, sys, time
@contextlib.contextmanager
def noted(text):
    """Says with a file which process works; its end is not said."""
    with open(text, "a") as file: print(os.getpid(), file=file)
    yield
def pid(text): return os.getpid()
async def here(text): return [text, os.getpid()]
def block(text):
    if not text: return
    with noted(text): time.sleep(1000)
def loop(text):
    if not text: return
    try:
        with noted(text):
            while True: time.sleep(0.01)
    finally: open(text + ".cleaned", "w").close()
async def wait(text):
    if not text: return
    with noted(text): await asyncio.sleep(1000)
async def stay(text):
    if not text: return
    with noted(text):
        while True:
            with contextlib.suppress(BaseException): await asyncio.sleep(1000)
def stubborn(text):
    if not text: return
    with noted(text):
        while True:
            with contextlib.suppress(BaseException): time.sleep(1000)
def spawn(text):
    if not text: return
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with open(text, "a") as file: print(os.getpid(), child.pid, file=file)
    time.sleep(1000)
def leave_child(text):
    return subprocess.Popen(["sleep", "1000"], start_new_session=True).pid
def flood(text):
    block = "x" * 2**20
    for _ in range(100): print(block)
    return "printed"
def eat(text):
    held = []
    while True: held.append(bytearray(2**24))
def quit(text): os._exit(7)
def large(text): return text * int(1.5 * 2**20)
def nap(text):
    time.sleep(float(text))
    return text
async def anap(text):
    await asyncio.sleep(float(text))
    return text
def report(text, context):
    for number in range(int(text)): context.report_progress(number + 1, int(text))
    return text
async def say(text, context):
    context.log(f"I am {text}")
    return text
def path(text): return [os.environ.get("GREETING"), os.environ.get("CUDA_VISIBLE_DEVICES")]
'''


def define_tool(name: str, handler: str, **config: Any) -> dict[str, Any]:
    """The definition of a handler as a tool of a fleet that takes a text; one of another module
    than the usual one has its name before it.
    """
    text = {"name": "text", "type": "string", "required": True, "description": "x"}
    config = {"isolation": "ray", "resources": {"cpus": 0}, **config}
    place = handler if ":" in handler else f"handlers_of_fleets:{handler}"
    entry = {"type": "custom", "handler": place, "config": config}
    return {"name": name, "description": "A sample", "parameters": [text], "entry": entry}


class Bench:
    """An engine whose tools run on a fleet.

    Args:
        engine: The engine.
        folder: Where handlers write.
    """

    def __init__(self, engine: ToolEngine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.file = folder / "noted"

    def with_file(self, file: Path) -> Bench:
        """The same engine, with another file for what its handlers write."""
        made = Bench(self.engine, self.folder)
        made.file = file
        return made

    def add_tool(self, name: str, alias: str | None = None, /, **config: Any) -> None:
        """Registers a handler as a tool; keys that `config` of an entry lacks are the tool's."""
        keys: dict[str, Any] = {
            key: config.pop(key) for key in ("effect", "retry", "timeout") if key in config
        }
        self.engine.register_tool({**define_tool(alias or name, name, **config), **keys})

    async def call(
        self, name: str, text: str | None = None, seconds: float = BOUND, **ways: Any
    ) -> ToolExecutionResult:
        """Calls a tool, with the file as its text if there is no other."""
        context = ToolExecutionContext(timeout=seconds)
        text = str(self.file) if text is None else text
        return await self.engine.execute(name, {"text": text}, context, **ways)

    async def noted(self, words: int = 1) -> list[int]:
        """What a handler has written, once there are so many words."""
        return await noted_in(self.file, words)

    def has_slots_free(self) -> bool:
        """Whether no slot is held, and no work goes on without its call."""
        metrics = self.engine.controller.get_metrics()
        return (metrics.current_concurrent, metrics.zombies) == (0, 0)

    async def becomes_free(self) -> None:
        """Waits until no slot is held."""
        async with asyncio.timeout(BOUND):
            while not self.has_slots_free():  # noqa: ASYNC110 - a slot rings no bell
                await asyncio.sleep(0.005)


async def noted_in(file: Path, words: int = 1) -> list[int]:
    """What a handler has written, once there are so many words."""
    async with asyncio.timeout(BOUND):
        # A file rings no bell.
        while len(found := await asyncio.to_thread(_read_words, file)) < words:  # noqa: ASYNC110 - as it is
            await asyncio.sleep(0.005)
    return [int(word) for word in found]


def _read_words(file: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return file.read_text().split()
    return []


@contextlib.contextmanager
def handlers_in(folder: Path, monkeypatch: Any, cluster: RayCluster) -> Iterator[None]:
    """Puts the module of the handlers on the path, and names the cluster."""
    (folder / "handlers_of_fleets.py").write_text(HANDLERS)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    yield


@contextlib.asynccontextmanager
async def fleet_engine(
    folder: Path, *names: str, slots: int = 50, **settings: Any
) -> AsyncIterator[Bench]:
    """An engine with these handlers as tools."""
    settings = {"auto_reload": False, "fleet": "auto", "close_timeout": 0.1, **settings}
    config = ToolEngineConfig(str(folder / "none"), **settings)
    limits = ConcurrencyConfig(max_concurrent=slots, queue_timeout=BOUND)
    engine = ToolEngine(config, concurrency=limits)
    made = Bench(engine, folder)
    made.file.unlink(missing_ok=True)
    for name in names:
        made.add_tool(name)
    try:
        yield made
    finally:
        await engine.close()


def worker_of(pid: int) -> list[int]:
    """The guest's guardian, and the actor above it."""
    found = []
    for _ in range(4):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return [found[0], found[3]]


async def has_ended(pid: int) -> None:
    """Waits for the end of a process."""
    async with asyncio.timeout(BOUND):
        while await asyncio.to_thread(is_alive, pid):  # noqa: ASYNC110 - nor does a process
            await asyncio.sleep(0.005)


async def run_command(folder: Path, *words: str) -> tuple[int, str]:
    """The exit code of `tool-engine fleet ...` in a folder, and all that it says."""
    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "tool_engine", "fleet", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BOUND,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    return ended.returncode, ended.stdout
