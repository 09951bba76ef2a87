"""How does `search_files` find matching lines, whatever its pattern and files are?

Files are searched in blocks of lines. A block without a match takes one step; only in the others
each line is examined. A step is short even for the costliest pattern, so that the rest of the
process never waits for it.
"""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.files.file_arguments import read_flag, read_text, read_whole
from tool_engine.executors.files.file_entry import FileEntry, compile_entry
from tool_engine.executors.files.pattern import (
    MOST_CHARACTERS,
    LinearPattern,
    glob_pattern,
    literal_pattern,
)
from tool_engine.executors.files.root import Place
from tool_engine.executors.files.text_content import read_content, status_of, text_of
from tool_engine.executors.files.tree import (
    DEFAULT_IGNORED,
    Budget,
    IgnoreRules,
    walk_tree,
)
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

MAX_DEPTH: Final = 64
_BLOCK: Final = 2_048
_SHOWN: Final = 500
"""The most characters that are shown of a line."""
_MOST_SHOWN: Final = 100_000
_DEFAULT_MATCHES: Final = 100
_MOST_MATCHES: Final = 1_000
_MOST_CONTEXT: Final = 10
# Constructs that mean something else in a block of lines than in one line.
_LINE_ONLY: Final = ("(?", "\\A", "\\z", "\\Z")


class FileSearchExecutor:
    """The executor of `search_files`: the lines that match a pattern, with their places."""

    def __init__(self) -> None:
        self._entries = CompiledEntries(compile_entry)

    def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        """Return the lines at or below `path` in which `pattern` is found.

        Returns:
            `matches` (each with `path` relative to the tool's folder, `line`, `text`, and the lines
            `before` and `after` when `context` asks for them), `files_searched`, and, when
            something was left out, `cut`: a sentence for each kind.

        Raises:
            ToolExecutionError: The pattern cannot be used, or there is no such folder.
        """
        entry = self._entries.of(tool)
        search = _Search(params, entry.max_bytes, Budget(context.deadline))
        with _list_places(entry, params, search.budget) as places:
            for place in places:
                search.take(place)
        return search.result()


@contextlib.contextmanager
def _list_places(
    entry: FileEntry, params: dict[str, Any], budget: Budget
) -> Iterator[Iterator[Place]]:
    root, path = entry.open(), read_text(params, "path", ".")
    glob = read_text(params, "glob", "")
    wanted = LinearPattern(glob_pattern(glob), "glob", glob) if glob else None
    ignored = DEFAULT_IGNORED if entry.ignore is None else entry.ignore
    rules = IgnoreRules(() if read_flag(params, "include_ignored") else ignored)
    if path.strip("./") and not path.endswith("/"):
        with root.place(path) as place:
            status = status_of(place)
            if status is not None and stat.S_ISREG(status.st_mode):
                yield iter([place])
                return
    with root.folder(path) as (folder, shown):
        prefix = "" if shown == "." else f"{shown}/"
        with contextlib.closing(walk_tree(folder, MAX_DEPTH, rules, budget)) as found:
            yield (
                each.place._replace(path=f"{prefix}{each.place.path}")
                for each in found
                if each.kind == "file" and (wanted is None or wanted.matches(each.place.path))
            )


class _Search:
    def __init__(self, params: dict[str, Any], max_bytes: int, budget: Budget) -> None:
        self.budget = budget
        self._max_bytes = max_bytes
        self._limit = read_whole(params, "limit", _DEFAULT_MATCHES, 1, _MOST_MATCHES)
        self._context = read_whole(params, "context", 0, 0, _MOST_CONTEXT)
        self._is_in_line, self._is_in_block = _make_tests(params)
        self._is_whole = read_flag(params, "literal") and not read_flag(params, "ignore_case")
        self._matches: list[dict[str, Any]] = []
        self._room = _MOST_SHOWN
        self._searched = 0
        self._left_out = 0
        self._long_lines = 0

    def take(self, place: Place) -> None:
        try:
            found = text_of(read_content(place, self._max_bytes).data, place.path)
        except ToolExecutionError:
            self._left_out += 1
            return
        self._searched += 1
        self._search_text(found.removeprefix("\ufeff").replace("\r\n", "\n"), place.path)

    def result(self) -> dict[str, Any]:
        if self._left_out:
            self.budget.note(
                f"{self._left_out} files were left out: binary, not UTF-8, not to be read, or "
                f"larger than {self._max_bytes} bytes"
            )
        if self._long_lines and not self._is_whole:
            self.budget.note(
                f"{self._long_lines} lines are longer than {MOST_CHARACTERS} characters; the "
                "pattern was looked for in their beginning; a literal text is looked for in all "
                "of a line"
            )
        cut = {"cut": list(self.budget.notes)} if self.budget.notes else {}
        return {"matches": self._matches, "files_searched": self._searched, **cut}

    def _search_text(self, whole_text: str, path: str) -> None:
        number, start = 1, 0
        while start < len(whole_text) and self.budget.spend():
            end = _block_end(whole_text, start)
            block = whole_text[start:end]
            if self._is_in_block(block):
                self._search_lines(whole_text, start, end, number, path)
            self._long_lines += end - start > MOST_CHARACTERS
            number += block.count("\n")
            start = end

    def _search_lines(self, whole_text: str, start: int, end: int, number: int, path: str) -> None:
        while start < end and not self.budget.is_used_up:
            stop = whole_text.find("\n", start, end)
            stop = end if stop < 0 else stop
            if self._is_in_line(whole_text[start:stop]):
                self._add_match(whole_text, start, stop, number, path)
            number, start = number + 1, stop + 1

    def _add_match(self, whole_text: str, start: int, stop: int, number: int, path: str) -> None:
        if len(self._matches) == self._limit or self._room < 0:
            self.budget.stop(
                f"stopped after {len(self._matches)} matches; there are more: narrow the pattern, "
                "the path or the glob"
            )
            return
        match: dict[str, Any] = {
            "path": path,
            "line": number,
            "text": _shorten_line(whole_text, start, stop),
        }
        if self._context:
            match["before"] = _lines_before(whole_text, start, self._context)
            match["after"] = _lines_after(whole_text, stop, self._context)
        self._room -= sum(
            map(len, (match["text"], *match.get("before", ()), *match.get("after", ())))
        )
        self._matches.append(match)


def _make_tests(params: dict[str, Any]) -> tuple[Callable[[str], bool], Callable[[str], bool]]:
    """Return two tests: is it in this line, and may it be in these lines?"""
    pattern, is_literal = read_text(params, "pattern"), read_flag(params, "literal")
    ignores_case = read_flag(params, "ignore_case")
    _check_pattern(pattern, is_literal=is_literal)
    if is_literal and not ignores_case:
        return partial(_holds_text, pattern), partial(_holds_text, pattern)
    source = literal_pattern(pattern) if is_literal else pattern
    case = "(?i)" if ignores_case else ""
    in_line = LinearPattern(f"{case}{source}", given=pattern).matches
    if any(part in source.replace("(?:", "") for part in _LINE_ONLY):
        return in_line, _always_true
    case = "(?mi)" if ignores_case else "(?m)"
    return in_line, LinearPattern(f"{case}{source}", given=pattern).matches


def _check_pattern(pattern: str, *, is_literal: bool) -> None:
    if not pattern:
        raise ToolExecutionError("the pattern is empty; give a text to look for")
    spans_lines = "\n" in pattern or (not is_literal and "\\n" in pattern.replace("\\\\", ""))
    if spans_lines:
        raise ToolExecutionError(
            "the pattern has a line feed in it, but each line is looked at alone; search for one "
            "line"
        )


def _holds_text(pattern: str, whole_text: str) -> bool:
    return pattern in whole_text


def _always_true(_block: str) -> bool:
    return True


def _block_end(whole_text: str, start: int) -> int:
    end = whole_text.rfind("\n", start, start + _BLOCK) + 1
    return end if end > start else whole_text.find("\n", start) + 1 or len(whole_text)


def _shorten_line(whole_text: str, start: int, stop: int) -> str:
    shown = whole_text[start : min(stop, start + _SHOWN)]
    rest = stop - start - len(shown)
    return f"{shown}… ({rest} characters more)" if rest else shown


def _lines_before(whole_text: str, start: int, count: int) -> list[str]:
    lines: list[str] = []
    while start > 0 and len(lines) < count:
        stop = start - 1
        start = whole_text.rfind("\n", 0, stop) + 1
        lines.insert(0, _shorten_line(whole_text, start, stop))
    return lines


def _lines_after(whole_text: str, stop: int, count: int) -> list[str]:
    lines: list[str] = []
    while stop + 1 < len(whole_text) and len(lines) < count:
        start = stop + 1
        found = whole_text.find("\n", start)
        stop = found if found >= 0 else len(whole_text)
        lines.append(_shorten_line(whole_text, start, stop))
    return lines
