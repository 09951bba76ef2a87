"""Code that runs tools is told apart by its source, and never waved through unread."""

from __future__ import annotations

import asyncio
import functools
import sys
from typing import Any

import pytest

from tool_engine import EchoExecutor, ExecutorNotFoundError, Tool, ToolConfigLoader
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.executors.fingerprint import (
    ENGINE,
    UNREAD,
    UNREADABLE,
    CodeHashes,
    source_hash,
)
from tool_engine.executors.handler import executor_for


def first(text: str = "") -> str:
    return text


def second(text: str = "") -> str:
    return text + "!"


async def third() -> str:
    return ""


@functools.lru_cache
def wrapped() -> str:
    return "wrapped"


class One:
    """One executor."""

    async def execute(self, tool: Any, params: Any, context: Any) -> str:
        return "one"


class Two:
    """Another executor."""

    async def execute(self, tool: Any, params: Any, context: Any) -> str:
        return "two"


class Called:
    """An object that is called."""

    def __call__(self) -> str:
        return ""


def test_other_code_has_another_hash() -> None:
    """Each function and each executor's class has a hash of its own, and the same each time."""
    executors = [executor_for(each) for each in (first, second, third, wrapped, Called())]
    hashes = [source_hash(each) for each in [*executors, One(), Two()]]
    assert all(each.startswith("sha256:") for each in hashes)
    assert len({*hashes}) == len(hashes)
    assert source_hash(One()) == source_hash(One())
    assert source_hash(executor_for(functools.partial(first, text="a"))) == hashes[0]


def test_what_cannot_be_approved_apart() -> None:
    """The engine's own executors, and code without a source, are told by name."""
    assert source_hash(EchoExecutor()) == ENGINE
    made: dict[str, Any] = {}
    exec("def made(): return 1", made)  # noqa: S102 - code without a file
    assert source_hash(executor_for(made["made"])) == UNREADABLE


@pytest.fixture
def tool() -> Tool:
    return ToolConfigLoader().from_mapping({"name": "x", "description": "x"})


async def test_code_is_read_apart(tool: Tool) -> None:
    """Code that nobody has read yet equals nothing; what was read is read once."""
    executor = One()
    code = CodeHashes(lambda _: executor)
    assert code.of(tool) == UNREAD
    await code.read([tool, tool])
    assert code.of(tool) == await asyncio.to_thread(source_hash, executor)
    executor = One()
    assert code.of(tool) == UNREAD


async def test_nothing_runs_it(tool: Tool) -> None:
    """A tool whose executor is missing, or cannot be loaded, has no code."""

    def fail(_: Tool) -> Any:
        raise ExecutorNotFoundError("broken package")

    for resolve in (lambda _: None, fail):
        code = CodeHashes(resolve)
        await code.read([tool])
        assert code.of(tool) is None


async def test_a_function_that_a_definition_names() -> None:
    """R9: its module's file counts, which is read and not imported."""
    named: dict[str, Any] = {
        "name": "x",
        "description": "x",
        "entry": {"type": "custom", "handler": "this:zen"},
    }
    loader = ToolConfigLoader()
    tool = loader.from_mapping(named)
    code = CodeHashes(ExecutorRegistry().resolve, lambda _: True)
    assert code.of(tool) == UNREAD
    await code.read([tool])
    assert str(code.of(tool)).startswith("sha256:")
    assert "this" not in sys.modules
    for place in ("no_such_module_of_test:f", "time:time"):
        named["entry"] = {"type": "custom", "handler": place}
        tool = loader.from_mapping(named)
        await code.read([tool])
        assert code.of(tool) == UNREADABLE
