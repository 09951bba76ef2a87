"""What did the author mean by a text that YAML cannot parse, and how is it written?

Where a text has to be quoted, or a comment has to go, that is tried: a cure is named only if the
parser gets past the place with it.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import yaml

from tool_engine.errors import DefinitionProblem

_CURES: Final = (
    ("tab character", "indent with spaces"),
    ("token", "indent with spaces, and quote text that holds special characters"),
    ("expected ':'", "write key: value, and indent the text of a block"),
    ("'-' indicator", "begin the line with a dash, or indent it as the key after the dash above"),
    ("alphabetic or numeric", "quote text that begins with * or &"),
    ("mapping values", "quote text that holds a colon, and check the indentation"),
    ("expected ','", "close the bracket, or put a comma between"),
    ("end of stream", "close the quotation marks"),
    ("escape character", "write \\\\ for a backslash, or use 'single quotes'"),
    ("comment or line break", "begin the text on the next line, or quote it"),
    ("block sequence", "begin a list on the line below its key"),
    ("<document start>", "write a line --- before it"),
    ("directive", "remove the line"),
    ("PyYAML was", "import it once"),
    ("", "check this line and the ones before it"),
)
"""A part of the parser's message -> the cure; the first match counts."""
_UNSEEN_CAUSES: Final = (
    (
        re.compile(r"^(?:<{7}|={7}|>{7})(?!\S)", re.MULTILINE),
        "the mark of a merge that is not finished",
        "keep one side of it, without the marks",
    ),
    (
        re.compile(r"(?<=[:-])[\u00a0\u2000-\u200b\u202f\u3000]|^[ ]*[\u00a0\u3000]", re.MULTILINE),
        "a blank that YAML does not know as one",
        "write a plain blank",
    ),
)
"""What a text holds that the parser stumbles over later, what it is, and the cure."""
_PAIR: Final = re.compile(
    r"(?P<before>[ ]*(?:(?:- +)*(?P<key>[\w.-]+):[ ]+|(?:- +)+))(?P<text>\S.*?)[ ]*"
)
_PROSE: Final = frozenset({"description", "title", "summary", "message", "note"})
"""Keys of which the value is no list, number or mapping."""
_SIGN: Final = re.compile(r"(?:-\s+)+\d+(?:\.\d+)?")
"""A number with its sign apart."""
_BEGINS_ODDLY: Final = re.compile(
    r"""
      [@`%*&!]
    | [-?][ ]
    | "(?:[^"\\]|\\.)*"\s*[^\s\#,:]
    | '[^']*'\s*[^\s\#,:']
    | \[[^\[\]]*\]\s*[^\s\#,:\]]
    | \{[^{}]*\}\s*[^\s\#,:}]
    """,
    re.VERBOSE,
)
"""What begins as something else than the text that it is."""
_LONGEST: Final = 120
"""Characters of a text that a cure writes out."""


def find_problem(error: yaml.YAMLError, text: str, source: str) -> DefinitionProblem:
    """Return what is wrong where the parser stopped, with the nearest cure."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if problem := _find_unseen_cause(text, source):
        return problem
    context = getattr(error, "context", None)
    said = getattr(error, "problem", None) or str(error)
    cure = next(cure for part, cure in _CURES if part in said)
    if mark is not None:
        cure = next(_tried_cures(error, text, mark), cure)
    message = f"not valid YAML: {context + ', ' if context else ''}{said}; {cure}"
    if mark is None:
        return DefinitionProblem(message, source, cure=cure)
    return DefinitionProblem(message, source, mark.line + 1, mark.column + 1, cure=cure)


def _find_unseen_cause(text: str, source: str) -> DefinitionProblem | None:
    for pattern, what, cure in _UNSEEN_CAUSES:
        if found := pattern.search(text):
            line, start = text.count("\n", 0, found.start()) + 1, text.rfind("\n", 0, found.start())
            message = f"not valid YAML: {what}; {cure}"
            return DefinitionProblem(message, source, line, found.start() - start, cure=cure)
    return None


def _tried_cures(error: yaml.YAMLError, text: str, mark: Any) -> Iterator[str]:
    """Yield the cures of the line, or of a comment above it, that get the parser past it."""
    lines = text.splitlines()
    if mark.line >= len(lines):
        return
    before = lines[: mark.line]
    if pair := _PAIR.fullmatch(lines[mark.line]):
        value = pair["text"]
        if _SIGN.fullmatch(value) and pair["key"] not in _PROSE:
            yield "write a number without a blank behind its sign"
        has_colon = pair["key"] in _PROSE and "mapping values" in str(error)
        if has_colon or _BEGINS_ODDLY.match(value):
            quoted = _quote_text(value)
            mended = [*before, pair["before"] + quoted, *lines[mark.line + 1 :]]
            if _is_past(mended, mark.line):
                shown = quoted if len(quoted) <= _LONGEST else 'in "double quotes"'
                yield f"quote the whole text: {shown}"
    comments = [number for number, line in enumerate(before) if line.lstrip().startswith("#")]
    if comments and not any(line.strip() for line in before[comments[-1] + 1 :]):
        mended = [*before[: comments[-1]], "", *lines[comments[-1] + 1 :]]
        if _is_past(mended, mark.line):
            yield f"a comment ends a text that goes on below it: move line {comments[-1] + 1} away"


def _quote_text(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    return json.dumps(text, ensure_ascii=False)


def _is_past(lines: list[str], line: int) -> bool:
    """Return True if the parser gets past a line, counted from 0."""
    try:
        deque(yaml.parse("\n".join([*lines, ""]), Loader=_LOADER), maxlen=0)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return mark is not None and mark.line > line + 1
    return True


_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
