"""What the body of an answer says, and what it is not taken for."""

from __future__ import annotations

import base64
import codecs
import json
from typing import Any

import pytest

from tool_engine.executors.http.body import (
    BodyError,
    is_json_type,
    make_excerpt,
    read_body,
    read_json,
)


@pytest.mark.parametrize(
    ("content_type", "is_json"),
    [
        ("application/json", True),
        ("Application/JSON", True),
        ("text/json", True),
        ("application/problem+json", True),
        ("application/vnd.github+json", True),
        ("text/html", False),
        ("application/jsonl", False),
        ("", False),
    ],
)
def test_is_json_type(content_type: str, is_json: bool) -> None:
    """JSON is what says so."""
    assert is_json_type(content_type) is is_json


@pytest.mark.parametrize(
    ("body", "content_type", "charset", "value"),
    [
        (b"", "application/json", None, None),
        (b'{"a": [1, 2.5, null]}', "application/json", None, {"a": [1, 2.5, None]}),
        (b'\xef\xbb\xbf{"a": 1}', "application/json", "utf-8", {"a": 1}),
        ('"é"'.encode("latin-1"), "application/json", "latin-1", "é"),
        ('"é"'.encode("utf-16"), "application/json", "utf-16", "é"),
        (b'{"a": 1}', "text/plain", None, '{"a": 1}'),
        (b"{broken", "application/json", None, "{broken"),
        (b"12345678901234567890123", "application/json", None, 12345678901234567890123),
        ("é".encode(), "text/plain", None, "é"),
        ("é".encode("latin-1"), "text/plain", "iso-8859-1", "é"),
        ("é€".encode("cp1252"), "text/html", None, "é€"),
        ("中文".encode("gbk"), "text/html", "gbk", "中文"),
        (
            b'<meta charset="gbk">' + "中文".encode("gbk"),
            "text/html",
            None,
            '<meta charset="gbk">中文',
        ),
        (b'<meta charset="punycode">\xe9', "text/html", None, '<meta charset="punycode">é'),
        (b"\xff", "text/plain", "utf-8", "�"),
        (b"plain", "", None, "plain"),
        (b"plain", "application/octet-stream", None, "plain"),
        (b"abc-", "text/plain", "punycode", "abc-"),
        (b"abc", "text/plain", "zlib", "abc"),
        (b"abc", "text/plain", "no such charset", "abc"),
        (b"abc", "text/plain", "a\x00b", "abc"),
        (b"<a/>", "application/atom+xml", None, "<a/>"),
        (b"\xff<", "application/atom+xml", None, "ÿ<"),
        ("é".encode("utf-16"), "text/plain", None, "é"),
        ("é".encode("utf-16"), "text/plain", "utf-16", "é"),
        ("é".encode("utf-16-le"), "text/plain", "utf-16", "é"),
        ("é".encode("utf-32-le"), "text/plain", "UTF-32", "é"),
        (b"\x00\xd8a\x00", "text/plain", "utf-16", "\ufffda"),
        (codecs.BOM_UTF8 + b"a", "text/plain", None, "a"),
        (codecs.BOM_UTF8 + b"a", "text/plain", "utf-8", "a"),
        (b'{"a": 1, "b": 2, "a": 3}', "application/json", None, {"a": 3, "b": 2}),
        (b"[NaN]", "application/json", None, "[NaN]"),
        (b'{"a": 1}', "application/octet-stream", None, '{"a": 1}'),
    ],
)
def test_read_body(body: bytes, content_type: str, charset: str | None, value: Any) -> None:
    """K14: JSON only by content type, text by its charset, else by what fits."""
    assert read_body(body, content_type, charset) == value


def test_binary() -> None:
    """Binary data is described; a small one is there as base64, a large one is not."""
    small = read_body(b"\x89PNG\xff", "image/png", None)
    assert small == {
        "content_type": "image/png",
        "size": 5,
        "base64": base64.b64encode(b"\x89PNG\xff").decode(),
    }
    assert read_body(b"a\x00b", "application/octet-stream", None)["size"] == 3
    assert read_body(b"\x89PNG\xff", "image/png", "utf-8") == small
    large = read_body(b"\xff" * 70_000, "image/png", None)
    assert "base64" not in large
    assert "70000 bytes" in large["note"]


@pytest.mark.parametrize(
    "body", [b"{", b"NaN", b"[1e999]", b"[" * 100_000, b'"\xff"', b'"a', b"1" * 5000]
)
def test_json_that_is_none(body: bytes) -> None:
    """What is not JSON, out of range or nested too deep is an error, never half a value."""
    with pytest.raises(BodyError):
        read_json(body, None)
    with pytest.raises(BodyError):
        read_json(body, "utf-16-le")


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"[" + b"[]," * 200_000 + b"[]]", "200000 lists and objects"),
        (b"[" + b"{}," * 200_000 + b"{}]", "200000 lists and objects"),
        (b'{"a":1' + b',"b":1' * 250_000 + b"}", "250000 entries of objects"),
        (b"[1" + b",1" * 1_000_001 + b"]", "1000000 values"),
    ],
)
def test_json_of_too_many_values(body: bytes, what: str) -> None:
    """Few bytes can stand for so many values that reading them would hold up all other calls."""
    with pytest.raises(BodyError, match=f"it has more than {what}; ask for less"):
        read_json(body, None)
    assert read_body(body, "application/json", None) == body.decode()


def test_large_json() -> None:
    """A body is not refused for its size: an honest one of megabytes is read."""
    rows = [{"id": n, "name": "x" * 50, "at": "12:30:00"} for n in range(20_000)]
    assert read_json(json.dumps(rows).encode(), None) == rows


def test_text_that_is_none_is_read_in_pieces() -> None:
    """What is no text of its charset is shown as such, whole, also where it is long."""
    wrong = b"\x81a" * 100_000
    assert read_body(wrong, "text/html", None) == "\ufffda" * 100_000
    euro = "€" * 70_000
    assert read_body(euro.encode() + b"\xff", "text/html", "utf-8") == euro + "\ufffd"


def test_excerpt() -> None:
    """One line of at most 300 characters, without control characters."""
    assert make_excerpt(b"  a\r\n\tb\x1b[31m ", "text/plain", None) == "a b [31m"
    assert make_excerpt(b"x" * 400, "text/plain", None) == "x" * 300 + "…"
    assert make_excerpt("é".encode() * 3000, "text/html", None) == "é" * 300 + "…"
    assert make_excerpt(b"a" + "é".encode() * 5000, "text/html", None) == "a" + "é" * 299 + "…"
    assert make_excerpt(b"", "text/plain", None) == "no body"
    assert make_excerpt(b"\xff\xfe\xfa", "image/png", None) == "3 bytes of image/png"
