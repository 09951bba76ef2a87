"""Does each object that a program makes refuse an argument of a wrong kind when it is made?"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Final

import msgspec
import pytest

import tool_engine
from tool_engine import (
    ApprovalRequest,
    ConfigurationError,
    MCPServerSettings,
    RecordedModel,
    ResourceContent,
    SessionError,
    TaskHandle,
    ToolConcurrencyController,
    ToolConfigLoader,
    ToolEngine,
    ToolParameter,
    ToolSession,
    chat_model,
)
from tool_engine.approval.desk import EngineApprovals
from tool_engine.backends import LocalBackend
from tool_engine.events import EventBus, EventLog, MemoryEventStorage
from tool_engine.knowledge.sql.storage import SQLRecordStorage
from tool_engine.mcp_server import MCPServer
from tool_engine.protocols import CombinedTools
from tool_engine.server import create_app
from tool_engine.sources.composition import rename
from tool_engine.testing import simulate
from tool_engine.testing.trace import Trace

NOT_CHECKED: Final = (TaskHandle, EngineApprovals, ApprovalRequest, ToolParameter)
"""What only an engine makes, and what is checked with its tool."""
OTHERS: Final = (
    *(CombinedTools, EventBus, EventLog, LocalBackend, MCPServer, MemoryEventStorage),
    SQLRecordStorage,
    create_app,
    simulate,
)
"""What programs make, and what is not among the names of the package."""
GIVEN: Final[dict[str, Callable[[], Any]]] = {
    "engine": ToolEngine,
    "tool_engine": ToolEngine,
    "session": lambda: ToolSession(ToolEngine(), "s"),
    "controller": ToolConcurrencyController,
    "home_loop": asyncio.new_event_loop,
    "sources": dict,
    "url": lambda: "postgresql+asyncpg://127.0.0.1/limits",
    "uri": lambda: "https://example.com",
    "AudioContent.mime_type": lambda: "audio/wav",
    "mime_type": lambda: "image/png",
    "is_approved": lambda: True,
    "trace": lambda: Trace.of([]),
    "script": lambda: {"replies": []},
    "model": lambda: RecordedModel({"replies": []}),
    "data": lambda: b"x",
    "permission": lambda: {"execution": "deny"},
    "attempts": lambda: 2,
    "calls": lambda: 1,
    "period": lambda: 1.0,
    "server": lambda: MCPServerSettings(name="x", command=("x",)),
}
"""What is needed beside the wrong argument; else a text."""
ALSO: Final[dict[type, dict[str, Any]]] = {ResourceContent: {"text": "x"}}
"""What is needed, and may be left out where something else is given."""
WORDS: Final = {"script": "recorded conversation"}
"""What a message calls an argument, where that is not its name."""


class _Odd:
    """Something that is of no use as an argument."""

    def __init__(self, *, is_true: bool) -> None:
        self.is_true = is_true

    def __bool__(self) -> bool:
        return self.is_true

    def __repr__(self) -> str:
        return "<odd>"


def is_value(made: type) -> bool:
    """Return True for data: what is given to a value is checked where the value is used."""
    has_checks = hasattr(made, "__post_init__")
    return (
        is_dataclass(made)
        or issubclass(made, tuple | Enum | BaseException)
        or (issubclass(made, msgspec.Struct) and not has_checks)
    )


def list_makers() -> Iterator[Any]:
    for each in (getattr(tool_engine, name) for name in tool_engine.__all__):
        is_made = isinstance(each, type) and each not in NOT_CHECKED and not is_value(each)
        if is_made and not getattr(each, "_is_protocol", False):
            yield each
    yield from OTHERS


def list_arguments(made: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Return the arguments that must be of some kind."""
    return {
        name: each
        for name, each in inspect.signature(made).parameters.items()
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        and name[0] != "_"
        and each.annotation not in (Any, "Any")
    }


@cache
def given_for(made: Any, name: str) -> Any:
    make = GIVEN.get(f"{made.__name__}.{name}") or GIVEN.get(name, lambda: "x")
    return make()


CASES: Final = [
    pytest.param(made, name, id=f"{made.__name__}-{name}")
    for made in list_makers()
    for name in list_arguments(made)
]


@pytest.mark.parametrize("is_true", [True, False])
@pytest.mark.parametrize(("made", "name"), CASES)
def test_wrong_kind(made: Any, name: str, is_true: bool) -> None:
    """It is refused at once, by name; what counts as false is not taken for left out."""
    others = {
        other: given_for(made, other)
        for other, each in inspect.signature(made).parameters.items()
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    }
    given = {**ALSO.get(made, {}), **others, name: _Odd(is_true=is_true)}
    with pytest.raises((ConfigurationError, SessionError)) as raised:
        made(**given)
    assert WORDS.get(name, name.rpartition("_")[2]) in str(raised.value).casefold()


def test_other_limits_of_a_controller() -> None:
    """What comes later is checked as what is given first."""
    with pytest.raises(ConfigurationError, match="config must be a ConcurrencyConfig"):
        ToolConcurrencyController().configure(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda odd: rename(ToolEngine(), {odd: "a"}), "a tool is called by its name, a text"),
        (lambda odd: chat_model("openai:x", api_key="k", protocol=odd), "got <odd>"),
        (lambda odd: ToolConfigLoader().load_directory(odd), "path must be a path"),
    ],
)
def test_what_functions_take(make: Callable[[Any], object], words: str) -> None:
    """What is no constructor refuses likewise."""
    with pytest.raises(ConfigurationError, match=words):
        make(_Odd(is_true=True))
