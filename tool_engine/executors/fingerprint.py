"""Is the code that runs a tool still the code that was approved?"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

from tool_engine.errors import ToolEngineError
from tool_engine.executors.python.handler_source import SourceError, source_text
from tool_engine.executors.python.importing import hash_of, running_hash
from tool_engine.executors.python.python_entry import is_isolated
from tool_engine.model.checks.own_code import code_behind, is_own
from tool_engine.model.tool import Tool

ENGINE: Final = "engine"
"""Stands for code of the engine itself, which changes with the engine's version."""
UNREADABLE: Final = "unreadable"
"""Stands for code whose source cannot be read. Like `ENGINE` it equals nothing that was approved.
"""
UNREAD: Final = "unread"
"""Stands for code that was registered after the last look."""


class CodeHashes:
    """The hashes of the code that runs tools; `read` comes first.

    Args:
        resolve: The executor of a tool; None when nothing runs it.
        is_python: True for a handler `package.module:function`. Then the module's file is hashed
            and not imported, because it may not be approved.
    """

    def __init__(
        self, resolve: Callable[[Tool], Any], is_python: Callable[[Tool], bool] | None = None
    ) -> None:
        self._resolve = resolve
        self._is_python = is_python or _approve_nothing
        self._files: dict[str, str] = {}
        self._read: dict[int, tuple[Any, str]] = {}

    async def read(self, tools: Iterable[Tool]) -> None:
        """Read, in a thread, the source of what runs `tools`, once for each."""
        tools = list(tools)
        modules = {_module_of(tool) for tool in tools if self._is_python(tool)}
        if modules:
            self._files |= await asyncio.to_thread(lambda: {m: module_hash(m) for m in modules})
        tools = [tool for tool in tools if not self._is_python(tool)]
        found = {id(executor): executor for executor in map(self._find_executor, tools)}
        unread = [each for key, each in found.items() if each is not None and key not in self._read]
        if unread:
            hashes = await asyncio.to_thread(lambda: [source_hash(each) for each in unread])
            # The executor is kept, so that its id stays its own.
            for executor, code in zip(unread, hashes, strict=True):
                self._read[id(executor)] = (executor, code)

    def of(self, tool: Tool) -> str | None:
        """Return the hash of what runs `tool`, a constant above, or None."""
        if self._is_python(tool):
            return self._files.get(_module_of(tool), UNREAD)
        executor = self._find_executor(tool)
        return None if executor is None else self._read.get(id(executor), (None, UNREAD))[1]

    def is_outdated(self, tool: Tool) -> bool:
        """Return True if the module's file is newer than the running code."""
        if not self._is_python(tool) or is_isolated(tool):
            return False
        return running_hash(_module_of(tool)) not in (None, self._files.get(_module_of(tool)))

    def _find_executor(self, tool: Tool) -> Any:
        try:
            return self._resolve(tool)
        except ToolEngineError:
            return None


def _approve_nothing(_tool: Tool) -> bool:
    return False


def _module_of(tool: Tool) -> str:
    return tool.handler.partition(":")[0]


def module_hash(module: str) -> str:
    """Return a hash of a module's file, or `UNREADABLE`. Blocks; imports nothing."""
    try:
        text = source_text(module)
    except SourceError:
        text = None
    return UNREADABLE if text is None else hash_of(text)


def source_hash(executor: Any) -> str:
    """Return a hash of a function's or executor class's source. Blocks.

    Only its own lines count, not what they call. `ENGINE` and `UNREADABLE` stand for code that
    cannot be approved apart.
    """
    code = code_behind(executor)
    while isinstance(code, functools.partial):
        code = code.func
    if not inspect.isroutine(code):
        code = type(code)
    if is_own(code):
        return ENGINE
    try:
        source = inspect.getsource(inspect.unwrap(code))
    except (OSError, TypeError, ValueError):
        return UNREADABLE
    return hash_of(source.encode())
