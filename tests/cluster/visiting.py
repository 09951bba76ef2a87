"""What does a tool do that is with the provider for a moment? It loads nothing of the engine."""

from __future__ import annotations

import asyncio
import os
import time

__all__ = ["visit_provider"]


async def visit_provider(words: str, conversation: str | None = None) -> str:
    """Ask the provider of `PROVIDER`, and be with it for a moment."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["PROVIDER"]))
    writer.write(f"{words} {conversation} {time.monotonic()}\n".encode())
    await reader.readline()
    await asyncio.sleep(0.01)
    # What the provider has not heard of has not ended for it.
    writer.write_eof()
    await reader.read()
    writer.close()
    return words
