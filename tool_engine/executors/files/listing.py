"""How does `read_folder` show what a folder holds?"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.files.file_arguments import read_flag, read_text, read_whole
from tool_engine.executors.files.file_entry import compile_entry
from tool_engine.executors.files.pattern import LinearPattern, glob_pattern
from tool_engine.executors.files.tree import DEFAULT_IGNORED, Budget, IgnoreRules, walk_tree
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

MAX_DEPTH: Final = 32
_DEFAULT_ENTRIES: Final = 500
_MOST_ENTRIES: Final = 5_000


class FolderReadExecutor:
    """The executor of `read_folder`: what is in a folder and below it."""

    def __init__(self) -> None:
        self._entries = CompiledEntries(compile_entry)

    def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        """Return the entries of the folder `path`, sorted, at most `limit`.

        Returns:
            `path`, `entries` (each with `path` relative to the tool's folder, `type`, and, of a
            file, `size`) and, when something was left out, `cut`: a sentence for each kind.

        Raises:
            ToolExecutionError: There is no such folder, or it may not be read.
        """
        entry = self._entries.of(tool)
        depth = read_whole(params, "depth", 1, 1, MAX_DEPTH)
        limit = read_whole(params, "limit", _DEFAULT_ENTRIES, 1, _MOST_ENTRIES)
        glob = read_text(params, "glob", "")
        wanted = LinearPattern(glob_pattern(glob), "glob", glob) if glob else None
        ignored = DEFAULT_IGNORED if entry.ignore is None else entry.ignore
        rules = IgnoreRules(() if read_flag(params, "include_ignored") else ignored)
        budget = Budget(context.deadline)
        entries: list[dict[str, Any]] = []
        with (
            entry.open().folder(read_text(params, "path", ".")) as (folder, path),
            contextlib.closing(walk_tree(folder, depth, rules, budget)) as tree,
        ):
            prefix = "" if path == "." else f"{path}/"
            for found in tree:
                if wanted is not None and not wanted.matches(found.place.path):
                    continue
                if len(entries) == limit:
                    budget.stop(f"there are more than {limit} entries; give a glob or a limit")
                    break
                size = {"size": found.size} if found.kind == "file" else {}
                shown = f"{prefix}{found.place.path}"
                entries.append({"path": shown, "type": found.kind, **size})
        cut = {"cut": list(budget.notes)} if budget.notes else {}
        return {"path": path, "entries": entries, **cut}
