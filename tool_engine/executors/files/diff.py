"""What does an edit look like as a unified diff?

The changed places are known, so nothing is searched for: the cost is that of the shown lines.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_CONTEXT: Final = 3
_MOST_CHARACTERS: Final = 20_000
_NO_NEWLINE: Final = "\n\\ No newline at end of file\n"


class Change(NamedTuple):
    """One replaced part of a text."""

    start: int
    end: int
    new: str


class _Span(NamedTuple):
    start: int
    end: int
    changes: list[Change]

    @property
    def size(self) -> int:
        return 2 * (self.end - self.start) + sum(len(change.new) for change in self.changes)


def apply_changes(text: str, changes: list[Change], start: int = 0, end: int | None = None) -> str:
    """Return a part of the text with the ordered, separate changes made."""
    parts, position = [], start
    for change in changes:
        parts += [text[position : change.start], change.new]
        position = change.end
    return "".join([*parts, text[position:end]])


def unified_diff(text: str, changes: list[Change], path: str) -> str:
    """Return a diff; places beyond 20,000 characters are counted, not shown."""
    parts = [f"--- a/{path}\n+++ b/{path}\n"]
    room, shift, line, position = _MOST_CHARACTERS, 0, 1, 0
    hunks = _group_hunks(text, _find_spans(text, changes))
    for number, hunk in enumerate(hunks):
        room -= sum(span.size for span in hunk)
        if room < 0:
            parts.append(f"({len(hunks) - number} places more have changed)\n")
            break
        line += text.count("\n", position, hunk[0].start)
        position = hunk[0].start
        shown, growth = _write_hunk(text, hunk, line, shift)
        parts.append(shown)
        shift += growth
    return "".join(parts)


def _find_spans(text: str, changes: list[Change]) -> list[_Span]:
    spans: list[_Span] = []
    for change in changes:
        if spans and change.start < spans[-1].end:
            # The line is known: finding both ends again each time would take quadratic time.
            spans[-1].changes.append(change)
        else:
            start = text.rfind("\n", 0, change.start) + 1
            spans.append(_Span(start, start, [change]))
        span = spans[-1]
        end = max(span.end, change.end)
        if end > span.end:
            end = _line_end(text, change.end - 1)
        is_cut = bool(change.new) or change.start > span.start
        if change.end == end and is_cut and not change.new.endswith("\n"):
            # The line continues in the following one.
            end = _line_end(text, end)
        spans[-1] = span._replace(end=end)
    return spans


def _line_end(text: str, position: int) -> int:
    return text.find("\n", position) + 1 or len(text)


def _group_hunks(text: str, spans: list[_Span]) -> list[list[_Span]]:
    hunks: list[list[_Span]] = []
    for span in spans:
        if hunks and text.count("\n", hunks[-1][-1].end, span.start) <= 2 * _CONTEXT:
            hunks[-1].append(span)
        else:
            hunks.append([span])
    return hunks


def _write_hunk(text: str, hunk: list[_Span], line: int, shift: int) -> tuple[str, int]:
    """Return a hunk's text and by how many lines it grows."""
    start = hunk[0].start
    for _ in range(_CONTEXT):
        start = text.rfind("\n", 0, max(start - 1, 0)) + 1
    stop = hunk[-1].end
    for _ in range(_CONTEXT):
        stop = _line_end(text, stop)
    lines: list[str] = []
    position = start
    for span in hunk:
        lines += _mark_lines(" ", text[position : span.start])
        lines += _mark_lines("-", text[span.start : span.end])
        lines += _mark_lines("+", apply_changes(text, span.changes, span.start, span.end))
        position = span.end
    lines += _mark_lines(" ", text[position:stop])
    old = sum(each[0] != "+" for each in lines)
    new = sum(each[0] != "-" for each in lines)
    first = line - text.count("\n", start, hunk[0].start)
    begins = f"-{first},{old} +{first + shift - (new == 0)},{new}"
    return f"@@ {begins} @@\n{''.join(lines)}", new - old


def _mark_lines(mark: str, text: str) -> list[str]:
    if not text:
        return []
    lines = text.removesuffix("\n").split("\n")
    marked = [f"{mark}{line}\n" for line in lines]
    if not text.endswith("\n"):
        marked[-1] = f"{mark}{lines[-1]}{_NO_NEWLINE}"
    return marked
