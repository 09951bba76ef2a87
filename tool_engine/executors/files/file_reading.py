"""How does `read_file` show a file, so that a model can read all of it, part by part?"""

from __future__ import annotations

from typing import Any, Final

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.files.file_arguments import read_flag, read_text, read_whole
from tool_engine.executors.files.file_entry import compile_entry
from tool_engine.executors.files.text_content import read_content, text_of
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

MAX_CHARACTERS: Final = 50_000
"""The most characters of a file that one call returns."""
_DEFAULT_LINES: Final = 2_000
_MOST: Final = 2**31
_STEP: Final = 64 * 1024


class FileReadExecutor:
    """The executor of `read_file`: some lines, and where the rest begins."""

    def __init__(self) -> None:
        self._entries = CompiledEntries(compile_entry)

    def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        """Return `limit` lines from `offset` (1: the first, -1: the last) on.

        Returns:
            `content`, where it stands (`first_line`, `last_line`, `total_lines`), the file's
            `version` for `expected_version`, and, if there is more, `next`: the `offset` and
            `column` of the call that goes on.

        Raises:
            ToolExecutionError: The file cannot be read, or has no such line.
        """
        entry = self._entries.of(tool)
        offset = read_whole(params, "offset", 1, -_MOST, _MOST)
        column = read_whole(params, "column", 1, 1, _MOST)
        limit = read_whole(params, "limit", _DEFAULT_LINES, 1, _MOST)
        with entry.open().place(read_text(params, "path")) as place:
            found = read_content(place, entry.max_bytes)
            path = place.path
        lines = _Lines(text_of(found.data, path))
        shown = lines.part(lines.number(offset, path), column, limit, path)
        content = shown.pop("content")
        if read_flag(params, "numbered"):
            content = _number_lines(content, shown["first_line"])
        return {"path": path, "content": content, **shown, "version": found.version}


class _Lines:
    def __init__(self, whole_text: str) -> None:
        self._text = whole_text.removeprefix("\ufeff").replace("\r\n", "\n")
        ends = self._text.count("\n")
        self.total = ends if not self._text or self._text.endswith("\n") else ends + 1

    def number(self, offset: int, path: str) -> int:
        if offset == 0:
            raise ToolExecutionError("offset counts from 1; -1 is the last line")
        first = offset if offset > 0 else max(1, self.total + offset + 1)
        if first > max(self.total, 1):
            raise ToolExecutionError(f"{path!r} has {self.total} lines, so none at {offset}")
        return first

    def part(self, first: int, column: int, limit: int, path: str) -> dict[str, Any]:
        begin = self._line_start(first)
        start = begin + column - 1
        if column > 1 and start >= self._line_end(begin):
            raise ToolExecutionError(f"line {first} of {path!r} has no column {column}")
        last, end = first - 1, start
        while last < min(self.total, first + limit - 1):
            if self._line_end(end) - start > MAX_CHARACTERS:
                break
            last, end = last + 1, self._line_end(end)
        following = (last + 1, 1) if last < self.total else None
        if last < first <= self.total:
            # Not even the rest of this one line fits: cut it.
            last, end = first, start + MAX_CHARACTERS
            following = (first, column + MAX_CHARACTERS)
        return {
            "content": self._text[start:end],
            "first_line": first,
            "last_line": last,
            "total_lines": self.total,
            **({"next": {"offset": following[0], "column": following[1]}} if following else {}),
        }

    def _line_end(self, position: int) -> int:
        return self._text.find("\n", position) + 1 or len(self._text)

    def _line_start(self, line: int) -> int:
        position, left = 0, line - 1
        while (ends := self._text.count("\n", position, position + _STEP)) < left:
            position, left = position + _STEP, left - ends
        for _ in range(left):
            position = self._line_end(position)
        return position


def _number_lines(content: str, first: int) -> str:
    if not content:
        return content
    lines = content.removesuffix("\n").split("\n")
    shown = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, first))
    return f"{shown}\n" if content.endswith("\n") else shown
