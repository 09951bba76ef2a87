"""How long do loading a folder of tools and importing the package take?"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import yaml

from tool_engine import ToolConfigLoader, ToolEngine, ToolEngineConfig

__all__ = ["import_times", "load_times", "write_tools"]

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


async def load_times(directory: Path, paths: list[Path], tries: int = 3) -> dict[str, float]:
    """Seconds for each way to load the folder: the best of a few tries, taking turns."""
    safe_loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    best: dict[str, float] = {}

    def note(name: str, work: Callable[[], object]) -> None:
        started = time.perf_counter()
        work()
        _keep_best(best, name, time.perf_counter() - started)

    for _ in range(tries):
        note("read the files, nothing else", lambda: [path.read_bytes() for path in paths])
        note(
            "read + yaml.CSafeLoader, nothing checked",
            lambda: [yaml.load(path.read_bytes(), safe_loader) for path in paths],  # noqa: S506 - a safe loader
        )
        loader = ToolConfigLoader()
        note("ToolConfigLoader().load_directory", lambda: loader.load_directory(directory))  # noqa: B023 - used at once
        config = ToolEngineConfig(tools_directory=str(directory), auto_reload=False)
        engine = ToolEngine(config)
        started = time.perf_counter()
        await engine.load()
        _keep_best(best, "ToolEngine.load", time.perf_counter() - started)
        loaded = len(engine.list_names())
        await engine.close()
        if loaded != len(paths):
            raise AssertionError(f"{loaded} tools were loaded, not {len(paths)}")
    return best


def _keep_best(best: dict[str, float], name: str, seconds: float) -> None:
    best[name] = min(seconds, best.get(name, seconds))


def import_times(tries: int = 9) -> dict[str, float]:
    """Seconds for a process that starts and ends, with ever more imports: medians."""
    statements = {
        "python": "pass",
        "python + what any such library needs": "import asyncio, msgspec, yaml, jsonschema_rs",
        "python + import tool_engine": "import tool_engine",
    }
    times: dict[str, list[float]] = {name: [] for name in statements}
    # The first start compiles the modules and keeps them, as a user's first start does.
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for attempt in range(tries + 1):
        for name, statement in statements.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
            if attempt:
                times[name].append(time.perf_counter() - started)
    return {name: median(values) for name, values in times.items()}
