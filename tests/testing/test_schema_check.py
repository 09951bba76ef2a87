"""Are a tool's parameters tried out, and is a rule that is not kept told?"""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from tool_engine import Tool, ToolCategory
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.call import ValidationError, ValidationResult
from tool_engine.model.parameter import ToolParameter
from tool_engine.testing.report import CaseReport, CaseStatus, ToolReport
from tool_engine.testing.schema_check import check_schema
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
