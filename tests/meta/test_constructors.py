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
    ToolEngine,
    ToolParameter,
    ToolSession,
)
from tool_engine.approval.desk import EngineApprovals
from tool_engine.backends import LocalBackend
from tool_engine.events import EventBus, EventLog, MemoryEventStorage
from tool_engine.mcp_server import MCPServer
from tool_engine.protocols import CombinedTools

NOT_CHECKED: Final = (TaskHandle, EngineApprovals, ApprovalRequest, ToolParameter)
"""What only an engine makes, and what is checked with its tool."""
OTHERS: Final = (CombinedTools, EventBus, EventLog, LocalBackend, MCPServer, MemoryEventStorage)
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


def list_classes() -> Iterator[type]:
    named = (getattr(tool_engine, name) for name in tool_engine.__all__)
    for each in (*named, *OTHERS):
        is_made = isinstance(each, type) and each not in NOT_CHECKED and not is_value(each)
        if is_made and not getattr(each, "_is_protocol", False):
            yield each


def list_arguments(made: type) -> dict[str, inspect.Parameter]:
    """Return the arguments that must be of some kind."""
    return {
        name: each
        for name, each in inspect.signature(made).parameters.items()
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        and name[0] != "_"
        and each.annotation not in (Any, "Any")
    }


@cache
def given_for(made: type, name: str) -> Any:
    make = GIVEN.get(f"{made.__name__}.{name}") or GIVEN.get(name, lambda: "x")
    return make()


CASES: Final = [
    pytest.param(made, name, id=f"{made.__name__}-{name}")
    for made in list_classes()
    for name in list_arguments(made)
]


@pytest.mark.parametrize("is_true", [True, False])
@pytest.mark.parametrize(("made", "name"), CASES)
def test_wrong_kind(made: type, name: str, is_true: bool) -> None:
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
