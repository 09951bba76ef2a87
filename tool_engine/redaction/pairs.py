"""Where in a text does a secret's value follow its name (`password=x`)?

Query strings, connection strings, command lines, headers, JSON and Python in text. In prose a name
followed by a colon is no assignment (`token: the one you got`), so a bare value after a colon has
to look like one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tool_engine.redaction.secret_names import is_secret_key

_MOST_FINDS: Final = 1_000
"""A text with more secret names is hidden from there on: it was made to take long."""

_MOST_LOOKED_AT: Final = 100_000
"""The same for elements and cells of any name."""
HINTS: Final = (
    *("pass", "pwd", "secret", "token", "key", "auth", "cookie", "cred", "session", "sess", "dsn"),
    *("conn", "jwt", "bearer", "otp", "cvv", "cvc", "code", "phrase", "signature", "mnemonic"),
    *("wort", "senha", "contrase", "парол", "密", "口令", "パスワード", "비밀", "kubeconfig"),
    *("assertion", "answer", "verifier", "令牌", "權杖", "トークン", "토큰", "秘"),
)
"""Every name of a secret contains one of them."""
_NAME: Final = re.compile(
    r"(?<![\w.])([^\W\d][\w.\-]{1,63}+)(?:\\*+[\"'])?"
    r"(?P<sign>[ \t]{0,4}+(?:=>|:=|==?|:)[ \t]{0,4}+)"
)
_OPTION: Final = re.compile(
    r"(?<![^\s\"'`(\[,])--?([A-Za-z][\w\-]{1,40}+)(?:\\*+[\"'],?|,)?[ \t]{1,4}+"
)
_CURL_USER: Final = re.compile(r"(?<=\s)(?:-u|--user|--proxy-user)[\s=]{0,3}[\"']?[^\s:\"']{1,99}:")
_QUOTED: Final = re.compile(
    r"\"\"\"(.*?)(?:\"\"\"|\Z)|'''(.*?)(?:'''|\Z)"
    r"|\"([^\"\\]*+(?:\\.[^\"\\]*+)*)|'([^'\\]*+(?:\\.[^'\\]*+)*)|`([^`]*+)",
    re.DOTALL,
)
_BLOCK: Final = re.compile(r"[|>][-+0-9]{0,2}[ \t]*+(?:#[^\r\n]*+)?\r?\n")
"""The mark before an indented block of text in YAML."""
_ELEMENT: Final = re.compile(
    r"<(?:[\w.\-]{1,64}:)?(\w[\w.\-]{1,63}+)(?:\s[^<>]{0,256}+)?>(?:<!\[CDATA\[)?([^<>]++)"
    r"(?:(?=</)|(?<=\]\]))"
)
_ATTRIBUTE: Final = re.compile(
    r"\b(?:name|key|id)=[\"']([\w.\-]{2,64}+)[\"']"
    r"(?:[^<>]{0,64}?\bvalue=[\"']([^\"'<>]++)|[^<>]{0,256}+>([^<>]++))"
)
_CELL: Final = re.compile(
    r"\|[ \t]{0,40}+[*`]{0,3}+([^\W\d][\w.\- ]{1,63}+)[*`]{0,3}+[ \t]{0,40}+"
    r"(?=\|[ \t]{0,40}+[*`]{0,3}+([^\s|`]++)[*`]{0,3}+[ \t]{0,40}+\|)"
)
"""A cell of a Markdown table and the next one, if that is a single word."""
_QUOTED_TWICE: Final = re.compile(r"\\++([\"'])([^\"'\\]*+)")
_BARE: Final = re.compile(r"[^\s\"'`&;,<>\\]+")
_BARE_OPTION: Final = re.compile(r"[^\s\"'`]+")
_SCHEME: Final = re.compile(r"(?:Bearer|Basic|Token|Negotiate|ApiKey|Bot)[ \t]{1,4}+", re.I)
_LINES: Final = {quote: re.compile(rf"[^\r\n{quote}]+") for quote in ("", "'", '"', "`")}
"""The rest of a line or of a quoted part, by the quote before the name."""
_SENTENCE: Final = re.compile(r"[A-Za-z ,.]*+")
_WORDY: Final = re.compile(r"[^\d]{0,15}")
_CODE: Final = re.compile(r"[^\W\d][\w.]{0,99}[(\[{]")
_STAND_IN: Final = re.compile(
    r"(?:none|null|nil|undefined|true|false|yes|no|on|off|required|optional|basic|bearer|include|omit"
    r"|str|string|int|integer|number|bool|boolean|bytes|text|object|array"
    r"|\*+|\.{3}|…|\?|\[hidden\]|%\(?\w{0,40}\)?s|\$\{[^{}]{0,99}\}|\{[^{}]{0,99}\}|<[^<>]{0,99}>)"
    r"[.,:)\]}>]*+",
    re.I,
)
"""Texts that stand for a missing value."""
_VARIABLE: Final = re.compile(r"\$[A-Z_][A-Z0-9_]*")
_PARAMETER: Final = re.compile(r":\w+")
_QUOTES: Final = frozenset("\"'`")
_BLOCK_MARKS: Final = frozenset("|>")
_CLOSING: Final = ".,:)]}>"
_SHORTEST: Final = 4
_LONGEST_STAND_IN: Final = 110
_MARGIN: Final = 40
_MARKS: Final = " \t-\"'+>#"
"""Characters before the first word of a line, at most forty of them."""

Span = tuple[int, int]


def pair_spans(text: str) -> Iterator[Span]:
    """Yield the spans of values that follow the name of a secret."""
    has_options, has_tags, has_cells = "-" in text, "<" in text, "|" in text
    if not ("=" in text or ":" in text or has_options or has_tags or has_cells):
        return
    small = text.lower()
    if any(hint in small for hint in HINTS):
        yield from _take_first(_find_assigned(text), text)
        if has_tags and ">" in text:
            yield from _take_first(_find_tagged(text), text)
        if has_cells:
            yield from _take_first(_in_cells(text), text)
        if has_options:
            yield from _take_first(_find_options(text), text)
    if "curl" in small:
        users = (
            span for user in _CURL_USER.finditer(text) for span in _find_option(text, user.end())
        )
        yield from _take_first(users, text)


def _take_first(spans: Iterator[Span], text: str) -> Iterator[Span]:
    """Yield up to so many spans; the rest of the text is one then."""
    for number, (start, end) in enumerate(spans, 1):
        if number > _MOST_FINDS:
            yield start, len(text)
            return
        yield start, end


def _find_assigned(text: str) -> Iterator[Span]:
    name, names = _NAME.search(text), 0
    while name is not None:
        after = name.end()
        if is_secret_key(name[1]):
            names += 1
            if names > _MOST_FINDS:
                yield after, len(text)
                return
            for span in _find_value(text, name):
                yield span
                # A value that is hidden already is not searched again.
                after = max(after, span[1])
        name = _NAME.search(text, after)


def _find_options(text: str) -> Iterator[Span]:
    for option in _OPTION.finditer(text):
        if is_secret_key(option[1]):
            yield from _find_option(text, option.end())


def _find_value(text: str, name: re.Match[str]) -> Iterator[Span]:
    start = name.end()
    first = text[start : start + 1]
    if first in _BLOCK_MARKS and (block := _BLOCK.match(text, start)) is not None:
        yield from _find_indented(text, name.start(), block.end())
        return
    pattern = _QUOTED if first in _QUOTES else _QUOTED_TWICE if first == "\\" else None
    quoted = None if pattern is None else pattern.match(text, start)
    if quoted is not None:
        yield from _trim_span(text, quoted.span(quoted.lastindex or 0), name[1])
    elif _is_header(name[1]):
        yield from _find_header(text, start, name)
    else:
        bare = None if _CODE.match(text, start) else _BARE.match(text, start)
        if bare is not None and not _is_prose(text, name, bare):
            yield from _without_closing(bare)


def _find_indented(text: str, name: int, start: int) -> Iterator[Span]:
    """Yield the block's lines, which are indented more than its name."""
    indent = name - max(text.rfind("\n", 0, name), text.rfind("\r", 0, name)) - 1
    end = place = start
    while place < len(text):
        stop = text.find("\n", place)
        stop = len(text) if stop < 0 else stop
        line = text[place:stop]
        if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
            break
        end = stop if line.strip() else end
        place = stop + 1
    if end > start:
        yield start + len(text[start:end]) - len(text[start:end].lstrip()), end


def _find_tagged(text: str) -> Iterator[Span]:
    """Yield the text of XML elements with a secret name or attribute."""
    for pattern in (_ELEMENT, _ATTRIBUTE):
        for number, found in enumerate(pattern.finditer(text)):
            if number >= _MOST_LOOKED_AT:
                yield found.start(), len(text)
                return
            value = found[found.lastindex or 0]
            if value.strip() and is_secret_key(found[1]) and not _stands_in(value.strip()):
                yield found.span(found.lastindex or 0)


def _in_cells(text: str) -> Iterator[Span]:
    """Yield table cells that follow a secret's name; a mere word may be a heading."""
    for number, found in enumerate(_CELL.finditer(text)):
        if number >= _MOST_LOOKED_AT:
            yield found.start(), len(text)
            return
        value = found[2]
        if _WORDY.fullmatch(value) is None and is_secret_key(found[1].strip()):
            yield from _trim_span(text, found.span(2), found[1])


def _trim_span(text: str, span: Span, name: str) -> Iterator[Span]:
    start, end = span
    if _is_header(name):
        scheme = _SCHEME.match(text, start, end)
        start = start if scheme is None else scheme.end()
    if start < end and not _stands_in(text[start:end]):
        yield start, end


def _is_header(name: str) -> bool:
    return name.lower().endswith(("authorization", "cookie"))


def _find_header(text: str, start: int, name: re.Match[str]) -> Iterator[Span]:
    scheme = _SCHEME.match(text, start)
    if scheme is not None:
        value = _BARE.match(text, scheme.end())
    else:
        quote = _quote_before(text, name)
        value = _LINES[quote].match(text, start)
        if value is None or (not quote and _is_sentence(text, name, value)):
            return
    if value is not None:
        yield from _trim_span(text, value.span(), name[1])


def _is_sentence(text: str, name: re.Match[str], value: re.Match[str]) -> bool:
    is_wordy = _SENTENCE.fullmatch(value[0]) is not None
    is_long = value[0].count(" ") > 1
    return is_wordy and (is_long or not _begins_line(text, name.start()))


def _quote_before(text: str, name: re.Match[str]) -> str:
    before = text[max(0, name.start() - 1) : name.start()]
    return before if before in _LINES else ""


def _is_prose(text: str, name: re.Match[str], value: re.Match[str]) -> bool:
    """Return True if the text after a name is a sentence about it."""
    word = value[0].rstrip(_CLOSING)
    if len(word) >= _SHORTEST and _WORDY.fullmatch(word) is None:
        return False
    sign = name["sign"]
    is_json = text[name.start("sign") - 1] == '"'
    if is_json or ("=" in sign and (sign.strip() == sign or name.start() == 0)):
        return False
    if text[value.end() : value.end() + 1] == _quote_before(text, name) != "":
        return False
    return not (_ends_line(text, value.end()) and _begins_line(text, name.start()))


def _begins_line(text: str, at: int) -> bool:
    start = max(0, at - _MARGIN)
    _, is_cut, before = text[start:at].rpartition("\n")
    return bool(is_cut or not start) and not before.strip(_MARKS)


def _ends_line(text: str, at: int) -> bool:
    rest = text[at : at + 3].lstrip(" \t,;\"'")
    return not rest or rest[0] in "\r\n"


def _find_option(text: str, start: int) -> Iterator[Span]:
    opening = 1 if text[start : start + 1] in ("'", '"') else 0
    value = _BARE_OPTION.match(text, start + opening)
    if value is None or value[0].startswith("-") or value[0].isdigit():
        return
    yield from _without_closing(value)


def _without_closing(value: re.Match[str]) -> Iterator[Span]:
    """Yield a bare value without the closing brackets and stops of its sentence."""
    start, text = value.start(), value[0]
    if not _stands_in(text):
        yield start, start + len(text.rstrip(_CLOSING) or text)


def _stands_in(value: str) -> bool:
    if len(value) > _LONGEST_STAND_IN:
        return False
    if _STAND_IN.fullmatch(value) or _VARIABLE.fullmatch(value):
        return True
    return _PARAMETER.fullmatch(value) is not None and is_secret_key(value[1:])
