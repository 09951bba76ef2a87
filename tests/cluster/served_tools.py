"""What two servers of one cluster offer: all of it calls one provider."""

from __future__ import annotations

from collections import Counter

from tests.cluster.visiting import visit_provider
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
    return await visit_provider(words, context.conversation_id)


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
