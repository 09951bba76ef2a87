"""How are the tests of one tool run beside an engine that goes on serving?

Tests take environment variables away and replace executors, for the whole process. So they run in a
process of their own, on the files as they are, which is ended with all that it has started when its
time is over.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any, Final

import msgspec

from tool_engine.config import ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.errors import ToolExecutionError, ToolNotFoundError
from tool_engine.executors.commands.own_thread import ProcessGroup
from tool_engine.executors.commands.supervisor import Command, End
from tool_engine.redaction import redact_text
from tool_engine.testing.report import ToolReport

_MOST_OUTPUT: Final = 4 * 1024 * 1024
_MARK: Final = "tool-engine-report: "
"""Before the one line of output that is not of the tools."""
_SHOWN: Final = 1_000
_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    f"from {__name__} import print_report; print_report(sys.argv[2])"
)
"""Isolated, so that a file which lies in the present folder is not taken for a module."""


class Wanted(msgspec.Struct):
    """Which tests are run, of which files."""

    name: str
    folder: str
    is_recursive: bool = False
    seed: int = 0
    cases: int = 20


async def check_tool_alone(wanted: Wanted, timeout: float) -> ToolReport:  # noqa: ASYNC109 - of a process, ended by its supervisor
    """Run the examples and tests of a tool in a process of its own; see `check_definitions`.

    Args:
        wanted: Which.
        timeout: Seconds after which it is given up.

    Raises:
        ToolNotFoundError: No file defines the tool now.
        ToolExecutionError: The tests did not end in time, or ended their process.
    """
    if sys.platform != "linux":
        raise ToolExecutionError(
            f"tests run beside an engine on Linux only, this is {sys.platform}; run `tool-engine "
            f"test {wanted.name}`"
        )
    said = msgspec.json.encode(wanted).decode()
    words = [sys.executable, "-I", "-c", _PROGRAM, json.dumps(sys.path), said]
    command = Command(sys.executable, words, dict(os.environ), None, _MOST_OUTPUT)
    finished = await ProcessGroup(lambda: command, timeout).run()
    if finished.end is not End.ITSELF:
        raise ToolExecutionError(
            f"the tests of {wanted.name!r} did not end within {timeout:g} s and were stopped; run "
            f"`tool-engine test {wanted.name}` to see which"
        )
    output = await asyncio.to_thread(finished.stdout.text)
    lines = [each for each in output.splitlines() if each.startswith(_MARK)]
    if not lines:
        why = redact_text(finished.stderr.text().strip())[-_SHOWN:]
        raise ToolExecutionError(
            f"the tests of {wanted.name!r} ended their process with {finished.exit_code}: {why}"
        )
    return _read_report(wanted, lines[-1].removeprefix(_MARK))


def _read_report(wanted: Wanted, text: str) -> ToolReport:
    reports = msgspec.json.decode(text, type=list[ToolReport])
    if not reports:
        raise ToolNotFoundError(
            f"no file in {wanted.folder} defines {wanted.name!r} now, or it does not load"
        )
    return reports[0]


async def _check_tool(wanted: Wanted) -> list[ToolReport]:
    # By name: it imports all that runs tools.
    from tool_engine.testing.definitions import check_definitions

    config = ToolEngineConfig(
        tools_directory=wanted.folder,
        recursive=wanted.is_recursive,
        auto_reload=False,
        lock="off",
        mcp_autostart=False,
        run_tasks=False,
    )
    async with ToolEngine(config) as engine:
        found = engine.get(wanted.name)
        if found is None or found.source is None:
            return []
        return await check_definitions(engine, [found.name], seed=wanted.seed, cases=wanted.cases)


def print_report(said: str) -> None:
    """Run the tests that a `Wanted` in JSON names, and print their report."""
    reports: list[Any] = asyncio.run(_check_tool(msgspec.json.decode(said, type=Wanted)))
    sys.stdout.write(f"\n{_MARK}{msgspec.json.encode(reports).decode()}\n")
    sys.stdout.flush()
