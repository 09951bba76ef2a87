"""Do a tool's parameters accept what fits them, and refuse what breaks a rule?

Only the validation runs: the tool itself never runs with generated arguments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from random import Random
from typing import Any, Final, NamedTuple

from tool_engine.catalog.yaml.document import Path
from tool_engine.model.call import ValidationError
from tool_engine.model.tool import Tool
from tool_engine.testing.arguments import ANNOTATIONS, ArgumentMaker, types_of
from tool_engine.testing.comparison import json_line
from tool_engine.testing.patterns import MAX_TEXT, NoValueError, TextMaker
from tool_engine.testing.report import CaseReport, CaseStatus, ToolReport
from tool_engine.validation.validator import ToolParameterValidator
from tool_engine.validation.wording import path_text

_MOST_RULES: Final = 500
_MOST_FAILURES: Final = 10
UNKNOWN_KEY: Final = "not_a_declared_key"
_MISSING: Final = object()
_MAX_ITEMS: Final = 1_000
_MORE_TEXT: Final = 50
_MAX_EXACT: Final = 2**53
_OTHER_KINDS: Final[tuple[tuple[frozenset[str], Any], ...]] = (
    (frozenset({"string"}), "not of the declared type"),
    (frozenset({"number", "integer"}), 7),
    (frozenset({"number"}), 0.5),
    (frozenset({"boolean"}), True),
    (frozenset({"array"}), [None]),
    (frozenset({"object"}), {UNKNOWN_KEY: None}),
)
_BOUNDS: Final = (
    ("minimum", -1, False),
    ("maximum", 1, False),
    ("exclusiveMinimum", -1, True),
    ("exclusiveMaximum", 1, True),
)


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
    found = break_rules(tool.parameters_schema, maker)
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


class Violation(NamedTuple):
    """Arguments that break one rule."""

    path: Path
    """Where the finding must be."""
    rule: str
    """The keyword that is broken."""
    error_type: str
    """The expected error type of the finding."""
    arguments: dict[str, Any]


class _Breach(NamedTuple):
    path: Path
    rule: str
    error_type: str
    value: Any
    """The value that replaces the one at the path; `_MISSING` removes it."""


def break_rules(schema: Mapping[str, Any], maker: ArgumentMaker) -> Iterator[Violation]:
    """Break each rule of `schema` in turn, at every place.

    What lies below `anyOf` and other branches is left alone: a value that breaks one branch may
    fit another. A parameter of which no value can be made is left out.
    """
    whole = maker.arguments(whole=True, may_lack=True)
    for path, rule, error_type, value in _find_breaches(schema, whole, (), maker):
        yield Violation(path, rule, error_type, _change_at(whole, path, value))


def _find_breaches(schema: Any, value: Any, path: Path, maker: ArgumentMaker) -> Iterator[_Breach]:
    if not isinstance(schema, dict | Mapping):
        return
    if path:
        yield from _of_type(schema, path)
        yield from _of_options(schema, path)
    if isinstance(value, str):
        yield from _of_text(schema, path, maker)
    elif isinstance(value, dict):
        yield from _of_object(schema, value, path, maker)
    elif isinstance(value, list):
        yield from _of_list(schema, value, path, maker)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _of_number(schema, path)


def _of_type(schema: Mapping[str, Any], path: Path) -> Iterator[_Breach]:
    declared = set(types_of(schema))
    for kinds, other in _OTHER_KINDS:
        if declared and not kinds & declared:
            yield _Breach(path, "type", "type_mismatch", other)


def _of_options(schema: Mapping[str, Any], path: Path) -> Iterator[_Breach]:
    options = [schema["const"]] if "const" in schema else schema.get("enum")
    if options is None:
        return
    kinds = types_of(schema)
    for candidate in (UNKNOWN_KEY, _exceed_options(options)):
        kind = "string" if isinstance(candidate, str) else "integer"
        fits = not kinds or kind in kinds or (kind == "integer" and "number" in kinds)
        if fits and candidate not in options:
            yield _Breach(path, "enum", "invalid_enum", candidate)


def _exceed_options(options: list[Any]) -> int:
    numbers = [each for each in options if isinstance(each, int | float)]
    return int(max(numbers, default=0)) + 1


def _of_text(schema: Mapping[str, Any], path: Path, maker: ArgumentMaker) -> Iterator[_Breach]:
    least, most = int(schema.get("minLength", 0)), int(schema.get("maxLength", MAX_TEXT))
    texts = _texts_for(schema, maker)
    if 0 < least <= MAX_TEXT:
        text = _make_text(texts, 0, least - 1) or "x" * (least - 1)
        yield _Breach(path, "minLength", "constraint_violation", text)
    if most < MAX_TEXT:
        # Characters of four bytes: a length counts characters, not bytes or UTF-16 units.
        text = _make_text(texts, most + 1, most + _MORE_TEXT) or "🙂" * (most + 1)
        yield _Breach(path, "maxLength", "constraint_violation", text)
    broken = None if texts is None else texts.break_it(least, most)
    if broken is not None:
        yield _Breach(path, "pattern", "constraint_violation", broken)


def _texts_for(schema: Mapping[str, Any], maker: ArgumentMaker) -> TextMaker | None:
    try:
        return maker.text_maker(schema["pattern"]) if "pattern" in schema else None
    except NoValueError:
        return None


def _make_text(texts: TextMaker | None, least: int, most: int) -> str | None:
    """Return a text that fits the pattern; only its length is wrong."""
    try:
        return None if texts is None else texts.make(least, most)
    except NoValueError:
        return None


def _of_number(schema: Mapping[str, Any], path: Path) -> Iterator[_Breach]:
    is_whole = types_of(schema) == ("integer",)
    for keyword, direction, is_exclusive in _BOUNDS:
        if keyword not in schema:
            continue
        bound = schema[keyword]
        if is_exclusive and float(bound).is_integer():
            yield _Breach(path, keyword, "constraint_violation", bound)
        outside = _step_outside(bound, direction, is_whole=is_whole)
        if math.isfinite(outside):
            yield _Breach(path, keyword, "constraint_violation", outside)


def _step_outside(bound: Any, direction: int, *, is_whole: bool) -> Any:
    edge = bound if not is_whole else (math.floor(bound) if direction < 0 else math.ceil(bound))
    # Past 2**53 a float has no neighbour at a distance of one.
    return edge + direction * (1 if abs(edge) < _MAX_EXACT else abs(edge))


def _of_list(
    schema: Mapping[str, Any], value: list[Any], path: Path, maker: ArgumentMaker
) -> Iterator[_Breach]:
    least, most = int(schema.get("minItems", 0)), int(schema.get("maxItems", _MAX_ITEMS))
    if 0 < least <= len(value):
        yield _Breach(path, "minItems", "constraint_violation", value[: least - 1])
    if value and most < _MAX_ITEMS:
        longer = [value[number % len(value)] for number in range(most + 1)]
        yield _Breach(path, "maxItems", "constraint_violation", longer)
    if value:
        yield from _find_breaches(schema.get("items"), value[0], (*path, 0), maker)


def _of_object(
    schema: Mapping[str, Any], value: dict[str, Any], path: Path, maker: ArgumentMaker
) -> Iterator[_Breach]:
    for name in schema.get("required", ()):
        yield _Breach((*path, name), "required", "missing_required", _MISSING)
    properties = schema.get("properties", {})
    if schema.get("additionalProperties") is False and UNKNOWN_KEY not in properties:
        place = (*path, UNKNOWN_KEY)
        yield _Breach(place, "additionalProperties", "extra_parameter", 1)
    for name, child in properties.items():
        if name in value and not _has_branches(child):
            yield from _find_breaches(child, value[name], (*path, name), maker)


def _has_branches(schema: Any) -> bool:
    known = {*ANNOTATIONS, *("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "format")}
    return isinstance(schema, dict) and bool(known & schema.keys() - ANNOTATIONS)


def _change_at(value: Any, path: Path, other: Any) -> Any:
    """Return a copy of `value` with `other` at `path`; the rest is shared."""
    if not path:
        return other
    first, rest = path[0], path[1:]
    if isinstance(value, list):
        index = int(first)
        return [*value[:index], _change_at(value[index], rest, other), *value[index + 1 :]]
    copy = dict(value)
    if rest:
        copy[str(first)] = _change_at(copy[str(first)], rest, other)
    elif other is _MISSING:
        copy.pop(str(first), None)
    else:
        copy[str(first)] = other
    return copy
