"""How the event loop waits for a command."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands.own_thread import ProcessGroup
from tool_engine.executors.commands.supervisor import Command

BOUND = 20.0


def echo() -> Command:
    return Command("/bin/echo", ("echo", "a"), {})


async def test_run() -> None:
    """A command is prepared in the run's thread, and its end comes back to the loop."""
    threads: list[str] = []

    def prepare() -> Command:
        threads.append(threading.current_thread().name)
        return echo()

    async with asyncio.timeout(BOUND):
        finished = await ProcessGroup(prepare, None).run()
    assert finished.stdout.text() == "a\n"
    assert threads == ["tool-command"]


async def test_what_goes_wrong_in_the_thread_is_told() -> None:
    """Whatever is raised while the command is prepared reaches the caller."""

    def prepare() -> Command:
        raise LookupError("no such thing")

    async with asyncio.timeout(BOUND):
        with pytest.raises(LookupError, match="no such thing"):
            await ProcessGroup(prepare, None).run()


async def test_no_thread_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may start no thread says so."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(ToolExecutionError, match="can't start new thread; this process has used"):
        await ProcessGroup(echo, None).run()
