"""Is a secret repeated that stands in arguments which nobody can read?

What is said of unreadable arguments quotes them near the fault, and no part of them can be told
from a secret. Looked at: what is no JSON, a key that stands twice, a number that is too large, what
was left out, in each form that a model may have meant, as a provider's call and in text.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.growth import growth_of
from tool_engine import ToolEngine, ToolEngineConfig, ToolEngineEvent, ToolSession
from tool_engine.agent.loop import AgentLoop
from tool_engine.agent.models import RecordedModel
from tool_engine.protocols import process_tool_calls
from tool_engine.redaction import hide_quotes

SECRET = "hunter-zebra-quagga"
ARGUMENTS = (
    SECRET,
    f"pin={SECRET}",
    f'{{"pin" "{SECRET}"}}',
    f'{{pin "{SECRET}"}}',
    f'{{"pin": ?{SECRET}}}',
    f'{{"pin": ({SECRET})}}',
    f'{{"pin": <{SECRET}>}}',
    f'{{"pin": "a"b{SECRET}"}}',
    f'{{"pin": {SECRET}"}}',
    f'{{"pin": "x" {SECRET}}}',
    f'{{"pin": "\\x{SECRET}"}}',
    f'{{"pin": "\\u12{SECRET}"}}',
    f"{{'pin': '{SECRET}}}",
    f'{{"pin": "it\'s {SECRET}" "x"}}',
    f'{{"pin": "{SECRET}"}} {{"pin": "{SECRET}"}}',
    f'{{"pin": "{SECRET}"}} {SECRET}',
    f'{{"pin": "{SECRET}", "pin": "b"}}',
    f'{{"{SECRET}": 1, "{SECRET}": 2}}',
    f'["{SECRET}"]',
    f'"{SECRET}"',
    f'{{"pin": NaN{SECRET}}}',
    f'{{"pin": "{SECRET}',
    f'```json\n{{"pin": "{SECRET}" : 1}}\n```',
)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    # Without the tools of the project, which take longer to load than a test does.
    async with ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False)) as made:
        yield made


def log_in(pin: str = "") -> int:
    return len(pin)


def replies(arguments: str) -> dict[str, Any]:
    function = {"name": "log_in", "arguments": arguments}
    call = {"id": "c1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    block = {"type": "tool_use", "id": "t1", "name": "log_in", "input": arguments}
    return {
        "openai": {"choices": [{"finish_reason": "tool_calls", "message": message}]},
        "anthropic": {"role": "assistant", "stop_reason": "tool_use", "content": [block]},
        "function_call": f'<function_call>{{"name": "log_in", "arguments": {arguments}}}'
        "</function_call>",
    }


@pytest.mark.thinned(3)
@pytest.mark.parametrize("in_session", [False, True], ids=["engine", "session"])
@pytest.mark.parametrize("protocol", ["openai", "anthropic", "function_call"])
@pytest.mark.parametrize("arguments", ARGUMENTS)
async def test_unreadable_arguments_are_not_repeated(
    engine: ToolEngine, arguments: str, protocol: str, in_session: bool
) -> None:
    """Result, record, events, findings and what is said of the call hold no part of them."""
    pin = {"name": "pin", "type": "string", "description": "P.", "secret": True}
    engine.register_tool({"name": "log_in", "description": "L.", "parameters": [pin]}, log_in)
    events: list[ToolEngineEvent] = []
    engine.subscribe(events.append)
    reply = replies(arguments)[protocol]
    if in_session:
        done = await ToolSession(engine, "one").process(reply, protocol)
    else:
        done = await process_tool_calls(engine, reply, protocol)
    records = await engine.store.query_call_records()
    said: list[Any] = [each.to_dict() for each in done.execution_results]
    said += [each.to_dict() for each in events]
    said += [[each.error, each.repairs] for each in done.parsed_requests]
    said += [each.to_dict() for each in done.findings]
    assert SECRET not in json.dumps(said, default=repr)
    assert SECRET not in repr(records)


@pytest.mark.parametrize("arguments", ARGUMENTS)
async def test_a_turn_repeats_no_unreadable_arguments(engine: ToolEngine, arguments: str) -> None:
    """What an agent's listener and its answer hear of the call quotes none of it."""
    pin = {"name": "pin", "type": "string", "description": "P.", "secret": True}
    engine.register_tool({"name": "log_in", "description": "L.", "parameters": [pin]}, log_in)
    model = RecordedModel({"replies": [{"reply": replies(arguments)["openai"]}, {"text": "Done."}]})
    found: list[Any] = []
    loop = AgentLoop(ToolSession(engine, "one"), model, on_event=found.append)
    answer = await loop.run("Log in.")
    found = [each.finding for each in found if each.finding is not None]
    assert SECRET not in repr([found, answer.findings])


async def test_a_tool_without_secrets_is_told_where_the_fault_is(engine: ToolEngine) -> None:
    """All others hear what stands at the fault, and which key stands twice."""
    engine.register_tool({"name": "log_in", "description": "L."}, lambda: None)
    errors = []
    for arguments in (f'{{"pin" "{SECRET}"}}', '{"city": 1, "city": 2}'):
        done = await process_tool_calls(engine, replies(arguments)["openai"], "openai")
        errors.append(str(done.execution_results[0].error))
    assert f'{{"pin" "{SECRET[:8]}' in errors[0]
    assert "the key 'city' stands twice" in errors[1]


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "Expecting ',' delimiter near 'abc'; go on",
            "Expecting ',' delimiter near [hidden]; go on",
        ),
        ("the model's text 'it\\'s' and \"a'b\"", "the model's text [hidden] and [hidden]"),
        ("'' and ':' stay, 'a' does not", "'' and ':' stay, [hidden] does not"),
        ("an open 'quote \\", "an open [hidden]"),
    ],
)
def test_what_a_message_quotes(message: str, shown: str) -> None:
    """Texts as `repr` writes them are hidden, signs and apostrophes are not."""
    assert hide_quotes(message) == shown


def test_a_message_is_searched_in_linear_time() -> None:
    """A message that a model has made of quotes and backslashes is no trap."""
    for part in ("'\\", '"\\', " '", "\\'", "x' '"):
        growth = growth_of(hide_quotes, part.__mul__, start=1_000, most=100_000)
        assert growth.exponent < 1.5, (part, growth)
