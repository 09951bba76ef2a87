"""What two servers of one cluster offer: all of it calls one provider."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter

from tool_engine import ToolExecutionContext

FILE = """
name: {name}
description: Asks the provider.
parameters:
  - {{name: words, type: string, required: true, description: Whose call it is}}
entry: {{type: python, handler: "tests.cluster.served_tools:{name}"}}
{more}
"""
TOOLS = {
    "ask": "effect: read\nconcurrency: {bucket: ai}",
    "post": "effect: write\nconcurrency: {bucket: ai}",
    "nest": "effect: read\nconcurrency: {bucket: ai}",
    "retry": (
        "effect: read\nconcurrency: {bucket: ai}\n"
        "retry: {attempts: 4, backoff: 0.01, on: [execution_error]}"
    ),
    "share": (
        "effect: read\nconcurrency: {bucket: ai, key: params.words, collision: single_flight}"
    ),
}
tries: Counter[str] = Counter()


async def ask(words: str, context: ToolExecutionContext) -> str:
    """Be with the provider for a moment."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["PROVIDER"]))
    writer.write(f"{words} {context.conversation_id} {time.monotonic()}\n".encode())
    await reader.readline()
    await asyncio.sleep(0.01)
    # What the provider has not heard of has not ended for it.
    writer.write_eof()
    await reader.read()
    writer.close()
    return words


post = share = ask


async def nest(words: str, context: ToolExecutionContext) -> str:
    """Ask by a call of its own, to which it lends its unit, and ask once more."""
    inner = await context.call("ask", {"words": f"{words}-inner"})
    assert inner.is_success, inner.error
    return await ask(words, context)


async def retry(words: str, context: ToolExecutionContext) -> str:
    """Fail at first."""
    tries[words] += 1
    if tries[words] < 3:
        raise ValueError("not yet")
    return await ask(words, context)
