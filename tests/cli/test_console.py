"""What a tool returns reaches a terminal as text and a program as strict JSON."""

import io
import json
import sys

import pytest

from tool_engine.cli.console import as_text, json_text, make_console, print_json_line, safe_text


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb", "a\\x0db"),
        ("\u202eevil", "\\u202eevil"),
        ("\ud800", "\\ud800"),
        ("a\u200bb\xad\u3164\U000e0041", "a\\u200bb\\xad\\u3164\\U000e0041"),
        ("天气", "天气"),
    ],
)
def test_control_characters_are_written_out(text: str, seen: str) -> None:
    """A value from the web cannot steer the terminal."""
    assert safe_text(text) == seen


def test_brackets_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """`[bold]` in a tool's output is printed, not obeyed."""
    make_console().print(as_text("[bold]x[/bold] :smile: [link=http://x]y[/link]"))
    assert capsys.readouterr().out == "[bold]x[/bold] :smile: [link=http://x]y[/link]\n"


def test_a_terminal_without_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing gets lost where somebody says that there are no columns."""
    monkeypatch.setenv("COLUMNS", "0")
    make_console().print(as_text("a word"))
    assert capsys.readouterr().out == "a word\n"


def test_json_is_strict_whatever_a_tool_returns() -> None:
    """NaN, tuples, odd keys, odd objects and lone surrogates still make one JSON document."""
    value = {
        "nan": float("nan"),
        1: (1, 2.5),
        "big": 2**100,
        "object": object,
        "lone": "\ud800",
        "control": "\x1b\x9b\u202e",
        "set": {1},
    }
    text = json_text(value)
    assert not set("\x1b\x9b\u202e") & set(text)
    read = json.loads(text)
    assert read["nan"] is None
    assert read["1"] == [1, 2.5]
    assert read["big"] == 2**100
    assert read["object"] == "<class 'object'>"
    assert read["lone"] == "\\ud800"
    assert read["control"] == "\x1b\x9b\u202e"
    assert read["set"] == [1]


def test_a_value_without_end_is_cut() -> None:
    """A value that contains itself ends somewhere."""
    value: list[object] = []
    value.append(value)
    assert "[too deep]" in json_text(value, indent=None)


def test_json_fits_the_encoding_of_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ASCII stdout gets escapes that any JSON reader understands."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    print_json_line({"a": "天😀"})
    assert json.loads(raw.getvalue()) == {"a": "天😀"}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("text", ["\u200b", "\u3164", "\U000e0041", "\x7f", "\u202e", "a\nb\t"])
def test_json_hides_no_character(text: str, indent: int | None) -> None:
    """What is not seen is written as its escape, and is read as the same text again.

    Looked at: zero-width characters, fillers, tags, marks of direction, in keys and in values.
    """
    written = json_text({text: [text]}, indent=indent)
    assert json.loads(written) == {text: [text]}
    assert not any(character in written for character in text if character not in "ab\n")
