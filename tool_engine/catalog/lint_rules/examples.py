"""Does a definition have examples, and do they fit its parameters?"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import jsonschema_rs

from tool_engine.catalog.lint_rules.rule import ERROR, WARNING, Flaw, LintRule
from tool_engine.catalog.yaml.document import Path
from tool_engine.model.json.error_path import find_error
from tool_engine.model.tool import Tool


def _no_example(tool: Tool) -> Iterator[Flaw]:
    if not tool.examples:
        message = "has no examples; add `examples:` with the params of a call, and its output"
        yield (), message


def _no_test(tool: Tool) -> Iterator[Flaw]:
    has_run = any("output" in example for example in tool.examples)
    if not tool.tests and not has_run:
        message = "has no tests; add `tests:` with params and expect, or an example with an output"
        yield (), message


def _find_unfit(tool: Tool) -> Iterator[Flaw]:
    validator = jsonschema_rs.Draft202012Validator(
        tool.parameters_schema, pattern_options=jsonschema_rs.RegexOptions(), offline=True
    )
    for path, params in _list_accepted(tool):
        for error in _find_errors(validator, tool.parameters_schema, params):
            place: Path = (*path, *find_error(error, params)[0])
            yield place, f"would be refused by the tool's own rules: {error.message[:200]}"


def _find_errors(
    rules: jsonschema_rs.Validator, schema: dict[str, Any], params: Any
) -> Iterator[jsonschema_rs.ValidationError]:
    # By name: the validator stands beside the catalog.
    found: Iterator[jsonschema_rs.ValidationError] = import_module(
        "tool_engine.validation.effort"
    ).find_errors(rules, schema, params)
    return found


def _list_accepted(tool: Tool) -> Iterator[tuple[Path, Any]]:
    """Yield the arguments of examples and tests with their places."""
    for number, example in enumerate(tool.examples):
        yield ("examples", number, "params"), example["params"]
    for number, test in enumerate(tool.tests):
        if "expect_error" not in test:
            yield ("tests", number, "params"), test["params"]


EXAMPLE_RULES: Final = (
    LintRule(
        "L401",
        WARNING,
        "The tool has no example",
        "People and models learn a tool from one call faster than from its rules.",
        _no_example,
    ),
    LintRule(
        "L402",
        WARNING,
        "The tool has no test",
        "`tool-engine test` runs what the file promises, offline; without a test it breaks "
        "unnoticed.",
        _no_test,
    ),
    LintRule(
        "L403",
        ERROR,
        "An example does not fit the parameters",
        "An example that the tool would refuse teaches the wrong call.",
        _find_unfit,
    ),
)
