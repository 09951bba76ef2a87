"""Which marks does VCP write around calls, values and results, and how are they escaped?

A value may hold any text: between `「始ESCAPE」` and `「末ESCAPE」` every mark is written with one
`_ESCAPE` more, so that no value holds the mark that ends it.
"""

from __future__ import annotations

import re
from typing import Final

from tool_engine.protocols.text.grammar import Grammar, make_literal, make_token, one_of

Marks = tuple[str, str]
REQUEST: Final[Marks] = ("<<<[TOOL_REQUEST]>>>", "<<<[END_TOOL_REQUEST]>>>")
DEFINITION: Final[Marks] = ("<<<[TOOL_DEFINITION]>>>", "<<<[END_TOOL_DEFINITION]>>>")
RESULT: Final[Marks] = ("<<<[TOOL_RESULT]>>>", "<<<[END_TOOL_RESULT]>>>")
_QUOTED: Final = (
    make_literal("<<<[TOOL_REQUEST_ESCAPE]>>>"),
    make_literal("<<<[END_TOOL_REQUEST_ESCAPE]>>>"),
)


def _match_fuzzily(word: str) -> list[str]:
    return ["<", "<", "<?", "<?", *make_literal(f"[{word}]"), ">", ">"]


GRAMMAR: Final = Grammar({"request": make_literal(REQUEST[0])}, [_QUOTED])
FUZZY_GRAMMAR: Final = Grammar(
    {"request": _match_fuzzily("TOOL_REQUEST")}, [_QUOTED], flags=re.IGNORECASE
)

_OPEN: Final = {
    kind: make_token(name, make_literal(f"「始{kind}」"))
    for name, kind in (("plain", ""), ("escape", "ESCAPE"), ("exp", "exp"))
}
_START: Final = make_token("start", make_literal(REQUEST[0]))
_END: Final = make_token("end", make_literal(REQUEST[1]))
_FUZZY_START: Final = make_token("start", _match_fuzzily("TOOL_REQUEST"))
_FUZZY_END: Final = make_token("end", _match_fuzzily("END_TOOL_REQUEST"))
_FUZZY_OPEN: Final = make_token("fuzzy", ["[「{]", "始", r"\w{0,16}", "[」}]"])

BETWEEN: Final = one_of([*_OPEN.values(), _START, _END])
FUZZY_BETWEEN: Final = one_of([*_OPEN.values(), _FUZZY_OPEN, _FUZZY_START, _FUZZY_END], re.I)
CLOSERS: Final = {
    "plain": one_of([make_token("close", make_literal("「末」")), _END]),
    "exp": one_of([make_token("close", make_literal("「末exp」")), _END]),
    "escape": one_of([make_token("close", make_literal("「末ESCAPE」"))]),
}
"""The marks that count in a value, by the mark that opened it."""
_FUZZY_CLOSE: Final = one_of(
    [make_token("close", ["[「{]", "末", r"(?!ESCAPE)\w{0,16}", "[」}]"]), _FUZZY_END], re.I
)
FUZZY_CLOSERS: Final = {
    "plain": _FUZZY_CLOSE,
    "fuzzy": _FUZZY_CLOSE,
    "exp": one_of([make_token("close", make_literal("「末exp」")), _FUZZY_END], re.I),
    "escape": CLOSERS["escape"],
}

_ESCAPED: Final = re.compile(
    r"<<<\[(?:END_)?TOOL_REQUEST(?:_ESCAPE)*(?=\]>>>)"
    r"|「始(?:ESCAPE(?:_ESCAPE)*)?(?=」)"
    r"|「末ESCAPE(?:_ESCAPE)*(?=」)"
)
_PLAIN: Final = re.compile(r"「[始末]|<<<\[")


def escape_marks(value: str) -> str:
    """Return the text of `value` for between `「始ESCAPE」` and `「末ESCAPE」`."""
    return _ESCAPED.sub(lambda found: _lengthen_mark(found[0]), value)


def unescape_marks(text: str) -> str:
    return _ESCAPED.sub(lambda found: _shorten_mark(found[0]), text)


def _lengthen_mark(mark: str) -> str:
    return mark + ("ESCAPE" if mark == "「始" else "_ESCAPE")


def _shorten_mark(mark: str) -> str:
    return "「始" if mark == "「始ESCAPE" else mark.removesuffix("_ESCAPE")


def write_field(key: str, value: str) -> str:
    if _PLAIN.search(value) is None:
        return f"{key}:「始」{value}「末」"
    return f"{key}:「始ESCAPE」{escape_marks(value)}「末ESCAPE」"
