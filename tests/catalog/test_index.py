"""Are tools found by name, tag, category and words, and does a snapshot never change?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.catalog import index as index_module
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


def test_changes_make_a_snapshot(index: ToolIndex) -> None:
    """U11: with changes, a snapshot is what it would be if it were made anew, in order."""
    echo, new = make("Echo", description="Other."), make("new")
    changed = index.with_changes({"Echo": echo, "calculator": None, "never": None})
    assert changed.list_all() == [echo, index.get("get_weather")]
    assert index.with_changes({"new": new}).list_names() == [*sorted(index.list_names()), "new"]
    assert index.list_names() == ["Echo", "calculator", "get_weather"]


def test_what_is_new_since(index: ToolIndex) -> None:
    """K49: two snapshots differ in the tools that are not the same values."""
    echo, new = make("Echo"), make("new")
    changed = index.with_changes({"Echo": echo, "calculator": None, "new": new})
    assert changed.new_since(index) == [echo, new]
    assert names(index.new_since(changed)) == ["Echo", "calculator"]
    assert index.new_since(index) == []


def test_snapshots_that_differ_much(index: ToolIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """K49: many differences are not noted but found, with the same result."""
    monkeypatch.setattr(index_module, "_MOST_NOTED", 0)
    echo = make("Echo")
    changed = index.with_changes({"Echo": echo})
    changed.note_difference(index, {"Echo"})
    assert changed.new_since(index) == [echo]


def test_what_is_registered() -> None:
    """U11: the tools that no file defines are known, whatever way a snapshot was made."""
    of_file = ToolConfigLoader().load_text("name: a\ndescription: d", "a.yaml")
    index = ToolIndex([of_file, make("b")])
    assert list(index.registered) == ["b"]
    changed = index.with_changes({"a": make("a"), "b": None, "c": make("c"), "d": of_file})
    assert list(changed.registered) == ["a", "c"]
    assert list(index.registered) == ["b"]


TOOLS = {(name, number): make(name) for name in "abc" for number in range(2)}
steps = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.dictionaries(st.sampled_from("abc"), st.sampled_from([None, 0, 1])),
        st.booleans(),
    ),
    max_size=8,
)


@given(steps)
def test_whatever_way_snapshots_came_to_be(
    changes: list[tuple[int, dict[str, int | None], bool]],
) -> None:
    """K49: what two snapshots have noted of one another never hides a difference."""
    made = [ToolIndex()]
    for at, change, is_noted in changes:
        before = made[at % len(made)]
        tools = {name: None if n is None else TOOLS[name, n] for name, n in change.items()}
        after = before.with_changes(tools)
        other = made[-1]
        if is_noted:
            apart = {name for name in "abc" if after.get(name) is not other.get(name)}
            after.note_difference(other, apart)
        made.append(after)
    for one in made:
        for two in made:
            wanted = [tool for tool in one if two.get(tool.name) is not tool]
            assert list(map(id, one.new_since(two))) == list(map(id, wanted))
