"""Into which tokens does text divide that was meant as JSON, and where does it end?

Unlike a JSON parser, the lexer accepts what models write instead: single quotes, words without
quotes, comments, line breaks inside strings. Its time is linear in the text.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Final, NamedTuple

CONTROL: Final = "control characters in a string, such as line breaks, were taken as they are"
MAX_DEPTH: Final = 500
"""How deep arguments may nest: Python's parser fails at about twice that."""


MAX_TOKENS: Final = 10_000
"""The most tokens kept of a text; beyond, only its end is found."""


class TokenKind:
    """The kinds of tokens; brackets, commas and colons are their own kinds."""

    STRING = "string"
    WORD = "word"
    COMMENT = "comment"


class JSONToken(NamedTuple):
    kind: str
    text: str
    start: int
    """The offset in characters."""


class LexedText(NamedTuple):
    tokens: list[JSONToken]
    """Without white space; only the first `MAX_TOKENS`."""
    unfinished: str | None
    """The kind of value that the text breaks off in; None: none."""


# Every quantifier is possessive or stands before what it cannot match: no text is scanned twice.
# Those of groups are not, because Python 3.11 may then match wrongly (gh-101955).
_TOKEN: Final = re.compile(
    r"""
      (?P<space>[\s\ufeff]++)
    | (?P<mark>[{}\[\],:])
    | (?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*" | '[^'\\]*+(?:\\.[^'\\]*+)*')
    | (?P<comment>//[^\n]*+ | \#[^\n]*+ | /\*[^*]*+\*++(?:[^/*][^*]*+\*++)*/)
    | (?P<open>["'] | /\*)
    | (?P<value>(?:-?[0-9][0-9.eE+-]*+|true|false|null|True|False|None)(?=/\*|//\s|\#\s))
    | (?P<word>[^\s{}\[\],:"']++(?:[^\S\n]++[^\s{}\[\],:"'/\#]++)*)
    """,
    re.VERBOSE | re.DOTALL,
)
_STRINGS: Final = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*"|\'[^\'\\]*+(?:\\.[^\'\\]*+)*\'', re.DOTALL
)
_DOUBLE: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*(?:"|\Z)', re.DOTALL)
_NO_BRACKETS: Final = re.compile(r"[^{}\[\]]++")
_STEPS: Final = {"{": 1, "[": 1, "}": -1, "]": -1}
_ESCAPE: Final = re.compile(r"\\(?s:.)|\"")


def lex_text(text: str) -> LexedText:
    tokens: list[JSONToken] = []
    depth = place = 0
    while match := _TOKEN.match(text, place):
        kind, start, place = str(match.lastgroup), place, match.end()
        if kind == "space":
            continue
        if len(tokens) > MAX_TOKENS:
            return LexedText(tokens, _find_unfinished(text[start:], depth))
        if kind == "open" and (match[0] != "/*" or depth > 0 or not tokens):
            what = "a comment" if match[0] == "/*" else "a string"
            return LexedText(tokens, f"{what} that begins at character {start}")
        if kind == "mark":
            kind = match[0]
            depth += (kind in "{[") - (kind in "}]")
        if kind == "open":
            # An unclosed comment after the arguments.
            tokens.append(JSONToken(TokenKind.COMMENT, text[start:], start))
            break
        tokens.append(JSONToken(TokenKind.WORD if kind == "value" else kind, match[0], start))
    if depth > 0 and tokens[-1].kind == TokenKind.COMMENT and _is_closing(tokens[-1].text, depth):
        return LexedText(tokens, None)
    unfinished = f"{depth} open brackets" if depth > 1 else "an open bracket" if depth else None
    return LexedText(tokens, unfinished if depth > 0 else None)


def _find_unfinished(rest: str, depth: int) -> str | None:
    bare = _STRINGS.sub("", rest)
    if '"' in bare:
        return "a string"
    depth += bare.count("{") + bare.count("[") - bare.count("}") - bare.count("]")
    return f"{depth} open brackets" if depth > 1 else "an open bracket" if depth > 0 else None


def _is_closing(comment: str, depth: int) -> bool:
    """Detect closing brackets inside an apparent comment, as in `https://a.org/}`."""
    end = comment.rstrip(" \t\r\n}]")
    return comment.count("}", len(end)) + comment.count("]", len(end)) >= depth


def read_string(token: JSONToken) -> str:
    """Return the value of a string token.

    Raises:
        ValueError: It has an escape that JSON does not know, so it is ambiguous.
    """
    inner = _ESCAPE.sub(_escape_for_json, token.text[1:-1])
    return str(json.loads(f'"{inner}"', strict=False))


def _escape_for_json(match: re.Match[str]) -> str:
    found = match[0]
    return "'" if found == "\\'" else '\\"' if found == '"' else found


def nests_too_deep(text: str) -> bool:
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    brackets = _NO_BRACKETS.sub("", _DOUBLE.sub("", text))
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_DEPTH
