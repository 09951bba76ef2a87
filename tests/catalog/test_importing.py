"""Tool lists of other programs load, are told on every wire, run, and come back equal."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import anthropic
import openai
import pytest
from google.genai import types as gemini
from jsonschema.validators import validator_for

from tests.catalog.tool_lists import (
    ANTHROPIC,
    GEMINI,
    LEFT_OUT,
    MCP,
    OPENAI,
    OPENAPI,
    RESPONSES,
)
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.errors import ConfigurationError
from tool_engine.model.tool import Tool
from tool_engine.protocols import FORMATS, definition_findings, definitions
from tool_engine.testing.arguments import ArgumentMaker

LISTS: dict[str, Any] = {
    "openai": OPENAI,
    "openai_responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
}


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    async with ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False)) as engine:
        yield engine


def schemas_of(tools: list[Tool]) -> dict[str, Any]:
    return {tool.name: tool.parameters_schema for tool in tools}


@pytest.mark.parametrize("name", LISTS)
async def test_it_comes_back_equal(engine: ToolEngine, name: str) -> None:
    """17.2: what a list says is what the same format says again."""
    listed = copy.deepcopy(LISTS[name])
    seen: list[Any] = []

    async def call(tool: str, arguments: dict[str, Any]) -> Any:
        seen.append((tool, arguments))
        return {"sky": "clear"}

    await engine.import_tools(listed, call)
    assert engine.load_errors == []
    told = definitions(name, engine.list_all())
    assert sorted(told, key=str) == sorted(LISTS[name], key=str) == sorted(listed, key=str)
    assert definition_findings(name, engine.list_all()) == []
    result = await engine.execute("get_weather", {"location": "Boston, MA"})
    assert result.output == {"sky": "clear"}
    assert seen == [("get_weather", {"location": "Boston, MA"})]
    assert {tool.origin for tool in engine.list_all()} == {"import:tools"}


async def test_objects_of_the_sdks(engine: ToolEngine) -> None:
    """17.2: an SDK's own objects are taken for what they hold."""
    inner = gemini.FunctionDeclaration.model_validate(GEMINI[0]["functionDeclarations"][0])
    found: list[Any] = [
        openai.types.chat.ChatCompletionFunctionTool.model_validate(OPENAI[0]),
        gemini.Tool(function_declarations=[inner.model_copy(update={"name": "other"})]),
    ]
    assert anthropic.types.ToolParam is not None
    await engine.import_tools(found, lambda name, arguments: name)
    assert engine.load_errors == []
    assert engine.list_names() == ["get_weather", "other"]
    assert (await engine.execute("other", {"location": "x"})).output == {"result": "other"}


async def test_lists_of_servers(engine: ToolEngine) -> None:
    """17.2: each loads as it is written, is told on every wire, and takes what its schema takes."""
    await engine.import_tools(MCP, lambda name, arguments: {"done": True, **arguments})
    assert engine.load_errors == []
    tools = engine.list_all()
    assert schemas_of(tools) == {each["name"]: each["inputSchema"] for each in MCP}
    for name in FORMATS:
        assert len(str(definitions(name, tools))) > 1_000
        assert all(each.message for each in definition_findings(name, tools))
    assert engine.get_or_raise("list_allowed").effect == "read"
    assert engine.get_or_raise("write_file").idempotent
    for tool in tools:
        sent = _arguments_for(tool)
        result = await engine.execute(tool.name, sent)
        assert result.is_success, (tool.name, sent, result.error)
        assert sent.items() <= result.output.items()


BY_HAND: dict[str, dict[str, Any]] = {
    "click": {"x": 1, "y": 2},
    "notify": {"to": ["ann"]},
    "fetch": {"url": "https://example.com/a", "max_length": 5},
}


def _arguments_for(tool: Tool) -> dict[str, Any]:
    if tool.name in BY_HAND:
        return BY_HAND[tool.name]

    return ArgumentMaker(tool.parameters_schema, Random(1), []).arguments()  # noqa: S311 - no secret


async def test_lists_of_servers_come_back(engine: ToolEngine) -> None:
    """17.2, 17.8: titles and annotations too, whatever their keys, if they are of MCP's kinds."""
    more = {"title": "Wipe", "readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}
    listed: list[dict[str, Any]] = [
        *MCP,
        {**MCP[0], "name": "wipe", "annotations": {**more, "x-risk": {"level": 3}}},
        {**MCP[0], "name": "look", "annotations": {"openWorldHint": True}},
        {**MCP[0], "name": "none", "annotations": {}},
    ]
    await engine.import_tools(copy.deepcopy(listed), lambda name, arguments: 1)
    assert engine.load_errors == []
    told = {each["name"]: each for each in definitions("mcp", engine.list_all())}
    for each in listed:
        # A wire may write a schema in another way, which `definition_findings` lists.
        assert {**told.pop(each["name"]), "inputSchema": None} == {**each, "inputSchema": None}
    assert told == {}
    assert {each["name"] for each in engine.tool_definitions("mcp")} == set(engine.list_names())


async def test_annotations_of_another_kind(engine: ToolEngine) -> None:
    """17.8: a hint that is no hint is left out, and said; the tool is there."""
    listed = [{**MCP[0], "annotations": {"readOnlyHint": "yes", "title": 1, "more": None}}]
    await engine.import_tools(listed, lambda name, arguments: 1)
    (tool,) = engine.list_all()
    assert (tool.annotations, tool.effect) == ({"more": None}, "unknown")
    assert len(tool.findings) == 2


async def test_what_is_left_out_is_said(engine: ToolEngine) -> None:
    """17.2: a rule that would not be enforced is a finding with its place; the rest holds."""
    await engine.import_tools(LEFT_OUT, lambda name, arguments: 1)
    assert engine.load_errors == []
    said = {tool.name: "\n".join(tool.findings) for tool in engine.list_all()}
    assert "#/properties/data/format" in said["upload"]
    assert "#/properties/data/contentEncoding" in said["upload"]
    assert "#/properties/id/x-order" in said["ids"]
    assert "#/properties/slug/pattern" in said["slug"]
    assert "#/$id" in said["old"]
    assert not (await engine.execute("old", {"n": 0})).is_success
    assert (await engine.execute("old", {"n": 0.5})).is_success
    assert not (await engine.execute("ids", {"id": "x"})).is_success


async def test_words_of_openapi(engine: ToolEngine) -> None:
    """17.2: types in capitals and `nullable` mean what they mean there."""
    await engine.import_tools(OPENAPI, lambda name, arguments: arguments)
    sent = {"location": "x", "days": None}
    assert (await engine.execute("get_weather", sent)).output == sent
    assert not (await engine.execute("get_weather", {"location": "x", "days": "1"})).is_success


async def test_one_that_is_wrong(engine: ToolEngine) -> None:
    """17.2: it is left out, and an error names it; the others are there."""
    wrong = {"name": "bad", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/x"}}}}
    changes = await engine.import_tools([wrong, MCP[0]], lambda name, arguments: 1)
    assert changes["added"] == ["read_text_file"]
    ((place, message),) = engine.load_errors
    assert "import:tools" in place
    assert "bad" in message
    assert "there is no schema at '#/x'" in message


@pytest.mark.parametrize(
    ("inside", "place"),
    [
        ({"properties": [1]}, "parameters.properties"),
        ({"properties": 5}, "parameters.properties"),
        ({"properties": {"a": {"format": ["x"], "type": 5}}}, "parameters.properties.a.type"),
        ({"$defs": 5, "properties": {"a": {"$ref": "#/$defs/b"}}}, "parameters.properties.a.$ref"),
        ({"properties": {"a": {"default": "\ud800"}}}, "parameters.properties.a.default"),
        ({"properties": {"\ud800": {"format": "x"}}}, "parameters.properties"),
    ],
    ids=ascii,
)
async def test_a_schema_of_other_kinds_of_values(
    engine: ToolEngine, inside: dict[str, Any], place: str
) -> None:
    """Each has its place and cure."""
    wrong = {"name": "bad", "inputSchema": {"type": "object", **inside}}
    await engine.import_tools([wrong, MCP[0]], lambda name, arguments: 1)
    assert engine.list_names() == ["read_text_file"]
    for _, message in engine.load_errors:
        assert f": {place}: " in message
        assert "; " in message


async def test_a_keyword_that_is_no_text(engine: ToolEngine) -> None:
    """It is left out as any other, and the finding can be written."""
    listed = {"name": "odd", "inputSchema": {"type": "object", "properties": {"a": {"\ud800": 1}}}}
    await engine.import_tools([listed], lambda name, arguments: arguments)
    assert engine.load_errors == []
    (found,) = engine.get_or_raise("odd").findings
    assert "was left out" in found.encode().decode()


@pytest.mark.parametrize(
    "entry", [{"type": "web_search_20250305", "name": "web_search"}, "x", {}, 5, None]
)
async def test_what_is_no_tool(engine: ToolEngine, entry: Any) -> None:
    """17.2: a list of something else is refused as a whole."""
    with pytest.raises(ConfigurationError, match="is no tool of OpenAI"):
        await engine.import_tools([MCP[0], entry], lambda name, arguments: 1)
    assert engine.list_names() == []
    with pytest.raises(ConfigurationError, match="call, which runs the tools, must be a function"):
        await engine.import_tools([MCP[0]], 5)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["parameters", "input_schema", "inputSchema"])
@pytest.mark.parametrize(
    "schema", [{}, {"$schema": "http://json-schema.org/draft-07/schema#"}, {"title": "Nothing"}]
)
async def test_a_schema_that_says_nothing(
    engine: ToolEngine, key: str, schema: dict[str, Any]
) -> None:
    """It is that of a tool without parameters, as one that is not there."""
    await engine.import_tools([{"name": "now", key: schema}], lambda name, arguments: arguments)
    assert engine.load_errors == []
    assert (await engine.execute("now", {})).output == {}
    assert engine.get_or_raise("now").parameters == []


async def test_what_is_written_in_the_words_of_today_is_of_no_older_draft(
    engine: ToolEngine,
) -> None:
    """By draft-07 a reader passes over `prefixItems`, and would take any list."""
    pair: dict[str, Any] = {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}
    draft = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
    schema = {**draft, "properties": {"pair": pair}}
    listed: list[Any] = [{"name": "put", "inputSchema": schema}]
    await engine.import_tools(listed, lambda name, arguments: 1)
    (told,) = definitions("mcp", engine.list_all())
    rules = validator_for(told["inputSchema"])(told["inputSchema"])
    given: list[dict[str, Any]] = [{"pair": ["a", 1]}, {"pair": [1, "a"]}]
    assert [rules.is_valid(each) for each in given] == [True, False]


async def test_what_only_forgot_its_properties_is_wrong(engine: ToolEngine) -> None:
    listed = [{"name": "bad", "parameters": {"city": {"type": "string"}}}]
    await engine.import_tools(listed, lambda name, arguments: 1)
    assert engine.list_names() == []
    assert "parameters: expected a list, or the JSON Schema of an object" in str(engine.load_errors)


async def test_two_schemas_of_one_tool(engine: ToolEngine) -> None:
    """Nothing says which of them holds; twice the same is one."""
    one, other = ({"type": "object", "properties": {name: {}}} for name in "ab")
    listed = [{"name": "both", "parameters": one, "inputSchema": other}]
    with pytest.raises(ConfigurationError, match=r"'both' has two .* parameters and inputSchema"):
        await engine.import_tools(listed, lambda name, arguments: arguments)
    assert engine.list_names() == []
    listed[0]["inputSchema"] = dict(one)
    await engine.import_tools(listed, lambda name, arguments: arguments)
    assert (await engine.execute("both", {"a": 1})).output == {"a": 1}


async def test_a_misfit_of_a_server_is_told(engine: ToolEngine) -> None:
    """What a server declares of its output warns, and the result is there."""
    await engine.import_tools(MCP, lambda name, arguments: {"done": "no"})
    result = await engine.execute("think", {"thought": "x"})
    assert result.is_success
    assert "done" in str(result.validation_errors)
    await engine.remove_source("import:tools")
    assert engine.list_names() == []


async def test_a_list_that_its_owner_changes_later(engine: ToolEngine) -> None:
    """No tool changes with the objects it was read from, at the next reload neither."""
    listed = copy.deepcopy(MCP)
    await engine.import_tools(listed, lambda name, arguments: 1)
    before = engine.tool_definitions("mcp")
    for each in listed:
        each["inputSchema"].get("properties", {}).clear()
        each["inputSchema"]["required"] = []
        each["description"] = "changed"
    assert await engine.reload() == {"added": [], "modified": [], "removed": []}
    assert engine.tool_definitions("mcp") == before
