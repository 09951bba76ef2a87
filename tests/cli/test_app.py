"""The command line helps, ends with the right code, and shows nobody a traceback."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
import typer

from tool_engine.cli import app as app_module
from tool_engine.cli.app import run
from tool_engine.cli.command_list import COMMANDS, NamedCommand
from tool_engine.errors import ConfigurationError, MissingExtraError


def spawn(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tool_engine.cli", *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        **options,
    )


def test_every_command_is_there() -> None:
    """The table of commands has what the documentation promises, and each file of a command."""
    assert {"list", "show", "call", "new", "validate", "lint", "diff", "schema"} <= set(COMMANDS)
    files = Path(app_module.__file__).parent.glob("*/*_command.py")
    rooms = {path.stem.removesuffix("_command"): path.parent.name for path in files}
    assert rooms == {name: room for name, (room, _) in COMMANDS.items()}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_help_says(name: str) -> None:
    """The words of a command in the list of all are the first ones of its own help."""
    assert NamedCommand(name).load().help.partition("\n\n")[0] == COMMANDS[name][1]


def test_help_names_every_command_and_the_exit_codes(command: Callable[..., Any]) -> None:
    """A person who knows nothing finds everything from `--help`."""
    ended = command("--help")
    assert ended.code == 0
    for word in (*COMMANDS, "--tools", "TOOL_ENGINE_TOOLS", "--version", "Exit codes", "130"):
        assert word in ended.out
    assert "<bool>" not in ended.out


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_an_example_that_is_right(command: Callable[..., Any], name: str) -> None:
    """The example in a command's help begins with that command and uses options that exist."""
    ended = command(name, "--help")
    text = " ".join(ended.out.split())
    assert ended.code == 0
    assert f"Example: tool-engine {name}" in text
    assert "<bool>" not in text, "an option that takes no value shows none"
    assert "Exit codes" in text
    example = text.split("Example: ")[1].split(" ╭")[0]
    for word in example.split():
        assert not word.startswith("--") or word in text.replace(example, "")


def test_no_words_print_the_help(command: Callable[..., Any]) -> None:
    """`tool-engine` alone is answered with help, and is still a usage error."""
    ended = command()
    assert ended.code == 2
    assert "Usage" in ended.out
    assert ended.err == ""


def test_version(command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """`--version` prints the program and its version, installed or not."""
    monkeypatch.setattr("importlib.metadata.version", lambda _: "9.8.7")
    assert command("--version").out == "tool-engine 9.8.7\n"

    def raise_not_found(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr("importlib.metadata.version", raise_not_found)
    assert command("--version") == (0, "tool-engine (not installed)\n", "")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("lst",), "did you mean 'list'"),
        (("show",), "missing argument 'NAME'; for example: tool-engine show "),
        (("list", "--nope"), "there is no option '--nope'; there are: --category, "),
        (("watch", "--interval", "0"), "there is no option '--interval'; there are: --json"),
        (("mcp", "serve", "--transport", "x"), "there is no option '--transport'"),
        (("call", "echo", "message=x", "--timeout", "soon"), "--timeout"),
        (("batch", "x.json", "--max-parallel", "0"), "--max-parallel"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(
    command: Callable[..., Any], words: tuple[str, ...], part: str
) -> None:
    """Exit code 2, the message with its cure on stderr, and how to get help."""
    ended = command(*words)
    assert (ended.code, ended.out) == (2, "")
    assert part in ended.err
    assert "--help' for help" in ended.err
    as_json = command(*words, "--json")
    assert (as_json.code, as_json.err) == (2, "")
    assert as_json.json["error"]["type"] == "usage_error"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("task", "status", "x"), "show"),
        (("task", "stop", "x"), "cancel"),
        (("task", "shw", "x"), "show"),
        (("sessions", "reject", "x"), "refuse"),
        (("sessions", "rm", "x"), "delete"),
        (("mcp", "servers"), "list"),
    ],
)
def test_a_word_behind_a_command_that_is_not_there(
    command: Callable[..., Any], words: tuple[str, ...], meant: str
) -> None:
    ended = command(*words)
    assert ended.code == 2
    assert f"did you mean {meant!r}?" in ended.err


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (("--json", "list"), ("list", "--json")),
        (("--seed", "4", "test"), ("test", "--seed")),
        (("list", "--source", "a=sqlite:///a.db"), ("--source", "...", "list")),
        (("call", "echo", "--recursive", "message=x"), ("--recursive", "...", "call")),
        (("mcp", "list", "--recursive"), ("--recursive", "...", "mcp")),
    ],
)
def test_an_option_on_the_wrong_side_of_the_command(
    command: Callable[..., Any], words: tuple[str, ...], cure: tuple[str, ...]
) -> None:
    """The command line is shown with the option in its place, where it is known."""
    ended = command(*words)
    assert ended.code == 2
    said = ended.json["error"]["message"] if "--json" in words else ended.err
    assert f"`tool-engine {' '.join(cure)}`" in said


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("run", "call"),
        ("Exec", "call"),
        ("ls", "list"),
        ("lst", "list"),
        ("prun", "prune"),
        ("approvals", "sessions"),
        ("logs", "history"),
        ("check", "validate"),
        ("completion", "--install-completion"),
    ],
)
def test_a_command_that_is_not_there(command: Callable[..., Any], word: str, meant: str) -> None:
    """The command that was meant is named; what removes something is no guess."""
    assert f"there is no command {word!r}; did you mean {meant!r}?" in command(word).err
    assert "did you mean" not in command("runes").err


@pytest.mark.parametrize(
    ("word", "cures"),
    [
        ("explain", ["tool-engine serve --studio", "engine.controller.explain", "show NAME"]),
        ("studio", ["write `tool-engine serve --studio`"]),
        ("metrics", ["`tool-engine stats`", "/metrics"]),
    ],
)
def test_a_word_that_is_no_single_command(
    command: Callable[..., Any], word: str, cures: list[str]
) -> None:
    """The pages speak of it, and where it is found is said."""
    said = command(word).err
    assert all(each in said for each in (f"there is no command {word!r}; ", *cures))
    assert "did you mean" not in said


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["message:hi you"], "such as message='hi you'"),
        (["message", "=", "hi"], "such as message="),
        (["-message", "hi"], "such as message="),
        (["hi"], "such as message=hi"),
    ],
)
def test_an_argument_that_names_its_parameter(
    command: Callable[..., Any], words: list[str], meant: str
) -> None:
    """What stands behind the name is the value, not the whole word."""
    assert meant in command("call", "echo", *words).err


def test_the_tools_folder_may_be_named_before_or_after_the_command(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    """`--tools` works where a person puts it, and wins over the environment."""
    empty = tmp_path / "empty"
    empty.mkdir()
    assert len(command("list", "--json").json["tools"]) == 3
    assert command("--tools", str(empty), "list", "--json").json["tools"] == []
    assert command("list", "--tools", str(empty), "--json").json["tools"] == []


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (ConfigurationError("timeout must be positive"), 2, "configuration_error"),
        (MissingExtraError("pip install x"), 1, "missing_extra"),
        (typer.TyperException("no"), 1, "usage_error"),
    ],
)
def test_an_error_of_the_engine_is_told_without_a_traceback(
    command: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    code: int,
    kind: str,
) -> None:
    """What the engine refuses is a message; its type is in the JSON."""

    def fail(*_: object, **__: object) -> int:
        raise error

    monkeypatch.setattr("tool_engine.cli.files.list_command.list_tools", fail)
    assert command("list") == (code, "", f"error: {error}\n")
    assert command("list", "--json").json == {"error": {"type": kind, "message": str(error)}}


@pytest.mark.parametrize(
    "words", [("--json",), ("--format", "json"), ("--format=json",), ("-x", "--format", "json")]
)
def test_who_asks_for_json_gets_mistakes_as_json(
    command: Callable[..., Any], words: tuple[str, ...]
) -> None:
    """`--format json` is `--json`, for a mistake on the command line too."""
    ended = command("lint", "no_such_tool", *words)
    assert (ended.code, ended.err) == (2, "")
    assert ended.json["error"]["message"]
    assert command("lint", "no_such_tool", "--format", "text", "json").out == ""


@pytest.mark.parametrize(("raised", "code"), [(SystemExit(1), 1), (SystemExit("x"), 1)])
def test_a_library_that_ends_the_process_ends_the_command(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, raised: SystemExit, code: int
) -> None:
    """Rich and typer end the process when a pipe closes; the exit code is 1."""

    def stop(*_: object, **__: object) -> int:
        raise raised

    monkeypatch.setattr("tool_engine.cli.files.list_command.list_tools", stop)
    assert command("list").code == code


def test_a_pipe_that_closes_is_no_traceback(
    tools: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Writing to a reader that has gone ends with exit code 1."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert run(["--tools", str(tools), "list", "--json"]) == 1


@pytest.mark.parametrize("words", ["list --json", "list", "--help", "schema", "watch --json"])
def test_a_real_pipe_that_closes_leaves_stderr_empty(tools: Path, words: str) -> None:
    """`tool-engine list | head -0` prints nothing on stderr, not even as the interpreter ends."""
    line = f"{sys.executable} -m tool_engine.cli --tools {tools} {words} | true"
    ended = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize("words", ["list --json", "list", "--version"])
def test_a_full_disk_behind_stdout_is_told(tools: Path, words: str) -> None:
    """An output that cannot be written is one line on stderr, and a failure."""
    line = f"{sys.executable} -m tool_engine.cli --tools {tools} {words} > /dev/full"
    ended = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        "error: the output could not be written: No space left on device"
    ]


@pytest.mark.parametrize(("name", "words"), [("stdout", "list"), ("stderr", "list --nonsense")])
def test_a_closed_stream_is_no_traceback(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    """As with `>&-`: somebody wants to read nothing, and the command does what it does."""
    monkeypatch.setattr(sys, name, None)
    try:
        assert run(words.split()) == (0 if name == "stdout" else 2)
    finally:
        getattr(sys, name).close()


def test_nobody_can_be_told(tools: Path) -> None:
    """A mistake has its exit code also where the message cannot be written, as at a terminal that
    is gone."""
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "tool_engine.cli", "call", "nonsense"],
            env={**os.environ, "TOOL_ENGINE_TOOLS": str(tools)},
            stdout=full,
            stderr=full,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 2


def test_help_is_light() -> None:
    """`--help` and completion load no command, no engine, no settings and no event loop."""
    code = (
        "import sys\nfrom tool_engine.cli.app import run\nrun(['--help'])\n"
        "light = {'app', 'command_list', 'completion', 'console', 'failures', 'options'}\n"
        "light |= {'settings', 'completion_scripts'}\n"
        "names = [name.split('.') for name in sys.modules]\n"
        "loaded = {name[2] for name in names if name[:2] == ['tool_engine', 'cli'] and name[2:]}\n"
        "heavy = {'aiohttp', 'asyncio', 'msgspec', 'watchdog'}\n"
        "heavy |= {'tool_engine.config', 'tool_engine.engine', 'importlib.metadata'}\n"
        "heavy |= {'markdown_it', 'rich.traceback'}\n"
        "print(sorted(loaded - light), heavy & {*sys.modules}, file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.stderr == "[] set()\n"


def test_an_ascii_terminal_gets_escapes(tools: Path) -> None:
    """A terminal that cannot show a character gets its escape, not an exception."""
    (tools / "echo.yaml").write_text("name: echo\ndescription: 回声\n", encoding="utf-8")
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    text = spawn("--tools", str(tools), "list", env=env)
    assert text.returncode == 0
    assert "\\u56de" in text.stdout
    document = json.loads(spawn("--tools", str(tools), "list", "--json", env=env).stdout)
    assert document["tools"][1]["description"] == "回声"


def test_streams_that_cannot_be_reconfigured_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that replaced stdout by a buffer can still run a command line."""
    buffer = io.StringIO()
    monkeypatch.setattr(sys, "stdout", buffer)
    assert run(["--version"]) == 0
    assert buffer.getvalue().startswith("tool-engine ")
