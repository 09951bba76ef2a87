"""How long do loading a folder of tools, one changed file, and importing the package take?"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

import msgspec
import yaml

from tool_engine import ToolEngine, ToolEngineConfig, ToolEngineEventType
from tool_engine.protocols.definition_formats import FORMATS

__all__ = [
    "COLD",
    "DESCRIBED_AGAIN",
    "FLOOR",
    "REGISTERED",
    "REGISTERING",
    "WARM",
    "change_times",
    "footprint",
    "import_times",
    "load_times",
    "register_times",
    "write_tools",
]

FLOOR = "the floor: all three"
COLD = "ToolEngine.load, nothing cached"
WARM = "ToolEngine.load, all cached"
REGISTERED = 10_000
"""Tools registered from code."""
REGISTERING = "ToolEngine.register_tools"
DESCRIBED_AGAIN = "again, as"
CHANGES = 20
"""Files changed one after the other."""
PATIENCE = 10.0
"""Seconds after which a change counts as never noticed."""

DEFINITION = """\
name: tool_{number}
version: "1.0.0"
description: Looks something up, number {number}
category: http
tags:
  - network
  - generated
parameters:
  - name: url
    type: string
    required: true
    description: The address
    validation:
      pattern: "^https?://"
  - name: method
    type: string
    default: "GET"
    description: The HTTP method
    validation:
      enum: ["GET", "POST", "PUT", "DELETE"]
  - name: timeout
    type: number
    default: 30
    description: Seconds
    validation:
      min: 1
      max: 300
entry:
  type: builtin
  handler: http_request
output:
  type: object
  properties:
    status_code: integer
    body: any
"""


def write_tools(directory: Path, count: int) -> list[Path]:
    """Writes `count` definitions as people write them, one a file; returns the files."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / f"tool_{number}.yaml" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_text(DEFINITION.format(number=number), encoding="utf-8")
    return paths


async def load_times(directory: Path, paths: list[Path], tries: int = 5) -> dict[str, float]:
    """Seconds for each way to load the folder, and for its parts: medians."""
    times: dict[str, list[float]] = defaultdict(list)

    def note(name: str, work: Callable[[], object]) -> None:
        started = time.perf_counter()
        work()
        times[name].append(time.perf_counter() - started)

    safe_loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    texts = [path.read_bytes() for path in paths]
    names = [str(path) for path in paths]
    for _ in range(tries):
        note("stat of each file", lambda: [os.stat(name) for name in names])  # noqa: PTH116 - the floor
        note("open, read, close", lambda: [_read(name) for name in names])
        note("SHA-256 of each text", lambda: [hashlib.sha256(text).digest() for text in texts])
    times[FLOOR] = [sum(map(median, times.values()))]
    note(
        "yaml.CSafeLoader, nothing checked",
        lambda: [yaml.load(text, safe_loader) for text in texts],  # noqa: S506 - a safe loader
    )
    cache = str(directory.parent / "cache")
    for _ in range(3):
        times[COLD].append(await _load_time(directory, len(paths), None))
    await _load_time(directory, len(paths), cache)
    for _ in range(tries):
        times[WARM].append(await _load_time(directory, len(paths), cache))
    return {name: median(each) for name, each in times.items()}


async def _load_time(directory: Path, count: int, cache: str | None) -> float:
    config = ToolEngineConfig(
        tools_directory=str(directory), auto_reload=False, cache_directory=cache
    )
    engine = ToolEngine(config)
    started = time.perf_counter()
    await engine.load()
    seconds = time.perf_counter() - started
    loaded = len(engine.list_names())
    await engine.close()
    if loaded != count:
        raise AssertionError(f"{loaded} tools were loaded, not {count}")
    return seconds


def _read(name: str) -> bytes:
    descriptor = os.open(name, os.O_RDONLY)
    data = os.read(descriptor, 1 << 20)
    os.close(descriptor)
    return data


def register_times(tries: int = 5) -> dict[str, float]:
    """Seconds of work to register many tools and to describe them: medians.

    Each tool differs from the others in its name, its texts and its handler.
    """
    times: dict[str, list[float]] = defaultdict(list)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = DEFINITION.replace("The address", "Address {number}").replace(
        "http_request", "h{number}"
    )
    definitions = [
        yaml.load(text.format(number=number), loader)  # noqa: S506 - a safe loader
        for number in range(REGISTERED)
    ]
    for _ in range(tries):
        engine = ToolEngine(ToolEngineConfig(auto_reload=False))
        tools = [(each, _make_handler()) for each in definitions]
        started = time.process_time()
        engine.register_tools(tools)
        times[REGISTERING].append(time.process_time() - started)
        for format_name in FORMATS:
            for name in (f"described as {format_name}", f"{DESCRIBED_AGAIN} {format_name}"):
                started = time.process_time()
                engine.tool_definitions(format_name)
                times[name].append(time.process_time() - started)
        gc.collect()
    return {name: median(each) for name, each in times.items()}


def _make_handler() -> Callable[..., Awaitable[object]]:
    async def handle(url: str, method: str, timeout: float) -> object:  # noqa: ASYNC109 - a parameter
        return url, method, timeout

    return handle


async def change_times(directory: Path, paths: list[Path]) -> list[float]:
    """Seconds from the last write to a file until calls get its new definition, in rising order."""
    config = ToolEngineConfig(
        tools_directory=str(directory),
        auto_reload=False,
        watch_for_changes=True,
        cache_directory=str(directory.parent / "cache"),
    )
    times = []
    async with (
        ToolEngine(config) as engine,
        engine.events(ToolEngineEventType.TOOL_UPDATED) as events,
    ):
        for number, path in enumerate(paths[:: len(paths) // CHANGES][:CHANGES]):
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace("Looks", f"Now looks {number}"), encoding="utf-8")
            written = time.perf_counter()
            async with asyncio.timeout(PATIENCE):
                event = await anext(events)
            times.append(time.perf_counter() - written)
            if event.tool_name != path.stem or engine.get(path.stem) is not event.tool:
                raise AssertionError(f"{event.tool_name} changed, not {path.stem}")
    return sorted(times)


def footprint(directory: Path) -> dict[str, float]:
    """What loaded tools cost a process: `kilobytes` each, and `milliseconds` per collection.

    Measured in a process of its own, where nothing else has grown.
    """
    script = Path(__file__).with_name("footprint.py")
    done = subprocess.run(
        [sys.executable, str(script), str(directory)], check=True, capture_output=True
    )
    measured: dict[str, float] = msgspec.json.decode(done.stdout)
    return measured


def import_times(tries: int = 9) -> dict[str, float]:
    """Seconds of work for a process that starts and ends, with ever more imports: medians."""
    statements = {
        "python": "pass",
        "python + what any such library needs": "import asyncio, msgspec, yaml, jsonschema_rs",
        "python + ToolEngine": "from tool_engine import ToolEngine",
    }
    times: dict[str, list[float]] = {name: [] for name in statements}
    # The first start compiles the modules and keeps them, as a user's first start does.
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for attempt in range(tries + 1):
        for name, statement in statements.items():
            started = _work_of_children()
            subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
            if attempt:
                times[name].append(_work_of_children() - started)
    return {name: median(values) for name, values in times.items()}


def _work_of_children() -> float:
    """Seconds that ended processes have computed: what others compute adds nothing."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
