"""A parameter in a URL never changes where the URL leads."""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.template import URLTemplate, query_text
from tool_engine.executors.secrets import SecretScope
from tool_engine.executors.templates import TemplateError


def render(text: str, **params: Any) -> str:
    return "".join(URLTemplate.parse(text).render(params, SecretScope()))


@pytest.mark.parametrize(
    ("value", "segment"),
    [
        ("a b", "a%20b"),
        ("a/b", "a%2Fb"),
        ("?x=1#y", "%3Fx%3D1%23y"),
        ("%2e%2e", None),
        ("%2E%2E/admin", None),
        ("..", None),
        (".", None),
        ("../admin", None),
        ("a/../b", None),
        ("a\\..\\b", None),
        ("...", "..."),
        ("", None),
        ("a\r\nb", "a%0D%0Ab"),
        ("@evil.example", "%40evil.example"),
        ("北京", "%E5%8C%97%E4%BA%AC"),
        (7, "7"),
    ],
)
def test_a_path_parameter_is_one_segment(value: Any, segment: str | None) -> None:
    """Neither a slash, nor a dot segment, nor a query gets out of the segment."""
    if segment is None:
        with pytest.raises(ToolExecutionError, match="parameter 'x'"):
            render("https://host/a/{x}/b", x=value)
    else:
        assert render("https://host/a/{x}/b", x=value) == f"https://host/a/{segment}/b"


def test_a_parameter_cannot_complete_a_dot_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands around a parameter counts too."""
    monkeypatch.setenv("PART", "../b")
    with pytest.raises(ToolExecutionError, match=r"'\.' or '\.\.'"):
        render("https://host/a/${env:PART}")
    assert render("https://host/v{x}", x="1.2") == "https://host/v1.2"


def test_query_parameters_are_one_value() -> None:
    """An ampersand or a plus stays inside the value."""
    assert render("https://host/?q={x}&k=1", x="a&b=c d+e") == (
        "https://host/?q=a%26b%3Dc%20d%2Be&k=1"
    )
    assert render("https://host?{x}", x="a") == "https://host?a"
    assert query_text("a b", ["x", 1, True]) == "a%20b=x&a%20b=1&a%20b=true"


def test_literal_text_is_encoded_as_needed() -> None:
    """What is already percent-encoded in the definition stays as it is."""
    assert render("https://host/a%20b/ü?k=ö") == "https://host/a%20b/%C3%BC?k=%C3%B6"


def test_env_in_the_address_and_in_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of a URL may come from the environment, with or without a path and slash."""
    monkeypatch.setenv("BASE", "http://127.0.0.1:80/v1/")
    monkeypatch.setenv("PART", "T0/B 0")
    monkeypatch.setenv("HOST", "api.example")
    assert render("${env:BASE}/x/{a}", a="y") == "http://127.0.0.1:80/v1/x/y"
    assert render("${env:BASE}") == "http://127.0.0.1:80/v1/"
    assert render("https://${env:HOST}/a/${env:PART}") == "https://api.example/a/T0/B%200"


@pytest.mark.parametrize("base", ["http://host/?k=1", "http://host/#f"])
def test_env_address_with_a_query(monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    """A path behind a query would silently become part of it."""
    monkeypatch.setenv("BASE", base)
    with pytest.raises(ToolExecutionError, match="must not hold"):
        render("${env:BASE}/x")


def test_env_address_that_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A webhook's URL may carry its key in the query."""
    monkeypatch.setenv("BASE", "http://host/?k=1")
    assert render("${env:BASE}") == "http://host/?k=1"


def test_a_missing_parameter() -> None:
    """A URL with a hole is never sent."""
    with pytest.raises(ToolExecutionError, match="needs the parameter 'x'"):
        render("https://host/{x}")


@pytest.mark.parametrize(
    "text",
    [
        "https://{x}/",
        "https://host{x}",
        "https://host:{x}/",
        "https://a{x}.example/",
        "{x}",
        "${env:BASE}{x}",
        "{x}://host/",
        "ftp://host/",
        "/path",
        "",
        "https://",
        "https:///x",
        "https://user:pw@host/",
        "https://host /x",
        "https://host/#{x}",
        "https://host/a b",
        "https://host/{ x }",
        "https://host/\\x",
        "https://host/${x}",
        7,
        None,
    ],
)
def test_a_url_that_is_no_template(text: Any) -> None:
    """The host and port come from the definition alone; whatever else is no URL is refused."""
    with pytest.raises(TemplateError):
        URLTemplate.parse(text)


def test_an_address_without_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable that has to be set otherwise is named."""
    monkeypatch.setenv("BASE", "127.0.0.1:80")
    with pytest.raises(ToolExecutionError, match=r"\$\{env:BASE\}, whose value .* its scheme"):
        render("${env:BASE}/x")
    monkeypatch.setenv("BASE", "HTTP://127.0.0.1:80")
    assert render("${env:BASE}/x") == "HTTP://127.0.0.1:80/x"
