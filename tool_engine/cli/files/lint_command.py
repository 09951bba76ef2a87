"""Which tool files could be better, and how are the findings printed?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from tool_engine.catalog.definition_files import (
    find_target,
    read_definition,
    without_foreign_content,
)
from tool_engine.catalog.lint import LINT_RULES, LintFinding, choose_rules, lint_text
from tool_engine.catalog.lint_rules.rule import ERROR, LintRule
from tool_engine.cli.broken import report_empty
from tool_engine.cli.completion import complete_tool
from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK
from tool_engine.cli.files.checking import check_tool
from tool_engine.cli.files.report_formats import (
    FORMATS,
    REPORTS,
    Finding,
    FormatOption,
    Rule,
    print_report,
)
from tool_engine.cli.files.targets import file_of_tool, files_at, is_path
from tool_engine.cli.options import JSONOption, ToolsOption, chosen_format, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import count_text
from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.model.tool import Tool

_DOES_NOT_LOAD: Final = "L000"
"""The code of what keeps a file from loading; nothing switches it off."""


class LintOptions(msgspec.Struct, frozen=True):
    rules: list[LintRule]
    format: str = "text"
    """One of `FORMATS`."""

    @property
    def is_json(self) -> bool:
        return self.format == "json"


def run_command(
    ctx: typer.Context,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET",
            help="Files, folders and tools; all tools if none.",
            autocompletion=complete_tool,
        ),
    ] = None,
    *,
    select: Annotated[
        list[str] | None,
        typer.Option("--select", "-s", metavar="CODES", help="Only rules such as L101, or L1."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", "-i", metavar="CODES", help="All rules but these."),
    ] = None,
    form: FormatOption = "text",
    rules: Annotated[bool, typer.Option("--rules", help="List the rules and end.")] = False,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Find what makes tool files that load still bad for a model, with the cure.

    Example: tool-engine lint tools/ --ignore L401,L402 --format github
    """
    options = make_options(select or (), ignore or (), form, as_json=as_json)
    if rules:
        return print_rules(as_json=options.is_json)
    return lint_files(settings_of(ctx, tools), targets or [], options)


def make_options(
    select: Sequence[str], ignore: Sequence[str], form: str, *, as_json: bool = False
) -> LintOptions:
    """Return the options for the words of a command line.

    `select` and `ignore` are codes to keep (none: all) and to leave out, with commas between them;
    `form` is one of `FORMATS`, and `as_json` means json anyway.

    Raises:
        ConfigurationError: There is no such code.
        CommandError: There is no such format.
    """
    rules = choose_rules(_split_codes(select), _split_codes(ignore))
    form = chosen_format(form, FORMATS)
    return LintOptions(rules, "json" if as_json else form)


def lint_files(settings: Settings, targets: Sequence[str], options: LintOptions) -> int:
    """Lint files, folders and tools by name; return 1 for any finding.

    `targets` are files, folders and names of tools; none means the whole folder.
    """
    files = _find_targets(settings, targets, options.format)
    executors = ExecutorRegistry()
    findings = [
        finding
        for file, tool in files.items()
        for finding in _lint_file(file, tool, options.rules, executors)
    ]
    if options.format in REPORTS:
        rules = [Rule(_DOES_NOT_LOAD, "The file cannot be loaded")]
        rules += [Rule(rule.code, rule.summary) for rule in options.rules]
        print_report(options.format, "lint", list(map(_to_finding, findings)), files, rules)
    elif options.is_json:
        _print_json(findings, len(files))
    else:
        _print_text(findings, len(files))
        if not files:
            report_empty(settings)
    return EXIT_FAILED if findings else EXIT_OK


def print_rules(*, as_json: bool) -> int:
    if as_json:
        names = ("code", "severity", "summary", "reason")
        print_json({"rules": [{name: getattr(r, name) for name in names} for r in LINT_RULES]})
        return EXIT_OK
    console = make_console()
    for rule in LINT_RULES:
        console.print(as_text(f"{rule.code}  {rule.severity}: {rule.summary}"), soft_wrap=True)
        console.print(as_text(f"      {rule.reason}", "dim"), soft_wrap=True)
    return EXIT_OK


def _split_codes(words: Sequence[str]) -> list[str]:
    return [code.strip() for word in words for code in word.split(",")]


def _find_targets(settings: Settings, words: Sequence[str], form: str) -> dict[str, str | None]:
    """Return every file to lint, with the only tool to keep."""
    found: dict[Path, tuple[str, str | None]] = {}
    for word in words or [settings.folder()]:
        if is_path(word):
            for file in files_at(word, is_recursive=settings.is_recursive):
                found[Path(find_target(file))] = (file, None)
        else:
            file = file_of_tool(settings, word, or_broken=form in REPORTS)
            found.setdefault(Path(find_target(file)), (file, word))
    return dict(found.values())


def _lint_file(
    file: str, tool: str | None, rules: Sequence[LintRule], executors: ExecutorRegistry
) -> list[LintFinding]:
    def check(each: Tool) -> list[DefinitionProblem]:
        return check_tool(each, executors)

    try:
        with without_foreign_content(file):
            findings = lint_text(read_definition(file).data, file, rules, check)
    except DefinitionError as error:
        return [_load_finding(problem) for problem in error.problems]
    return [each for each in findings if tool is None or each.tool in (tool, "")]


def _load_finding(problem: DefinitionProblem) -> LintFinding:
    return LintFinding(
        code=_DOES_NOT_LOAD,
        severity=ERROR,
        message=problem.message,
        tool="",
        path=problem.path or "",
        file=problem.file,
        line=problem.line,
        column=problem.column,
    )


def _print_text(findings: Sequence[LintFinding], file_count: int) -> None:
    console = make_console()
    for finding in findings:
        style = "red" if finding.severity == ERROR else "yellow"
        console.print(as_text(str(finding), style), soft_wrap=True)
    console.print(as_text(_make_summary(findings, file_count)), soft_wrap=True)


def _make_summary(findings: Sequence[LintFinding], file_count: int) -> str:
    errors, warnings = _count_severities(findings)
    counts = f"{count_text(errors, 'error')}, {count_text(warnings, 'warning')}"
    return f"{count_text(file_count, 'file')} linted, {counts}"


def _print_json(findings: Sequence[LintFinding], file_count: int) -> None:
    errors, warnings = _count_severities(findings)
    print_json(
        {
            "linted": file_count,
            "errors": errors,
            "warnings": warnings,
            "findings": [_list_facts(finding) for finding in findings],
        }
    )


def _list_facts(finding: LintFinding) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.structs.asdict(finding)
    return facts


def _count_severities(findings: Sequence[LintFinding]) -> tuple[int, int]:
    errors = sum(finding.severity == ERROR for finding in findings)
    return errors, len(findings) - errors


def _to_finding(finding: LintFinding) -> Finding:
    where = (finding.file, finding.line, finding.column, finding.path)
    return Finding(finding.code, finding.severity, finding.message, *where)
