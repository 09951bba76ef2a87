"""Which texts were already read, and which tools did they define?

The tools of a text depend only on the text and the rules, so they are kept by the hash of the
text, in one file for each folder of definitions. Nothing in the cache is run, and whatever is
wrong with it is read anew.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tool_engine.catalog.definition_files import find_target
from tool_engine.catalog.folder.cache_file import (
    SUFFIX,
    entry_of,
    read_cache,
    tools_of,
    write_cache,
)
from tool_engine.catalog.folder.second_reader import MIN_UNREAD, SecondReader
from tool_engine.catalog.kinds import Definition
from tool_engine.catalog.loader import load_checked
from tool_engine.errors import DefinitionProblem
from tool_engine.model.tool import Tool

AUTO: Final = "auto"
"""Stands for the directory where this user's caches are kept by custom."""
MIN_FILES: Final = 100
"""A folder with fewer definitions is read as quickly without a cache, and gets none."""


def default_directory() -> Path | None:
    """Return the customary directory of this user's caches; None without a home."""
    variable = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME"
    base = Path(os.environ.get(variable, ""))
    if not base.is_absolute():
        with suppress(RuntimeError):
            base = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return base / "tool-engine" if base.is_absolute() else None


def cache_path(
    directory: str | None, folder: str, *, recursive: bool, key: str = ""
) -> Path | None:
    """Return the cache file for the definitions in `folder`; None: not cached.

    Cache files are kept in `directory`: with `AUTO` in the customary one, with None nowhere. `key`
    is what else makes other tools of the same texts.
    """
    base = default_directory() if directory == AUTO else directory and Path(directory)
    if not base:
        return None
    place = os.fsencode(f"{find_target(folder)}\n{recursive}\n{key}")
    return base / (hashlib.sha256(place).hexdigest()[:32] + SUFFIX)


class CachedLoader:
    """Loads tools, and knows those of texts that were loaded before.

    Only within a `session` does it use the cache; at other times it reads every text.

    Args:
        directory: Where cache files are kept, see `cache_path`; None: no cache.
        folder: The folder that the texts come from.
        recursive: Whether its sub-folders belong to it.
        check: Says what else is wrong with a tool.
        check_key: What the answers of `check` depend on, beside the tool and our own code; None:
            they may always be others, and are not kept.
        is_settled: Whether the answer about a tool depends on nothing else. One that does, such as
            on code that is not ours, is asked for each time; None: all are settled.
    """

    def __init__(
        self,
        directory: str | None,
        folder: str,
        *,
        recursive: bool = False,
        check: Callable[[Tool], list[DefinitionProblem]] | None = None,
        check_key: Callable[[], str] | None = None,
        is_settled: Callable[[Tool], bool] | None = None,
    ) -> None:
        self._directory = directory
        self._folder = folder
        self._recursive = recursive
        self._check = check
        self._check_key = check_key
        self._is_settled = is_settled
        self._is_open = False
        self._known: dict[bytes, bytes] = {}
        self._told: dict[bytes, bytes] = {}
        self._seen: dict[bytes, bytes] = {}

    @contextmanager
    def session(self, files: Sequence[str]) -> Iterator[None]:
        """Use the cache and a second process for `files` where worthwhile.

        Afterwards the cache holds the tools of these texts, and nothing else.
        """
        path = None
        if len(files) >= MIN_FILES:
            key = "" if self._check_key is None else self._check_key()
            path = cache_path(self._directory, self._folder, recursive=self._recursive, key=key)
        self._known = {} if path is None else read_cache(path)
        second = None
        if len(files) - len(self._known) >= MIN_UNREAD:
            second = SecondReader(files)
            self._told = second.entries
        self._is_open = path is not None or second is not None
        try:
            yield
            if path is not None and self._seen.keys() != self._known.keys():
                write_cache(path, self._seen)
        finally:
            if second is not None:
                second.close()
            self._known, self._told, self._seen, self._is_open = {}, {}, {}, False

    def load_definitions(self, text: bytes, source: str) -> Sequence[Definition]:
        """Return the definitions in `text`, from the cache if they are known.

        The few texts that define more than tools are read each time.
        """
        if not self._is_open:
            return load_checked(text, source, self._check)
        key = hashlib.sha256(text).digest()
        entry = self._known.get(key)
        if entry is not None and (tools := tools_of(entry, source)) is not None:
            doubtful = [tool for tool in tools if not self._is_known(tool)]
        else:
            self._known.pop(key, None)
            entry = self._told.pop(key, None)
            found = None if entry is None else tools_of(entry, source)
            doubtful = found or []
            read = found or load_checked(text, source, self._check)
            tools = [each for each in read if isinstance(each, Tool)]
            if len(tools) < len(read):
                return read
            entry = entry or entry_of(tools, source)
        if doubtful and self._check is not None and any(map(self._check, doubtful)):
            # Read again for the lines, which only a file with a mistake pays for.
            return load_checked(text, source, self._check)
        self._seen[key] = entry
        return tools

    def _is_known(self, tool: Tool) -> bool:
        if self._check_key is None:
            return self._check is None
        return self._is_settled is None or self._is_settled(tool)
