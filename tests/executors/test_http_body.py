"""What the body of an answer says, and what it is not taken for."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tool_engine.executors.http_body import BodyError, excerpt, is_json_type, read_body, read_json


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


def test_excerpt() -> None:
    """One line of at most 300 characters, without control characters."""
    assert excerpt(b"  a\r\n\tb\x1b[31m ", "text/plain", None) == "a b [31m"
    assert excerpt(b"x" * 400, "text/plain", None) == "x" * 300 + "…"
    assert excerpt("é".encode() * 3000, "text/html", None) == "é" * 300 + "…"
    assert excerpt(b"", "text/plain", None) == "no body"
    assert excerpt(b"\xff\xfe\xfa", "image/png", None) == "3 bytes of image/png"
