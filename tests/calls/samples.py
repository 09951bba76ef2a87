"""Definitions and tools that many tests need."""

from __future__ import annotations

import asyncio
from typing import Any


def bare(name: str, **keys: Any) -> dict[str, Any]:
    """The definition of a tool without parameters, run by a handler of its name."""
    return {
        "name": name,
        "version": "1.0.0",
        "description": "A sample",
        "category": "custom",
        "entry": {"type": "custom", "handler": name},
        **keys,
    }


async def forever() -> None:
    await asyncio.Event().wait()


class Stubborn:
    """A tool that goes on for `seconds` after it was cancelled, and ignores `times` of that."""

    def __init__(self, seconds: float = 60.0, value: Any = "late", times: int = 1) -> None:
        self.seconds = seconds
        self.times = times
        self.value = value
        self.started = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self) -> Any:
        self.started.set()
        loop = asyncio.get_running_loop()
        until = loop.time() + 10_000
        for _ in range(self.times):
            try:
                await asyncio.sleep(until - loop.time())
            except asyncio.CancelledError:
                until = loop.time() + self.seconds
        await asyncio.sleep(until - loop.time())
        self.ended.set()
        return self.value
