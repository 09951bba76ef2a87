"""How does `write_file` make a file, or replace one?"""

from __future__ import annotations

from typing import Any

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.files.diff import Change, unified_diff
from tool_engine.executors.files.file_arguments import read_flag, read_text
from tool_engine.executors.files.file_entry import FileEntry, compile_entry
from tool_engine.executors.files.replacing import check_writable, lock_folder, put_content
from tool_engine.executors.files.text_content import read_content, text_of, version_of
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool


class FileWriteExecutor:
    """The executor of `write_file`: the file is always the old or new one."""

    def __init__(self) -> None:
        self._entries = CompiledEntries(compile_entry)

    def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        """Write `content` to `path`.

        With `create_only` an existing file is left as it is; with `expected_version` it is replaced
        only if it is the version that was read; `create_folders` makes missing folders. The new
        file keeps the permissions of the old one.

        Returns:
            `path`, `bytes`, `created` (True if there was no such file) and the new `version`.

        Raises:
            ToolExecutionError: The file cannot be written; then it is unchanged.
        """
        entry = self._entries.of(tool)
        data = encode_content(read_text(params, "content"), "content", entry.max_bytes)
        expected = read_text(params, "expected_version", "")
        deadline = context.deadline
        path, makes = read_text(params, "path"), read_flag(params, "create_folders")
        with (
            entry.open().place(path, writes=True, makes=makes) as place,
            lock_folder(place, deadline),
        ):
            replaced = check_writable(place)
            if replaced is not None and read_flag(params, "create_only"):
                raise ToolExecutionError(
                    f"{place.path!r} exists already and create_only is set; choose another name"
                )
            if expected:
                current = read_content(place, entry.max_bytes)
                check_version(current.version, expected, place.path)
                replaced = current.status
            put_content(place, data, replaced, deadline)
            return {
                "path": place.path,
                "bytes": len(data),
                "created": replaced is None,
                "version": version_of(data),
            }

    def preview(self, tool: Tool, params: dict[str, Any]) -> str:
        """Return the diff for the approver; raise `ToolExecutionError` if it cannot be made."""
        return preview_of_write(self._entries.of(tool), params)


def encode_content(content: str, name: str, max_bytes: int) -> bytes:
    """Return `content` in UTF-8; raise if too large or not a file's text."""
    if "\0" in content:
        raise ToolExecutionError(f"{name} has a zero character in it; only text is written")
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolExecutionError(
            f"{name} has half of a surrogate pair at character {error.start}, which is no text"
        ) from None
    if len(data) > max_bytes:
        raise ToolExecutionError(
            f"the file would have {len(data)} bytes; this tool writes files of at most {max_bytes} "
            "bytes"
        )
    return data


def check_version(version: str, expected: str, path: str) -> None:
    if version != expected:
        raise ToolExecutionError(
            f"{path!r} has changed since it was read (expected_version {expected[:40]!r}, it is "
            f"{version!r} now); nothing was written: read it again first"
        )


def preview_of_write(entry: FileEntry, params: dict[str, Any]) -> str:
    """Return the diff of a write; raise `ToolExecutionError` if it would fail."""
    path, content = read_text(params, "path"), read_text(params, "content")
    try:
        before, path = _read_before(entry, path)
    except ToolExecutionError:
        if not read_flag(params, "create_folders"):
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
        if check_writable(place) is None:
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
