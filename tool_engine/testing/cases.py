"""What is the outcome of one example or test of a definition?"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tool_engine.approval.callback import CallbackApprover
from tool_engine.approval.gate import gate_of_engine
from tool_engine.catalog.definition.examples import CALL_ERRORS
from tool_engine.engine import ToolEngine
from tool_engine.errors import ToolExecutionError
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.json.returned_value import as_output, to_text
from tool_engine.model.tool import Tool
from tool_engine.testing.comparison import find_differences, json_line
from tool_engine.testing.report import CaseReport, CaseStatus
from tool_engine.validation.effort import find_errors
from tool_engine.validation.position import build_validator
from tool_engine.validation.validator import ToolParameterValidator

if TYPE_CHECKING:
    from tool_engine.testing.stand_ins import StandIns

_CALLER: Final = "tool-engine-test"
_ENV: Final = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_NO_EXECUTOR: Final = "executor_not_found"
_EXPECTED_OUTPUT: Final = ("output", "expect", "expect_part")
_MOST_FINDINGS: Final = 5


class CaseRunner:
    """Runs examples and tests, one call at a time.

    Args:
        engine: Runs the calls.
        stand_ins: Set up anew for each call.
    """

    def __init__(self, engine: ToolEngine, stand_ins: StandIns) -> None:
        self._engine = engine
        self._stand_ins = stand_ins
        self._validator = ToolParameterValidator(strict=True)
        # Running the tests is consent to their calls: no approver is asked.
        self._consent = gate_of_engine(CallbackApprover(lambda request: True))

    async def run(self, tool: Tool) -> list[CaseReport]:
        """Return a report per example and test of `tool`, in the definition's order."""
        reports = []
        for key, written in (("examples", tool.examples), ("tests", tool.tests)):
            for number, case in enumerate(written):
                title = case.get("name") or case.get("description") or ""
                report = CaseReport((key, number), title)
                if key == "examples":
                    # An example is shown to callers of the tool, so it has to be a right call.
                    report.problems = self._find_refusals(tool, case["params"])
                if not report.problems and (key == "tests" or "output" in case):
                    await self._run_case(tool, case, report)
                if report.problems and report.status is CaseStatus.PASSED:
                    report.status = CaseStatus.FAILED
                reports.append(report)
        return reports

    def _find_refusals(self, tool: Tool, params: Mapping[str, Any]) -> list[str]:
        result = self._validator.validate(tool, params)
        return [f"params: {error.message}" for error in result.errors[:_MOST_FINDINGS]]

    async def _run_case(self, tool: Tool, case: Mapping[str, Any], report: CaseReport) -> None:
        env = case.get("env", {})
        wanted = [name for each in self._find_reached(tool) for name in _find_variables(each)]
        context = ToolExecutionContext(caller_id=_CALLER, caller_type="direct", scope=self._consent)
        try:
            async with self._stand_ins.of(case) as scene:
                with _set_environment(wanted, env):
                    result = await self._engine.execute(tool.name, case["params"], context)
                found = await scene.problems(is_success=result.is_success)
                missing = scene.missing
        except ToolExecutionError as error:
            report.problems = [str(error)]
            return
        if obstacle := _find_obstacle(tool, case, result, missing):
            report.status = CaseStatus.SKIPPED
            report.problems = [obstacle]
            return
        problems = _outcome_problems(tool, case, result)
        if problems:
            problems += _missing_variables(set(wanted) - set(env), result.error or "")
        # How the call ended means nothing once something in it was not as recorded.
        report.problems = found + ([] if scene.is_broken else problems)

    def _find_reached(self, tool: Tool) -> list[Tool]:
        """Return the tool, and all that it calls if it is a workflow."""
        reached = {tool.name: tool}
        pending = [tool]
        while pending:
            for name in _find_called(pending.pop().implementation_config.get("steps")):
                found = self._engine.get(name)
                if found is not None and name not in reached:
                    reached[name] = found
                    pending.append(found)
        return list(reached.values())


def _find_called(steps: Any) -> Iterator[str]:
    """Yield the tools that workflow steps call, those in `parallel` included."""
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, Mapping):
            if isinstance(step.get("tool"), str):
                yield step["tool"]
            yield from _find_called(step.get("parallel"))


def _find_obstacle(
    tool: Tool, case: Mapping[str, Any], result: ToolExecutionResult, missing: str
) -> str:
    """Return why the test could not run here; empty when it could."""
    if result.error_type == _NO_EXECUTOR != _expected_error(case)[0]:
        return _no_executor(tool)
    return missing


def _expected_error(case: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the error type and part of message that a test names."""
    expected = case.get("expect_error")
    if isinstance(expected, Mapping):
        return expected["error_type"], expected.get("message", "")
    return expected, ""


def _outcome_problems(
    tool: Tool, case: Mapping[str, Any], result: ToolExecutionResult
) -> list[str]:
    error_type, message = _expected_error(case)
    if error_type is not None:
        return _error_problems(error_type, message, result)
    if result.is_success:
        return _output_problems(tool, case, result)
    return [f"got the error {result.error_type}: {result.error}"]


def _error_problems(error_type: str, message: str, result: ToolExecutionResult) -> list[str]:
    got = f"{result.error_type}: {result.error}"
    if result.is_success:
        got = _describe_output(json.loads(to_text(result.output)))
    if result.error_type != error_type:
        text = f"expected the error {error_type}, got {got}"
        if error_type in CALL_ERRORS:
            return [text]
        # A tool may raise types of its own, so only this shows that none was meant.
        meant = result.error_type or "expect in place of it,"
        return [f"{text}; the engine has no error {error_type!r}: write {meant} if that is right"]
    if message not in (result.error or ""):
        return [f"expected an error with {message!r} in its message, got {got}"]
    return []


def _output_problems(tool: Tool, case: Mapping[str, Any], result: ToolExecutionResult) -> list[str]:
    got = json.loads(to_text(result.output))
    problems: list[str] = []
    for key in _EXPECTED_OUTPUT:
        if key in case:
            # The engine hands over what is no mapping as {"result": ...}; either may be written.
            expected = as_output(case[key])
            problems += find_differences(expected, got, is_partial=key == "expect_part")
    return problems + _declared_problems(tool.output, got)


def _declared_problems(schema: dict[str, Any] | None, got: dict[str, Any]) -> list[str]:
    """Return where an output differs from the definition's `output`."""
    if schema is None:
        return []
    is_wrapped = list(got) == ["result"] and schema.get("type", "object") != "object"
    rules = build_validator(schema)
    errors = find_errors(rules, schema, got["result"] if is_wrapped else got)
    return [
        f"output: {error.message[:300]}, which is not the declared output; correct the "
        "definition's output or the tool"
        for error, _ in zip(errors, range(_MOST_FINDINGS), strict=False)
    ]


def _describe_output(value: Any) -> str:
    return f"the output {json_line(value)}"


def _no_executor(tool: Tool) -> str:
    return (
        f"nothing here runs the handler {tool.handler!r}; name the engine that does: "
        "--app my_package.tools:engine"
    )


def _find_variables(tool: Tool) -> list[str]:
    """Return the environment variables that the tool's entry names."""
    return list(dict.fromkeys(_ENV.findall(to_text(tool.implementation_config))))


def _missing_variables(names: Iterable[str], error: str) -> list[str]:
    return [
        f'the real environment is not used here; give it env: {{{name}: "…"}}'
        for name in names
        if name in error
    ]


@contextlib.contextmanager
def _set_environment(wanted: Sequence[str], given: Mapping[str, str]) -> Iterator[None]:
    """Set a test's variables, and unset the tool's others."""
    before = {name: os.environ.pop(name, None) for name in {*wanted, *given}}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
