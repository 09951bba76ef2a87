"""What does the body of an HTTP answer say?

A body is JSON only if its content type says so; text is decoded by the declared charset, else by
what fits; anything else is described, never guessed. The work on a body is bounded: a few bytes can
stand for very many values, and bytes that are wrong for their charset decode slowly.
"""

from __future__ import annotations

import base64
import codecs
import re
from functools import lru_cache
from typing import Any, Final

import msgspec

from tool_engine.redaction import redact_text
from tool_engine.redaction.text import place_to_cut

_MAX_BINARY: Final = 64 * 1024
# A reading cannot be interrupted: these take about 0.1 s, and block everything else.
_MOST: Final = (
    ((b"[", b"{"), 200_000, "lists and objects"),
    ((b":",), 250_000, "entries of objects"),
    ((b",",), 1_000_000, "values"),
)
_SMALL: Final = 200_000
"""Bytes that cannot exceed any of these limits."""
_LOOKED_AT: Final = 32 * 1024
_MAX_EXCERPT: Final = 4096
_UTF16_BOMS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BOMS: Final = {"utf-16": _UTF16_BOMS, "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)}
_PIECE: Final = 64 * 1024
_JSON_TYPE: Final = re.compile(r"(?:application|text)/(?:[\w.+\-]+\+)?json", re.ASCII)
_TEXT_TYPE: Final = re.compile(
    r"text/.*|.*\+(?:xml|yaml)|application/(?:xml|xhtml\+xml|javascript|ecmascript|yaml|x-yaml|"
    r"toml|sql|graphql|x-www-form-urlencoded|x-ndjson|jsonl|ld\+json)",
    re.ASCII,
)
_META_CHARSET: Final = re.compile(rb"""<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?
    ([A-Za-z0-9_\-]{2,20})""", re.IGNORECASE | re.VERBOSE)  # fmt: skip
# Python has encodings that are slow on hostile bytes, such as punycode, so these only.
_CHARSETS: Final = re.compile(
    r"ascii|utf-8|utf-8-sig|utf-16|utf-16-le|utf-16-be|utf-32|utf-32-le|utf-32-be|iso8859-\d+|"
    r"cp\d{3,4}|koi8-[ru]|gb2312|gbk|gb18030|big5|big5hkscs|shift_jis|euc_jp|euc_kr|iso2022_jp|"
    r"mac-roman|tis-620"
)


class BodyError(ValueError):
    """A body is not what its content type says; the message says where."""


@lru_cache(maxsize=256)
def is_json_type(content_type: str) -> bool:
    return _JSON_TYPE.fullmatch(content_type.lower()) is not None


def read_json(body: bytes, charset: str | None) -> Any:
    """Return the JSON value in `body`; raise `BodyError`.

    Of a name that an object has twice the last value counts, as everywhere (ECMA-262, JSON.parse).
    A number beyond the range of a float, NaN, too deep nesting and too many values are errors.
    """
    codec = _known_charset(charset)
    try:
        if codec not in (None, "utf-8-sig", "ascii"):
            body = body.decode(codec).encode()
        _check_count(body)
        return msgspec.json.decode(body.removeprefix(codecs.BOM_UTF8))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BodyError(str(error)) from None
    except RecursionError:
        raise BodyError("nested too deep") from None


def read_body(body: bytes, content_type: str, charset: str | None) -> Any:
    """Return a JSON value, a text, or a description of binary data.

    Binary data is `{"content_type", "size", "base64"}`, with a `note` instead of `base64` where
    it is larger than 64 KiB. JSON that cannot be read is returned as the text it is.
    """
    if not body:
        return None
    if is_json_type(content_type):
        try:
            return read_json(body, charset)
        except BodyError:
            return _decode_body(body, charset, is_declared=True)
    text = _decode_body(body, charset, is_declared=_is_text_type(content_type))
    return _describe_bytes(body, content_type) if text is None else text


def make_excerpt(body: bytes, content_type: str, charset: str | None) -> str:
    start, is_whole = body[:_LOOKED_AT], len(body) <= _LOOKED_AT
    is_declared = _is_text_type(content_type)
    value = _decode_body(start, charset, is_declared=is_declared, is_whole=is_whole) or ""
    # A server may echo a secret across the cut, and half of it would not be recognised.
    value = redact_text(value[: place_to_cut(value, _MAX_EXCERPT)])
    line = " ".join("".join(char if char.isprintable() else " " for char in value).split())
    if not line:
        return f"{len(body)} bytes of {content_type}" if body else "no body"
    return line if len(line) <= 300 else f"{line[:300]}…"


def _is_text_type(content_type: str) -> bool:
    return _TEXT_TYPE.fullmatch(content_type.lower()) is not None or is_json_type(content_type)


def _decode_body(
    body: bytes, charset: str | None, *, is_declared: bool, is_whole: bool = True
) -> str | None:
    """Return the text of `body`; None if undeclared and not text."""
    codec = _known_charset(charset)
    if codec is None:
        codec = "utf-16" if is_declared and body.startswith(_UTF16_BOMS) else "utf-8-sig"
    codec = _with_byte_order(codec, body)
    try:
        text = codecs.getincrementaldecoder(codec)().decode(body, final=is_whole)
    except UnicodeDecodeError:
        return _doubtful_text(body, charset) if is_declared else None
    return text if is_declared or "\x00" not in text else None


def _doubtful_text(body: bytes, charset: str | None) -> str:
    meta = _META_CHARSET.search(body[:2048])
    codec = _known_charset(charset) or (_known_charset(meta[1].decode("ascii")) if meta else None)
    # Browsers read an undeclared text as windows-1252.
    codec = _with_byte_order(codec or "cp1252", body)
    decoder = codecs.getincrementaldecoder(codec)("replace")
    # In pieces: one call for megabytes of wrong bytes would block everything for a second.
    texts = [decoder.decode(body[at : at + _PIECE]) for at in range(0, len(body), _PIECE)]
    return "".join([*texts, decoder.decode(b"", final=True)])


def _with_byte_order(codec: str, body: bytes) -> str:
    if codec not in _BOMS or body.startswith(_BOMS[codec]):
        return codec
    return f"{codec}-le"  # as browsers do


def _check_count(body: bytes) -> None:
    # Signs inside of texts count too: excluding them would cost more than the reading.
    if len(body) <= _SMALL:
        return
    for signs, most, what in _MOST:
        if sum(map(body.count, signs)) > most:
            raise BodyError(f"it has more than {most} {what}; ask for less")


def _known_charset(charset: str | None) -> str | None:
    if charset is None:
        return None
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return None
    if name == "utf-8":
        return "utf-8-sig"
    return name if _CHARSETS.fullmatch(name) else None


def _describe_bytes(body: bytes, content_type: str) -> dict[str, Any]:
    described: dict[str, Any] = {"content_type": content_type, "size": len(body)}
    if len(body) <= _MAX_BINARY:
        described["base64"] = base64.b64encode(body).decode("ascii")
    else:
        described["note"] = (
            f"{len(body)} bytes of binary data were left out; at most {_MAX_BINARY} are returned"
        )
    return described
