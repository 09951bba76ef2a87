"""Tools of several sources under one roof, none hidden by another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.catalog.search_catalog import catalog
from tests.effort import share_of
from tool_engine.config import ToolEngineConfig
from tool_engine.engine import ToolEngine
from tool_engine.errors import ConfigurationError, ToolNotFoundError
from tool_engine.model.call import ToolCall, ToolExecutionContext, ToolExecutionResult
from tool_engine.model.tool import Tool
from tool_engine.protocols import CombinedTools
from tool_engine.protocols.openai import OpenAIProtocol
from tool_engine.sources.composition import prefix
from tool_engine.subagent import ToolSubAgent

SAMPLE = replace(catalog()[0], tags=[], parameters=[])


class Source:
    """A source whose tools say who they are."""

    def __init__(self, *names: str, label: str = "") -> None:
        self.generation = 0
        self.label = label
        self.looks = 0
        self.put(*names)

    def put(self, *names: str) -> None:
        self.generation += 1
        self.tools = {name: replace(SAMPLE, name=name, description="Does it.") for name in names}

    def get(self, name: str) -> Tool | None:
        by_alias = (each for each in self.tools.values() if name in each.aliases)
        return self.tools.get(name) or next(by_alias, None)

    def list_all(self) -> list[Tool]:
        self.looks += 1
        return list(self.tools.values())

    async def execute(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        context: ToolExecutionContext | None = None,
    ) -> ToolExecutionResult:
        output = {"ran": name, "in": self.label, "params": params}
        return ToolExecutionResult(name in self.tools, name, output)


def names(tools: CombinedTools) -> list[str]:
    return [tool.name for tool in tools.list_all()]


async def test_all_that_collide_are_renamed() -> None:
    """U45: neither keeps the name that both have; what only one has stays as it is."""
    files, web = Source("search", "read", label="files"), Source("search", "fetch", label="web")
    tools = CombinedTools({"files": files, "web": web})
    assert names(tools) == ["fetch", "files_search", "read", "web_search"]
    assert tools.get("search") is None
    renamed = tools.get_or_raise("files_search")
    assert renamed.description == "[files] Does it."
    assert tools.get("read") is files.tools["read"]
    assert [(each.error_type, each.tool_name) for each in tools.findings] == [
        ("renamed", "files_search"),
        ("renamed", "web_search"),
    ]
    assert "'search' of 'files' is 'files_search' here" in tools.findings[0].message
    assert repr(tools) == "CombinedTools(files, web: 4 tools)"
    assert len(tools) == 4
    assert tools.source_of("web_search") == ("web", "search")
    assert tools.source_of("search") is None
    for name, label, own in [("web_search", "web", "search"), ("read", "files", "read")]:
        result = await tools.execute(name, {"q": 1})
        assert result.output == {"ran": own, "in": label, "params": {"q": 1}}
        assert result.tool_name == name
    assert files.tools["search"].name == "search"


async def test_a_name_that_nobody_has_runs_nothing() -> None:
    """Promise 1: a name that is ambiguous here does not run one of the two."""
    tools = CombinedTools({"files": Source("search"), "web": Source("search")})
    result = await tools.execute("search")
    assert (result.is_success, result.error_type) == (False, "tool_not_found")
    assert "did you mean" in (result.error or "")
    assert "files_search" in (result.error or "")
    with pytest.raises(ToolNotFoundError, match="'search'; did you mean"):
        tools.get_or_raise("search")
    with pytest.raises(ToolNotFoundError, match=r"there is no tool named 'xx+'; 2 are there"):
        tools.get_or_raise("x" * 1_000_000)


@pytest.mark.parametrize("on_conflict", ["rename", "refuse"])
async def test_an_alias_of_several_sources_is_said(on_conflict: str) -> None:
    """U45: it means none of their tools, and a name comes before it."""
    files, web = Source("read", "list", label="files"), Source("fetch", "look", label="web")
    for source, name, alias in (
        (files, "read", "get"),
        (web, "fetch", "get"),
        (web, "look", "list"),
        (files, "list", "dir"),
    ):
        source.tools[name] = replace(source.tools[name], aliases=(alias,))
    tools = CombinedTools({"files": files, "web": web}, on_conflict=on_conflict)
    found = {each.tool_name: each for each in tools.findings}
    assert {each.error_type for each in tools.findings} == {"alias_not_clear"}
    assert set(found) == {"read", "fetch", "look"}
    assert "the alias 'get' of 'read' also means 'fetch' of 'web'; give it" in found["read"].message
    assert "the alias 'list' of 'look' also means 'list' of 'files'" in found["look"].message
    assert (await tools.execute("get")).error_type == "tool_not_found"
    assert (await tools.execute("list")).output["in"] == "files"
    assert (await tools.execute("dir")).tool_name == "list"
    # The cure.
    clear = CombinedTools({"files": files, "web": prefix(web, "web_")}, on_conflict=on_conflict)
    assert clear.findings == []
    assert (await clear.execute("get")).tool_name == "read"


async def test_conflicts_may_be_refused() -> None:
    """With `refuse`, two tools of one name are an error that names both sources."""
    with pytest.raises(ConfigurationError, match="'files', 'web' all have a tool named 'search'"):
        CombinedTools({"files": Source("search"), "web": Source("search")}, on_conflict="refuse")
    web = Source("fetch")
    tools = CombinedTools({"files": Source("search"), "web": web}, on_conflict="refuse")
    assert names(tools) == ["fetch", "search"]
    web.put("fetch", "search")
    with pytest.raises(ConfigurationError, match="rename one in its definition"):
        tools.list_all()
    assert (await tools.execute("fetch")).is_success
    for name in ("search", "files_search"):
        assert not (await tools.execute(name)).is_success
        assert tools.get(name) is None
    assert "'files', 'web' all have" in ((await tools.execute("search")).error or "")
    with pytest.raises(ConfigurationError, match="on_conflict"):
        CombinedTools({}, on_conflict="maybe")


@pytest.mark.parametrize("sources", [{"": Source()}, {"a": {}}, {"a": None}])
def test_what_is_no_source(sources: Any) -> None:
    """A source without a name, or without the methods of an engine, is an error."""
    with pytest.raises(ConfigurationError, match="as a ToolEngine has"):
        CombinedTools(sources)


def test_renamed_names_that_collide_again() -> None:
    """`a` + `b_c` reads as `a_b` + `c`: those are told apart, the same way each time."""
    sources = {
        "a": Source("b_c", "x"),
        "a_b": Source("c", "b_c"),
        "z": Source("c", "z_x", "x"),
    }
    tools = CombinedTools(sources)
    found = names(tools)
    assert len(found) == len(set(found)) == 7
    assert "z_x" in found
    assert tools.source_of("z_x") == ("z", "z_x")
    doubles = [name for name in found if name.startswith("a_b_c_")]
    assert sorted(tools.source_of(name) or () for name in doubles) == [("a", "b_c"), ("a_b", "c")]
    assert names(CombinedTools(dict(reversed(sources.items())))) == found


NAMES = st.lists(st.sampled_from(["a", "b", "a_b", "b_a", "a_a", "天", "a_a_b"]), unique=True)


@settings(max_examples=share_of(100), deadline=None)
@given(listed=st.dictionaries(st.sampled_from(["a", "b", "a_b", "天"]), NAMES, max_size=4))
def test_one_to_one(listed: dict[str, list[str]]) -> None:
    """D17: every tool of every source has one name here, which depends on no order."""
    tools = CombinedTools({source: Source(*own) for source, own in listed.items()})
    found = {name: tools.source_of(name) for name in names(tools)}
    assert sorted(filter(None, found.values())) == sorted(
        (source, name) for source, own in listed.items() for name in own
    )
    turned = {source: Source(*reversed(listed[source])) for source in reversed(listed)}
    again = CombinedTools(turned)
    assert {name: again.source_of(name) for name in names(again)} == found


def test_reloads() -> None:
    """Names are the same after a reload, follow what changes, and are made once a generation."""
    files, web = Source("search"), Source("fetch")
    tools = CombinedTools({"files": files, "web": web})
    before, looks = tools.generation, files.looks
    assert tools.generation == before
    for _ in range(5):
        assert names(tools) == ["fetch", "search"]
    assert files.looks == looks
    web.put("fetch", "search")
    assert names(tools) == ["fetch", "files_search", "web_search"]
    assert tools.generation == before + 1
    web.put("search", "fetch")
    assert names(tools) == ["fetch", "files_search", "web_search"]
    assert tools.generation == before + 2, "what is hidden here may have changed"
    web.put("fetch")
    assert names(tools) == ["fetch", "search"]
    assert tools.generation == before + 3


def test_a_source_without_a_generation() -> None:
    """A source that does not say when its tools change is asked each time."""
    files = Source("search")
    del files.generation
    tools = CombinedTools({"files": files})
    assert names(tools) == ["search"]
    files.tools["read"] = replace(SAMPLE, name="read")
    assert names(tools) == ["read", "search"]


async def test_engines(tmp_path: Path) -> None:
    """Two engines as one, for a sub-agent and for a model that calls by the new names."""
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config) as files, ToolEngine(config) as web:
        for engine, word in ((files, "a file"), (web, "a page")):

            def search(query: str, word: str = word) -> str:
                """Finds something."""
                return f"{query}: {word}"

            engine.register_tool(
                {
                    "name": "search",
                    "description": "Finds.",
                    "parameters": [
                        {"name": "query", "type": "string", "required": True, "description": "It"}
                    ],
                },
                search,
            )
        tools = CombinedTools({"files": files, "web": web})
        openai = OpenAIProtocol(tools=tools)
        told = [each["function"]["name"] for each in openai.definitions(tools.list_all())]
        assert told == ["files_search", "web_search"]
        agent = ToolSubAgent("helper", tools)
        calls = [ToolCall(call_id=name, tool_name=name, arguments={"query": "x"}) for name in told]
        results = await agent.execute_batch(calls)
        assert [result.output for result in results] == [
            {"result": "x: a file"},
            {"result": "x: a page"},
        ]
        assert [result.tool_name for result in results] == told
        assert agent.tool_definitions("openai") == openai.definitions(tools.list_all())
        assert (await tools.execute("web_search", {})).error_type == "validation_error"
