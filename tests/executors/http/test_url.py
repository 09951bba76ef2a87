"""Which URLs are sent at all, and where a redirect may lead."""

from __future__ import annotations

import pytest
from yarl import URL

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.url import (
    is_same_party,
    parse_url,
    redirect_method,
    redirect_target,
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ftp://host/", "http://"),
        ("file:///etc/passwd", "http://"),
        ("host/path", "no scheme"),
        ("http:host", "no host"),
        ("http:///path", "no host"),
        ("http://user:pw@host/", "user name"),
        ("http://user@host/", "user name"),
        ("http://good@127.0.0.1/", "user name"),
        ("http://host:0/", "port 0"),
        ("http://host:99999/", "cannot be read"),
        ("http://host\\@evil/", "character"),
        ("http://host/a b", "character"),
        ("http://host/\r\nX: y", "character"),
        ("http://host/\x00", "character"),
        ("http://host/\ud800", "character"),
        ("http://a\u200bb.example/", "cannot be read"),
        ("http://a..b/", "not a host name"),
        ("http://127%2e0.0.1/", "odd spelling"),
        ("http://a%2eb.example/", "not a host name"),
        ("http://[fe80::1%25eth0]/", "not an IPv6 address"),
        ("http://[1.2.3.4]/", "cannot be read"),
        ("http://127.1/", "odd spelling"),
        ("http://0x7f.1/", "odd spelling"),
        ("http://0x7f000001/", "odd spelling"),
        ("http://2130706433/", "odd spelling"),
        ("http://0177.0.0.1/", "odd spelling"),
        ("http://017700000001/", "odd spelling"),
        ("http://127.0.0.1./", "odd spelling"),
        ("http://127.0.0.256/", "odd spelling"),
        ("http://1.2.3.4.5/", "odd spelling"),
        (f"http://{'a' * 64}.example/", "not a host name"),
        (f"http://{'a.' * 130}example/", "not a host name"),
        ("http://host/" + "a" * 9000, "9012 characters"),
    ],
)
def test_a_url_that_is_refused(text: str, reason: str) -> None:
    """Spellings that programs read differently are refused before anything is dialled."""
    with pytest.raises(ToolExecutionError, match=reason):
        parse_url(text)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://\uff11\uff12\uff17.0.0.1/", "127.0.0.1"),
        ("http://\u2460\u2461\u2466.0.0.1/", "127.0.0.1"),
        ("http://[::FFFF:127.0.0.1]/", "::ffff:7f00:1"),
        ("HTTP://EXAMPLE.com/", "example.com"),
        ("http://example.com./", "example.com."),
        ("http://bücher.example/", "xn--bcher-kva.example"),
        ("http://web1/", "web1"),
    ],
)
def test_the_host_is_read_as_it_is_dialled(text: str, host: str) -> None:
    """What is checked is the form that aiohttp dials, whatever was written."""
    assert parse_url(text).raw_host == host


def test_a_fragment_is_not_sent() -> None:
    """A fragment is for a browser."""
    assert str(parse_url("http://host/a?b=c#d")) == "http://host/a?b=c"


def test_redirect_target() -> None:
    """A redirect is read relative to where it came from."""
    here = URL("https://host/a/b")
    assert str(redirect_target(here, "c?d#e")) == "https://host/a/c?d"
    assert str(redirect_target(here, "//other/x")) == "https://other/x"
    assert str(redirect_target(URL("http://host/"), "https://host/")) == "https://host/"


@pytest.mark.parametrize(
    "location", ["http://host/", "ftp://host/", "http://u:p@h/", "http://h:x/"]
)
def test_a_redirect_that_is_not_followed(location: str) -> None:
    """From https to http, to another scheme, with a password: refused."""
    with pytest.raises(ToolExecutionError):
        redirect_target(URL("https://host/"), location)


@pytest.mark.parametrize(
    ("status", "method", "after"),
    [
        (303, "POST", "GET"),
        (303, "HEAD", "HEAD"),
        (302, "POST", "GET"),
        (301, "POST", "GET"),
        (302, "PUT", "PUT"),
        (307, "POST", "POST"),
        (308, "DELETE", "DELETE"),
    ],
)
def test_redirect_method(status: int, method: str, after: str) -> None:
    """RFC 9110, 15.4: only 307 and 308 keep a POST."""
    assert redirect_method(status, method) == after


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("http://host/a", "http://host/b", True),
        ("http://host/", "https://host/", True),
        ("https://host/", "http://host/", False),
        ("http://host/", "http://host:81/", False),
        ("http://host/", "http://other/", False),
        ("http://host:8080/", "https://host/", False),
    ],
)
def test_is_same_party(one: str, other: str, is_same: bool) -> None:
    """Credentials stay with the origin, or with the same host on its way to https."""
    assert is_same_party(URL(one), URL(other)) is is_same
