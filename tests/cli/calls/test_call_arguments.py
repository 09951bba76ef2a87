"""Words of the command line become a tool's arguments by the types that it declares."""

import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from tool_engine.cli.calls.call_arguments import example_arguments, parse_arguments, read_params
from tool_engine.cli.failures import CommandError
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory


def make_tool(**types: str) -> Tool:
    parameters = [
        ToolParameter(name=name, type=kind, required=True, description="x")
        for name, kind in types.items()
    ]
    return Tool("id", "probe", "1.0.0", "x", ToolCategory.CUSTOM, [], parameters, {})


WORDS = make_tool(text="string", count="integer", max_size="number", flag="boolean", tags="array")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "3", "3"),
        ("string", "", ""),
        ("string", "a=b=c", "a=b=c"),
        ("string", "a:=b", "a:=b"),
        ("integer", "3", 3),
        ("integer", "-3", -3),
        ("number", "3", 3),
        ("number", "2.5", 2.5),
        ("number", "-1e3", -1000.0),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("array", "[1, [2]]", [1, [2]]),
        ("object", '{"a": {"b": null}}', {"a": {"b": None}}),
    ],
)
def test_a_word_is_read_by_the_declared_type(kind: str, text: str, value: object) -> None:
    """A string stays a string, a number is a number, an array or object is JSON."""
    arguments = parse_arguments(make_tool(key=kind), [f"key={text}"])
    assert arguments == {"key": value}
    assert type(arguments["key"]) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "cure"),
    [
        ("integer", "abc", "write one, such as key=5"),
        ("integer", "1.5", "write one, such as key=5"),
        ("integer", "1_000", "write one, such as key=5"),
        ("integer", "٣", "write one, such as key=5"),
        ("integer", "9" * 4500, "write one, such as key=5"),
        ("number", "1,5", "write one, such as key=2.5"),
        ("number", "nan", "write one, such as key=2.5"),
        ("number", "inf", "write one, such as key=2.5"),
        ("number", "1_0.5", "write one, such as key=2.5"),
        ("number", "١", "write one, such as key=2.5"),
        ("integer", "١", "write one, such as key=5"),
        ("boolean", "yes", "key=true or key=false"),
        ("boolean", "True", "key=true or key=false"),
        ("boolean", "1", "key=true or key=false"),
        ("array", "1,2", "key='[1, 2]'"),
        ("array", "a, b", """write key='["a", "b"]'"""),
        ("array", "3", "write key='[3]'"),
        ("array", "[1", "write one, such as key='[1, 2]'"),
        ("array", "{}", "an array"),
        ("object", "[1]", """is none; write one, such as key='{"a": 1}'"""),
        ("object", '{"a": 1, "a": 2}', "twice"),
        ("object", '{"a": NaN}', "NaN"),
    ],
)
def test_a_word_that_the_type_cannot_read_is_refused(kind: str, text: str, cure: str) -> None:
    """Nothing is guessed: the message names the parameter and how to write it."""
    with pytest.raises(CommandError) as caught:
        parse_arguments(make_tool(key=kind), [f"key={text}"])
    assert "'key'" in str(caught.value)
    assert cure in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("word", ["message", "=x", ":=1", ""])
def test_a_word_without_a_key_or_a_value_is_refused(word: str) -> None:
    """A bare word is a mistake, with the form of a right one in the message."""
    with pytest.raises(CommandError, match="key=value"):
        parse_arguments(make_tool(message="string"), [word])


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["--text", "a b", "--count", "-3"], {"text": "a b", "count": -3}),
        (["--text=a=b"], {"text": "a=b"}),
        (["--max-size", "2.5"], {"max_size": 2.5}),
        (["--flag", "--text", "a"], {"flag": True, "text": "a"}),
        (["--flag", "false"], {"flag": False}),
        (['{"text": "a", "tags": [1, {}]}', "count=2"], {"text": "a", "tags": [1, {}], "count": 2}),
        (["{}"], {}),
    ],
)
def test_options_and_an_object_are_arguments(words: list[str], arguments: object) -> None:
    """What people type by habit works: `--key value`, or all arguments as one JSON object."""
    assert parse_arguments(WORDS, words) == arguments


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (["--txet", "a"], r"'--txet' is no option, and no parameter.*did you mean '--text'\?$"),
        (["--time-out", "1"], r"did you mean '--timeout'\?$"),
        (["--zzz"], r"there are: --"),
        (["--text"], r"'--text' has no value; write text=value$"),
        (["--count", "x"], r"such as count=5$"),
        (['{"text": "a"', "count=2"], "not JSON"),
        (['{"text": "a"}', "text=b"], "'text' is given twice"),
        (["a b"], r"is no argument; write key=value.*such as text='a b'$"),
    ],
)
def test_a_habit_that_does_not_fit_names_the_cure(words: list[str], cure: str) -> None:
    """An option that is none is refused, and not sent as an argument of that name."""
    with pytest.raises(CommandError, match=cure):
        parse_arguments(WORDS, words)


@pytest.mark.parametrize("word", ["5", "=5", ":=5", "x y", "[1]", "true", "it's", "=", "x" * 99])
@pytest.mark.parametrize(
    "tool",
    [
        make_tool(count="integer", flag="boolean", many="array", one="object"),
        make_tool(flag="boolean", text="string", count="integer"),
        make_tool(one="object"),
        WORDS,
    ],
)
def test_the_example_of_a_cure_is_an_argument(tool: Tool, word: str) -> None:
    """A word that is no argument is told one that can be typed, which its tool takes.

    The first parameter got every word: of an integer, `s` was to be written `i=s`, and `=5` `i==5`.
    """
    with pytest.raises(CommandError, match="is no argument") as caught:
        parse_arguments(tool, [word])
    example = shlex.split(str(caught.value).rpartition("such as ")[2])
    assert len(example) == 1
    assert parse_arguments(tool, example)


def test_an_argument_given_twice_is_refused() -> None:
    """Which of two values was meant is not guessed."""
    with pytest.raises(CommandError, match="'a' is given twice"):
        parse_arguments(make_tool(a="string"), ["a=1", "a:=2"])


def test_raw_json_says_its_own_type() -> None:
    """`key:=json` sends exactly that value, whatever the tool declares."""
    tool = make_tool(a="string", b="integer")
    arguments = parse_arguments(tool, ["a:=null", 'b:="three"', "c:=[true]"])
    assert arguments == {"a": None, "b": "three", "c": [True]}
    with pytest.raises(CommandError, match="a:="):
        parse_arguments(tool, ["a:=hello"])


def test_an_undeclared_parameter_is_a_string() -> None:
    """The engine's validation, not the command line, says that there is no such parameter."""
    assert parse_arguments(make_tool(), ["other=5"]) == {"other": "5"}


def test_a_value_from_a_file(tmp_path: Path) -> None:
    """`key=@file` is the file's text, read by the parameter's type."""
    (tmp_path / "text.txt").write_text("line one\nline two\n", encoding="utf-8")
    (tmp_path / "list.json").write_text("[1, 2]", encoding="utf-8")
    arguments = parse_arguments(
        make_tool(text="string", many="array"),
        [f"text=@{tmp_path / 'text.txt'}", f"many=@{tmp_path / 'list.json'}"],
    )
    assert arguments == {"text": "line one\nline two\n", "many": [1, 2]}
    with pytest.raises(CommandError, match=r"cannot read .*none: No such file"):
        parse_arguments(make_tool(text="string"), [f"text=@{tmp_path / 'none'}"])


def test_params_come_from_a_json_or_yaml_object(tmp_path: Path) -> None:
    """`--params` takes one object; anything else is refused with an example."""
    (tmp_path / "good.json").write_text('{"a": 1}', encoding="utf-8")
    (tmp_path / "good.yaml").write_text("a: 1\n", encoding="utf-8")
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    assert read_params(None) == {}
    assert read_params(str(tmp_path / "good.json")) == {"a": 1}
    assert read_params(str(tmp_path / "good.yaml")) == {"a": 1}
    with pytest.raises(CommandError, match="needs one object"):
        read_params(str(tmp_path / "list.json"))


def test_the_example_of_a_tool_can_be_read_back() -> None:
    """What `show` suggests is what `call` accepts."""
    parameters = [
        ToolParameter("a", "string", required=True),
        ToolParameter("b", "integer", required=True, validation={"min": 3}),
        ToolParameter("c", "boolean", required=True),
        ToolParameter("d", "string", required=True, validation={"enum": ["GET", "PUT"]}),
        ToolParameter("e", "number", required=True),
        ToolParameter("f", "string"),
    ]
    tool = Tool("id", "probe", "1.0.0", "x", ToolCategory.CUSTOM, [], parameters, {})
    words = example_arguments(tool)
    assert words == ["a=...", "b=3", "c=true", "d=GET", "e=1"]
    assert parse_arguments(tool, words)["b"] == 3
    given = {"a": "x y", "b": 4, "c": False, "d": "PUT", "e": 1.5, "f": "'"}
    shown = replace(tool, examples=[{"params": given}])
    assert parse_arguments(shown, shlex.split(" ".join(example_arguments(shown)))) == given


SECRET = "hunter2-" + "z" * 80
"""Longer than what a message shows of a value."""


def secretive() -> Tool:
    tool = make_tool(n="integer", many="array", note="string")
    parts = {"type": "object", "properties": {"key": {"type": "string", "writeOnly": True}}}
    secret = [
        ToolParameter(name="pin", type="string", secret=True, description="x"),
        ToolParameter(name="code", type="integer", secret=True, description="x"),
        ToolParameter(name="login", type="object", description="x", schema=parts),
    ]
    return Tool(
        "id", "probe", "1.0.0", "x", ToolCategory.CUSTOM, [], [*tool.parameters, *secret], {}
    )


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (["--pin", SECRET, "--n", SECRET], "such as n=5"),
        ([f"n={SECRET}", f"--pin={SECRET}"], "such as n=5"),
        ([f'{{"pin": "{SECRET}"}}', f"n={SECRET}"], "such as n=5"),
        ([f"pin={SECRET}", f"many={SECRET}"], "many="),
        ([f"pin={SECRET}", f"note=@{SECRET}"], "cannot read"),
        ([f"pin=@{SECRET}"], "write pin=..., pin:=json or pin=@file"),
        (["pin=@hun"], "write pin="),
        ([f"pin:={SECRET}"], "write pin="),
        ([f"pni=@{SECRET}"], "write pni="),
        (["code=hun"], "write code=1"),
        ([f"--code={SECRET}"], "write code=1"),
        ([f"login={SECRET}"], "write login="),
        ([SECRET], "write key=value"),
        ([f"={SECRET}"], "write key=value"),
    ],
)
def test_no_secret_is_repeated(words: list[str], cure: str) -> None:
    """What was typed for a secret parameter is in no error, whatever else it was typed for.

    Looked at: values by type, raw JSON, paths behind an `@`, options, objects, bare words, names
    that are misspelt. A tool without secrets shows what was typed.
    """
    with pytest.raises(CommandError) as caught:
        parse_arguments(secretive(), words)
    assert "hun" not in str(caught.value)
    assert cure in str(caught.value)


def test_no_secret_of_a_file_is_repeated() -> None:
    with pytest.raises(CommandError, match="such as n=5") as caught:
        parse_arguments(secretive(), [f"n={SECRET}"], {"pin": SECRET})
    assert "hun" not in str(caught.value)


@pytest.mark.parametrize("known", [{}, {"pin": SECRET}, {"n": 1}])
@pytest.mark.parametrize("words", [[], [""], ["--pin"], ["{"], ["="], ["--"], ["-", "--n"]])
def test_few_words_for_a_tool_with_secrets(words: list[str], known: dict[str, object]) -> None:
    """No word at all, as with `--params`, and half of one: read, or a mistake with a cure."""
    try:
        read = parse_arguments(secretive(), words, known)
    except CommandError:
        read = {}
    assert read == {}
