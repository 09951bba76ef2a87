"""Which texts does YAML cut or join so that they no longer say what their author wrote?

` #` begins a comment in a text without quotes, and a text that goes on in further lines has no line
breaks. Both are right YAML, so they are findings and no errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from tool_engine.catalog.yaml.document import Document, Path, list_leaves
from tool_engine.redaction import redact_text

_CUT: Final = re.compile(r"[^\s#][ \t]+#(?:\w|[ ]\d)")
_FOLDED: Final = re.compile(r":[ ]+>")
_COMMENTED: Final = re.compile(r"\bsql:[ ]+[^\s|\"'].*--")
_LISTED: Final = re.compile(
    r"""
      \n(?P<indent>[ ]*+)(?:-[ ]++)*[\w.-]++:[ ]++(?![|\[{\#])\S.*+\n
      (?P=indent)[ ]++(?:[-*\u2022]|\d+[.)]|\|)[ ]
    """,
    re.VERBOSE,
)
"""What stands in each text that is cut or joined, and in few others.

The last one begins with a line break, which is looked for faster than the start of a line, and
gives back few of what it took, as no shorter part of a line would fit.
"""
_COMMENT: Final = re.compile(
    r"[ \t]+#(?P<rest>(?!(?:lint|noqa|type|todo|fixme)\b)(?:\w|[ ]\d).*)", re.IGNORECASE
)
"""A comment that reads as the rest of a text."""
_ITEM: Final = re.compile(r"(?:[-*\u2022]|\d+[.)])[ \t]+\S|\|.*\|[ \t]*$")
"""A line of a list or of a table."""
_SQL_COMMENT: Final = re.compile(r"(?:^|\s)--(?:\s|$)")
_PROSE: Final = frozenset({"description", "title", "rules"})
_SHOWN: Final = 120


class LostText(NamedTuple):
    path: Path
    message: str
    line: int
    column: int


def find_lost_texts(
    document: Document, is_secret: Callable[[Path, Any], bool]
) -> Iterator[LostText]:
    """Yield what is lost of the texts of a document, in its order.

    Args:
        document: One document of a file.
        is_secret: Says of a path and the document's value that what stands there is not shown.
    """
    text = document.text
    # Not all of a file for each of its documents: a file may have thousands.
    if not _may_lose(document.own_lines()):
        return
    leaves = list_leaves(document.value)
    texts = [(path, value) for path, value in leaves if isinstance(value, str)]
    marks = document.marks((path, False) for path, _ in texts)
    for (path, value), mark in zip(texts, marks, strict=True):
        start = mark.index
        first = text[start : start + 1]
        end = _find_end(text, start, value)
        if end is None:
            continue
        if first not in "\"'>" and (found := _COMMENT.match(text, end)):
            if _is_prose(path) or " " in value:
                whole = (
                    "" if is_secret(path, document.value) else f"{value} #{found['rest'].rstrip()}"
                )
                yield _make_cut(path, whole, found, text)
        elif "\n" in text[start:end]:
            yield from _find_joined(path, text, start, end)


def _may_lose(text: str) -> bool:
    # Apart, and where there is such a sign: as one pattern they take three times as long.
    return bool(
        ("#" in text and _CUT.search(text))
        or _FOLDED.search(text)
        or ("sql:" in text and _COMMENTED.search(text))
        or _LISTED.search(f"\n{text}")
    )


def _find_end(text: str, start: int, value: str) -> int | None:
    """Return where a text without escapes ends, be it written in one line or in several."""
    if text.startswith("|", start) or not value.strip():
        return None
    begin = text.find("\n", start) if text.startswith(">", start) else start
    begin += text.startswith(("'", '"'), start)
    at = begin
    for word in value.split():
        while text[at : at + 1].isspace():
            at += 1
        if not text.startswith(word, at):
            return None
        at += len(word)
    return at


def _make_cut(path: Path, whole: str, found: re.Match[str], text: str) -> LostText:
    quoted = json.dumps(whole, ensure_ascii=False)
    shown = f": {redact_text(quoted)}" if whole and len(quoted) <= _SHOWN else ""
    message = (
        "the text ends before this #, which begins a comment in YAML; "
        f"quote the whole text{shown}, or write a blank after the # of a comment"
    )
    place = found.start("rest") - 1
    line_start = text.rfind("\n", 0, place) + 1
    return LostText(path, message, text.count("\n", 0, place) + 1, place - line_start + 1)


def _find_joined(path: Path, text: str, start: int, end: int) -> Iterator[LostText]:
    """Yield the first line that is a line of its own to its author alone."""
    is_sql = path[-1] == "sql"
    lines = text[start:end].split("\n")
    number = text.count("\n", 0, start) + 1
    is_folded = text.startswith(">", start)
    base = next((_count_indent(line) for line in lines[1:] if line.strip()), 0)
    for at, line in enumerate(lines[1:], 1):
        is_kept = is_folded and _count_indent(line) > base
        is_item = _ITEM.match(line.strip()) is not None and (at > 1 or not is_folded)
        is_comment = is_sql and at < len(lines) - 1 and _SQL_COMMENT.search(line) is not None
        if not is_kept and lines[at - 1].strip() and (is_item or is_comment):
            what = (
                "the rest is in this comment" if is_comment else "this line is no line of its own"
            )
            message = f"{what}: YAML joins the lines of the text; write | before it to keep them"
            yield LostText(path, message, number + at, _count_indent(line) + 1)
            return


def _count_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_prose(path: Path) -> bool:
    return bool(path) and path[-1] in _PROSE
