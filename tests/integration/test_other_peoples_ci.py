"""The hooks and the action that other projects use run real commands, and find what is wrong."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import warm
from tool_engine.cli.app import run
from tool_engine.cli.command_list import COMMANDS

ROOT = Path(__file__).parents[2]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
BAD = "name: bad\ndescription: It.\ntimeout: soon\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    assert run(["init"]) == 0
    assert run(["lock"]) == 0
    return tmp_path


def run_words(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    folders = [str(warm.programs()), str(Path(sys.executable).parent), os.environ["PATH"]]
    return subprocess.run(
        words,
        env={**os.environ, "PATH": os.pathsep.join(folders), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_passes_a_good_project_and_stops_a_bad_one(place: Path, hook: Any) -> None:
    """Each is a command of the program, runs in its own environment, and looks at the folder."""
    program, command, *_ = words = shlex.split(hook["entry"])
    assert (program, command in COMMANDS, hook["language"]) == ("tool-engine", True, "python")
    assert hook["pass_filenames"] is False
    assert run(words[1:]) == 0
    (place / "tools" / "bad.yaml").write_text(BAD)
    assert run(words[1:]) == 1


@pytest.mark.parametrize("listed", ["here", "by init"])
def test_a_file_that_does_not_load_fails_one_hook(place: Path, listed: str) -> None:
    """Those behind it would say the same: pre-commit ends with a hook that has `fail_fast`."""
    hooks = HOOKS
    if listed == "by init":
        hooks = yaml.safe_load((place / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert len(hooks) in (3, 4)
    (place / "tools" / "bad.yaml").write_text(BAD)
    failed = []
    for hook in hooks:
        if run(shlex.split(hook["entry"])[1:]) != 0:
            failed.append(hook["id"])
            if hook.get("fail_fast"):
                break
    assert failed == ["tool-engine-validate"]


def check_by_action(**inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the action's own script, as GitHub does, with the defaults of its inputs."""
    step = next(each for each in ACTION["runs"]["steps"] if each["name"] == "Check")
    given = {name: each["default"] for name, each in ACTION["inputs"].items()}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    variables = {
        name: given[text.removeprefix("${{ inputs.").removesuffix(" }}")]
        for name, text in step["env"].items()
    }
    assert "${{" not in step["run"], "an input in the script could be a command"
    return run_words("bash", "-e", "-o", "pipefail", "-c", step["run"], **variables)


def test_the_action_marks_the_line_and_fails(place: Path) -> None:
    good = check_by_action(checks="validate lint test lock")
    assert good.returncode == 0, good
    assert "::error" not in good.stdout
    (place / "tools" / "bad.yaml").write_text(BAD)
    bad = check_by_action()
    assert bad.returncode == 1
    assert bad.stdout.count("::error file=tools/bad.yaml,line=3,col=10,") == 3
    assert bad.stdout.count("::group::") == bad.stdout.count("::endgroup::") == 3


def test_the_action_of_another_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports for code scanning are written, also where a check fails."""
    (place / "tools" / "bad.yaml").write_text(BAD)
    (place / "elsewhere").mkdir()
    monkeypatch.chdir(place / "elsewhere")
    ended = check_by_action(directory="..", sarif_folder="out", checks="validate lint")
    assert ended.returncode == 1
    written = sorted((place / "elsewhere" / "out").iterdir())
    assert [each.name for each in written] == ["lint.sarif", "validate.sarif"]
    assert all('"startLine": 3' in each.read_text() for each in written)


def test_an_input_is_no_command(place: Path) -> None:
    ended = check_by_action(checks="validate; touch$IFS/owned $(touch owned) *")
    assert ended.returncode == 1
    assert "::error::there is no check '$(touch'" in ended.stdout
    assert not (place / "owned").exists()
