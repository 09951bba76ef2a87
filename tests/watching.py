"""How does a test that hangs end, without a thread for each test?

`pytest-timeout` starts one and waits for its end: a fifth of what a short test costs. Here one
thread looks every second whether the running test is past its time. It names the test, and where
each task of asyncio waits: the stacks of threads show but that the loop has nothing to do.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from time import monotonic
from types import FrameType
from typing import Any

import pytest
from pytest_timeout import timeout_timer  # type: ignore[import-untyped]

__all__ = ["Watch", "describe_tasks"]

_pause = time.sleep  # tests replace it
PERIOD = 1.0


def _frames_of(awaited: Any) -> Iterator[FrameType]:
    """The frames from a coroutine to what it waits for in the end."""
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            yield frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)


def describe_tasks() -> str:
    """Where each task of this process waits, a line for each step."""
    tasks = [each for each in gc.get_objects() if isinstance(each, asyncio.Task)]
    return "\n".join(
        f"{task.get_name()}\n"
        + "\n".join(
            f"  {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
            for frame in _frames_of(task.get_coro())
        )
        for task in tasks
        if not task.done()
    )


class Watch:
    """The one thread that ends the process of a test that hangs; it never ends itself."""

    def __init__(self) -> None:
        self._watched: tuple[float, pytest.Item, Any] | None = None
        threading.Thread(target=self._run, name="watching", daemon=True).start()

    def begin(self, item: pytest.Item, settings: Any) -> None:
        """Watches a test from now on: `settings` are those of pytest-timeout."""
        self._watched = (monotonic() + settings.timeout, item, settings)

    def end(self) -> bool:
        """Forgets the test that was watched; whether there was one."""
        watched, self._watched = self._watched, None
        return watched is not None

    def _run(self) -> None:
        while True:
            _pause(PERIOD)
            watched = self._watched
            if watched is not None and monotonic() > watched[0]:
                _say_what_hangs(*watched[1:])
                timeout_timer(*watched[1:])  # writes where every thread is, and ends the process
                self._watched = None  # only where a debugger runs


def _say_what_hangs(item: pytest.Item, settings: Any) -> None:
    capturing = item.config.pluginmanager.getplugin("capturemanager")
    if capturing:
        capturing.suspend_global_capture(item)
    terminal = item.config.get_terminal_writer()
    terminal.line(f"\nERROR {item.nodeid} had not ended after {settings.timeout:g} s")
    terminal.line(describe_tasks())
    terminal.flush()
