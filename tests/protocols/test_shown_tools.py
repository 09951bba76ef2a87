"""A model is told of the tools that it starts with and of those that it finds."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.catalog.search_catalog import catalog
from tool_engine.catalog.index import ToolIndex
from tool_engine.errors import ConfigurationError, ToolNotFoundError
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.tool import Tool
from tool_engine.protocols.registry import get_protocol
from tool_engine.protocols.shown_tools import ShownTools
from tool_engine.sources.foreign import as_source

SAMPLE = replace(catalog()[0], tags=[], parameters=[])
SEARCH_ENTRY = {"type": "builtin", "handler": "search_tools"}
NAMES = ["a", "b", "c", "d", "e", "search"]


class Catalog(ToolIndex):
    """Tools that a test may change under the reader's hands."""

    def put(self, name: str, **fields: Any) -> Tool:
        tool = replace(SAMPLE, **{"name": name, **fields})
        self.__init__([*(each for each in self if each.name != name), tool])  # type: ignore[misc]
        return tool

    def drop(self, name: str) -> None:
        self.__init__(each for each in self if each.name != name)  # type: ignore[misc]


@pytest.fixture
def tools() -> Catalog:
    made = Catalog()
    for name in NAMES:
        made.put(name)
    made.put("search", implementation_config=SEARCH_ENTRY)
    return made


def shown(tools: Catalog, start: Any = ("search",), most: int = 3) -> ShownTools:
    return ShownTools(as_source(tools), start, most)


def find(shown: ShownTools, tools: Catalog, *names: Any, **result: Any) -> None:
    output = {"tools": [{"name": name} for name in names]}
    fields = {"is_success": True, "tool_name": "search", "output": output, **result}
    shown.learn(tools.get(fields["tool_name"]), ToolExecutionResult(**fields))


def use(shown: ShownTools, tools: Catalog, name: str, *, is_success: bool = True) -> None:
    shown.learn(tools.get(name), ToolExecutionResult(is_success, name))


def listed(shown: ShownTools) -> list[str]:
    return [tool.name for tool in shown.tools()]


def test_all_enabled_tools_without_a_start(tools: Catalog) -> None:
    """Without a start, every enabled tool is shown, once, found or not."""
    everything = shown(tools, None)
    tools.put("a", status="draft")
    assert listed(everything) == NAMES[1:]
    find(everything, tools, "b")
    assert listed(everything) == NAMES[1:]
    assert repr(everything) == "ShownTools(all from the start, 1 found)"


def test_found_tools_follow_the_start(tools: Catalog) -> None:
    """What was found comes after the start, in the order of finding, each tool once."""
    few = shown(tools, ["search", "a", "search"])
    assert listed(few) == ["search", "a"]
    find(few, tools, "c", "a", "b")
    assert listed(few) == ["search", "a", "c", "b"]
    assert repr(few) == "ShownTools(2 from the start, 3 found)"
    named = [each["name"] for each in few.definitions("anthropic")]
    assert named == ["search", "a", "c", "b"]


def test_the_longest_unused_goes(tools: Catalog) -> None:
    """At most so many are kept: what was called or found again stays, and the order too."""
    few = shown(tools)
    find(few, tools, "a", "b")
    find(few, tools, "c")
    use(few, tools, "a")
    find(few, tools, "d")
    assert listed(few) == ["search", "a", "c", "d"]
    use(few, tools, "c", is_success=False)
    find(few, tools, "a", "e")
    assert listed(few) == ["search", "a", "c", "e"]


def test_of_one_search_the_best_stay(tools: Catalog) -> None:
    """A search that finds more than fit shows its best; later the least of them goes first."""
    few = shown(tools)
    find(few, tools, "a", "b", "c", "d")
    assert listed(few) == ["search", "a", "b", "c"]
    find(few, tools, "e")
    assert listed(few) == ["search", "a", "b", "e"]


def test_a_found_tool_shows_what_it_is_now(tools: Catalog) -> None:
    """A found tool that is gone or not enabled is left out; when it is back, so it is here."""
    few = shown(tools)
    find(few, tools, "a", "b", "missing")
    tools.put("a", status="deprecated")
    tools.drop("b")
    assert listed(few) == ["search"]
    assert few.definitions("openai")[1:] == []
    tools.put("a", description="New.")
    tools.put("b")
    assert [tool.description for tool in few.tools()][1:] == ["New.", SAMPLE.description]


def test_a_name_that_a_provider_refuses(tools: Catalog) -> None:
    """A tool with an odd name is shown under another one, found or from the start."""
    odd = tools.put("查询天气")
    few = shown(tools)
    find(few, tools, "查询天气", "a")
    assert listed(few) == ["search", "查询天气", "a"]
    named = [each["function"]["name"] for each in few.definitions("openai")]
    assert named[::2] == ["search", "a"]
    protocol: Any = get_protocol("openai", tools=[odd])
    assert protocol.known.meant_name(named[1]) == "查询天气"
    start = shown(tools, ["查询天气"])
    assert [each["name"] for each in start.definitions("anthropic")] == [named[1]]
    with pytest.raises(ConfigurationError, match="unknown definition format 'openia'"):
        few.definitions("openia")


def test_only_a_search_shows_tools(tools: Catalog) -> None:
    """A failed search, a tool of that name without that handler, or none at all shows nothing."""
    few = shown(tools)
    find(few, tools, "a", is_success=False)
    find(few, tools, "a", tool_name="b")
    find(few, tools, "a", tool_name="missing")
    tools.put("search_tools", implementation_config={"request": {"url": "https://h/"}})
    find(few, tools, "a", tool_name="search_tools")
    assert listed(few) == ["search"]


@pytest.mark.parametrize(
    "output",
    [{}, {"tools": None}, {"tools": "abc"}, {"tools": ["a", None, {}, {"name": 1}, {"name": []}]}],
)
def test_another_executors_output(tools: Catalog, output: dict[str, Any]) -> None:
    """Somebody's own search executor may return anything; what is no name shows nothing."""
    few = shown(tools)
    few.learn(tools.get("search"), ToolExecutionResult(True, "search", output))
    assert listed(few) == ["search"]


def test_a_name_of_the_start_must_be_there(tools: Catalog) -> None:
    """A name that the program gave and nobody knows is told, with the nearest."""
    with pytest.raises(ToolNotFoundError, match="no tool named 'serch'; did you mean 'search'"):
        shown(tools, ["serch"]).tools()


@pytest.mark.parametrize("start", ["search", b"search", [1], [None]])
def test_the_start_is_a_list_of_names(tools: Catalog, start: Any) -> None:
    """One name alone is not taken for a list of letters."""
    with pytest.raises(ConfigurationError, match="tools must be a list of tool names"):
        shown(tools, start)
