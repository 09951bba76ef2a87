"""Does a library that walks through structures find what the engine does not show?"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import pickle
import pprint
import re
from collections.abc import Callable
from io import StringIO
from typing import Any

import msgspec
import pytest
from rich.console import Console
from rich.pretty import pretty_repr

from tool_engine import ToolEngine, ToolEngineEvent, ToolExecutionContext

SECRET = "hunter2-0f9c-4e11"
PASSWORD = {"name": "password", "type": "string", "description": "p", "required": True}


def list_fields(value: Any) -> Any:
    """All fields of a structure, and of those in it."""
    if isinstance(value, msgspec.Struct):
        return list_fields(msgspec.structs.asdict(value))
    if isinstance(value, dict):
        return {key: list_fields(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [list_fields(each) for each in value]
    return value


def print_rich(value: Any) -> str:
    console = Console(file=StringIO(), width=10_000)
    console.print(value, list_fields(value))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


WALKERS: dict[str, Callable[[Any], object]] = {
    "repr": repr,
    "rich": print_rich,
    "pretty": lambda value: pretty_repr(value) + pretty_repr(list_fields(value)),
    "pprint": lambda value: pprint.pformat((value, list_fields(value)), width=10_000),
    "asdict": msgspec.structs.asdict,
    "astuple": msgspec.structs.astuple,
    "fields": list_fields,
    "to_builtins": msgspec.to_builtins,
    "to_builtins, others by their repr": lambda value: msgspec.to_builtins(value, enc_hook=repr),
    "JSON": msgspec.json.encode,
    "JSON, others by their repr": lambda value: msgspec.json.encode(value, enc_hook=repr),
    "JSON of Python": lambda value: json.dumps(list_fields(value), default=repr),
    "MessagePack": lambda value: msgspec.msgpack.encode(value, enc_hook=repr),
    "copies of fields": lambda value: list_fields(copy.deepcopy(msgspec.structs.asdict(value))),
    "deepcopy": lambda value: list_fields(copy.deepcopy(value)),
    "pickles of fields": lambda value: pickle.dumps(msgspec.structs.asdict(value)),
    "pickle": pickle.dumps,
}


def shows_secret(value: Any, walker: str) -> bool:
    """Return whether a walker finds the secret; what it refuses to walk through it does not."""
    try:
        found = WALKERS[walker](value)
    except (TypeError, pickle.PicklingError, AttributeError, RecursionError):
        return False
    text = found.decode("latin-1") if isinstance(found, bytes) else repr(found)
    # Bytes are written in Base64 where there are none.
    decoded = [base64.b64decode(each + "==") for each in re.findall(r"[A-Za-z0-9+/]{16,}", text)]
    return any(SECRET in each for each in (text, *(part.decode("latin-1") for part in decoded)))


async def make_calls(engine: ToolEngine, walk: Callable[[ToolExecutionContext], object]) -> None:
    """Call a tool with a secret, plainly and as one that calls another, which is walked through."""

    async def give(password: str) -> dict[str, str]:
        return {"password": password}

    async def outer(password: str, context: ToolExecutionContext) -> dict[str, Any]:
        await context.call("inner")
        return {"password": password}

    async def inner(context: ToolExecutionContext) -> None:
        walk(context)

    for name, handler, is_secret in (
        ("plain", give, False),
        ("give", give, True),
        ("outer", outer, True),
    ):
        parameters = [{**PASSWORD, "secret": is_secret}]
        definition = {"name": name, "description": "d", "parameters": parameters}
        engine.register_tool(definition, handler)
    engine.register_tool({"name": "inner", "description": "d"}, inner)
    context = ToolExecutionContext("ann", conversation_id="c")
    for name in ("plain", "plain", "give", "outer"):
        for who in (None, context):
            result = await engine.execute(name, {"password": SECRET}, who)
            assert result.is_success, result
    task = await engine.start("outer", {"password": SECRET}, context)
    assert (await task.wait()).is_success


@pytest.mark.parametrize("walker", WALKERS)
@pytest.mark.parametrize("is_read", [False, True], ids=["unread", "read"])
async def test_no_event_shows_a_secret(walker: str, is_read: bool) -> None:
    """An event that nothing had read held arguments and output as they were, also for `asdict`."""
    events: list[ToolEngineEvent] = []
    async with ToolEngine() as engine:
        engine.subscribe(events.append)
        await make_calls(engine, lambda context: None)
    ends = [event for event in events if event.call_id is not None]
    assert len(ends) > 20
    for event in ends:
        if is_read:
            event.to_dict()
        assert not shows_secret(event, walker), event


@pytest.mark.parametrize("walker", WALKERS)
async def test_no_context_shows_the_arguments_of_calls(walker: str) -> None:
    """That of a nested call showed those of the calls above it, even by its `repr`: in each log."""
    seen: list[bool] = []
    async with ToolEngine() as engine:
        await make_calls(engine, lambda context: seen.append(shows_secret(context, walker)))
        await asyncio.sleep(0)
    assert seen == [False] * 3


async def test_a_context_reads_as_it_is_made() -> None:
    """Its `repr` has the fields that a program sets or reads, and no other."""
    context = ToolExecutionContext("ann", priority=3)
    shown = repr(context)
    assert shown.startswith("ToolExecutionContext(caller_id='ann', caller_type=")
    assert "priority=3" in shown
    assert "_" not in re.sub(r"\w[a-z]+_\w+", "", shown)
    assert "priority=3" in pretty_repr(context)
