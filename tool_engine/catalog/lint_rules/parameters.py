"""Do parameters and examples show a model which values to pass?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from tool_engine.catalog.lint_rules.prose import repeats_name, word_count
from tool_engine.catalog.lint_rules.rule import ERROR, WARNING, Flaw, LintRule
from tool_engine.catalog.yaml.document import Path, parse_path
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool

_FEWEST_WORDS: Final = 2
_MOST_PARAMETERS: Final = 12
_LONGEST_CODE: Final = 2
_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _poor_description(tool: Tool) -> Iterator[Flaw]:
    for number, parameter in enumerate(tool.parameters):
        about = parameter.description
        if repeats_name(about, parameter.name):
            message = f"only repeats the name {parameter.name!r}; say what it is, with an example"
            yield ("parameters", number, "description"), message
        elif word_count(about) < _FEWEST_WORDS:
            message = f"has fewer than {_FEWEST_WORDS} words; say what it is, with an example"
            yield ("parameters", number, "description"), message


def _same_description(tool: Tool) -> Iterator[Flaw]:
    seen: dict[str, str] = {}
    for number, parameter in enumerate(tool.parameters):
        text = " ".join(parameter.description.casefold().split()).rstrip(".。")
        if text in seen:
            message = f"is the same as that of {seen[text]!r}; say how the two differ"
            yield ("parameters", number, "description"), message
        seen.setdefault(text, parameter.name)


def _silent_property(tool: Tool) -> Iterator[Flaw]:
    for number, parameter in enumerate(tool.parameters):
        for path, name in _find_undescribed(parameter.validation, ("parameters", number)):
            yield path, f"the property {name!r} has no description; add one"


def _find_undescribed(rules: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the declared properties without a description, at every depth."""
    for name, spec in (rules.get("properties") or {}).items():
        if not isinstance(spec, Mapping) or not str(spec.get("description", "")).strip():
            yield path, name
        if isinstance(spec, Mapping):
            yield from _find_undescribed(_rules_of(spec), path)
    items = rules.get("items")
    if isinstance(items, Mapping):
        yield from _find_undescribed(_rules_of(items), path)


def _rules_of(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**spec, **(spec.get("validation") or {})}


def _unexplained_codes(tool: Tool) -> Iterator[Flaw]:
    for number, parameter in enumerate(tool.parameters):
        values = parameter.validation.get("enum") or []
        codes = [str(value) for value in values]
        if codes and all(len(code) <= _LONGEST_CODE for code in codes):
            about = parameter.description
            silent = [code for code in codes if code not in about]
            if silent:
                message = (
                    f"the values {', '.join(codes)} do not explain themselves; say in the "
                    f"description what {silent[0]} means"
                )
                yield ("parameters", number, "description"), message


def _default_of_required(tool: Tool) -> Iterator[Flaw]:
    for number, parameter in enumerate(tool.parameters):
        if parameter.required and parameter.has_default:
            message = "a required parameter never uses its default; remove one of the two"
            yield ("parameters", number, "default"), message


def _too_many(tool: Tool) -> Iterator[Flaw]:
    count = len(tool.parameters)
    if count > _MOST_PARAMETERS:
        message = (
            f"has {count} parameters; split the tool, or leave out what has one right value "
            f"(at most {_MOST_PARAMETERS})"
        )
        yield ("parameters",), message


def _refused_key(tool: Tool) -> Iterator[Flaw]:
    for number, parameter in enumerate(tool.parameters):
        if not _KEY.fullmatch(parameter.name):
            message = (
                f"Anthropic refuses the parameter name {parameter.name!r}: a name has 1 to 64 of "
                "the characters a-z, A-Z, 0-9, _ . and -; rename it"
            )
            yield ("parameters", number, "name"), message


def _find_unbounded(tool: Tool) -> Iterator[Flaw]:
    if tool.effect != "write":
        return
    for number, parameter in enumerate(tool.parameters):
        missing = _missing_bound(parameter)
        if missing:
            message = f"a tool that writes takes {parameter.name!r} of any size; add {missing}"
            yield ("parameters", number), message


def _missing_bound(parameter: ToolParameter) -> str:
    if parameter.schema:
        return ""
    if parameter.type == "string":
        return "" if {"max_length", "enum", "pattern"} & set(parameter.validation) else "max_length"
    if parameter.type == "array":
        return "" if "max_items" in parameter.validation else "max_items"
    return ""


PARAMETER_RULES: Final = (
    LintRule(
        "L201",
        WARNING,
        "The description of a parameter says nothing",
        "A model fills a parameter by its description; an example of a value helps most.",
        _poor_description,
    ),
    LintRule(
        "L202",
        WARNING,
        "Two parameters have the same description",
        "A model cannot tell them apart, and swaps them.",
        _same_description,
    ),
    LintRule(
        "L203",
        WARNING,
        "A property of an object has no description",
        "A model fills it as it fills a parameter.",
        _silent_property,
    ),
    LintRule(
        "L204",
        WARNING,
        "The allowed values are codes that the description does not explain",
        "No model can choose between 1, 2 and 3 without knowing what they mean.",
        _unexplained_codes,
    ),
    LintRule(
        "L205",
        WARNING,
        "A required parameter has a default",
        "The default is never used, and a model that sees it leaves the parameter out.",
        _default_of_required,
    ),
    LintRule(
        "L206",
        WARNING,
        f"The tool has more than {_MOST_PARAMETERS} parameters",
        "The more a model has to fill, the more of it is wrong.",
        _too_many,
    ),
    LintRule(
        "L207",
        ERROR,
        "A provider refuses the name of a parameter",
        "Its models are told of the parameter in words, and not in the schema that they get.",
        _refused_key,
    ),
    LintRule(
        "L208",
        WARNING,
        "A tool that writes takes text or lists of any size",
        "What a model writes by mistake has no end: a whole page in a chat, a thousand recipients.",
        _find_unbounded,
    ),
)


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
    # By name: the validator stands beside the catalog.
    module = import_module("tool_engine.validation.validator")
    validator = module.ToolParameterValidator(strict=True)
    for path, params in _list_accepted(tool):
        for error in validator.validate(tool, params).errors:
            place: Path = (*path, *parse_path(error.path))
            yield place, f"would be refused by the tool's own rules: {error.message}"


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
