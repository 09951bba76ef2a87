"""What a definition may say about a command, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tool_engine.errors import DefinitionError
from tool_engine.executors.commands.command_entry import (
    DEFAULT_MAX_OUTPUT,
    check_entry,
    compile_entry,
)
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]


def text(name: str, **more: Any) -> ToolParameter:
    return ToolParameter(name, more.pop("type", "string"), **{"required": True, **more})


def told(make: Make, argv: Any, *parameters: ToolParameter | str, **entry: Any) -> list[str]:
    tool = make({"type": "builtin", "argv": argv, **entry}, *parameters)
    return [f"{problem.path}: {problem.message}" for problem in check_entry(tool)]


def test_a_whole_entry(make: Make) -> None:
    """Each key is read; what is not there has its default."""
    config = {
        "env": {"TOKEN": "${env:TOKEN}", "PAGER": "cat"},
        "inherit": ["HOME"],
        "ok_exit_codes": [0, 1],
        "max_output": 100,
        "may_be_option": ["x"],
    }
    entry = {"type": "builtin", "argv": ["/bin/ls", "{x}"], "cwd": "/", "config": config}
    plan = compile_entry(make(entry, "x"))
    assert (plan.program, plan.cwd, plan.inherit) == ("/bin/ls", "/", ("HOME",))
    assert [name for name, _ in plan.env] == ["TOKEN", "PAGER"]
    assert (plan.ok_exit_codes, plan.max_output) == (frozenset({0, 1}), 100)
    assert plan.arguments[0].render({"x": "-l"}) == ["-l"]
    bare = compile_entry(make({"argv": ["ls"]}))
    assert (bare.cwd, bare.env, bare.inherit) == (None, (), ())
    assert (bare.ok_exit_codes, bare.max_output) == (frozenset({0}), DEFAULT_MAX_OUTPUT)


@pytest.mark.parametrize("argv", [None, [], "ls -l", ["ls", 1], {"a": 1}])
def test_argv_is_a_list_of_texts(make: Make, argv: Any) -> None:
    """A command is never a text that somebody splits."""
    assert "entry.argv: must be a list of texts such as [git, log," in told(make, argv)[0]


@pytest.mark.parametrize("program", ["", "a\0b", "{x}", "a{x}", "${env:X}", "{x...}", "{x?a}"])
def test_the_program_is_a_plain_text(make: Make, program: str) -> None:
    """No value chooses the program."""
    assert any("entry.argv[0]: names the program" in line for line in told(make, [program]))


@pytest.mark.parametrize("program", ["./run.sh", "bin/run", "../run"])
def test_the_program_does_not_depend_on_the_folder(make: Make, program: str) -> None:
    """A relative path would name another program in another folder."""
    assert "write an absolute path, or a bare name" in told(make, [program])[0]


@pytest.mark.parametrize(
    ("argv", "parameter", "expected"),
    [
        (["ls", "{y}"], text("x"), "takes the parameter 'y', which is not declared"),
        (["ls", "{paht}"], text("path"), "did you mean 'path'?"),
        (["ls", "{x?--all}"], text("x"), "{x?…} needs a boolean; 'x' is of type string"),
        (["ls", "{x...}"], text("x"), "spreads a list; 'x' is of type string: write {x}"),
        (["ls", "{x}"], text("x", type="array"), "takes the list 'x'; write {x...}"),
        (["ls", "{x}"], text("x", type="object"), "takes the object 'x'"),
        (["ls"], text("x"), "never uses the parameter 'x'"),
        (["ls", "${home}"], text("x"), "is not a placeholder"),
        (["ls", "--{x}"], text("x"), "'x' would be part of an option's name; write --name={x}"),
        (["ls", "-{x}"], text("x"), "would be part of an option's name"),
        (["ls", "--{x...}"], text("x", type="array"), "would be part of an option's name"),
        (["head", "-n", "{x}"], text("x", required=False), 'write "-n{x}" as one element'),
        (["head", "--lines", "{x}"], text("x", required=False), 'write "--lines={x}"'),
        (["sh", "-c", "ls {x}"], text("x"), "a parameter in a script for sh would be run as"),
    ],
)
def test_mistakes_in_elements(
    make: Make, argv: list[str], parameter: ToolParameter, expected: str
) -> None:
    """Each mistake names its place and what to write."""
    lines = told(make, argv, parameter)
    assert any(expected in line and line.startswith("entry.argv") for line in lines), lines


@pytest.mark.parametrize(
    ("argv", "parameter"),
    [
        (["ls", "--{x}"], text("x", validation={"enum": ["all", "long"]})),
        (["ls", "-{x}"], text("x", schema={"enum": ["a", "l"]})),
        (["ls", "-n{x}"], text("x")),
        (["ls", "--name={x}"], text("x", required=False)),
        (["head", "-n", "{x}"], text("x")),
        (["head", "-n", "{x}"], text("x", type="integer", required=False, default=3)),
        (["ls", "-l", "--", "{x}"], text("x", required=False)),
        (["ls", "--", "-{x}"], text("x")),
        (["ls", "{x}"], text("x", required=False)),
        (["ls", "{x?-a}"], text("x", type="boolean", required=False)),
        (["ls", "{x...}"], text("x", type="any")),
        (["sh", "-c", 'ls -- "$1"', "sh", "{x}"], text("x")),
        (["python3", "script.py", "{x}"], text("x")),
    ],
)
def test_what_is_right(make: Make, argv: list[str], parameter: ToolParameter) -> None:
    """What looks like a mistake and is none."""
    assert told(make, argv, parameter) == []


def test_an_enum_may_hold_options(make: Make) -> None:
    """What the author has listed needs no further permission."""
    parameter = text("x", validation={"enum": ["-l", "-a"]})
    plan = compile_entry(make({"argv": ["ls", "{x}"]}, parameter))
    assert plan.arguments[0].render({"x": "-l"}) == ["-l"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"cwd": "{x}"}, "entry.cwd: must be the path of a folder, without placeholder"),
        ({"cwd": 3}, "entry.cwd: must be the path"),
        ({"argz": []}, "entry.argz: unknown key 'argz'; did you mean 'argv'?"),
        ({"config": []}, "entry.config: must be a mapping, got a list"),
        ({"config": {"x": 1}}, "entry.config.x: unknown key 'x'; known are env, inherit"),
        ({"config": {"env": ["A"]}}, "entry.config.env: must map names to texts, got a list"),
        ({"config": {"env": {"A": ["sk-1"]}}}, "entry.config.env.A: must be a text, got a list"),
        ({"config": {"inherit": ["A", 1]}}, "got a list with the number 1"),
        ({"config": {"env": {"A B": "x"}}}, "'A B' is not the name of an environment variable"),
        (
            {"config": {"env": {"A": 1}}},
            "env.A: must be a text, got the number 1; write '1' in quotes",
        ),
        ({"config": {"env": {"A": "\0"}}}, "entry.config.env.A: must be a text"),
        ({"config": {"env": {"A": "${x}"}}}, "entry.config.env.A: '${x}' is not a placeholder"),
        ({"config": {"env": {"A": "{x}"}}}, "a parameter cannot be put here"),
        ({"config": {"inherit": "HOME"}}, "must be a list of names of environment variables"),
        ({"config": {"inherit": ["A="]}}, "entry.config.inherit[0]: 'A=' is not the name"),
        ({"config": {"may_be_option": ["z"]}}, "there is no parameter 'z'"),
        ({"config": {"ok_exit_codes": []}}, "must be a list of whole numbers from 0 to 255"),
        ({"config": {"ok_exit_codes": [True]}}, "entry.config.ok_exit_codes"),
        ({"config": {"ok_exit_codes": [256]}}, "entry.config.ok_exit_codes"),
        ({"config": {"ok_exit_codes": 0}}, "entry.config.ok_exit_codes"),
        ({"config": {"max_output": 0}}, "entry.config.max_output: must be a whole number"),
        ({"config": {"max_output": "1k"}}, "got the text '1k'"),
    ],
)
def test_mistakes_beside_argv(make: Make, entry: dict[str, Any], expected: str) -> None:
    """Each mistake names its place and what is expected."""
    lines = told(make, ["ls", "{x}"], "x", **entry)
    assert any(expected in line for line in lines), lines


def test_all_mistakes_at_once(make: Make) -> None:
    """Reading goes on after a mistake, and a wrong entry does not run."""
    tool = make({"argv": ["./a", "{y}"], "cwd": 1, "config": {"max_output": 0}}, "x")
    with pytest.raises(DefinitionError) as caught:
        compile_entry(tool)
    assert [problem.path for problem in caught.value.problems] == [
        "entry.argv[0]",
        "entry.argv[1]",
        "entry.argv",
        "entry.cwd",
        "entry.config.max_output",
    ]
