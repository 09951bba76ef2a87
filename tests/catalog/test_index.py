"""Are tools found by name, tag, category and words, and does a snapshot never change?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import DuplicateToolError, ToolNotFoundError
from tool_engine.model.tool import Tool, ToolCategory


def make(name: str, **keys: Any) -> Tool:
    return ToolConfigLoader().from_mapping({"name": name, "description": "Does it.", **keys})


@pytest.fixture
def index() -> ToolIndex:
    return ToolIndex(
        [
            make("get_weather", category="http", tags=["net", "weather"]),
            make("Echo", tags=["test"], description="Antwortet GENAU so."),
            make("calculator", tags=["test", "math"]),
        ]
    )


def names(tools: list[Tool]) -> list[str]:
    return [tool.name for tool in tools]


def test_by_name(index: ToolIndex) -> None:
    """U19: get and get_or_raise; lists are sorted by name."""
    assert index.list_names() == ["Echo", "calculator", "get_weather"]
    assert names(index.list_all()) == index.list_names()
    assert names(list(index)) == index.list_names()
    assert index.get("Echo") is index.get_or_raise("Echo")
    assert index.get("echo") is None
    assert len(index) == 3
    assert "Echo" in index
    assert repr(index) == "ToolIndex(3 tools: Echo, calculator, get_weather)"
    assert repr(ToolIndex(make(f"t{n}") for n in range(9))).endswith(", …)")


def test_unknown_name(index: ToolIndex) -> None:
    """U19: the error names the nearest tools, whatever the case; or how many there are."""
    with pytest.raises(ToolNotFoundError, match="'get_wether'; did you mean 'get_weather'"):
        index.get_or_raise("get_wether")
    assert index.nearest("ECHO") == ["Echo"]
    with pytest.raises(ToolNotFoundError, match="3 tools are loaded"):
        index.get_or_raise("zzzzz")
    with pytest.raises(ToolNotFoundError) as caught:
        index.get_or_raise("x" * 10**6)
    assert len(str(caught.value)) < 300
    assert index.nearest("") == []


def test_by_tag(index: ToolIndex) -> None:
    """U19: one tag, all tags, any tag."""
    assert names(index.find_by_tag("test")) == ["Echo", "calculator"]
    assert names(index.find_by_tags(["test", "math"])) == ["calculator"]
    assert names(index.find_by_any_tag(["math", "net"])) == ["calculator", "get_weather"]
    assert index.find_by_any_tag([]) == []
    assert len(index.find_by_tags([])) == 3


def test_by_category(index: ToolIndex) -> None:
    """U19, K15: a category or its value."""
    assert names(index.find_by_category(ToolCategory.HTTP)) == ["get_weather"]
    assert names(index.find_by_category("http")) == ["get_weather"]
    assert index.find_by_category("nothing") == []
    assert index.count_by_category() == {"custom": 2, "http": 1}


def test_search(index: ToolIndex) -> None:
    """U19: a word of the name or the description, in any case."""
    assert names(index.search("WEATHER")) == ["get_weather"]
    assert names(index.search("genau")) == ["Echo"]
    assert index.search("nothing") == []


def test_a_snapshot_never_changes(index: ToolIndex) -> None:
    """U11: adding and removing make another snapshot."""
    tool = make("new")
    assert "new" in index.with_tool(tool)
    assert "Echo" not in index.without("Echo")
    assert index.list_names() == ["Echo", "calculator", "get_weather"]
    index.list_all().clear()
    assert len(index) == 3


def test_a_name_is_taken_once(index: ToolIndex) -> None:
    """U13: a second tool of a name is an error unless it is meant to replace the first."""
    again = make("Echo", description="Other.")
    with pytest.raises(DuplicateToolError, match="already defined in <code>"):
        index.with_tool(again)
    assert index.with_tool(again, replace=True).get("Echo") is again
    assert len(index.with_tool(again, replace=True)) == 3
