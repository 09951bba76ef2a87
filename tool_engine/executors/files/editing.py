"""How does `edit_file` replace one text by another, without guessing which one was meant?

Lines are compared by their text: where the file ends them with CR LF and the call with LF alone,
they are equal, and the file keeps its endings.
"""

from __future__ import annotations

from typing import Any, Final

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.files.diff import Change, apply_changes, unified_diff
from tool_engine.executors.files.file_arguments import read_flag, read_text
from tool_engine.executors.files.file_entry import compile_entry
from tool_engine.executors.files.replacing import check_writable, lock_folder, put_content
from tool_engine.executors.files.text_content import read_content, text_of, version_of
from tool_engine.executors.files.writing import check_version, encode_content
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

_MOST_CHANGES: Final = 10_000
_MOST_SHOWN: Final = 10


class FileEditExecutor:
    """The executor of `edit_file`: it replaces one place, or all, of a text."""

    def __init__(self) -> None:
        self._entries = CompiledEntries(compile_entry)

    def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        """Replace `old_text` by `new_text` in the file at `path`.

        Returns:
            `path`, the number of `replacements`, a unified `diff` and the new `version`.

        Raises:
            ToolExecutionError: `old_text` is not there, or at several places without
                `replace_all`; or the file cannot be written. Then it is unchanged.
        """
        entry = self._entries.of(tool)
        old, new = read_text(params, "old_text"), read_text(params, "new_text")
        expected = read_text(params, "expected_version", "")
        path, deadline = read_text(params, "path"), context.deadline
        with entry.open().place(path, writes=True) as place, lock_folder(place, deadline):
            check_writable(place)
            found = read_content(place, entry.max_bytes)
            if expected:
                check_version(found.version, expected, place.path)
            before = text_of(found.data, place.path)
            changes = _find_changes(
                before, old, new, place.path, replaces_all=read_flag(params, "replace_all")
            )
            growth = sum(len(change.new) - (change.end - change.start) for change in changes)
            _check_growth(len(before) + growth, entry.max_bytes)
            data = encode_content(apply_changes(before, changes), "new_text", entry.max_bytes)
            put_content(place, data, found.status, deadline)
            return {
                "path": place.path,
                "replacements": len(changes),
                "diff": unified_diff(before, changes, place.path),
                "version": version_of(data),
            }

    def preview(self, tool: Tool, params: dict[str, Any]) -> str:
        """Return the diff for the approver; raise `ToolExecutionError` if it cannot be made."""
        entry = self._entries.of(tool)
        old, new = read_text(params, "old_text"), read_text(params, "new_text")
        with entry.open().place(read_text(params, "path"), writes=True) as place:
            check_writable(place)
            before = text_of(read_content(place, entry.max_bytes).data, place.path)
            replaces_all = read_flag(params, "replace_all")
            changes = _find_changes(before, old, new, place.path, replaces_all=replaces_all)
            return unified_diff(before, changes, place.path)


def _find_changes(
    before: str, old: str, new: str, path: str, *, replaces_all: bool
) -> list[Change]:
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if not old:
        raise ToolExecutionError("old_text is empty; give the text that is to be replaced")
    if old == new:
        raise ToolExecutionError("old_text and new_text are the same; nothing would change")
    plain = before.replace("\r\n", "\n")
    starts = _find_starts(plain, old, step=len(old) if replaces_all else 1)
    if not starts:
        raise _not_found(plain, old, path)
    if len(starts) > 1 and not replaces_all:
        raise _several_error(plain, starts, path)
    if len(starts) > _MOST_CHANGES:
        raise ToolExecutionError(
            f"old_text occurs more than {_MOST_CHANGES} times in {path!r}; give a longer text"
        )
    ending = "\r\n" if _ends_with_cr(before) else "\n"
    new = new.replace("\n", ending)
    place = _Positions(before)
    return [Change(place.of(start), place.of(start + len(old)), new) for start in starts]


def _find_starts(plain: str, old: str, *, step: int) -> list[int]:
    most = _MOST_SHOWN + 1 if step == 1 and len(old) > 1 else _MOST_CHANGES + 1
    starts: list[int] = []
    start = plain.find(old)
    while start >= 0 and len(starts) < most:
        starts.append(start)
        start = plain.find(old, start + step)
    return starts


class _Positions:
    """The positions in a text with CRs; ask in rising order."""

    def __init__(self, before: str) -> None:
        self._before = before
        self._passed = 0
        """The CRs before the last position: the texts differ by so many."""
        self._next = before.find("\r\n")

    def of(self, plain: int) -> int:
        """Return the position in the real text; never inside a line ending."""
        while 0 <= self._next < plain + self._passed:
            self._passed += 1
            self._next = self._before.find("\r\n", self._next + 2)
        return plain + self._passed


def _ends_with_cr(text: str) -> bool:
    with_cr = text.count("\r\n")
    return with_cr > text.count("\n") - with_cr


def _check_growth(size: int, max_bytes: int) -> None:
    # Check before making the new text: a short call must not make a huge one.
    if size > max_bytes:
        raise ToolExecutionError(
            f"the file would have more than {max_bytes} bytes, the most that this tool writes"
        )


def _several_error(plain: str, starts: list[int], path: str) -> ToolExecutionError:
    lines = [plain.count("\n", 0, start) + 1 for start in starts[:_MOST_SHOWN]]
    more = "or more " if len(starts) > _MOST_SHOWN else ""
    return ToolExecutionError(
        f"old_text occurs {len(lines)} {more}times in {path!r}, at the lines "
        f"{', '.join(map(str, lines))}; nothing was written: add lines around it until it is the "
        "only one, or set replace_all"
    )


def _not_found(plain: str, old: str, path: str) -> ToolExecutionError:
    first = next((line.strip() for line in old.split("\n") if line.strip()), "")
    lines: list[int] = []
    position = plain.find(first) if first else -1
    while position >= 0 and len(lines) < 3:
        lines.append(plain.count("\n", 0, position) + 1)
        position = plain.find(first, position + len(first))
    hint = (
        f"; {first[:80]!r} stands at line {', '.join(map(str, lines))}: look at blanks and at what "
        "follows"
        if lines
        else ""
    )
    return ToolExecutionError(
        f"old_text does not occur in {path!r}{hint}; nothing was written: read the file again"
    )
