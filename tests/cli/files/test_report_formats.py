"""Other programs read what `validate`, `lint` and `test` find, with file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import Command
from tool_engine.cli.files.report_formats import REPORTS, read_place

GOOD = """name: good
description: Says it. Use it to try things out. It does not shout.
effect: read
parameters:
  - {name: message, type: string, required: true, description: What to say}
entry: {type: builtin, handler: echo}
examples: [{params: {message: hi}, output: {message: hi}}]
tests:
  - {params: {message: a}, expect: {message: a}}
"""
BAD = GOOD.replace("name: good", "name: bad\ntimeout: soon")
FAILING = GOOD.replace("good", "failing").replace("expect: {message: a}", "expect: {message: b}")
COMMANDS = ("validate", "lint", "test")


@pytest.fixture
def folder(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One file that does not load, one whose test fails, and a good one."""
    place = tmp_path / "my tools%"
    place.mkdir()
    for name, text in (("good", GOOD), ("bad", BAD), ("failing", FAILING)):
        (place / f"{name}.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOL_ENGINE_TOOLS", place.name)
    return place


@pytest.mark.parametrize("name", COMMANDS)
def test_github_shows_it_beside_the_line(folder: Path, command: Command, name: str) -> None:
    ended = command(name, "--format", "github")
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert lines[0].startswith("::error file=my tools%25/bad.yaml,line=2,col=10,title=")
    assert "soon" in lines[0]
    assert all(line.startswith("::") for line in lines)
    failing = [line for line in lines if "failing.yaml" in line]
    assert len(failing) == (name == "test")
    assert all("line=9,title=failed failing tests[0]" in line for line in failing)


@pytest.mark.parametrize("name", COMMANDS)
def test_sarif_has_a_result_with_a_rule_and_a_place_for_each(
    folder: Path, command: Command, name: str
) -> None:
    """Paths are below the folder of the repository, as code scanning wants them."""
    log = command(name, "--format", "sarif").json
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert run["tool"]["driver"]["name"] == "tool-engine"
    results = run["results"]
    assert len(results) == (2 if name == "test" else 1)
    assert [rules[each["ruleIndex"]] for each in results] == [each["ruleId"] for each in results]
    place = results[0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "my%20tools%25/bad.yaml"}
    assert place["region"] == {"startLine": 2, "startColumn": 10}
    assert "soon" in results[0]["message"]["text"]
    assert {each["level"] for each in results} == {"error"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_path_that_is_named_whole_counts_from_here(
    folder: Path, command: Command, name: str
) -> None:
    words = ("--tools", str(folder)) if name == "test" else (str(folder),)
    (run,) = command(name, *words, "--format", "sarif").json["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "my%20tools%25/bad.yaml"}


@pytest.mark.parametrize("name", COMMANDS)
def test_paths_count_from_the_repository(
    folder: Path, command: Command, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change names files by their place in the repository, in whichever folder a check runs."""
    (folder.parent / ".git").mkdir()
    (folder / "within").mkdir()
    monkeypatch.chdir(folder / "within")
    monkeypatch.setenv("TOOL_ENGINE_TOOLS", "..")
    assert "error file=my tools%25/bad.yaml,line=2," in command(name, "--format", "github").out
    (run,) = command(name, "--format", "sarif").json["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "my%20tools%25/bad.yaml"}


def read_xml(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - our own text


def read_cases(text: str) -> dict[str, Any]:
    return {each.attrib["name"]: list(each) for each in read_xml(text).iter("testcase")}


@pytest.mark.parametrize("name", ["validate", "lint"])
def test_junit_has_a_case_for_each_file(folder: Path, command: Command, name: str) -> None:
    ended = command(name, "--format", "junit")
    cases = read_cases(ended.out)
    assert ended.code == 1
    assert [bool(cases[f"my tools%/{file}.yaml"]) for file in ("bad", "failing", "good")] == [
        True,
        False,
        False,
    ]
    (failure,) = cases["my tools%/bad.yaml"]
    assert (failure.tag, "soon" in failure.attrib["message"]) == ("failure", True)
    assert "bad.yaml:2:10: " in failure.text
    (suite,) = read_xml(ended.out)
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("3", "1")


@pytest.mark.parametrize("name", ["validate", "lint", "test", "lock"])
def test_each_suite_of_junit_has_all_counts(folder: Path, command: Command, name: str) -> None:
    """Jenkins' xunit plugin refuses a file in which one is missing."""
    words = ("--check",) if name == "lock" else ()
    suites = list(read_xml(command(name, *words, "--format", "junit").out))
    assert suites
    for suite in suites:
        cases = list(suite)
        for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.attrib[count]) == sum(each.find(tag) is not None for each in cases)
        assert int(suite.attrib["tests"]) == len(cases)


def test_a_warning_fails_a_case_where_it_fails_the_command(folder: Path, command: Command) -> None:
    """`validate` exits with 0 for a handler that a program may register, `lint` with 1."""
    for file in ("bad", "failing"):
        (folder / f"{file}.yaml").unlink()
    text = GOOD.replace("{type: builtin, handler: echo}", "{type: custom, handler: mine}")
    (folder / "good.yaml").write_text(text.replace("examples", "# examples"))
    validated = command("validate", "--format", "junit")
    linted = command("lint", "--format", "junit", "--select", "L4")
    assert (validated.code, linted.code) == (0, 1)
    (said,) = read_cases(validated.out)["my tools%/good.yaml"]
    assert (said.tag, "nothing installed runs 'mine'" in said.text) == ("system-out", True)
    assert read_cases(linted.out)["my tools%/good.yaml"][0].tag == "failure"
    assert command("validate", "--format", "github").out.startswith("::warning file=my tools%25/")


def test_the_results_of_tests_are_printed_as_they_are_written(
    folder: Path, command: Command
) -> None:
    printed = command("test", "--format", "junit", "--junit", "results.xml").out
    assert printed == Path("results.xml").read_text()
    assert "loading" in printed


@pytest.mark.parametrize("form", REPORTS)
@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_that_stands_in_a_file_leaves_its_place(
    folder: Path, command: Command, name: str, form: str
) -> None:
    """Line breaks, control characters and markup of a file forge no line of a report."""
    hostile = "</failure>\n::error::forged\x1b[31m\u2028"
    (folder / "bad.yaml").write_text(json.dumps({"name": hostile, "description": hostile}))
    ended = command(name, "--format", form)
    assert ended.code == 1
    assert "\x1b" not in ended.out
    if form == "github":
        assert all("forged" not in line[:20] for line in ended.out.splitlines())
    elif form == "junit":
        read_xml(ended.out)
    else:
        json.loads(ended.out)


def test_json_and_unknown_formats(folder: Path, command: Command) -> None:
    for name in COMMANDS:
        assert command(name, "--format", "json").out == command(name, "--json").out
        wrong = command(name, "--format", "sarf")
        assert (wrong.code, "did you mean 'sarif'?" in wrong.err) == (2, True)
    endless = command("validate", "--watch", "--format", "junit")
    assert (endless.code, "leave one out" in endless.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a.yaml:3:5", ("a.yaml", 3, 5)),
        ("a.yaml:3", ("a.yaml", 3, None)),
        ("c:/a:b.yaml:3:5", ("c:/a:b.yaml", 3, 5)),
        ("a.yaml", ("a.yaml", None, None)),
        (None, (None, None, None)),
    ],
)
def test_places_are_read(text: str | None, place: Any) -> None:
    assert read_place(text) == place


@pytest.mark.parametrize("words", [("validate",), ("lint",), ("test",), ("lock", "--check")])
@pytest.mark.parametrize("form", ["github", "sarif", "junit"])
def test_a_command_that_cannot_be_run_is_in_every_format(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    form: str,
) -> None:
    """What waits for the document gets the reason, with its place; it was left empty."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tool-engine.toml").write_text("nope = 1\n", encoding="utf-8")
    ended = command(*words, "--format", form)
    assert ended.code == 2
    assert ended.err.startswith("error: tool-engine.toml:1:1: there is no setting 'nope'")
    if form == "github":
        place = "::error file=tool-engine.toml,line=1,col=1,title=settings_error::"
        assert ended.out.startswith(f"{place}there is no setting 'nope'; ")
    elif form == "sarif":
        (result,) = ended.json["runs"][0]["results"]
        region = result["locations"][0]["physicalLocation"]["region"]
        assert (result["level"], region) == ("error", {"startLine": 1, "startColumn": 1})
    else:
        assert 'failures="1"' in ended.out
        assert "tool-engine.toml:1:1: settings_error there is no setting" in ended.out
    nowhere = command("-C", "/no/such/folder", *words, f"--format={form}")
    assert nowhere.code == 2
    assert "cannot enter" in nowhere.out
