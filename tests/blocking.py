"""Which calls block the event loop, and where may the package make them?

BlockBuster replaces sixty functions and looks through the whole stack at each call of one. Here it
remembers what it has seen of a file, and looks only at names that may block: the same answer in a
tenth of the time.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from blockbuster import BlockBuster, BlockingError, blockbuster

__all__ = ["LIBRARYS_OWN", "guarded_calls", "wrap_blocking"]

LIBRARYS_OWN = blockbuster._wrap_blocking


class _Inside(threading.local):
    is_asking = False


_inside = _Inside()


def wrap_blocking(
    modules: Sequence[str],
    excluded: Sequence[str],
    function: Callable[..., Any],
    name: str,
    allowed: list[tuple[str, Iterable[str]]],
    is_harmless: Callable[..., bool],
) -> Callable[..., Any]:
    """Gives the function that refuses to block the loop: what it answers is the library's."""
    assert not excluded
    ours = tuple(modules)
    names = {each for _, functions in allowed for each in functions}
    known: dict[str, bool] = {}

    def may_block() -> bool:
        frame, is_found = sys._getframe(2), False
        while frame is not None:
            code = frame.f_code
            file, called = code.co_filename, code.co_name
            if not is_found:
                if (is_ours := known.get(file)) is None:
                    is_ours = known[file] = file.startswith(ours)
                is_found = is_ours
            if called in names and any(
                file.endswith(end) and called in functions for end, functions in allowed
            ):
                return True
            frame = frame.f_back  # type: ignore[assignment]
        return not is_found

    def guarded(*args: Any, **options: Any) -> Any:
        if asyncio._get_running_loop() is None or _inside.is_asking:
            return function(*args, **options)
        _inside.is_asking = True
        try:
            if is_harmless(*args, **options) or may_block():
                return function(*args, **options)
            raise BlockingError(name)
        finally:
            _inside.is_asking = False

    return guarded


blockbuster._wrap_blocking = wrap_blocking  # type: ignore[assignment] # its own one is generic


def guarded_calls() -> BlockBuster:
    """The calls that fail with a frame of the package on the stack: tests may open files."""
    found = BlockBuster("tool_engine")
    # A plain method that blocks whoever calls it, and is there for that.
    for name in ("threading.Lock.acquire", "threading.Lock.acquire_lock"):
        if name in found.functions:
            found.functions[name].can_block_in("tool_engine/calls/home_loop.py", {"block"})
            found.functions[name].can_block_in("tool_engine/calls/blocking.py", {"start", "end"})
    # A plain method that reads a file blocks whoever calls it, and is there for that.
    loads = {"load_file", "load_file_tools", "load_directory"}
    found.functions["os.stat"].can_block_in("tool_engine/catalog/loader.py", loads)
    # To make the client of a model is to load an SDK and certificates; a script is a file.
    for function in found.functions.values():
        function.can_block_in("tool_engine/agent/models/registry.py", {"chat_model"})
        function.can_block_in("tool_engine/agent/models/client.py", {"__init__"})
        function.can_block_in("tool_engine/agent/models/script.py", {"read_script"})
        function.can_block_in("tool_engine/agent/models/recording.py", {"_check_path"})
        # To judge the first raw schema is to load jsonschema.
        function.can_block_in("tool_engine/catalog/definition/rules.py", {"_check_raw"})
        # Which version this is stands in a file, read once when the module is loaded.
        function.can_block_in("tool_engine/mcp_server/server.py", {"_find_version"})
        function.can_block_in("tool_engine/server/openapi.py", {"_find_version"})
        # An import of these loads a whole framework, for the program that asks for it.
        for framework in ("langchain", "llamaindex", "openai_agents", "pydantic_ai"):
            place = f"tool_engine/integrations/{framework}.py"
            function.can_block_in(place, {"<module>"})
    # Where the process is, the kernel knows without a look at a disk.
    found.functions["os.getcwd"].can_block_in("tool_engine/trusted.py", {"folder_of_now"})
    # Threads that write lines to one place take turns there, for some microseconds.
    found.functions["threading.Lock.acquire"].can_block_in("tool_engine/logger.py", {"_write_line"})
    # What a test run adds of its own: the first look of a thread at a file is counted by coverage.
    found.functions["threading.Lock.acquire"].can_block_in("coverage/collector.py", {"lock_data"})
    return found
