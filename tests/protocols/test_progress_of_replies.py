"""Who hears how far the calls of a reply have come, whatever runs them?"""

from __future__ import annotations

import asyncio
from operator import itemgetter
from typing import Any

import pytest

from tests.calls.audit import make_engine
from tool_engine import ToolSession, ToolSubAgent
from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolCall, ToolExecutionContext
from tool_engine.model.progress import ToolProgress
from tool_engine.model.reply import ParsedReply
from tool_engine.protocols.cycle import process_tool_calls
from tool_engine.protocols.cycle_options import CycleOptions

CALLS = [ToolCall(call_id=f"c{n}", tool_name="work", arguments={"n": n}) for n in (1, 2)]
Heard = list[tuple[str, ToolProgress]]


class Bare:
    """Something else that runs tools, and knows nothing of listeners."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def get(self, name: str) -> Any:
        return self.engine.get(name)

    async def execute(self, name: str, params: Any, timeout: float | None) -> Any:  # noqa: ASYNC109 - as a sub-agent's
        return await self.engine.execute(name, params, ToolExecutionContext(timeout=timeout))


@pytest.mark.parametrize("kind", ["engine", "sub-agent", "session", "process", "bare"])
async def test_each_by_its_call(kind: str) -> None:
    """A sub-agent, which makes its contexts itself, is listened to as well."""
    engine, heard = make_engine(), list[tuple[str, ToolProgress]]()
    async with asyncio.timeout(20), engine:

        @engine.tool(effect="read")
        async def work(n: int, context: ToolExecutionContext) -> int:
            """Work."""
            await context.report_progress(n, 2)
            return n

        def listen(call: ToolCall, progress: ToolProgress) -> None:
            heard.append((call.call_id, progress))

        session = ToolSession(engine, "s")
        runners: dict[str, Any] = {
            "engine": engine,
            "sub-agent": ToolSubAgent("a", engine),
            "session": session,
            "bare": Bare(engine),
        }
        reply = ParsedReply(calls=CALLS)
        if kind == "process":
            cycle = await session.process(reply, "openai", on_progress=listen)
        else:
            options = CycleOptions(on_progress=listen, max_parallel=None)
            cycle = await process_tool_calls(runners[kind], reply, "openai", options)
    assert [each.error for each in cycle.execution_results] == [None, None]
    expected = [] if kind == "bare" else [("c1", ToolProgress(1, 2)), ("c2", ToolProgress(2, 2))]
    # Of calls that run at once, either may be first.
    assert sorted(heard, key=itemgetter(0)) == expected


async def test_a_listener_that_is_none() -> None:
    """A coroutine function would never be awaited."""

    async def listen(call: ToolCall, progress: ToolProgress) -> None:
        """Is never awaited."""

    for wrong in (listen, "heard"):
        with pytest.raises(ConfigurationError, match="on_progress must be a plain function"):
            CycleOptions(on_progress=wrong)  # type: ignore[arg-type]
