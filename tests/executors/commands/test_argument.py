"""How one element of `argv` becomes arguments."""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands.argument import (
    Flag,
    PlainArgument,
    Spread,
    command_line,
    literal_text,
    parse_argument,
)
from tool_engine.executors.templates import TemplateError


def render(text: str, **params: Any) -> list[str]:
    return parse_argument(text, is_operand=False, may_be_option=()).render(params)


@pytest.mark.parametrize(
    ("text", "params", "expected"),
    [
        ("log", {}, ["log"]),
        ("", {}, [""]),
        ("{{x}}", {}, ["{x}"]),
        ("{print $1}", {}, ["{print $1}"]),
        ("{{xs...}}", {}, ["{{xs...}}"]),
        ("{x}", {"x": "a b"}, ["a b"]),
        ("{x}", {"x": 3}, ["3"]),
        ("{x}", {"x": 2.0}, ["2"]),
        ("{x}", {"x": True}, ["true"]),
        ("--n={x}", {"x": -1}, ["--n=-1"]),
        ("{x}-{y}", {"x": "a", "y": "-b"}, ["a--b"]),
        ("{x}", {}, []),
        ("{x}", {"x": None}, []),
        ("--n={x}", {}, []),
        ("{xs...}", {"xs": ["a", 1, True]}, ["a", "1", "true"]),
        ("{xs...}", {"xs": []}, []),
        ("{xs...}", {}, []),
        ("-f{xs...}", {"xs": ["-a", ""]}, ["-f-a", "-f"]),
        ("{all?--all}", {"all": True}, ["--all"]),
        ("{all?--all}", {"all": False}, []),
        ("{all?--all}", {}, []),
        ("{all?a b}", {"all": True}, ["a b"]),
    ],
)
def test_elements(text: str, params: dict[str, Any], expected: list[str]) -> None:
    """A text, a list that is spread, a flag; what the call leaves out is left out."""
    assert render(text, **params) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a\0b", "NUL character"),
        ("{xs...}.txt", "'{xs...}' must end the element"),
        ("--a={all?--all}", "must be the whole element"),
        ("{all?}", "must be the whole element"),
        ("{x}{xs...}", "placeholder before {xs...}"),
        ("${home}", "not a placeholder"),
        ("--token=${env:TOKEN}", "every user of the machine can see"),
    ],
)
def test_what_is_no_element(text: str, told: str) -> None:
    """An element that would silently mean something else is refused."""
    with pytest.raises(TemplateError) as caught:
        parse_argument(text, is_operand=False, may_be_option=())
    assert told in str(caught.value)


@pytest.mark.parametrize("text", ["{x}", "{x...}"])
def test_who_may_begin_with_a_dash(text: str) -> None:
    """A value begins with a dash behind `--`, where the author allows it, and nowhere else."""
    value: Any = ["-v"] if "..." in text else "-v"
    with pytest.raises(ToolExecutionError, match="begins with '-'"):
        parse_argument(text, is_operand=False, may_be_option={"y"}).render({"x": value})
    for is_operand, allowed in ((True, set[str]()), (False, {"x"})):
        argument = parse_argument(text, is_operand=is_operand, may_be_option=allowed)
        assert argument.render({"x": value}) == ["-v"]


def test_each_that_may_begin_it_has_to_be_allowed() -> None:
    """An empty value does not lend its permission to the next one."""
    argument = parse_argument("{x}{y}", is_operand=False, may_be_option={"x"})
    with pytest.raises(ToolExecutionError):
        argument.render({"x": "", "y": "-v"})


def test_a_message_shows_no_control_characters() -> None:
    """What is shown of a refused value is short and printable."""
    with pytest.raises(ToolExecutionError) as caught:
        render("{x}", x="-\x1b[2J" + "a" * 100)
    assert "'-?[2J" + "a" * 35 + "…'" in str(caught.value)


def test_what_cannot_be_an_argument() -> None:
    """A mapping is no argument, and what is to be spread is a list."""
    with pytest.raises(ToolExecutionError, match="'xs' must be a list, got str"):
        render("{xs...}", xs="a")
    with pytest.raises(ToolExecutionError, match=r"'xs\[1\]' must be a text, a number"):
        render("{xs...}", xs=["a", {}])
    with pytest.raises(ToolExecutionError, match="'x' must be a text, a number"):
        render("{x}", x=[1])


def test_literal_text() -> None:
    """What is known of an element before the call."""
    kinds = {"--": PlainArgument, "{x}": PlainArgument, "a{x...}": Spread, "{x?a}": Flag}
    for text, kind in kinds.items():
        argument = parse_argument(text, is_operand=False, may_be_option=())
        assert type(argument) is kind
        assert argument.parameters == (set() if text == "--" else {"x"})
        assert literal_text(argument) == ("--" if text == "--" else None)


def test_command_line() -> None:
    """The arguments follow one another as they are written."""
    written = ["log", "{xs...}", "--n={n}", "--", "{path}"]
    arguments = [parse_argument(x, is_operand=False, may_be_option=()) for x in written]
    assert command_line(arguments, {"xs": ["a", "b"], "path": "p"}) == ["log", "a", "b", "--", "p"]
