"""How do other programs read what is wrong with tool files?

GitHub shows its commands beside the lines of a change; CI servers read JUnit's XML; code scanning
reads SARIF 2.1.0. Their texts come from the files, so all of them are escaped.
"""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree as ET

import typer

from tool_engine.cli.completion import complete_format
from tool_engine.cli.console import json_text, safe_text

REPORTS: Final = ("github", "junit", "sarif")
"""The formats for other programs."""
FORMATS: Final = ("text", "json", *REPORTS)
"""How `validate`, `lint`, `test` and `lock` can print what they find."""
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="text, json, github, junit or sarif.",
        autocompletion=complete_format,
    ),
]
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_PLACE: Final = re.compile(r"(.*?):([0-9]+)(?::([0-9]+))?", re.DOTALL)


class Finding(NamedTuple):
    """One thing that is wrong, at one place."""

    code: str
    """What kind of mistake it is, such as `L101`."""
    severity: str
    """`error` or `warning`."""
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    path: str = ""
    """The place inside of the definition."""


class Rule(NamedTuple):
    """What findings of one code have in common."""

    code: str
    summary: str


def read_place(text: str | None) -> tuple[str | None, int | None, int | None]:
    """Return the file, line and column of `tools/a.yaml:3:5`, as far as they are said."""
    found = _PLACE.fullmatch(text or "")
    if found is None:
        return text or None, None, None
    return found[1], int(found[2]), None if found[3] is None else int(found[3])


def make_finding(code: str, severity: str, text: str, file: str | None = None) -> Finding:
    """Return the finding of a text that may begin with its place; None: in a file that it names."""
    place, _, message = text.partition(": ")
    said, line, column = read_place(place)
    if said == file or (file is None and line is not None):
        return Finding(code, severity, message, said, line, column)
    return Finding(code, severity, text, file)


def print_report(
    form: str,
    command: str,
    findings: Sequence[Finding],
    files: Iterable[str],
    rules: Sequence[Rule],
) -> None:
    """Print findings in one of `REPORTS`.

    Args:
        form: The format.
        command: The command that has found them, such as `lint`.
        findings: What is wrong.
        files: All that was looked at, the good files too.
        rules: What the codes of findings mean.
    """
    _PRINTERS[form](command, findings, list(files), rules)


def print_failure(form: str, error_type: str, message: str) -> None:
    """Print in one of `REPORTS` why a command found nothing: it could not be run."""
    found = make_finding(error_type, "error", message)
    print_report(form, "run", [found], (), [Rule(error_type, "the command could not be run")])


def _print_github(
    command: str, findings: Sequence[Finding], files: Sequence[str], rules: Sequence[Rule]
) -> None:
    del command, files, rules
    for finding in findings:
        place = {
            "file": None if finding.file is None else _path_in_repository(finding.file).as_posix(),
            "line": finding.line,
            "col": finding.column,
            "title": f"{finding.code} {finding.path}".strip(),
        }
        words = ",".join(
            f"{key}={_github_text(str(value), in_property=True)}"
            for key, value in place.items()
            if value is not None
        )
        sys.stdout.write(f"::{finding.severity} {words}::{_github_text(finding.message)}\n")


def _github_text(text: str, *, in_property: bool = False) -> str:
    """Escape `text` for GitHub, where line breaks end a command."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if in_property else text


def _print_junit(
    command: str, findings: Sequence[Finding], files: Sequence[str], rules: Sequence[Rule]
) -> None:
    del rules
    of_files: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        of_files[finding.file or command].append(finding)
    names = list(dict.fromkeys([*files, *of_files]))
    failing = {
        name
        for name, found in of_files.items()
        if any(_is_failing(command, each) for each in found)
    }
    root = ET.Element("testsuites", name=f"tool-engine {command}")
    suite = add_suite(root, command, tests=len(names), failures=len(failing))
    for name in names:
        case = ET.SubElement(suite, "testcase", classname=command, name=safe_text(name))
        found = of_files.get(name)
        if not found:
            continue
        text = safe_text("\n".join(map(_describe_finding, found)))
        if name in failing:
            first = next(each for each in found if _is_failing(command, each))
            ET.SubElement(case, "failure", message=safe_text(first.message)).text = text
        else:
            ET.SubElement(case, "system-out").text = text
    print_xml(root)


def add_suite(
    root: ET.Element, name: str, *, tests: int, failures: int = 0, errors: int = 0, skipped: int = 0
) -> ET.Element:
    """Add a suite with all its counts: some readers take none that lacks one."""
    counts = {"tests": tests, "failures": failures, "errors": errors, "skipped": skipped}
    said = {key: str(count) for key, count in counts.items()}
    return ET.SubElement(root, "testsuite", {"name": safe_text(name), **said})


def _is_failing(command: str, finding: Finding) -> bool:
    # For `lint`, a warning is a reason to exit with 1 too.
    return finding.severity == "error" or command == "lint"


def print_xml(root: ET.Element) -> None:
    sys.stdout.write(xml_text(root))


def xml_text(root: ET.Element) -> str:
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _describe_finding(finding: Finding) -> str:
    place = [finding.file, finding.line, finding.column]
    where = ":".join(str(part) for part in place if part is not None)
    about = f"{finding.path}: " if finding.path else ""
    return f"{where}: {finding.code} {about}{finding.message}"


def _print_sarif(
    command: str, findings: Sequence[Finding], files: Sequence[str], rules: Sequence[Rule]
) -> None:
    del files
    known = {rule.code: rule for rule in rules}
    for finding in findings:
        known.setdefault(finding.code, Rule(finding.code, finding.code))
    numbers = {code: number for number, code in enumerate(known)}
    driver = {
        "name": "tool-engine",
        "version": _find_version(),
        "rules": [
            {"id": rule.code, "shortDescription": {"text": rule.summary}} for rule in known.values()
        ],
    }
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"tool-engine/{command}/"},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(finding, numbers[finding.code]) for finding in findings],
    }
    sys.stdout.write(json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n")


def _find_version() -> str:
    try:
        return version("tool-engine")
    except PackageNotFoundError:
        return "0"


def _sarif_result(finding: Finding, number: int) -> dict[str, Any]:
    about = f"{finding.path}: " if finding.path else ""
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": number,
        "level": finding.severity,
        "message": {"text": f"{about}{finding.message}"},
    }
    if finding.file is not None:
        place: dict[str, Any] = {"artifactLocation": {"uri": _file_uri(finding.file)}}
        if finding.line is not None:
            column = {} if finding.column is None else {"startColumn": finding.column}
            place["region"] = {"startLine": finding.line, **column}
        result["locations"] = [{"physicalLocation": place}]
    return result


def _file_uri(file: str) -> str:
    path = _path_in_repository(file)
    if path.is_absolute():
        return path.as_uri()
    return quote(path.as_posix().encode("utf-8", "surrogateescape"))


def _path_in_repository(file: str) -> Path:
    """Return the path of a file as a change of it names it, else from the current folder on."""
    here = Path.cwd()
    root = next((each for each in (here, *here.parents) if (each / ".git").exists()), here)
    path = Path(os.path.normpath(here / file))
    return path.relative_to(root) if path.is_relative_to(root) else path


_Printer = Callable[[str, Sequence[Finding], Sequence[str], Sequence[Rule]], None]
_PRINTERS: Final[Mapping[str, _Printer]] = {
    "github": _print_github,
    "junit": _print_junit,
    "sarif": _print_sarif,
}
