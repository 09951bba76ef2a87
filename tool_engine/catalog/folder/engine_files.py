"""Which files does an engine trust, so that no tool writes them?"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from operator import is_

from tool_engine.catalog.approval.lock import default_lock_file
from tool_engine.catalog.folder.cache import AUTO, default_directory
from tool_engine.config import ToolEngineConfig
from tool_engine.model.tool import Tool, is_source_name
from tool_engine.trusted import Kind, TrustedPath


class EngineFiles:
    """The files that an engine trusts: no tool writes them; see `tool_engine.trusted`.

    `tools` returns all present tools, in collections that never change; `code_of` the files of a
    module that a handler names.
    """

    def __init__(
        self,
        config: ToolEngineConfig,
        tools: Callable[[], tuple[Iterable[Tool], ...]],
        code_of: Callable[[str], Iterable[TrustedPath]],
    ) -> None:
        self._config = config
        self._tools = tools
        self._code_of = code_of
        self._seen: tuple[Iterable[Tool], ...] = ()
        self.read_by_program: set[str] = set()
        """Definitions outside of the folder whose tools a program has registered."""
        self._of_tools: list[TrustedPath] = []

    def trusted_paths(self) -> Iterator[TrustedPath]:
        """Yield the files; blocks."""
        config, folder = self._config, self._config.tools_directory
        lock_file = config.lock_file or default_lock_file(folder)
        yield TrustedPath(folder, Kind.FOLDER, "the folder of the engine's definitions")
        yield TrustedPath(lock_file, Kind.FILE, "the engine's lock file")
        yield TrustedPath(f"{lock_file}.definitions", Kind.FILE, "the texts beside the lock file")
        if isinstance(config.mcp_servers, str):
            yield TrustedPath(config.mcp_servers, Kind.FILE, "the engine's file of servers")
        if config.cache_directory is not None:
            is_own = config.cache_directory != AUTO
            place = config.cache_directory if is_own else default_directory()
            if place is not None:
                yield TrustedPath(str(place), Kind.FOLDER, "the engine's cache")
        for link in _links_in(folder, is_recursive=config.recursive):
            yield TrustedPath(link, Kind.FILE, "a definition of the engine")
        for path in tuple(self.read_by_program):
            yield TrustedPath(path, Kind.FILE, "a definition that the program has read")
        yield from self._files_of_tools()

    def _files_of_tools(self) -> list[TrustedPath]:
        tools = self._tools()
        is_same = len(tools) == len(self._seen) and all(map(is_, tools, self._seen))
        if not is_same:
            found: dict[TrustedPath, None] = {}
            for tool in itertools.chain(*tools):
                if tool.source is not None and not is_source_name(tool.source):
                    found[TrustedPath(tool.source, Kind.FILE, "a definition of the engine")] = None
                if ":" in tool.handler:
                    found |= dict.fromkeys(self._code_of(tool.handler.partition(":")[0]))
            self._of_tools, self._seen = list(found), tools
        return self._of_tools


def _links_in(folder: str, *, is_recursive: bool) -> Iterator[str]:
    """Yield a folder's symbolic links, as their targets are definitions."""
    pending = [folder]
    while pending:
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    yield entry.path
                elif is_recursive and entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
