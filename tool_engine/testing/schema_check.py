"""Do a tool's parameters accept what fits them, and refuse what breaks a rule?

Only the validation runs: the tool itself never runs with generated arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from random import Random
from typing import Any, Final

from tool_engine.model.call import ValidationError
from tool_engine.model.tool import Tool
from tool_engine.testing.arguments import ArgumentMaker
from tool_engine.testing.comparison import json_line
from tool_engine.testing.patterns import NoValueError
from tool_engine.testing.report import CaseReport, CaseStatus, ToolReport
from tool_engine.testing.violations import Violation, violations
from tool_engine.validation.validator import ToolParameterValidator
from tool_engine.validation.wording import path_text

_MOST_RULES: Final = 500
_MOST_FAILURES: Final = 10


def check_schema(tool: Tool, report: ToolReport, *, seed: int, cases: int) -> None:
    """Try out the parameters of `tool` and add the findings to `report`.

    Args:
        tool: The tool.
        report: Receives the counts, a failed case for each rule that is not kept, and the notes.
        seed: The same seed makes the same arguments.
        cases: How many arguments have to be accepted; 0 tries nothing.

    Raises:
        DefinitionError: The parameters make no sense.
    """
    if not cases:
        return
    validator = ToolParameterValidator(strict=True)
    known = [case["params"] for case in (*tool.examples, *tool.tests)]
    fitting = [params for params in known if validator.validate(tool, params).is_valid]
    random = Random(f"{seed}:{tool.name}")  # noqa: S311 - has to repeat itself, not to be secret
    maker = ArgumentMaker(tool.parameters_schema, random, fitting)
    failures: list[CaseReport] = []
    try:
        _try_right_calls(tool, maker, report, cases, failures)
    except NoValueError:
        report.notes.append("no right calls were made; give the definition an example that fits")
    _try_wrong_calls(tool, maker, report, failures)
    report.notes += [f"parameter {name!r}: {reason}" for name, reason in maker.notes.items()]
    report.cases += failures[:_MOST_FAILURES]
    if len(failures) > _MOST_FAILURES:
        report.notes.append(f"and {len(failures) - _MOST_FAILURES} more generated calls failed")


def _try_right_calls(
    tool: Tool, maker: ArgumentMaker, report: ToolReport, cases: int, failures: list[CaseReport]
) -> None:
    validator = ToolParameterValidator(strict=True)
    for number in range(cases):
        arguments = maker.arguments(whole=number == 0)
        result = validator.validate(tool, arguments)
        if result.is_valid:
            report.accepted += 1
            continue
        problem = f"expected to be accepted: {json_line(arguments)}; {_list_found(result.errors)}"
        failures.append(_make_failure(_find_place(result.errors), "generated arguments", problem))


def _try_wrong_calls(
    tool: Tool, maker: ArgumentMaker, report: ToolReport, failures: list[CaseReport]
) -> None:
    validator = ToolParameterValidator(strict=True)
    found = violations(tool.parameters_schema, maker)
    for violation in islice(found, _MOST_RULES):
        errors = validator.validate(tool, violation.arguments).errors
        if _is_found(violation, errors):
            report.refused += 1
        else:
            failures.append(
                _make_failure(
                    violation.path[:1],
                    _name_violation(violation),
                    _explain_missed(violation, errors),
                )
            )
    if next(found, None) is not None:
        report.notes.append(f"only the first {_MOST_RULES} rules were broken")


def _is_found(violation: Violation, errors: Iterable[ValidationError]) -> bool:
    place = path_text(violation.path)
    return any(error.path == place and error.error_type == violation.error_type for error in errors)


def _name_violation(violation: Violation) -> str:
    return f"{violation.rule} of {path_text(violation.path)}"


def _explain_missed(violation: Violation, errors: list[ValidationError]) -> str:
    return (
        f"expected the finding {violation.error_type} at {path_text(violation.path)} for "
        f"{json_line(violation.arguments)}; {_list_found(errors)}"
    )


def _list_found(errors: Iterable[ValidationError]) -> str:
    found = "; ".join(f"{error.error_type}: {error.message}" for error in islice(errors, 3))
    return f"found {found}" if found else "found nothing wrong"


def _find_place(errors: list[ValidationError]) -> tuple[str | int, ...]:
    name = errors[0].path.partition(".")[0].partition("[")[0] if errors else ""
    return (name,) if name else ()


def _make_failure(place: tuple[Any, ...], title: str, problem: str) -> CaseReport:
    return CaseReport(("parameters", *place), title, CaseStatus.FAILED, [problem])
