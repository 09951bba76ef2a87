"""`new` writes a tool that works, and nothing over anybody's work."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine.catalog.definition.starter import KINDS, SCHEMA_FILE, schema_text
from tool_engine.cli.app import run

Command = Callable[..., Any]


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_tool_is_valid_and_clean(command: Command, tools: Path, kind: str) -> None:
    """A file of every kind validates, lints clean, and is shown with its example."""
    ended = command("new", "my_tool", "--kind", kind)
    assert (ended.code, ended.err) == (0, "")
    assert f"wrote {tools / 'my_tool.yaml'}" in ended.out
    checked = command("validate", str(tools / "my_tool.yaml"))
    assert checked.code == 0
    assert "warning" not in checked.out
    assert command("lint", "my_tool").out.endswith("1 file linted, 0 errors, 0 warnings\n")
    assert command("show", "my_tool").code == 0
    tested = command("test", "my_tool")
    assert tested.code == 0, tested
    assert "0 failed, 0 skipped" in tested.out


@pytest.mark.parametrize("kind", ["calculator", "echo"])
def test_the_last_step_that_is_printed_calls_the_tool(command: Command, kind: str) -> None:
    """What a person is told to type next is right."""
    steps = command("new", "my_tool", "--kind", kind, "--json").json["next"]
    program, *words = steps[-1].replace("'", "").split(" ", 5)
    assert program == "tool-engine"
    assert command(*words).code == 0


def test_a_new_workflow_has_the_tools_that_it_calls(
    command: Command, tmp_path: Path, tools: Path
) -> None:
    """Each step that is printed works in a fresh project; a tool that is there stays."""
    folder = tmp_path / "fresh"
    for at, made in ((folder, ["calculator", "echo"]), (tools, [])):
        names = ["--tools", str(at), "new", "my_steps", "--kind", "run_workflow", "--json"]
        document = command(*names).json
        files = [str(at / f"{name}.yaml") for name in made]
        assert document["files"] == [str(at / "my_steps.yaml"), str(at / SCHEMA_FILE), *files]
        for step in document["next"]:
            program, *words = shlex.split(step)
            ended = command(*words)
            assert (program, ended.code) == ("tool-engine", 0), (step, ended)
        assert ended.json == {"results": [{"result": 2}, {"result": 6}], "note": "all well"}


def test_a_python_tool_comes_with_code_that_runs(command: Command, tools: Path) -> None:
    """The code lies beside the file, and each step that is printed works as it stands."""
    document = command("new", "my_tool", "--kind", "python", "--json").json
    assert document["files"] == [
        str(tools / "my_tool.yaml"),
        str(tools / "my_tool.py"),
        str(tools / SCHEMA_FILE),
    ]
    for step in document["next"]:
        program, *words = shlex.split(step)
        ended = command(*words)
        assert (program, ended.code) == ("tool-engine", 0), (step, ended)
    assert ended.json == {"text": "To be"}


def test_a_python_tool_is_the_same_in_a_program_and_at_the_command_line(tmp_path: Path) -> None:
    """A new project in an empty folder: `call`, `validate` and `python app.py` find its modules.

    Looked at: commands that run tools (the folder is on Python's path) and those that only read
    definitions (the source is looked for there, and nothing of the project runs).
    """
    (tmp_path / "words.py").write_text("def shorten(text: str) -> str:\n    return text[:3]\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "y.yaml").write_text(SHORTEN)
    (tmp_path / "app.py").write_text(PROGRAM)
    cli = ["-P", "-m", "tool_engine.cli"]
    assert _python(tmp_path, *cli, "new", "x", "--kind", "python")[0] == 0
    for words, out in (
        ([*cli, "call", "x", "text=a b c", "words=2"], '{\n  "text": "a b"\n}\n'),
        ([*cli, "call", "y", "text=hallo"], "hal\n"),
        (["app.py"], "a b hal\n"),
    ):
        assert _python(tmp_path, *words) == (0, out, ""), words
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    there = [*cli, "--tools", str(tools)]
    assert _python(elsewhere, *there, "call", "y", "text=hallo")[:2] == (0, "hal\n")
    assert _python(elsewhere, *there, "validate", str(tools))[0] == 0
    moved = tmp_path / "lib"
    moved.mkdir()
    (tmp_path / "words.py").rename(moved / "words.py")
    assert "there is no module 'words'" in _python(tmp_path, *cli, "validate")[1]
    assert _python(tmp_path, *cli, "--path", "lib", "call", "y", "text=hallo")[:2] == (0, "hal\n")
    assert _python(tmp_path, *cli, "--path", "lib", "validate", "tools/y.yaml")[0] == 0


def test_checking_a_project_runs_nothing_of_it(tmp_path: Path) -> None:
    """A module of the project that is named as a library of ours is not imported to check."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "y.yaml").write_text(SHORTEN)
    (tmp_path / "words.py").write_text(
        "raise SystemExit('the project runs')\ndef shorten(text): ..."
    )
    for name in ("rich", "jmespath", "aiohttp", "sqlalchemy", "yaml"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the project runs')")
    there = ["-P", "-m", "tool_engine.cli", "--tools", str(tmp_path / "tools")]
    for words in (["validate"], ["list"], ["show", "y"], ["lint"], ["search", "text"]):
        code, out, err = _python(tmp_path, *there, *words)
        assert "the project runs" not in out + err, words
        assert code in (0, 1), (words, out, err)


SHORTEN = """\
name: y
description: Shortens a text.
parameters:
  - {name: text, type: string, required: true, description: The text}
entry: {type: python, handler: "words:shorten"}
"""
PROGRAM = """\
import asyncio
from tool_engine import ToolEngine

async def main():
    async with ToolEngine() as engine:
        long = await engine.execute("x", {"text": "a b c", "words": 2})
        short = await engine.execute("y", {"text": "hallo"})
        print(long.output["text"], short.output["result"])

asyncio.run(main())
"""


def _python(folder: Path, *words: str) -> tuple[int, str, str]:
    """How Python ended in `folder`, without a path or settings of ours."""
    ours = ("PYTHONPATH", "TOOL_ENGINE_TOOLS", "TOOL_ENGINE_PATH")
    env = {key: value for key, value in os.environ.items() if key not in ours}
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**env, "TOOL_ENGINE_RECORDS": "none"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_the_schema_lies_beside_the_file_and_is_no_tool(command: Command, tools: Path) -> None:
    """The address in the first line leads to the schema of this version, offline."""
    (tools / SCHEMA_FILE).write_text("old", encoding="utf-8")
    assert command("new", "my_tool", "-k", "echo").code == 0
    first = (tools / "my_tool.yaml").read_text(encoding="utf-8").splitlines()[0]
    address = first.removeprefix("# yaml-language-server: $schema=")
    assert (tools / address).read_text(encoding="utf-8") == schema_text()
    assert command("validate").out.startswith("4 files checked, 4 valid")
    assert not list(tools.glob(".*.tmp"))


def test_a_folder_that_is_not_there_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first command in an empty folder works; the steps name another folder if there is one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOL_ENGINE_TOOLS", raising=False)
    assert run(["new", "first", "--kind", "echo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["next"][-1] == "tool-engine call first message=hello"
    assert run(["new", "second", "--kind", "echo", "--json", "--tools", "my tools/deep"]) == 0
    steps = json.loads(capsys.readouterr().out)["next"]
    assert steps[0] == "tool-engine validate 'my tools/deep/second.yaml'"
    assert steps[1] == "tool-engine --tools 'my tools/deep' lint second"
    assert (tmp_path / "my tools/deep/second.yaml").is_file()


@pytest.mark.parametrize("kind", ["echo", "python"])
def test_nothing_is_written_over_a_file(command: Command, tools: Path, kind: str) -> None:
    """A tool that is there stays as it is unless --force says otherwise."""
    (tools / "my_tool.py").write_text("mine", encoding="utf-8")
    (tools / "my_tool.yaml").write_text("# mine\n", encoding="utf-8")
    ended = command("new", "my_tool", "--kind", kind)
    assert ended.code == 2
    assert "is there already; choose another name, or replace it with --force" in ended.err
    assert (tools / "my_tool.yaml").read_text(encoding="utf-8") == "# mine\n"
    assert (tools / "my_tool.py").read_text(encoding="utf-8") == "mine"
    assert command("new", "my_tool", "--kind", kind, "--force").code == 0
    assert "my_tool" in (tools / "my_tool.yaml").read_text(encoding="utf-8")
    replaced = (tools / "my_tool.py").read_text(encoding="utf-8") != "mine"
    assert replaced == (kind == "python")


def test_a_handler_that_is_there_keeps_the_definition_from_being_written(
    command: Command, tools: Path
) -> None:
    """Whole or not at all: no half of a new tool is left when one file of it is refused."""
    for there, other in (("my_tool.py", "my_tool.yaml"), ("my_tool.yaml", "my_tool.py")):
        (tools / there).write_text("mine", encoding="utf-8")
        assert command("new", "my_tool", "--kind", "python").code == 2
        assert not (tools / other).exists()
        (tools / there).unlink()


def test_a_name_that_another_file_defines_is_refused(command: Command, tools: Path) -> None:
    """Two files of one name would both be refused, so the second is not written, even by force."""
    (tools / "echo.yaml").rename(tools / "other.yaml")
    for force in ((), ("--force",)):
        ended = command("new", "echo", "--kind", "echo", *force)
        assert ended.code == 2
        assert f"already defined in {str(tools / 'other.yaml')!r}; choose another name" in ended.err
        assert "--force" not in ended.err
    assert not (tools / "echo.yaml").exists()
    named = command("new", "fetch", "--kind", "http")
    assert "replace it with --force" in named.err
    assert command("new", "fetch", "--kind", "http", "--force").code == 0


@pytest.mark.parametrize(
    ("words", "part", "kind"),
    [
        (("GetWeather",), "write 'get_weather'", "bad_name"),
        (("../evil",), "write 'evil'", "bad_name"),
        (("天气",), "which every provider takes\n", "bad_name"),
        (("x", "--kind", "htp"), "did you mean 'http'?", "usage_error"),
        (("x", "--kind", "zzz"), "http (an HTTP request", "usage_error"),
        (("class", "--kind", "python"), "Python cannot import", "bad_name"),
    ],
)
def test_a_wrong_name_or_kind_names_the_cure(
    command: Command, tools: Path, words: tuple[str, ...], part: str, kind: str
) -> None:
    """R4: what a provider would refuse is not begun; the nearest good word is offered."""
    before = sorted(tools.iterdir())
    ended = command("new", *words)
    assert (ended.code, ended.out) == (2, "")
    assert part in ended.err
    assert command("new", *words, "--json").json["error"]["type"] == kind
    assert sorted(tools.iterdir()) == before


def test_a_folder_that_cannot_be_made_is_told(command: Command, tools: Path) -> None:
    """A file where the folder should be is a message, not a traceback."""
    ended = command("new", "x", "--tools", str(tools / "echo.yaml"))
    assert ended.code == 2
    assert "cannot make the folder" in ended.err


def test_a_schema_that_cannot_be_written_keeps_the_tool_from_being_begun(
    command: Command, tools: Path
) -> None:
    """Whole or not at all: what fails, fails before the tool is written."""
    (tools / SCHEMA_FILE).mkdir()
    ended = command("new", "my_tool", "--kind", "echo")
    assert ended.code == 2
    assert "cannot write" in ended.err
    assert not (tools / "my_tool.yaml").exists()


def test_a_schema_that_is_a_link_stays_one(command: Command, tools: Path, tmp_path: Path) -> None:
    """What has the right schema already is left alone."""
    (tmp_path / "schema.json").write_text(schema_text(), encoding="utf-8")
    (tools / SCHEMA_FILE).symlink_to(tmp_path / "schema.json")
    assert command("new", "my_tool", "--kind", "echo").code == 0
    assert (tools / SCHEMA_FILE).is_symlink()


def test_the_schema_can_be_written_to_a_file(command: Command, tmp_path: Path) -> None:
    """`schema --output FILE` writes what `schema` prints; an old one is replaced."""
    target = tmp_path / "x.json"
    target.write_text("old", encoding="utf-8")
    assert command("schema", "--output", str(target)) == (0, "", "")
    assert target.read_text(encoding="utf-8") == command("schema").out
    ended = command("schema", "--output", str(tmp_path / "no/x.json"))
    assert ended.code == 2
    assert "make its folder first" in ended.err
