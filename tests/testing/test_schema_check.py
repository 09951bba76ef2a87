"""Are a tool's parameters tried out, and is a rule that is not kept told?"""

from __future__ import annotations

from collections import Counter
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.testing.schemas import SCHEMAS, arguments_schema, maker
from tool_engine import Tool, ToolCategory
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.call import ValidationError, ValidationResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.testing.report import CaseReport, CaseStatus, ToolReport
from tool_engine.testing.schema_check import UNKNOWN_KEY, Violation, break_rules, check_schema
from tool_engine.validation import position
from tool_engine.validation.validator import ToolParameterValidator


def tool(*parameters: dict[str, Any], **keys: Any) -> Tool:
    described = [{"description": "D", **each} for each in parameters]
    return ToolConfigLoader().from_mapping(
        {"name": "t", "description": "T", "parameters": described, **keys}
    )


def check(tool: Tool, cases: int = 20, seed: int = 0) -> ToolReport:
    report = ToolReport(tool.name)
    check_schema(tool, report, seed=seed, cases=cases)
    return report


RICH = (
    {"name": "city", "type": "string", "required": True, "pattern": "^[A-Z]", "max_length": 9},
    {"name": "days", "type": "integer", "default": 1, "min": 1, "max": 14},
    {"name": "unit", "type": "string", "enum": ["C", "F"]},
    {
        "name": "places",
        "type": "array",
        "items": {"type": "object", "properties": {"n": {"type": "number", "min": 0}}},
    },
)


def test_right_calls_are_accepted_and_wrong_ones_refused() -> None:
    """Every rule of a rich tool holds: nothing fails, and both sides were tried."""
    report = check(tool(*RICH), cases=200)
    assert report.cases == []
    assert report.notes == []
    assert report.accepted == 200
    assert report.refused > 30


def test_nothing_is_tried_without_cases() -> None:
    """`--cases 0` switches it off."""
    assert check(tool(*RICH), cases=0) == ToolReport("t")


@pytest.mark.parametrize("keyword", ["maxLength", "minimum", "enum", "type", "pattern", "required"])
def test_a_rule_that_is_not_enforced_is_told(keyword: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the validator to forget a keyword, the call that breaks it would be named."""
    forgetful = tool(*RICH)
    build = position.build_validator

    def without(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {key: without(value) for key, value in schema.items() if key != keyword}
        return schema

    def build_forgetful(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
        return build(without(schema))

    monkeypatch.setattr("tool_engine.validation.position.build_validator", build_forgetful)
    monkeypatch.setattr("tool_engine.validation.declaration.build_validator", build_forgetful)
    report = check(forgetful)
    failed = [case.title.split()[0] for case in report.cases]
    assert keyword in failed
    case = report.cases[failed.index(keyword)]
    assert case.status is CaseStatus.FAILED
    assert case.path[0] == "parameters"
    assert "expected the finding" in case.problems[0]


def test_a_right_call_that_is_refused_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the validator too strict, the call that it refuses would be named, ten at most."""
    narrow = tool({"name": "n", "type": "integer", "required": True})
    build = position.build_validator

    def build_strict(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
        n = {"type": "integer", "maximum": -5_000}
        return build({**schema, "properties": {"n": n}})

    monkeypatch.setattr("tool_engine.validation.declaration.build_validator", build_strict)
    report = check(narrow, cases=30)
    assert report.cases[0].path == ("parameters",)
    assert "the arguments must keep to the rule" in report.cases[0].problems[0]
    assert len(report.cases) == 10
    assert report.cases[0].title == "generated arguments"
    assert report.cases[0].problems[0].startswith("expected to be accepted: {")
    assert report.notes == ["and 20 more generated calls failed"]


@pytest.mark.parametrize(
    "finding", [ValidationError("m", "type_mismatch", "?"), ValidationError("n", "extra", "?")]
)
def test_a_wrong_finding_is_told(finding: ValidationError, monkeypatch: pytest.MonkeyPatch) -> None:
    """To refuse a wrong call is not enough: a model can only act on the right finding."""
    simple = tool({"name": "n", "type": "integer", "required": True})

    def misread(self: Any, tool: Tool, params: Any) -> ValidationResult:
        return ValidationResult(is_valid=isinstance(params.get("n"), int), errors=[finding])

    monkeypatch.setattr(ToolParameterValidator, "validate", misread)
    report = check(simple)
    assert (report.accepted, report.refused) == (20, 0)
    assert "expected the finding type_mismatch at n for" in report.cases[-1].problems[0]


def test_what_cannot_be_made_is_noted() -> None:
    """A parameter beyond the generator is never passed over in silence."""
    email = {"name": "e", "type": "string", "schema": {"format": "email"}}
    assert check(tool(email)).notes == [
        "parameter 'e': no values are made from the keyword 'format'; left out"
    ]
    other = {"name": "n", "type": "integer", "min": 1}
    report = check(tool({**email, "required": True}, other))
    assert report.accepted == 0
    assert report.cases == []
    # The rules of the other parameter are broken all the same.
    assert report.refused > 7
    assert report.notes == [
        "no right calls were made; give the definition an example that fits",
        "parameter 'e': no values are made from the keyword 'format'; left out",
    ]
    examples = [{"params": {"e": "a@b.example"}}, {"params": {"e": 3}}]
    report = check(tool({**email, "required": True}, examples=examples))
    assert report.accepted == 20
    assert report.notes[0].endswith("an example is used")


def test_only_so_many_rules_are_broken() -> None:
    """A tool with very many parameters costs no more than it must, and says what was left out."""
    many = [
        ToolParameter(f"p{number}", "integer", validation={"min": 0, "max": 5})
        for number in range(150)
    ]
    report = check(Tool("t", "t", "1", "T", ToolCategory.CUSTOM, [], many, {}), cases=1)
    assert report.refused == 500
    assert report.notes == ["only the first 500 rules were broken"]


def test_a_report_tells_itself_as_json() -> None:
    """What programs read."""
    report = ToolReport("t", "t.yaml", [CaseReport(("tests", 0), "n", CaseStatus.FAILED, ["p"])])
    assert report.to_dict() == {
        "tool": "t",
        "source": "t.yaml",
        "passed": 0,
        "failed": 1,
        "skipped": 0,
        "accepted": 0,
        "refused": 0,
        "notes": [],
        "cases": [
            {
                "path": ["tests", 0],
                "title": "n",
                "status": "failed",
                "problems": ["p"],
                "place": None,
            }
        ],
    }


def broken(schema: dict[str, Any]) -> list[Violation]:
    """The violations of one required parameter `p` with this schema."""
    whole = arguments_schema({"p": schema}, "p")
    return [each for each in break_rules(whole, maker(whole)) if each.path[:1] == ("p",)]


@given(st.dictionaries(st.sampled_from(["p", "q"]), SCHEMAS), st.integers(0, 1000))
def test_each_breaks_its_rule(properties: dict[str, Any], seed: int) -> None:
    """jsonschema, which shares no code with the engine, finds that rule broken at that place."""
    schema = arguments_schema(properties, *sorted(properties))
    validator = Draft202012Validator(schema)
    for each in break_rules(schema, maker(schema, seed=seed)):
        place = each.path[:-1] if each.rule in ("required", "additionalProperties") else each.path
        keywords = {"enum", "const"} if each.rule == "enum" else {each.rule}
        found = {
            error.validator
            for error in validator.iter_errors(each.arguments)
            if tuple(error.absolute_path) == place
        }
        assert found & keywords, each


@pytest.mark.parametrize(
    ("schema", "rules"),
    [
        ({}, {"required": 1}),
        ({"type": "boolean"}, {"required": 1, "type": 5}),
        ({"type": "integer", "minimum": 1}, {"required": 1, "type": 5, "minimum": 1}),
        (
            {"type": "number", "exclusiveMaximum": 1},
            {"required": 1, "type": 4, "exclusiveMaximum": 2},
        ),
        (
            {"type": "number", "exclusiveMinimum": 1.5},
            {"required": 1, "type": 4, "exclusiveMinimum": 1},
        ),
        ({"type": "number", "minimum": -1.7e308}, {"required": 1, "type": 4}),
        (
            {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a+$"},
            {"required": 1, "type": 5, "minLength": 1, "maxLength": 1, "pattern": 1},
        ),
        ({"type": "string", "pattern": ""}, {"required": 1, "type": 5}),
        (
            {"type": "string", "pattern": "^abc$", "maxLength": 3},
            {"required": 1, "type": 5, "pattern": 1, "maxLength": 1},
        ),
        ({"type": "string", "enum": ["a"]}, {"required": 1, "type": 5, "enum": 1}),
        ({"enum": [1, 2]}, {"required": 1, "enum": 2}),
        ({"const": 1}, {"required": 1, "enum": 2}),
        (
            {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "boolean"}},
            {"required": 1, "type": 10, "minItems": 1, "maxItems": 1},
        ),
        (
            {
                "type": "object",
                "properties": {"a": {}},
                "required": ["a"],
                "additionalProperties": False,
            },
            {"required": 2, "type": 5, "additionalProperties": 1},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"required": 1, "type": 5},
        ),
        ({"anyOf": [{"type": "string"}]}, {"required": 1}),
    ],
)
def test_every_rule_is_broken(schema: dict[str, Any], rules: dict[str, int]) -> None:
    """No rule is forgotten: required, type, enum, pattern, bounds, lengths, items, properties."""
    assert Counter(each.rule for each in broken(schema)) == rules


def test_places_reach_inside() -> None:
    """Rules of items and of properties of objects are broken where they stand."""
    item = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    found = {each.path for each in broken({"type": "array", "items": item})}
    assert {("p",), ("p", 0), ("p", 0, "n")} == found


def test_lengths_count_characters() -> None:
    """A text that is too long is so in characters beyond the first plane of Unicode."""
    (longer,) = (
        each for each in broken({"type": "string", "maxLength": 3}) if each.rule == "maxLength"
    )
    assert longer.arguments == {"p": "🙂" * 4}


def test_an_unknown_key_is_tried_at_the_top() -> None:
    """A closed schema refuses a key that it does not declare."""
    schema = arguments_schema({})
    (only,) = break_rules(schema, maker(schema))
    assert only == Violation(
        (UNKNOWN_KEY,), "additionalProperties", "extra_parameter", {UNKNOWN_KEY: 1}
    )


def test_the_rest_of_the_arguments_stays() -> None:
    """Only one thing is wrong at a time, and the arguments are never shared between violations."""
    schema = arguments_schema({"p": {"type": "boolean"}, "q": {"type": "string"}}, "p", "q")
    found = list(break_rules(schema, maker(schema)))
    assert all(isinstance(each.arguments["q"], str) for each in found if each.path == ("p",))
    assert len({id(each.arguments) for each in found}) == len(found)


def test_a_pattern_beyond_the_generator_is_left_alone() -> None:
    """Known examples carry such a parameter; its pattern is not broken, its other rules are."""
    schema = arguments_schema({"p": {"type": "string", "pattern": r"^\p{L}+$"}}, "p")
    found = [each.rule for each in break_rules(schema, maker(schema, {"p": "é"}))]
    assert Counter(found) == {"required": 1, "additionalProperties": 1, "type": 5}
    without = Counter(each.rule for each in break_rules(schema, maker(schema)))
    assert without == {"required": 1, "additionalProperties": 1}


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"type": "integer", "minimum": 0.5, "maximum": 9.5}, {-1, 11}),
        ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 9}, {0, 1, 9, 10}),
        ({"type": "number", "minimum": 0.5}, {-0.5}),
        ({"type": "number", "minimum": 1e300}, {0.0}),
        ({"type": "integer", "maximum": 2**60}, {2**61}),
    ],
)
def test_a_bound_is_passed_by_a_value_of_the_right_type(
    schema: dict[str, Any], values: set[float]
) -> None:
    """Just outside the bound, and wrong in nothing else; far outside where floats are sparse."""
    found = {each.arguments["p"] for each in broken(schema) if "imum" in each.rule}
    assert found == values
    assert {type(each) for each in found} == {type(each) for each in values}
