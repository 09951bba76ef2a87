"""Is the code that runs a tool still the code that somebody approved?"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

from tool_engine.errors import ToolEngineError
from tool_engine.executors.handler import AsyncHandlerExecutor, SyncHandlerExecutor
from tool_engine.model.tool import Tool

__all__ = ["ENGINE", "UNREAD", "UNREADABLE", "CodeHashes", "source_hash"]

ENGINE: Final = "engine"
"""Stands for code of the engine itself, which changes with the engine's version."""
UNREADABLE: Final = "unreadable"
"""Stands for code whose source cannot be read. Like `ENGINE` it equals nothing that was approved.
"""
UNREAD: Final = "unread"
"""Stands for code that was registered after the last look."""


class CodeHashes:
    """The hashes of the executors that run tools; to read source blocks, so it is done apart.

    Args:
        resolve: The executor of a tool; None when nothing runs it.
    """

    def __init__(self, resolve: Callable[[Tool], Any]) -> None:
        self._resolve = resolve
        self._read: dict[int, tuple[Any, str]] = {}

    async def read(self, tools: Iterable[Tool]) -> None:
        """Reads, in a thread, the source of what runs `tools`, unless it was read before."""
        found = {id(executor): executor for executor in map(self._executor, tools)}
        unread = [each for key, each in found.items() if each is not None and key not in self._read]
        if unread:
            hashes = await asyncio.to_thread(lambda: [source_hash(each) for each in unread])
            # The executor is kept, so that its id stays its own.
            for executor, code in zip(unread, hashes, strict=True):
                self._read[id(executor)] = (executor, code)

    def of(self, tool: Tool) -> str | None:
        """The hash of what runs `tool`, or what stands for it; None when nothing runs it."""
        executor = self._executor(tool)
        return None if executor is None else self._read.get(id(executor), (None, UNREAD))[1]

    def _executor(self, tool: Tool) -> Any:
        try:
            return self._resolve(tool)
        except ToolEngineError:
            return None


def source_hash(executor: Any) -> str:
    """A hash of the source of a function, or of an executor's class; blocks.

    Only its own lines count, not what they call. `ENGINE` and `UNREADABLE` stand for code that
    cannot be approved apart.
    """
    code = executor
    if isinstance(executor, AsyncHandlerExecutor | SyncHandlerExecutor):
        code = executor.handler
    while isinstance(code, functools.partial):
        code = code.func
    if not inspect.isroutine(code):
        code = type(code)
    if str(getattr(code, "__module__", "")).startswith("tool_engine."):
        return ENGINE
    try:
        source = inspect.getsource(inspect.unwrap(code))
    except (OSError, TypeError, ValueError):
        return UNREADABLE
    return f"sha256:{hashlib.sha256(source.encode()).hexdigest()}"
