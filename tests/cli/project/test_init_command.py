"""`init` begins a project that works as it is, and changes nothing that is there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import warm
from tests.cli.conftest import Command


@pytest.fixture
def place(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.delenv("TOOL_ENGINE_TOOLS")
    return here


def test_each_step_that_is_printed_works(place: Path, command: Command) -> None:
    """The tool passes all checks and its call answers."""
    ended = command("init", "my tools", "--json").json
    assert ended["kept"] == []
    enter, *steps = ended["next"]
    assert enter == "cd 'my tools'"
    os.chdir("my tools")
    try:
        for step in (*steps, "tool-engine validate", "tool-engine lint shorten"):
            program, *words = shlex.split(step)
            done = command(*words)
            assert (program, done.code) == ("tool-engine", 0), (step, done)
    finally:
        os.chdir(place)
        sys.modules.pop("tools.shorten", None)
        sys.modules.pop("tools", None)


def test_it_says_what_its_checks_need(place: Path, command: Command) -> None:
    """What its tests and its hooks run with is no part of the engine."""
    said = command("init").out.splitlines()[-1]
    assert re.findall("`(.+?)`", said) == [
        "pip install pytest pre-commit",
        "python -m pytest",
        "pre-commit install",
    ]


@pytest.mark.parametrize("tools", ["tools", "agents/tools"])
def test_its_own_tests_pass_wherever_pytest_is_started(
    place: Path, command: Command, tools: str
) -> None:
    """Also where the tools are not at the top: functions are found in the folder above them."""
    (place / "mine").mkdir()
    (place / "mine" / "tool-engine.toml").write_text(f'tools = "{tools}"\n', encoding="utf-8")
    assert command("init", "mine").code == 0
    for folder, target in ((place / "mine", "tests"), (place, "mine/tests")):
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin"]
        words.append(target)
        ended = warm.run(words, cwd=folder, imports=("pytest", "pytest_asyncio.plugin"))
        assert ended.returncode == 0, ended.stdout
        assert "2 passed" in ended.stdout


def test_git_leaves_out_what_its_use_makes(place: Path, command: Command) -> None:
    """After its tests, and with the settings' records, `git add -A` adds what was written alone."""
    written = command("init", "--json").json["written"]
    for made in ("tools/__pycache__/a.pyc", ".venv/pyvenv.cfg", ".pytest_cache/x", "calls.db-wal"):
        (place / made).parent.mkdir(exist_ok=True)
        (place / made).write_text("made")
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], check=True, cwd=place)
    added = subprocess.run(["git", "ls-files"], capture_output=True, check=True, cwd=place)
    assert set(added.stdout.decode().split()) == set(written)


def test_its_hooks_and_its_checks_are_commands_that_work(place: Path, command: Command) -> None:
    """What pre-commit and GitHub run is done here as they do it, and finds a broken file."""
    command("init")
    hooks = yaml.safe_load((place / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    job = yaml.safe_load((place / ".github/workflows/tools.yml").read_text())["jobs"]["tools"]
    lines = [each["entry"] for each in hooks] + [
        step["run"] for step in job["steps"] if step.get("run", "").startswith("tool-engine")
    ]
    assert len(lines) == 6
    words = [shlex.split(line)[1:] for line in lines]
    assert [command(*each).code for each in words] == [0] * 6
    (place / "tools" / "bad.yaml").write_text("name: bad\n")
    assert [command(*each).code for each in words] == [1] * 6
    sys.modules.pop("tools.shorten", None)
    sys.modules.pop("tools", None)


OWN = """name: own
description: Says it. Use it to try things out. It does not shout.
effect: read
parameters: [{name: message, type: string, required: true, description: What to say}]
entry: {type: builtin, handler: echo}
tests: [{params: {message: a}, expect: {message: a}}]
"""


@pytest.mark.parametrize(
    "files", [{"tools/own.yaml": OWN}, {"tools/shorten.py": "def run():\n    return 1\n"}]
)
def test_what_ci_runs_is_there_beside_tools_of_ones_own(
    place: Path, command: Command, files: dict[str, str]
) -> None:
    """pytest finds a test, which passes; a module of that name gets no tool that does not fit."""
    (place / "tools").mkdir()
    for name, text in files.items():
        (place / name).write_text(text)
    written = command("init", "--json").json["written"]
    assert "tests/test_tools.py" in written
    assert not [each for each in written if each.startswith("tools/")]
    jobs = yaml.safe_load((place / ".github/workflows/tools.yml").read_text())["jobs"]
    lines = [step["run"] for step in jobs["tools"]["steps"] if "run" in step]
    for line in lines[1:]:
        program, *words = shlex.split(line)
        if program == "python":
            ended = warm.run([*words, "-q", "-p", "no:cacheprovider"], cwd=place)
            assert ended.returncode == 0, ended.stdout
            assert "1 passed" in ended.stdout
        elif "lint" not in words:
            assert command(*words).code == 0, line


def test_nothing_that_is_there_is_changed(place: Path, command: Command) -> None:
    """A project of before keeps its files; one with tools gets no example."""
    (place / "tools").mkdir()
    (place / "tools" / "mine.yaml").write_text("name: mine\ndescription: It.\n")
    (place / ".pre-commit-config.yaml").write_text("repos: []\n")
    (place / "pyproject.toml").write_text("[tool.tool-engine]\nmax_threads = 3\n")
    ended = command("init", "--json").json
    assert ended["kept"] == [".pre-commit-config.yaml"]
    added = ["tests/test_tools.py", ".gitignore", ".github/workflows/tools.yml"]
    assert ended["written"] == added
    assert (place / ".pre-commit-config.yaml").read_text() == "repos: []\n"
    again = command("init")
    assert again.code == 0
    assert "wrote" not in again.out


def test_the_folder_of_tools_that_is_named_is_used(place: Path, command: Command) -> None:
    """What `init` writes down holds for the commands after it."""
    assert command("init", "--tools", "my_tools").code == 0
    assert (place / "my_tools" / "shorten.yaml").is_file()
    assert [each["name"] for each in command("list", "--json").json["tools"]] == ["shorten"]


@pytest.mark.parametrize("target", ["taken", "taken/inner"])
def test_a_folder_that_cannot_be_made(place: Path, command: Command, target: str) -> None:
    (place / "taken").write_text("")
    ended = command("init", target)
    assert ended.code == 2
    assert f"cannot make the folder {target!r}" in ended.err


def test_a_file_in_the_place_of_a_folder(place: Path, command: Command) -> None:
    (place / "tests").write_text("")
    ended = command("init")
    assert ended.code == 2
    assert "cannot make the folder 'tests'" in ended.err
    assert "move away what is in its place" in ended.err
    assert sorted(each.name for each in place.iterdir() if each.is_file()) == ["tests"]
