"""Do all other calls go on while one is hostile?

A heartbeat runs beside each attack, in the same event loop, and is never held up for over 100 ms.
What the attack itself ends with is the matter of other tests. HTTP, SQL and programs have
heartbeats of their own, in their own files.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.effort import IS_WHOLE
from tests.security.heartbeat import assert_beats_on, counts_waiting, most_seconds
from tool_engine import (
    AgentLoop,
    ImageContent,
    ParsedReply,
    RecordedModel,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolExecutionContext,
    ToolExecutionError,
    ToolSession,
    get_protocol,
)
from tool_engine.protocols import process_tool_calls

pytestmark = pytest.mark.beats

SIZE = 150_000


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": [value]}
    return value


def text(part: str, size: int = SIZE) -> str:
    return (part * (size // len(part) + 1))[:size]


def secrets(number: int) -> dict[str, str]:
    return {f"key{at:05}": f"value-{at:05}-{at * 7919}" for at in range(number)}


DEEP = nested(50_000)
CALLS: dict[str, tuple[str, Callable[[], Any]]] = {
    "a tower of powers": ("calculator", lambda: {"expression": "9**9**9**9"}),
    "a huge factorial": ("calculator", lambda: {"expression": "factorial(99999999)"}),
    "signs": ("calculator", lambda: {"expression": "-" * 5000 + "1"}),
    "parentheses": ("calculator", lambda: {"expression": "(" * 100_000}),
    "a pattern that backtracks": ("look", lambda: {"pattern": "(a+)+$"}),
    "a pattern that explodes": ("look", lambda: {"pattern": "(a|a|a|a)*" * 20 + "b"}),
    "a pattern of many states": ("look", lambda: {"pattern": "(((a{1,50}){1,50}){1,50})$"}),
    "a text against a slow pattern": ("checked", lambda: {"slow": "a" * SIZE + "!"}),
    "deep arguments": ("checked", lambda: {"thing": nested(50_000)}),
    "wide arguments": ("checked", lambda: {"thing": [[]] * 20_000}),
    "many wrong arguments": ("checked", lambda: {f"key{n}": n for n in range(20_000)}),
    "a huge number": ("checked", lambda: {"thing": 10**100_000}),
    "a text that is almost a secret": ("returned", lambda: {"value": text("password: ")}),
    "almost a web token": ("returned", lambda: {"value": text("eyJ-")}),
    "almost a private key": ("returned", lambda: {"value": text("-----BEGIN ")}),
    "almost an address": ("returned", lambda: {"value": text("://a:")}),
    "keys that are all secret": (
        "returned",
        lambda: {"value": {f"Bearer abcdefghijkl{n:08}": n for n in range(3_000)}},
    ),
    "a deep answer": ("returned", lambda: {"is_deep": True}),
    "as many secrets as are looked for": ("kept_secret", lambda: {"box": secrets(128)}),
    "thousands of secrets": ("kept_secret", lambda: {"box": secrets(8_000)}),
    "thousands of secrets in an error": (
        "kept_secret",
        lambda: {"box": secrets(8_000), "is_failing": True},
    ),
    "a megabyte of small lists in an error's details": ("detailed", lambda: {"number": 333_333}),
    "small lists beside a secret": ("kept_secret", lambda: {"said": [[]] * 100_000, "box": {}}),
    "small lists where a text belongs": ("returned", lambda: {"value": [[]] * 100_000}),
    "none of 18,000 options": ("chosen", lambda: {"option": "zzz"}),
    "an error of a megabyte": ("failed", lambda: {"message": text("token: 1 ", 1_000_000)}),
}


REPLIES: dict[str, str] = {
    "a reply cut off in the middle": '{"path": "a", "content": ["' + text('a", "', 300_000),
    "arguments of brackets": text("{[", 300_000),
    "arguments that are no JSON": '{"a": [' + text("b c, ", 300_000) + "]}",
    "flat lists": '{"a": [' + text("[], ", 300_000) + "1]}",
    "quotes": text('"', 300_000),
}


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    await asyncio.to_thread(import_module, "tool_engine.catalog.definition.raw_schema")  # it blocks
    (tmp_path / "long.txt").write_text("a" * 2_000_000 + "!\n" + "a!\n" * 200_000)
    config = ToolEngineConfig(auto_reload=False)
    async with ToolEngine(config) as made:
        events: list[ToolEngineEvent] = []
        made.subscribe(events.append)
        entry = {"type": "builtin", "handler": "search_files", "root": str(tmp_path)}
        pattern = {"name": "pattern", "type": "string", "description": "P.", "required": True}
        look = {"name": "look", "description": "L.", "parameters": [pattern], "entry": entry}
        made.register_tool(look)
        slow = {"name": "slow", "type": "string", "description": "S.", **_PATTERN}
        thing = {"name": "thing", "type": "object", "description": "A."}
        checked = {"name": "checked", "description": "C.", "parameters": [slow, thing]}
        made.register_tool(checked, lambda slow="", thing=None: None)
        made.register_tool({"name": "returned", "description": "R.", **_TAKES}, _returned)
        made.register_tool({"name": "failed", "description": "F.", **_MESSAGE}, _failed)
        made.register_tool({"name": "kept_secret", "description": "K.", **_BOX}, _kept_secret)
        made.register_tool({"name": "detailed", "description": "D.", **_NUMBER}, _detailed)
        made.register_tool({"name": "chosen", "description": "C.", **_OPTIONS}, _chosen)
        yield made


_PATTERN: dict[str, Any] = {"validation": {"pattern": "^(a+)+$"}}
_TAKES: dict[str, Any] = {
    "parameters": [
        {
            "name": "value",
            "type": "string",
            "description": "V.",
            "schema": {"type": ["string", "null"]},
        },
        {"name": "is_deep", "type": "boolean", "description": "D."},
    ]
}
_MESSAGE: dict[str, Any] = {
    "parameters": [{"name": "message", "type": "string", "description": "M.", "required": True}]
}


_BOX: dict[str, Any] = {
    "parameters": [
        {"name": "box", "type": "object", "description": "B.", "secret": True},
        {"name": "is_failing", "type": "boolean", "description": "F."},
        {"name": "said", "type": "array", "description": "S."},
    ]
}
_NUMBER: dict[str, Any] = {
    "parameters": [{"name": "number", "type": "integer", "description": "N."}]
}
_OPTIONS: dict[str, Any] = {
    "parameters": [
        {
            "name": "option",
            "type": "string",
            "description": "O.",
            "validation": {"enum": [f"option{at}" for at in range(18_000)]},
        }
    ]
}


async def _detailed(number: int = 0) -> None:
    raise ToolExecutionError("no", details={"rows": [[]] * number})


async def _chosen(option: str = "") -> str:
    return option


async def _kept_secret(
    box: dict[str, Any] | None = None, is_failing: bool = False, said: Any = None
) -> Any:
    del said
    if is_failing:
        raise ValueError(f"no {box}")
    return {"said": box}


async def _returned(value: Any = None, is_deep: bool = False) -> Any:
    return DEEP if is_deep else {"said": value}


async def _failed(message: str) -> None:
    raise ValueError(message)


async def _computes() -> None:
    until = time.process_time() + 2 * most_seconds()
    while time.process_time() < until:
        pass


async def _sleeps() -> None:
    time.sleep(2 * most_seconds())  # noqa: ASYNC251 - that is the mistake


@pytest.mark.parametrize("attack", [_computes, _sleeps] if counts_waiting() else [_computes])
async def test_what_holds_up_the_loop_is_found(attack: Callable[[], Awaitable[None]]) -> None:
    """The tests with a heartbeat see both ways to hold up the loop, on any machine."""
    with pytest.raises(pytest.fail.Exception, match="was held up"):
        await assert_beats_on(attack)


@pytest.mark.parametrize("attack", CALLS)
async def test_the_heart_beats_on_while(engine: ToolEngine, attack: str) -> None:
    """D20: no hostile value holds up the event loop for more than 100 ms."""
    name, make = CALLS[attack]
    await engine.execute(name, {})  # what is loaded on first use is loaded

    def call() -> Awaitable[object]:
        return engine.execute(name, make(), ToolExecutionContext(timeout=2.0))

    await assert_beats_on(call)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("protocol", ["openai", "function_call"])
async def test_the_heart_beats_on_while_a_reply_is_read(
    engine: ToolEngine, reply: str, protocol: str
) -> None:
    """Much that a model wrote is read beside the event loop."""
    function = {"name": "checked", "arguments": REPLIES[reply]}
    call = {"id": "call_1", "type": "function", "function": function}
    message = {"role": "assistant", "tool_calls": [call]}
    written = f'<function_call>{{"name": "checked", "arguments": {REPLIES[reply]}}}</function_call>'
    whole: Any = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    given = whole if protocol == "openai" else written
    await assert_beats_on(lambda: process_tool_calls(engine, given, protocol))


@pytest.mark.parametrize("reply", REPLIES)
async def test_the_heart_beats_on_while_a_conversation_takes_a_reply(
    engine: ToolEngine, reply: str
) -> None:
    """What is copied for consent, for the variables and for the model gives others their turn."""
    function = {"name": "checked", "arguments": REPLIES[reply]}
    call = {"id": "call_1", "type": "function", "function": function}
    message = {"role": "assistant", "tool_calls": [call]}
    whole: Any = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    sessions = iter(range(100))
    await assert_beats_on(
        lambda: ToolSession(engine, f"s{next(sessions)}").process(whole, "openai")
    )


def _openai_reply(number: int, name: str) -> dict[str, Any]:
    calls = [
        {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for at in range(number)
    ]
    message = {"role": "assistant", "tool_calls": calls}
    return {"choices": [{"message": message, "finish_reason": "tool_calls"}]}


@pytest.mark.parametrize("name", ["absent", "returned"])
async def test_the_heart_beats_on_while_a_conversation_ends_many_calls(
    engine: ToolEngine, name: str
) -> None:
    """Calls that end at once leave others their turn, however many workers end them."""
    session = ToolSession(engine, "many")
    reply = _openai_reply(3_000, name)
    await assert_beats_on(lambda: session.process(reply, "openai"))


async def test_the_heart_beats_on_while_a_loop_takes_many_calls(engine: ToolEngine) -> None:
    """So do the events of a reply, and the comparison of its calls with earlier ones."""
    calls = [{"name": "returned", "arguments": {}}] * 2_000
    runs = iter(range(100))

    def run() -> Awaitable[object]:
        model = RecordedModel({"replies": [{"calls": calls}, {"text": "ok"}]})
        return AgentLoop(ToolSession(engine, f"loop{next(runs)}"), model).run("x")

    await assert_beats_on(run)


@pytest.mark.parametrize("protocol", ["openai", "anthropic", "gemini", "function_call"])
async def test_the_heart_beats_on_while_images_are_shown(engine: ToolEngine, protocol: str) -> None:
    """Bytes become base64, are looked through and are written for a model beside the loop."""
    pieces = ["See:", *(ImageContent(bytes(1_000_000), "image/png") for _ in range(2))]
    engine.register_tool({"name": "draw", "description": "D."}, lambda: pieces)
    reply = ParsedReply(calls=get_protocol("openai").parse(_openai_reply(1, "draw")).calls)
    sessions = iter(range(100))
    await engine.execute("draw", {})
    await assert_beats_on(
        lambda: ToolSession(engine, f"s{next(sessions)}").process(reply, protocol)
    )


@pytest.mark.parametrize("levels", [900, 33_000, *([66_000] if IS_WHOLE else [])])
async def test_the_heart_beats_on_while_a_deep_result_is_shown(
    engine: ToolEngine, levels: int
) -> None:
    """A conversation writes a deep result down in time that grows with its size alone."""
    if levels > 1000 and sys.gettrace() is not None:
        pytest.skip("a tracer takes minutes for it; it is run without one, too")
    deep = nested(levels)
    engine.register_tool({"name": "deep", "description": "D."}, lambda: deep)
    session = ToolSession(engine, "one")
    await assert_beats_on(lambda: session.execute("deep", {}))
