"""Of which tokens is a text made that was meant as JSON, and does it end inside a value?

Unlike a JSON parser, the lexer takes what models write instead: single quotes, words without
quotes, comments, line breaks inside strings. It takes time in proportion to the text.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Final, NamedTuple

__all__ = [
    "CONTROL",
    "MAX_DEPTH",
    "MAX_TOKENS",
    "JSONToken",
    "LexedText",
    "TokenKind",
    "lex",
    "nests_too_deep",
    "string_of",
]

CONTROL: Final = "control characters in a string, such as line breaks, were taken as they are"
"""The repair that takes them so."""
MAX_DEPTH: Final = 500
"""How deep arguments may nest: the parser of Python ends at about twice that."""


MAX_TOKENS: Final = 10_000
"""Of a text that is taken apart; of a longer one it is only said where it ends."""


class TokenKind:
    """What a token is; a bracket, a comma and a colon are their own kind."""

    STRING = "string"
    WORD = "word"
    COMMENT = "comment"


class JSONToken(NamedTuple):
    """One piece of the text."""

    kind: str
    text: str
    """As it was written."""
    start: int
    """Where it begins, in characters."""


class LexedText(NamedTuple):
    """What a text is made of."""

    tokens: list[JSONToken]
    """Without white space; of more than `MAX_TOKENS`, the first ones."""
    unfinished: str | None
    """What the text ends in the middle of; None: of nothing."""


# Every quantifier is possessive or stands before what it cannot match: no text is read twice. Those
# of groups are not possessive, because Python 3.11 may then match what does not fit (gh-101955).
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


def lex(text: str) -> LexedText:
    """Takes a text apart."""
    tokens: list[JSONToken] = []
    depth = place = 0
    while match := _TOKEN.match(text, place):
        kind, start, place = str(match.lastgroup), place, match.end()
        if kind == "space":
            continue
        if len(tokens) > MAX_TOKENS:
            return LexedText(tokens, _unfinished(text[start:], depth))
        if kind == "open" and (match[0] != "/*" or depth > 0 or not tokens):
            what = "a comment" if match[0] == "/*" else "a string"
            return LexedText(tokens, f"{what} that begins at character {start}")
        if kind == "mark":
            kind = match[0]
            depth += (kind in "{[") - (kind in "}]")
        if kind == "open":
            # A comment that nothing closes, after all that could be arguments.
            tokens.append(JSONToken(TokenKind.COMMENT, text[start:], start))
            break
        tokens.append(JSONToken(TokenKind.WORD if kind == "value" else kind, match[0], start))
    if depth > 0 and tokens[-1].kind == TokenKind.COMMENT and _closes(tokens[-1].text, depth):
        return LexedText(tokens, None)
    unfinished = f"{depth} open brackets" if depth > 1 else "an open bracket" if depth else None
    return LexedText(tokens, unfinished if depth > 0 else None)


def _unfinished(rest: str, depth: int) -> str | None:
    """What the rest of a long text ends in, without a look at each token of it."""
    bare = _STRINGS.sub("", rest)
    if '"' in bare:
        return "a string"
    depth += bare.count("{") + bare.count("[") - bare.count("}") - bare.count("]")
    return f"{depth} open brackets" if depth > 1 else "an open bracket" if depth > 0 else None


def _closes(comment: str, depth: int) -> bool:
    """Whether what looks like a comment, as in `https://a.org/}`, has the brackets at its end."""
    end = comment.rstrip(" \t\r\n}]")
    return comment.count("}", len(end)) + comment.count("]", len(end)) >= depth


def string_of(token: JSONToken) -> str:
    """What a string token says.

    Raises:
        ValueError: It has an escape that JSON does not know: it can be meant in two ways.
    """
    inner = _ESCAPE.sub(_json_escape, token.text[1:-1])
    return str(json.loads(f'"{inner}"', strict=False))


def _json_escape(match: re.Match[str]) -> str:
    found = match[0]
    return "'" if found == "\\'" else '\\"' if found == '"' else found


def nests_too_deep(text: str) -> bool:
    """Whether brackets outside of strings nest deeper than `MAX_DEPTH`."""
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    brackets = _NO_BRACKETS.sub("", _DOUBLE.sub("", text))
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_DEPTH
