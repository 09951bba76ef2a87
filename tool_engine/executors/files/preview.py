"""What would `write_file` change if it ran?"""

from __future__ import annotations

from typing import Any

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.files.arguments import flag, text
from tool_engine.executors.files.content import read_content, text_of
from tool_engine.executors.files.diff import Change, unified_diff
from tool_engine.executors.files.entry import FileEntry
from tool_engine.executors.files.replacing import writable


def preview_of_write(entry: FileEntry, params: dict[str, Any]) -> str:
    """Return the diff of a write; raise `ToolExecutionError` if it would fail."""
    path, content = text(params, "path"), text(params, "content")
    try:
        before, path = _read_before(entry, path)
    except ToolExecutionError:
        if not flag(params, "create_folders"):
            raise
        # A missing folder is reported when the tool runs.
        before = None
    if before is None:
        return "A new file:\n" + unified_diff("", [Change(0, 0, content)], path)
    if before == content:
        return "Nothing: the file holds this already."
    return unified_diff(before, [_describe_change(before, content)], path)


def _read_before(entry: FileEntry, path: str) -> tuple[str | None, str]:
    with entry.open().place(path, writes=True) as place:
        if writable(place) is None:
            return None, place.path
        return text_of(read_content(place, entry.max_bytes).data, place.path), place.path


def _describe_change(before: str, after: str) -> Change:
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    first = _count_alike(old, new)
    last = _count_alike(old[first:][::-1], new[first:][::-1])
    start = sum(map(len, old[:first]))
    end = len(before) - sum(map(len, old[len(old) - last :]))
    return Change(start, end, "".join(new[first : len(new) - last]))


def _count_alike(one: list[str], other: list[str]) -> int:
    pairs = zip(one, other, strict=False)
    differing = (number for number, (a, b) in enumerate(pairs) if a != b)
    return next(differing, min(len(one), len(other)))
