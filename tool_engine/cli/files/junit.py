"""How do test results read in JUnit's XML, which build servers show?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree import ElementTree as ET

from tool_engine.catalog.yaml.document import format_path
from tool_engine.cli.console import visible
from tool_engine.testing.report import CaseReport, CaseStatus, ToolReport


def junit_xml(reports: Iterable[ToolReport], load_errors: Sequence[tuple[str, str]]) -> str:
    """Return a suite per tool, and one for files not loaded."""
    root = ET.Element("testsuites", name="tool-engine test")
    for report in reports:
        suite = ET.SubElement(
            root,
            "testsuite",
            name=report.tool,
            tests=str(len(report.cases)),
            failures=str(report.count(CaseStatus.FAILED)),
            skipped=str(report.count(CaseStatus.SKIPPED)),
        )
        for case in report.cases:
            _add_case(suite, report, case)
    if load_errors:
        count = str(len(load_errors))
        suite = ET.SubElement(root, "testsuite", name="loading", tests=count, errors=count)
        for file, message in load_errors:
            element = ET.SubElement(suite, "testcase", classname="loading", name=visible(file))
            ET.SubElement(element, "error", message=visible(message))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add_case(suite: ET.Element, report: ToolReport, case: CaseReport) -> None:
    name = " ".join(part for part in (format_path(case.path), case.title) if part)
    element = ET.SubElement(suite, "testcase", classname=report.tool, name=visible(name))
    if case.status is CaseStatus.PASSED:
        return
    tag = "failure" if case.status is CaseStatus.FAILED else "skipped"
    first = case.problems[0] if case.problems else ""
    child = ET.SubElement(element, tag, message=visible(first))
    child.text = visible("\n".join([case.place or "", *case.problems]))
