"""Do the tools do what their own examples and tests say?"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Final, NamedTuple
from xml.etree import ElementTree as ET

import typer

from tool_engine.catalog.yaml.document import format_path
from tool_engine.cli.broken import find_errors, missing_in, report_empty, report_faults
from tool_engine.cli.completion import complete_tool
from tool_engine.cli.console import as_text, make_console, print_json, safe_text
from tool_engine.cli.engines import AppOption, Found, load_app, wait_for_app
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK
from tool_engine.cli.files.report_formats import (
    FORMATS,
    REPORTS,
    Finding,
    FormatOption,
    Rule,
    add_suite,
    make_finding,
    print_report,
    print_xml,
    read_place,
    xml_text,
)
from tool_engine.cli.options import JSONOption, ToolsOption, chosen_format, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.tables import count_text
from tool_engine.cli.writing import write_output
from tool_engine.engine import ToolEngine
from tool_engine.testing.definitions import check_definitions
from tool_engine.testing.report import CaseReport, CaseStatus, ToolReport

_NOT_LOADED: Final = "not-loaded"
_FAILED: Final = "failed"
_SKIPPED: Final = "skipped"
_RULES: Final = (
    Rule(_NOT_LOADED, "the file cannot be loaded"),
    Rule(_FAILED, "an example or a test of a tool fails"),
    Rule(_SKIPPED, "an example or a test could not be run here"),
)


class RunOptions(NamedTuple):
    names: tuple[str, ...] = ()
    """The tools; none: all."""
    seed: int = 0
    cases: int = 20
    app: str | None = None
    """`module:name` of the engine; None: a new one on the folder."""
    junit: str | None = None
    """The file to write the results to, as JUnit's XML."""
    keeps_errors: bool = False
    """Whether a tool that does not load is in the outcome, where it would end the command."""
    is_strict: bool = False
    """Counts what could not be run, and tools without any test, as failed."""


class _Outcome(NamedTuple):
    reports: list[ToolReport]
    load_errors: list[tuple[str, str]]

    def is_good(self, *, is_strict: bool) -> bool:
        is_bad = any(each.has_failed or (is_strict and each.has_gaps) for each in self.reports)
        return not is_bad and not self.load_errors

    def count(self, status: CaseStatus) -> int:
        return sum(report.count(status) for report in self.reports)


def run_command(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="The tools; all if none.", autocompletion=complete_tool
        ),
    ] = None,
    *,
    app: AppOption = None,
    cases: Annotated[
        int,
        typer.Option("--cases", min=0, max=10_000, metavar="N", help="Right calls generated."),
    ] = 20,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Another seed generates other calls.")
    ] = 0,
    strict: Annotated[
        bool, typer.Option("--strict", help="What is skipped or has no tests fails too.")
    ] = False,
    junit: Annotated[
        str | None, typer.Option("--junit", metavar="FILE", help="Write JUnit's XML.")
    ] = None,
    form: FormatOption = "text",
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Run the examples and tests in tool files, offline, and try out their parameters.

    Example: tool-engine test get_weather --junit results.xml
    """
    form = "json" if as_json else chosen_format(form, FORMATS)
    options = RunOptions(
        names=tuple(names or ()),
        seed=seed,
        cases=cases,
        app=app,
        junit=junit,
        keeps_errors=junit is not None or form in REPORTS,
        is_strict=strict,
    )
    return run_tests(settings_of(ctx, tools), options, form)


def run_tests(settings: Settings, options: RunOptions, form: str = "text") -> int:
    """Run tests and print the outcome in one of `FORMATS`; return 1 where one failed."""
    # Tests come before approval, so the lock must not refuse them.
    config = settings.engine_config(lock="off", mcp_autostart=False)
    engine = load_app(options.app) if options.app else ToolEngine(config)
    outcome = _Outcome([], [])
    # Files that did not load are reported below, with the rest.
    run = _run_tests(settings, engine, options, outcome)
    run_async(run, log_level=logging.ERROR, has_document=form != "text")
    if options.junit is not None:
        write_output(options.junit, xml_text(junit_xml(outcome.reports, outcome.load_errors)))
    if form == "junit":
        print_xml(junit_xml(outcome.reports, outcome.load_errors))
    elif form in REPORTS:
        print_report(form, "test", list(_list_findings(outcome)), (), _RULES)
    elif form == "json":
        print_json(_to_dict(outcome, options))
    else:
        _print_outcome(outcome, options)
        report_faults(settings, outcome.load_errors)
        if not outcome.reports and options.app is None:
            report_empty(settings)
    return EXIT_OK if outcome.is_good(is_strict=options.is_strict) else EXIT_FAILED


async def _run_tests(
    settings: Settings, found: Found, options: RunOptions, outcome: _Outcome
) -> int:
    async with await wait_for_app(found, options.app or "") as engine:
        names = [name for name in options.names if engine.get(name) is not None]
        for name in options.names:
            if name in names:
                continue
            broken = find_errors(name, engine.load_errors) if options.keeps_errors else []
            if not broken:
                report_faults(settings, engine.load_errors)
                raise missing_in(settings, engine, name)
            outcome.load_errors.extend(each for each in broken if each not in outcome.load_errors)
        if not options.names:
            outcome.load_errors.extend(engine.load_errors)
        if names or not options.names:
            outcome.reports.extend(
                await check_definitions(
                    engine, names or None, seed=options.seed, cases=options.cases
                )
            )
    return EXIT_OK


def _to_dict(outcome: _Outcome, options: RunOptions) -> dict[str, Any]:
    return {
        "is_passed": outcome.is_good(is_strict=options.is_strict),
        **{status.value: outcome.count(status) for status in CaseStatus},
        "seed": options.seed,
        "tools": [report.to_dict() for report in outcome.reports],
        "load_errors": [{"file": file, "message": text} for file, text in outcome.load_errors],
    }


def _print_outcome(outcome: _Outcome, options: RunOptions) -> None:
    console = make_console()
    width = max((len(report.tool) for report in outcome.reports), default=0)
    for report in outcome.reports:
        word, style = _find_verdict(report)
        line = f"{word:<8} {report.tool:<{width}}  {_count_cases(report)}"
        console.print(as_text(line, style), soft_wrap=True)
        for text in _list_details(report):
            console.print(as_text(text), soft_wrap=True)
    console.print(as_text(_make_summary(outcome)), soft_wrap=True)
    if options.is_strict and any(report.has_gaps for report in outcome.reports):
        console.print(as_text("--strict: what is skipped or has no tests counts as failed", "red"))


def _find_verdict(report: ToolReport) -> tuple[str, str]:
    if report.has_failed:
        return "FAILED", "red"
    if report.count(CaseStatus.SKIPPED):
        return "skipped", "yellow"
    return ("ok", "green") if report.cases else ("no tests", "yellow")


def _count_cases(report: ToolReport) -> str:
    counts = [(report.count(status), status.value) for status in CaseStatus]
    parts = [f"{count} {word}" for count, word in counts if count]
    tried = report.accepted + report.refused
    return ", ".join([*parts, f"{tried} generated" if tried else "none generated"])


def _list_details(report: ToolReport) -> list[str]:
    lines = []
    for case in report.cases:
        if case.status is not CaseStatus.PASSED:
            lines.append(f"  {_make_heading(case)}")
            lines += [f"    {problem}" for problem in case.problems]
    return lines + [f"  note: {note}" for note in report.notes]


def _make_heading(case: CaseReport) -> str:
    place = f"{case.place}: " if case.place else ""
    title = f" {case.title!r}" if case.title else ""
    return f"{place}{format_path(case.path)}{title}: {case.status.value}"


def _make_summary(outcome: _Outcome) -> str:
    tools = count_text(len(outcome.reports), "tool")
    counts = ", ".join(f"{outcome.count(status)} {status.value}" for status in CaseStatus)
    accepted = sum(report.accepted for report in outcome.reports)
    refused = sum(report.refused for report in outcome.reports)
    return (
        f"{tools}: {counts}; generated: {count_text(accepted, 'right call')} accepted, "
        f"{count_text(refused, 'wrong one')} refused"
    )


def _list_findings(outcome: _Outcome) -> Iterator[Finding]:
    for file, message in outcome.load_errors:
        for text in message.splitlines():
            yield make_finding(_NOT_LOADED, "error", text, file)
    for report in outcome.reports:
        for case in report.cases:
            if case.status is not CaseStatus.PASSED:
                is_failed = case.status is CaseStatus.FAILED
                code, severity = (_FAILED, "error") if is_failed else (_SKIPPED, "warning")
                about = " ".join(part for part in (format_path(case.path), case.title) if part)
                text = "\n".join(case.problems) or case.status.value
                where = read_place(case.place or report.source)
                yield Finding(code, severity, text, *where, f"{report.tool} {about}")


def junit_xml(reports: Iterable[ToolReport], load_errors: Sequence[tuple[str, str]]) -> ET.Element:
    """Return a suite per tool, and one for files not loaded."""
    root = ET.Element("testsuites", name="tool-engine test")
    for report in reports:
        suite = add_suite(
            root,
            report.tool,
            tests=len(report.cases),
            failures=report.count(CaseStatus.FAILED),
            skipped=report.count(CaseStatus.SKIPPED),
        )
        for case in report.cases:
            _add_case(suite, report, case)
    if load_errors:
        count = len(load_errors)
        suite = add_suite(root, "loading", tests=count, errors=count)
        for file, message in load_errors:
            element = ET.SubElement(suite, "testcase", classname="loading", name=safe_text(file))
            ET.SubElement(element, "error", message=safe_text(message))
    return root


def _add_case(suite: ET.Element, report: ToolReport, case: CaseReport) -> None:
    name = " ".join(part for part in (format_path(case.path), case.title) if part)
    element = ET.SubElement(suite, "testcase", classname=report.tool, name=safe_text(name))
    if case.status is CaseStatus.PASSED:
        return
    tag = "failure" if case.status is CaseStatus.FAILED else "skipped"
    first = case.problems[0] if case.problems else ""
    child = ET.SubElement(element, tag, message=safe_text(first))
    child.text = safe_text("\n".join([case.place or "", *case.problems]))
