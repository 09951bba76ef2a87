"""How is a tool described to each model?"""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import msgspec
import pytest

from tool_engine.errors import ConfigurationError
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.result import ResultLimits
from tool_engine.model.tool import Tool, ToolCategory
from tool_engine.protocols import FORMATS, definition_findings, definitions, get_protocol

TOOL = Tool(
    id="get_weather",
    name="get_weather",
    version="1.0.0",
    description="Tells the weather.",
    category=ToolCategory.HTTP,
    tags=[],
    parameters=[
        ToolParameter(
            "city", "string", required=True, description="Where", validation={"min_length": 1}
        ),
        ToolParameter("days", "integer", default=1, validation={"enum": [1, 3, 7]}),
        ToolParameter("tags", "array", validation={"items": {"type": "string"}}),
    ],
    implementation_config={},
)
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where", "minLength": 1},
        "days": {"type": "integer", "enum": [1, 3, 7], "default": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city"],
    "additionalProperties": False,
}
FOR_GEMINI = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where (at least 1 character)"},
        "days": {"type": "integer", "enum": [1, 3, 7], "description": "default: 1"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city"],
    "additionalProperties": False,
}
HEAD = {"name": "get_weather", "description": "Tells the weather."}

SAFE = {
    "openai": r"[A-Za-z0-9_-]{1,64}",
    "openai_responses": r"[A-Za-z0-9_-]{1,64}",
    "anthropic": r"[A-Za-z0-9_-]{1,64}",
    "gemini": r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}",
    "mcp": r"[A-Za-z0-9_.-]{1,128}",
}


def names_in(format_name: str, described: list[dict[str, Any]]) -> list[str]:
    """The names under which tools are told of."""
    if format_name == "gemini":
        described = [each for entry in described for each in entry["functionDeclarations"]]
    return [each.get("function", each)["name"] for each in described]


@pytest.mark.parametrize(
    ("format_name", "expected"),
    [
        ("openai", [{"type": "function", "function": {**HEAD, "parameters": SCHEMA}}]),
        ("anthropic", [{**HEAD, "input_schema": SCHEMA}]),
        ("openai_responses", [{"type": "function", **HEAD, "parameters": SCHEMA, "strict": False}]),
        ("gemini", [{"functionDeclarations": [{**HEAD, "parametersJsonSchema": FOR_GEMINI}]}]),
        ("mcp", [{**HEAD, "inputSchema": SCHEMA}]),
    ],
)
def test_format(format_name: str, expected: list[dict[str, Any]]) -> None:
    """D3, D5, D7, D8, R4, X9: each provider's own shape, with what it takes of JSON Schema."""
    assert definitions(format_name, [TOOL]) == expected
    assert json.loads(json.dumps(definitions(format_name, [TOOL]))) == expected
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_several_tools_keep_their_order() -> None:
    """D7: Gemini gets one entry with all functions, the others one entry per tool."""
    other = msgspec.structs.replace(TOOL, name="other")
    listed = [tool["name"] for tool in definitions("anthropic", iter([TOOL, other]))]
    assert listed == ["get_weather", "other"]
    (entry,) = definitions("gemini", iter([TOOL, other]))
    assert [tool["name"] for tool in entry["functionDeclarations"]] == listed


@pytest.mark.parametrize("format_name", FORMATS)
def test_no_tools(format_name: str) -> None:
    """No tools are no entries in any format."""
    assert definitions(format_name, []) == []


@pytest.mark.parametrize("format_name", FORMATS)
def test_fresh_copies(format_name: str) -> None:
    """What is returned may be changed; the tool, its schema and the next answer stay."""
    output = {"type": "object", "properties": {"a": {"type": "string"}}}
    tool = msgspec.structs.replace(TOOL, output=output)
    first = definitions(format_name, [tool])
    before = json.dumps(first)

    def spoil(value: Any) -> None:
        for item in list(value.values()) if isinstance(value, dict) else list(value):
            if isinstance(item, dict | list):
                spoil(item)
        value.clear()

    spoil(first)
    assert json.dumps(definitions(format_name, [tool])) == before
    assert tool.parameters_schema == SCHEMA


@pytest.mark.parametrize(
    ("fields", "annotations"),
    [
        ({}, None),
        ({"effect": "read"}, {"readOnlyHint": True}),
        ({"effect": "write"}, {"readOnlyHint": False}),
        (
            {"effect": "write", "idempotent": True},
            {"readOnlyHint": False, "idempotentHint": True},
        ),
        ({"idempotent": True}, {"idempotentHint": True}),
        (
            {"effect": "read", "annotations": {"openWorldHint": True}},
            {"readOnlyHint": True, "openWorldHint": True},
        ),
        ({"annotations": {"readOnlyHint": False, "x": 1}}, {"readOnlyHint": False, "x": 1}),
        ({"annotations": {}}, {}),
    ],
)
def test_mcp_annotations(fields: dict[str, Any], annotations: dict[str, Any] | None) -> None:
    """D3: MCP is told what a tool declares about its effect, and nothing that it does not."""
    (described,) = definitions("mcp", [msgspec.structs.replace(TOOL, **fields)])
    assert described.get("annotations") == annotations
    assert "title" not in described
    (titled,) = definitions("mcp", [msgspec.structs.replace(TOOL, **fields, title="A title")])
    assert titled == {**described, "title": "A title"}


@pytest.mark.parametrize(
    ("output", "described"),
    [
        ({"type": "object"}, {"type": "object"}),
        (
            {"type": "string"},
            {
                "type": "object",
                "properties": {"result": {"type": "string"}},
                "required": ["result"],
            },
        ),
        ({"description": "anything"}, None),
        (None, None),
    ],
)
def test_mcp_output_schema(output: dict[str, Any] | None, described: dict[str, Any] | None) -> None:
    """U17: MCP is told the output as it arrives, a value that is no object under `result`."""
    (found,) = definitions("mcp", [msgspec.structs.replace(TOOL, output=output)])
    assert found.get("outputSchema") == described


@pytest.mark.parametrize(
    ("limits", "is_told"), [(ResultLimits(max_items=9), False), (ResultLimits(limit=9), True)]
)
def test_an_output_that_may_be_cut_is_not_told(limits: ResultLimits, is_told: bool) -> None:
    """Clients would hold what is left against it; it is said that it does not cross."""
    tool = msgspec.structs.replace(TOOL, output={"type": "object"}, result=limits)
    (found,) = definitions("mcp", [tool])
    findings = definition_findings("mcp", [tool])
    assert ("outputSchema" in found) is is_told
    assert any("output: is not told" in each.message for each in findings) is not is_told


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [("opnai", "did you mean 'openai'?"), ("vcp2", "known are openai, openai_responses")],
)
def test_unknown_format(wrong: str, hint: str) -> None:
    """An unknown format is refused with the list of known ones and the nearest."""
    with pytest.raises(ConfigurationError, match="unknown definition format") as caught:
        definitions(wrong, [TOOL])
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("name", "refused_by"),
    [
        ("a.b", {"openai", "openai_responses", "anthropic"}),
        ("a:b", {"openai", "openai_responses", "anthropic", "mcp"}),
        ("1a", {"gemini"}),
        ("-a", {"gemini"}),
        ("天气", set(FORMATS)),
        ("a b", set(FORMATS)),
        ("a\n", set(FORMATS)),
        ("", set(FORMATS)),
        ("x" * 64, set()),
        ("x" * 65, {"openai", "openai_responses", "anthropic", "gemini"}),
        ("x" * 129, set(FORMATS)),
    ],
)
def test_names_that_a_provider_refuses(name: str, refused_by: set[str]) -> None:
    """D5, D7, D8: such a tool spoils nothing: it is told of under another name, and we are told."""
    tool = msgspec.structs.replace(TOOL, name=name)
    for format_name in FORMATS:
        first, sent = names_in(format_name, definitions(format_name, [TOOL, tool]))
        assert first == TOOL.name
        assert re.fullmatch(SAFE[format_name], sent)
        assert (sent != name) is (format_name in refused_by)
        found = definition_findings(format_name, [TOOL, tool])
        renamed = [each for each in found if each.error_type == "renamed"]
        assert [each.tool_name for each in renamed] == ([name] if sent != name else [])
        assert all(repr(sent) in each.message for each in renamed)
        if format_name != "mcp":
            # Another process, which has told of nothing yet, finds the tool of it.
            protocol: Any = get_protocol(format_name, tools={name: tool})
            assert protocol.known.meant_name(sent) == name


def test_what_a_limit_refuses_is_told() -> None:
    """A description and a number of tools that a provider is known to refuse are findings."""
    long = msgspec.structs.replace(TOOL, description="x" * 1025)
    (finding,) = definition_findings("openai", [long])
    assert (finding.error_type, finding.tool_name) == ("limit", "get_weather")
    assert "1025" in finding.message
    (function,) = definitions("openai", [long])
    assert len(function["function"]["description"]) == 1025
    many = [msgspec.structs.replace(TOOL, name=f"t{number}") for number in range(129)]
    (finding,) = definition_findings("openai", many)
    assert (finding.error_type, finding.level) == ("limit", "error")
    assert definition_findings("mcp", [long, *many]) == []


def test_findings_of_a_schema() -> None:
    """What Gemini takes no keyword for is said in words, and each such place is a finding."""
    found = definition_findings("gemini", [TOOL])
    assert [(each.error_type, each.tool_name) for each in found] == [("rewritten", TOOL.name)] * 2
    assert "parameters/properties/city/minLength" in found[0].message
    with pytest.raises(ConfigurationError, match="unknown definition format"):
        definition_findings("vcp2", [])
