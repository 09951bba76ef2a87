"""Can a group that is made in code be made wrong?"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.errors import ConfigurationError
from tool_engine.model.group import Skill, ToolGroup, members_of_all
from tool_engine.model.permission import ExecutionPolicy, Permission
from tool_engine.model.tool import Tool, ToolCategory

SKILL = Skill(name="s", desc="d", prompt="p")


def tool(name: str, **keys: Any) -> Tool:
    return ToolConfigLoader().from_mapping({"name": name, "description": "d", **keys})


TOOLS = [
    tool("a"),
    tool("b", tags=["files"]),
    tool("c", category="http"),
    tool("d", tags=["other"], category="ai"),
]


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"tools": ("a", "gone")}, ["a"]),
        ({"tags": ("files", "more")}, ["b"]),
        ({"categories": ("http",)}, ["c"]),
        ({"tools": ("d",), "tags": ("files",), "categories": ("http",)}, ["b", "c", "d"]),
        ({}, []),
    ],
)
def test_members(fields: dict[str, Any], names: list[str]) -> None:
    """S10: a tool belongs by its name, one of its tags, or its category."""
    group = ToolGroup(name="g", **fields)
    assert [each.name for each in group.members(TOOLS)] == names
    everything = ToolGroup(name="h", categories=("custom", "ai"), tags=("files",))
    of_all = members_of_all([group, everything], TOOLS)
    assert of_all == [group.members(TOOLS), everything.members(TOOLS)]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": ""}, "the name of a group must be a text, got ''"),
        ({"name": 3}, "must be a text, got 3"),
        ({"tools": "abc"}, "tools of the group 'g' must be a list of names, got 'abc'"),
        ({"tags": 3}, "tags of the group 'g' must be a list of names, got 3"),
        ({"disabled_tools": [1]}, "disabled_tools of the group 'g' must hold names, got 1"),
        ({"categories": ["htp"]}, "a category of the group 'g' .* did you mean 'http'"),
        ({"skills": [SKILL, SKILL]}, "two skills of the group 'g' have the same name"),
    ],
)
def test_wrong_groups_are_refused(fields: dict[str, Any], words: str) -> None:
    """A single text would select every tool whose name is a part of it: it is refused."""
    with pytest.raises(ConfigurationError, match=words):
        ToolGroup(**{"name": "g", **fields})


def test_lists_become_tuples() -> None:
    """S10: a group is immutable, whatever it was made of; an enum member is its value."""
    group = ToolGroup(
        name="g",
        tools=["a"],  # type: ignore[arg-type]
        categories=[ToolCategory.HTTP],  # type: ignore[arg-type]
        skills=[SKILL],  # type: ignore[arg-type]
        permission=Permission(execution=ExecutionPolicy.DENY),
    )
    assert (group.tools, group.categories, group.skills) == (("a",), ("http",), (SKILL,))
    assert msgspec.json.decode(msgspec.json.encode(group), type=ToolGroup) == group
    with pytest.raises(AttributeError):
        group.name = "other"  # type: ignore[misc]
