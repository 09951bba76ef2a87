"""Which headers are sent."""

from __future__ import annotations

import pytest

from tool_engine.executors.http.headers import (
    header_problem,
    without_body_headers,
    without_credentials,
)
from tool_engine.executors.secrets import SecretPart, SecretScope


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-A", "a\r\nX-B: c"),
        ("X-A", "a\nb"),
        ("X-A", "a\x00b"),
        ("X-A", "a\x7fb"),
        ("X-A", "\ud800"),
        ("X-A", "a" * 17_000),
        ("X A", "a"),
        ("X-A:", "a"),
        ("X-A\r\n", "a"),
        ("", "a"),
        ("Ü", "a"),
        ("Host", "evil.example"),
        ("content-length", "1"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "upgrade"),
        ("Proxy-Authorization", "Basic x"),
    ],
)
def test_a_header_that_is_not_sent(name: str, value: str) -> None:
    """No second header, no second request, no other host hides in a header."""
    problem = header_problem(name, value)
    assert problem is not None
    assert "evil" not in problem


def test_a_header_that_is_sent() -> None:
    """Tabs and text beyond ASCII are legal."""
    assert header_problem("X-A", "a\tb é 中") is None


def test_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, and by holding a secret that was resolved."""
    monkeypatch.setenv("SAMPLE_KEY", "k-123456")
    secrets = SecretScope()
    secrets.resolve(SecretPart("SAMPLE_KEY"))
    headers = {
        "Authorization": "Bearer x",
        "cookie": "a=b",
        "X-Api-Key": "y",
        "X-Custom": "id k-123456",
        "Accept": "*/*",
    }
    assert without_credentials(headers, secrets) == {"Accept": "*/*"}


def test_without_body_headers() -> None:
    """A request that lost its body does not describe one."""
    assert without_body_headers({"Content-Type": "a/b", "Accept": "*/*"}) == {"Accept": "*/*"}
