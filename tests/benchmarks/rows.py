"""What does one line of a benchmark measure?

A row is a name, what its figure includes, and a batch: a coroutine function that makes `n` calls in
a row. The loop stands inside the batch, so that no call pays for the measuring.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

__all__ = ["Batch", "Row", "add", "add_suspending"]

Batch = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that a user could call instead."""

    name: str
    includes: str
    """What the figure pays for: no figure means anything without it."""
    batch: Batch


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def add_suspending(a: int, b: int) -> int:
    """Add two numbers, after one turn of the event loop."""
    await asyncio.sleep(0)
    return a + b
