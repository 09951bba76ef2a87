"""`lint` tells people, programs and GitHub what could be better, and by the exit code whether."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]

POOR = (
    "name: poor\ndescription: x\nparameters:\n  - {name: a, type: string, description: a, b: 1}\n"
)
TWO = """\
name: one
description: Says one. Use it to count; it does not add.
examples: [{params: {}}]
tests: [{params: {}, expect: 1}]
---
name: two
description: Says two
"""


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_findings_have_place_code_and_cure(command: Command, tools: Path) -> None:
    """R5: each finding on a line of its own, then the counts; exit code 1."""
    path = write(tools, "note.yaml", "name: note\ndescription: Note\neffect: read\n")
    ended = command("lint", path)
    assert (ended.code, ended.err) == (1, "")
    assert f"{path}:2:14: L101 description: only repeats the name" in ended.out
    assert ended.out.endswith("1 file linted, 0 errors, 5 warnings\n")


def test_a_clean_file_is_clean(command: Command, tools: Path) -> None:
    """Exit code 0, and one line says so."""
    command("new", "good", "--kind", "echo")
    ended = command("lint", str(tools / "good.yaml"))
    assert ended == (0, "1 file linted, 0 errors, 0 warnings\n", "")


def test_targets_are_files_folders_and_tools(command: Command, tools: Path, tmp_path: Path) -> None:
    """A file that is named twice is linted once; a name keeps the findings of that tool."""
    write(tools, "both.yaml", TWO)
    every = command("lint", "--format", "json").json
    assert every["linted"] == 4
    assert command("lint", str(tools), "echo", str(tools / "echo.yaml"), "--json").json == every
    assert command("lint", "one").code == 0
    two = command("lint", "two", "--json").json
    assert {finding["tool"] for finding in two["findings"]} == {"two"}
    assert two["warnings"] == len(two["findings"]) > 0
    assert command("lint", str(tmp_path / "tools/both.yaml"), "one", "--json").json["findings"]


def test_sub_folders_are_read_when_asked(command: Command, tools: Path) -> None:
    """`--recursive` is the same here as everywhere."""
    (tools / "deep").mkdir()
    write(tools / "deep", "note.yaml", "name: note\ndescription: Note\n")
    assert command("lint", "--json").json["linted"] == 3
    assert command("--recursive", "lint", "--json").json["linted"] == 4
    assert command("--recursive", "lint", "note").code == 1


@pytest.mark.parametrize(
    ("words", "part", "kind"),
    [
        (("ecko",), "did you mean 'echo'?", "tool_not_found"),
        (("nowhere/x",), "there is no file or folder 'nowhere/x'", "no_such_file"),
        (("echo.yml",), "there is no file or folder 'echo.yml'", "no_such_file"),
        (("--select", "L109"), "did you mean 'L10", "configuration_error"),
        (("--ignore", "L1,nope"), "there is no lint rule 'nope'", "configuration_error"),
        (("--format", "jsn"), "did you mean 'json'?", "usage_error"),
    ],
)
def test_a_wrong_word_names_the_cure(
    command: Command, words: tuple[str, ...], part: str, kind: str
) -> None:
    """A slip on the command line is exit code 2 with the nearest right word."""
    ended = command("lint", *words)
    assert (ended.code, ended.out) == (2, "")
    assert part in ended.err
    assert command("lint", *words, "--json").json["error"]["type"] == kind


def test_rules_are_chosen_on_the_command_line(command: Command, tools: Path) -> None:
    """`--select` and `--ignore` are repeatable, take lists, and beginnings of codes."""
    write(tools, "note.yaml", "name: note\ndescription: Note\n")

    def codes(*words: str) -> set[str]:
        found = command("lint", "note", "--json", *words).json["findings"]
        return {finding["code"] for finding in found}

    assert codes() == {"L101", "L102", "L103", "L401", "L402"}
    assert codes("--select", "L1, L401") == {"L101", "L102", "L103", "L401"}
    assert codes("-s", "L1", "-i", "L102,L103") == {"L101"}
    assert codes("-i", "L1", "-i", "L4") == set()


def test_what_does_not_load_is_an_error_that_nothing_switches_off(
    command: Command, tools: Path
) -> None:
    """K3: a broken file is no clean file, whatever is ignored."""
    path = write(tools, "poor.yaml", POOR)
    ended = command("lint", path, "--ignore", "L")
    assert ended.code == 1
    assert f"{path}:4:45: L000 parameters[0].b: unknown key 'b'" in ended.out
    assert "1 error, 0 warnings" in ended.out


def test_github_shows_findings_beside_the_lines(command: Command, tools: Path) -> None:
    """One workflow command per finding; nothing in a file can end or forge one."""
    hostile = 'name: a\ndescription: "x%0A::error::\\n::stop-commands::y"\nstatus: deprecated\n'
    path = write(tools, "a,b:c.yaml", hostile)
    ended = command("lint", path, "--format", "github", "--select", "L1")
    lines = ended.out.splitlines()
    assert ended.code == 1
    assert all(line.startswith("::warning file=") for line in lines)
    place = path.replace(":", "%3A").replace(",", "%2C")
    assert f"::warning file={place},line=2,col=14,title=L102 description::does not say" in ended.out
    hidden = write(tools, "a\n::error::b.yaml", "name: a\ndescription: Note\n")
    lines = command("lint", hidden, "--format", "github").out.splitlines()
    assert all(line.startswith("::warning file=") for line in lines)
    write(tools, "bad.yaml", "name: a\ndescription: x\n'k\\n::e': 1\n\"\\n::error::x\": 2\n")
    forged = command("lint", str(tools / "bad.yaml"), "--format=github").out.splitlines()
    assert all(line.startswith("::error file=") for line in forged)


def test_the_rules_can_be_listed(command: Command) -> None:
    """Each with its code, severity, summary and reason."""
    ended = command("lint", "--rules")
    assert ended.code == 0
    assert "L105  error: A provider refuses the name of the tool" in ended.out
    rules = command("lint", "--rules", "--json").json["rules"]
    assert [rule["code"] for rule in rules][:2] == ["L001", "L101"]
    assert all(rule["reason"] and rule["severity"] in ("error", "warning") for rule in rules)


def test_the_tools_of_the_readme_are_clean(command: Command, tmp_path: Path) -> None:
    """What a reader copies first is what `lint` and `test` would have of it."""
    text = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    files = re.findall(r"```yaml\n# tools/(\S+)\n(.*?)```", text, re.DOTALL)
    assert files
    for name, definition in files:
        write(tmp_path, name, definition)
    ended = command("--tools", str(tmp_path), "lint")
    assert (ended.code, ended.out) == (0, f"{len(files)} file linted, 0 errors, 0 warnings\n")
    tested = command("--tools", str(tmp_path), "test")
    assert tested.code == 0, tested
