"""Tools of public servers and lists of functions load, are told on every wire, and run.

Each list is one that a package, or a repository, gave when it was asked for its tools.
"""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from anthropic.types import ToolParam
from google.genai import types as gemini
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam

from tests.catalog.lists.real_lists import Judge, arguments_for, read_lists
from tests.protocols.sdk_types import value_faults
from tool_engine import Tool, ToolEngine, ToolEngineConfig
from tool_engine.model.schema import takes_others
from tool_engine.protocols import PROTOCOLS, definition_findings, definitions, get_protocol

LISTS: Final = read_lists()
SDK_TYPES: Final[dict[str, Any]] = {
    "openai": ChatCompletionFunctionToolParam,
    "openai_responses": FunctionToolParam,
    "anthropic": ToolParam,
}
REFUSED: Final[dict[str, dict[str, str]]] = {}
"""Source -> the tools of it that do not load, and what their errors say."""


def schema_of(entry: dict[str, Any]) -> Any:
    return entry.get("inputSchema", entry.get("parameters"))


@cache
def schemas_of(origin: str) -> dict[str, Any]:
    return {entry["name"]: schema_of(entry) for entry in LISTS[origin]}


@pytest.mark.parametrize("origin", LISTS)
async def test_a_real_list(tmp_path: Path, origin: str) -> None:
    """17.2: it loads, is told on every wire, and takes what another validator takes."""
    async with ToolEngine(ToolEngineConfig(str(tmp_path), auto_reload=False)) as engine:
        given = copy.deepcopy(LISTS[origin])
        await engine.import_tools(given, lambda name, arguments: {"sent": arguments})
        assert given == LISTS[origin]
        check_what_loads(engine, origin)
        check_what_is_told(engine.list_all(), origin)
        for tool in engine.list_all():
            await check_calls(engine, tool, schemas_of(origin)[tool.name])


def check_what_loads(engine: ToolEngine, origin: str) -> None:
    refused = REFUSED.get(origin, {})
    assert {entry["name"] for entry in LISTS[origin]} == {*engine.list_names(), *refused}
    assert len(engine.load_errors) == len(refused)
    said = "\n".join(message for _, message in engine.load_errors)
    assert all(words in said for words in refused.values()), said


def check_what_is_told(tools: list[Tool], origin: str) -> None:
    written = schemas_of(origin)
    for tool in tools:
        is_whole = not any(
            "was left out" in each or "is written as" in each for each in tool.findings
        )
        assert (tool.parameters_schema == written[tool.name]) or not is_whole, tool.name
    for name, hint in SDK_TYPES.items():
        told = definitions(name, tools)
        assert [value_faults(each, hint) for each in told] == [[]] * len(tools)
    for each in definitions("gemini", tools):
        gemini.Tool.model_validate(each)
    for name in PROTOCOLS:
        wire: Any = get_protocol(name)
        said = f"{wire.definitions(tools)} {wire.prompt(tools) if hasattr(wire, 'prompt') else ''}"
        assert all(parameter.name in said for tool in tools for parameter in tool.parameters)
        assert (
            all(each.message for each in definition_findings(name, tools))
            if name in SDK_TYPES
            else True
        )


async def check_calls(engine: ToolEngine, tool: Tool, schema: Any) -> None:
    declared = {each.name for each in tool.parameters}
    judge = Judge(schema, declared, takes_others=takes_others(schema))
    is_loose = any("was left out" in each for each in tool.findings)
    for sent in arguments_for(schema, Random(tool.name)):  # noqa: S311 - no secret
        is_right = judge.accepts(sent)
        result = await engine.execute(tool.name, copy.deepcopy(sent))
        assert result.is_success or not is_right, (sent, result.error)
        assert is_right or is_loose or not result.is_success, (sent, "is wrong")


def test_the_share_that_loads() -> None:
    """17.2: of at least 400 tools of 30 sources 99 of 100 load."""
    tools = sum(map(len, LISTS.values()))
    assert len(LISTS) >= 30
    assert tools >= 400
    assert sum(map(len, REFUSED.values())) <= tools / 100
