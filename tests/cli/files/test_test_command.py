"""Does `tool-engine test` tell people, programs and build servers how the tests ended?"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import Command

GOOD = """
name: greet
description: Greets.
entry: {type: builtin, handler: echo}
parameters:
  - {name: message, type: string, required: true, description: M, pattern: "^[a-z]+$"}
examples:
  - {params: {message: hello}, output: {message: hello}}
tests:
  - {name: needs a message, params: {}, expect_error: validation_error}
"""
BAD = """
name: fails
description: Fails.
entry: {type: builtin, handler: echo}
parameters:
  - {name: message, type: string, required: true, description: M}
tests:
  - name: says [bold]hi[/bold]
    params: {message: "\\e[31mhi"}
    expect: {message: hello}
"""
MINE = """
name: mine
description: Mine.
entry: {type: custom, handler: my_handler}
tests:
  - {params: {}, expect: {answer: 42}}
"""
APP = """
from tool_engine import ToolEngine, ToolEngineConfig

engine = ToolEngine(ToolEngineConfig(tools_directory=FOLDER, auto_reload=False))

class MyHandler:
    async def execute(self, tool, params, context):
        return {"answer": 42}

engine.register_executor("my_handler", MyHandler())
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with one good tool."""
    folder = tmp_path / "tools"
    folder.mkdir()
    write(folder, "greet", GOOD)
    return folder


def write(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.yaml").write_text(text.lstrip(), encoding="utf-8")


def test_good_tools_pass(command: Command) -> None:
    """A line per tool, a sum, and exit code 0."""
    ended = command("test")
    assert (ended.code, ended.err) == (0, "")
    first, last = ended.out.splitlines()
    assert first.split() == ["ok", "greet", "2", "passed,", "28", "generated"]
    assert last == (
        "1 tool: 2 passed, 0 failed, 0 skipped; generated: 20 right calls accepted, "
        "8 wrong ones refused"
    )


def test_tools_that_nobody_approved(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock does not stand between a tool and its tests: they are run before it is approved."""
    monkeypatch.setenv("TOOL_ENGINE_LOCK", "enforce")
    assert "1 tool: 2 passed" in command("test").out


def test_a_failure_is_told_with_place_and_difference(command: Command, tools: Path) -> None:
    """File, line, name, expected and got; no control character of a value reaches the terminal."""
    write(tools, "fails", BAD)
    ended = command("test")
    assert ended.code == 1
    assert f"  {tools}/fails.yaml:7: tests[0] 'says [bold]hi[/bold]': failed" in ended.out
    assert '    output.message: expected "hello", got "\\u001b[31mhi"' in ended.out
    assert "FAILED   fails" in ended.out
    assert "ok       greet" in ended.out
    assert "\x1b" not in ended.out


def test_a_file_that_does_not_load_fails(command: Command, tools: Path) -> None:
    """A broken file is no reason to say that all is well, nor to run nothing else."""
    write(tools, "broken", "name: broken\n")
    ended = command("test")
    assert ended.code == 1
    assert "2 passed" in ended.out
    assert ended.err == f"1 file could not be loaded; see tool-engine validate {tools}\n"
    missing = command("test", "broken")
    assert missing.code == 2
    assert "'broken' could not be loaded: " in missing.err
    assert "the key 'description' is missing" in missing.err
    assert command("test", "greet").code == 0
    assert "did you mean 'broken', whose file" in command("test", "brokn").err


@pytest.mark.parametrize("word", ["test", "lint"])
@pytest.mark.parametrize("form", ["junit", "sarif", "github"])
def test_a_named_tool_that_does_not_load_is_in_every_format(
    command: Command, tools: Path, word: str, form: str
) -> None:
    """A build server gets the document that it waits for, with the reason in it."""
    write(tools, "broken", "name: broken\n")
    ended = command(word, "broken", "--format", form)
    assert (ended.code, ended.err) == (1, "")
    assert "the key 'description' is missing" in ended.out.replace("&apos;", "'")
    if form == "junit":
        assert '<testsuite name="l' in ended.out
    elif form == "sarif":
        (result,) = ended.json["runs"][0]["results"]
        assert result["level"] == "error"


def test_what_cannot_run_is_skipped(command: Command, tools: Path) -> None:
    """A tool without its executor is told as skipped, with the cure; `--strict` fails for it."""
    write(tools, "mine", MINE)
    ended = command("test", "mine")
    assert ended.code == 0
    assert "skipped  mine" in ended.out
    assert "nothing here runs the handler 'my_handler'; name the engine that does" in ended.out
    ended = command("test", "mine", "--strict")
    assert ended.code == 1
    assert "--strict" in ended.out


def test_a_tool_without_tests_is_told(command: Command, tools: Path) -> None:
    """It is not passed over; `--strict` fails for it."""
    write(tools, "bare", "name: bare\ndescription: Bare.\nentry: {type: builtin, handler: echo}\n")
    assert "no tests bare" in command("test").out
    assert command("test").code == 0
    assert command("test", "--strict").code == 1
    assert command("test", "--strict", "greet").code == 0


def test_the_own_engine_runs_its_handlers(
    command: Command, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--app` names the engine of the user's program, found from the current folder."""
    write(tools, "mine", MINE)
    (tmp_path / "my_app_of_test.py").write_text(
        APP.replace("FOLDER", repr(str(tools))), encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["nowhere"])
    ended = command("test", "--app", "my_app_of_test:engine", "--strict")
    assert (ended.code, ended.err) == (0, "")
    assert "ok       mine   1 passed" in ended.out


def test_json_for_programs(command: Command, tools: Path) -> None:
    """One document with every case, its place and its problems."""
    write(tools, "fails", BAD)
    write(tools, "broken", "name: broken\n")
    ended = command("test", "--json", "--seed", "7", "--cases", "3")
    assert ended.code == 1
    told = ended.json
    assert {key: told[key] for key in ("is_passed", "passed", "failed", "skipped", "seed")} == {
        "is_passed": False,
        "passed": 2,
        "failed": 1,
        "skipped": 0,
        "seed": 7,
    }
    fails, greet = told["tools"]
    assert greet["accepted"] == 3
    assert fails["cases"][0]["place"] == f"{tools}/fails.yaml:7"
    assert [each["file"] for each in told["load_errors"]] == [f"{tools}/broken.yaml"]
    assert command("test", "greet", "--json").json["is_passed"] is True


def test_junit_for_build_servers(command: Command, tools: Path, tmp_path: Path) -> None:
    """A file that parses as XML, with a suite per tool and one for what does not load."""
    write(tools, "fails", BAD)
    write(tools, "mine", MINE)
    write(tools, "broken", "name: broken\n")
    file = tmp_path / "results.xml"
    assert command("test", "--junit", str(file)).code == 1
    suites = {suite.get("name"): suite for suite in ET.parse(file).getroot()}  # noqa: S314 - our own file
    assert list(suites) == ["fails", "greet", "mine", "loading"]
    assert [suite.get("tests") for suite in suites.values()] == ["1", "2", "1", "1"]
    failure = suites["fails"].find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == 'output.message: expected "hello", got "\\u001b[31mhi"'
    assert f"{tools}/fails.yaml:7" in (failure.text or "")
    assert suites["mine"].find("testcase/skipped") is not None
    assert suites["loading"].find("testcase/error") is not None
    assert suites["greet"].find("testcase/failure") is None
    assert command("test", "greet", "--junit", str(file)).code == 0
    only = ET.parse(file).getroot()  # noqa: S314 - our own file
    assert [suite.get("name") for suite in only] == ["greet"]
    assert command("test", "--junit", str(tmp_path / "no" / "x.xml")).code == 2


def test_names_are_checked(command: Command, tools: Path) -> None:
    """A name that nobody has is a mistake on the command line; broken files are told with it."""
    write(tools, "broken", "name: broken\n")
    ended = command("test", "gret")
    assert ended.code == 2
    assert "did you mean 'greet'?" in ended.err
    assert "1 file could not be loaded" in ended.err


def test_nothing_is_generated_with_zero_cases(command: Command) -> None:
    """`--cases 0` runs what is written, and nothing else."""
    assert "none generated" in command("test", "--cases", "0").out
    assert command("test", "--cases", "-1").code == 2


def test_notes_are_told(command: Command, tools: Path) -> None:
    """What could not be generated is told under the tool."""
    write(tools, "greet", GOOD.replace("^[a-z]+$", "^\\\\p{L}+$"))
    out = command("test").out
    assert "  note: parameter 'message': the pattern" in out
    assert "an example is used" in out


def test_an_empty_folder_is_fine(command: Command, tools: Path) -> None:
    """No tools, no failures."""
    (tools / "greet.yaml").unlink()
    assert command("test").out.startswith("0 tools: 0 passed, 0 failed, 0 skipped")
