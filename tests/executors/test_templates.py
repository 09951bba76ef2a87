"""Texts with placeholders: read once, filled in once."""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.secrets import SecretScope
from tool_engine.executors.templates import (
    MISSING,
    JSONTemplate,
    TemplateError,
    TextTemplate,
    value_text,
)


def render(text: str, **params: Any) -> str | None:
    return TextTemplate.parse(text).render(params, SecretScope())


def test_render(monkeypatch: pytest.MonkeyPatch) -> None:
    """`{name}` is a parameter, `${env:NAME}` a secret, `{{name}}` literal, other braces too."""
    monkeypatch.setenv("SAMPLE_KEY", "k-123")
    assert render("a {x}{y} ${env:SAMPLE_KEY} {{x}} { x } {", x="1", y=2) == (
        "a 12 k-123 {x} { x } {"
    )


def test_a_value_is_never_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parameter value that looks like a placeholder stays a value: no secret leaks through it."""
    monkeypatch.setenv("SAMPLE_KEY", "k-123")
    assert render("{x}{y}", x="${env:SAMPLE_KEY}{y}", y="{x}") == "${env:SAMPLE_KEY}{y}{x}"
    tree = JSONTemplate.parse({"a": "{x}", "b": "- {x}"})
    assert tree.render({"x": "${env:SAMPLE_KEY}"}, SecretScope()) == {
        "a": "${env:SAMPLE_KEY}",
        "b": "- ${env:SAMPLE_KEY}",
    }


def test_a_missing_parameter_drops_the_text() -> None:
    """A text whose parameter was left out is not sent half-filled."""
    assert render("a {x}") is None
    assert render("a {x}", x=None) is None


@pytest.mark.parametrize(
    "text", ["${file:}", "${file:x}", "${file:./x}", "${file: /x}", "${file:/x }", "${file:/x\ny}"]
)
def test_a_file_that_is_none(text: str) -> None:
    """A file is named by its absolute path: what a relative one means depends on who starts."""
    with pytest.raises(TemplateError, match="names no file; write its absolute path"):
        TextTemplate.parse(text)


def test_secrets() -> None:
    """What has to be read before a text can be filled in."""
    template = TextTemplate.parse("{x} ${env:A} ${file:/run/a b} ${file:/x}")
    names = [("env", "A"), ("file", "/run/a b"), ("file", "/x")]
    assert [(part.source, part.name) for part in template.secrets] == names
    assert template.has_secret


@pytest.mark.parametrize("text", ["${x}", "${env:}", "${env:A-B}", "${}"])
def test_an_unknown_source(text: str) -> None:
    """`${...}` that is not `${env:NAME}` is refused, never sent as it is."""
    with pytest.raises(TemplateError, match="env:NAME"):
        TextTemplate.parse(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (2.0, "2"),
        (2.5, "2.5"),
        (1e300, "1e+300"),
    ],
)
def test_value_text(value: Any, text: str) -> None:
    """Booleans and numbers are written as JSON writes them; 2.0 is the integer 2."""
    assert value_text("x", value) == text


@pytest.mark.parametrize("value", [[1], {"a": 1}])
def test_value_text_refuses_structures(value: Any) -> None:
    """A list or mapping in a text would be Python's spelling of it."""
    with pytest.raises(ToolExecutionError, match="'x' must be a text"):
        value_text("x", value)


def test_json_keeps_types_and_drops_what_is_missing() -> None:
    """A whole placeholder keeps the value's type; an entry without its parameter is dropped."""
    template = JSONTemplate.parse(
        {"n": "{n}", "text": "n={n}", "gone": "{gone}", "list": ["{n}", "{gone}", "a {gone}", 1.5],
         "null": None, "null_param": "{null}", "literal": "{{n}}", "deep": {"gone": "{gone}"}}
    )  # fmt: skip
    rendered = template.render({"n": [1, {"a": True}], "null": None} | {"n": 7}, SecretScope())
    assert rendered == {
        "n": 7, "text": "n=7", "list": [7, 1.5], "null": None, "null_param": None,
        "literal": "{n}", "deep": {},
    }  # fmt: skip
    assert JSONTemplate.parse("{x}").render({}, SecretScope()) is MISSING
    assert repr(MISSING) == "MISSING"


def test_json_takes_structures_whole() -> None:
    """A list stays a list."""
    assert JSONTemplate.parse(["{x}"]).render({"x": [1, 2]}, SecretScope()) == [[1, 2]]


@pytest.mark.parametrize("value", [{1: "a"}, {"{x}": 1}, {"a": {1, 2}}, {"a": object()}])
def test_json_that_is_none(value: Any) -> None:
    """Keys are plain texts, values JSON."""
    with pytest.raises(TemplateError):
        JSONTemplate.parse(value)


def test_json_too_deep() -> None:
    """A definition cannot exhaust the stack."""
    value: Any = 1
    for _ in range(40):
        value = [value]
    with pytest.raises(TemplateError, match="deeper than 32"):
        JSONTemplate.parse(value)
