"""Does a reply with very many calls hold up the event loop?"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Sequence
from itertools import count
from typing import Any

import pytest

from tests.calls.audit import EMPTY_FOLDER
from tool_engine.config import ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.model.call import ToolCall, ToolExecutionResult
from tool_engine.protocols import get_protocol
from tool_engine.protocols.cycle import process_tool_calls
from tool_engine.protocols.cycle_options import CycleOptions
from tool_engine.protocols.function_call import FunctionCallProtocol

CALL = '{"name": "echo", "arguments": {}}'
TWICE = '{"name": "echo", "name": "echo"}'
LIMIT = 1_000
MANY = {
    "one tag": ("function_call", f"<function_call>{CALL * (2 * LIMIT)}</function_call>"),
    "a list": ("function_call", f"[{','.join([CALL] * (2 * LIMIT))}]"),
    "one object": ("function_call", f'{{"calls": [{",".join([CALL] * (2 * LIMIT))}]}}'),
    "twice": ("function_call", "<function_call>" + TWICE * (2 * LIMIT) + "</function_call>"),
    "many tags": ("function_call", f"<function_call>{CALL}</function_call>\n" * (2 * LIMIT)),
    "one block": (
        "vcp",
        "<<<[TOOL_REQUEST]>>>\ntool_name:「始」echo「末」\n"
        + "".join(f"command{number}:「始」a「末」\n" for number in range(1, 2 * LIMIT))
        + "<<<[END_TOOL_REQUEST]>>>",
    ),
    "many blocks": (
        "vcp",
        "<<<[TOOL_REQUEST]>>>\ntool_name:「始」echo「末」\n<<<[END_TOOL_REQUEST]>>>\n"
        * (2 * LIMIT),
    ),
}


@pytest.fixture
async def engine() -> AsyncIterator[ToolEngine]:
    async with ToolEngine(
        ToolEngineConfig(tools_directory=EMPTY_FOLDER, auto_reload=False)
    ) as made:

        @made.tool(effect="read")
        def echo() -> str:
            """Say it again."""
            return "again"

        yield made


@pytest.mark.parametrize("case", MANY)
def test_a_reply_has_no_more_calls_than_are_read(case: str) -> None:
    """Calls are counted, in however few blocks they stand; that the rest is not read is told."""
    name, text = MANY[case]
    protocol: Any = get_protocol(name)
    reply = protocol.parse(text)
    assert len(reply.calls) == LIMIT
    [told] = [each for each in reply.findings if "more than 1,000 calls" in each.message]
    assert told.level == "error"
    decoder = protocol.decoder()
    for place in range(0, len(text), 1000):
        decoder.feed(text[place : place + 1000])
    assert decoder.close() == reply


class _Placed(FunctionCallProtocol):
    """Remembers where results were written down."""

    places: list[int]

    def format_results(
        self, results: Sequence[ToolExecutionResult], calls: Sequence[ToolCall] | None = None
    ) -> str:
        self.places = [threading.get_ident()]
        return super().format_results(results, calls)


async def test_others_have_their_turn_while_calls_are_refused(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each id of a native reply needs its answer: thousands of them are not made in one go."""
    # Each look at the clock takes a millisecond, however fast the machine is.
    monkeypatch.setattr("tool_engine.model.pace.monotonic", count(0, 0.001).__next__)
    sent = [
        {"id": f"c{number}", "type": "function", "function": {"name": "echo", "arguments": "{}"}}
        for number in range(4 * LIMIT)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": sent}
    parsed = get_protocol("openai").parse({"choices": [{"index": 0, "message": message}]})
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    options = CycleOptions(max_calls=3, format_results=False)
    cycle = await process_tool_calls(engine, parsed, "openai", options)
    other.cancel()
    assert turns > 4 * LIMIT / 100
    assert [each.metadata["request_id"] for each in cycle.execution_results] == [
        each["id"] for each in sent
    ]
    assert sum(each.is_success for each in cycle.execution_results) == 3


@pytest.mark.parametrize(("calls", "is_here"), [(3, True), (LIMIT, False)])
async def test_many_results_are_written_down_in_a_thread(
    engine: ToolEngine, calls: int, is_here: bool
) -> None:
    """The text of a few is written at once."""
    protocol = _Placed(tools=engine.index)
    text = f"<function_call>{json.dumps([json.loads(CALL)] * calls)}</function_call>"
    cycle = await process_tool_calls(engine, text, protocol)
    assert len(cycle.execution_results) == calls
    assert (protocol.places == [threading.get_ident()]) is is_here
