"""Which level has an edit of who is asked, what is taken, and how much is read?"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.catalog.change.compatibility import compare_versions
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.model.tool import Tool


def tool(keys: dict[str, Any]) -> Tool:
    return ToolConfigLoader().from_mapping({"name": "t", "description": "d", **keys})


PERMISSIONS = [
    ({}, {"permission": "auto"}, [("permission", "permission_changed", "cosmetic")]),
    (
        {},
        {"permission": "ask_once"},
        [("permission.execution", "permission_tightened", "breaking")],
    ),
    ({"permission": "deny"}, {}, [("permission.execution", "permission_loosened", "compatible")]),
    (
        {"permission": {"execution": "auto", "result": "always"}},
        {"permission": "ask_always"},
        [
            ("permission.execution", "permission_tightened", "breaking"),
            ("permission.result", "permission_loosened", "compatible"),
        ],
    ),
]
LABELS = [
    (None, [], "breaking"),
    ([], None, "compatible"),
    (["user"], ["user", "model"], "compatible"),
    (["user", "model"], ["model", "user"], "cosmetic"),
    (["tool:a", "tool:b?"], ["tool:*"], "compatible"),
    (["tool:*"], ["tool:a"], "breaking"),
    (["x[ab]y"], ["x*ab*"], "breaking"),
    (["x[ab]y"], ["x[ab]y", "user"], "compatible"),
]
BOUNDS = [
    ({}, {"max_uses": 3}, "breaking"),
    ({"max_uses": 3}, {}, "compatible"),
    ({"max_uses": 3}, {"max_uses": 4}, "compatible"),
    ({"max_uses": 3}, {"max_uses": 2}, "breaking"),
    ({"result": {"limit": 5}}, {"result": {"limit": 9}}, "compatible"),
    ({"result": {"limit": 9}}, {"result": {"limit": 5}}, "breaking"),
    ({"result": {"limit": 9}}, {"result": {"limit": 0}}, "compatible"),
    ({"result": {"limit": 0}}, {"result": {"limit": 9}}, "breaking"),
    ({"result": {"limit": 0}}, {"result": {"limit": -1}}, "cosmetic"),
    ({}, {"result": {"limit": 0}}, "compatible"),
    ({}, {"result": {"limit": 9}}, "breaking"),
    ({"result": {"limit": 9}}, {}, "breaking"),
    ({"result": {"limit": 9}}, {"result": {"limit": 9, "show": "none"}}, "breaking"),
    ({"result": {"limit": 9, "show": "none"}}, {"result": {"limit": 9}}, "breaking"),
]


@pytest.mark.parametrize(("old", "new", "expected"), PERMISSIONS)
def test_who_is_asked(
    old: dict[str, Any], new: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    """S2: asking more may refuse what was right, and is breaking; asking less is compatible."""
    changes = compare_versions(tool(old), tool(new)).changes
    assert [(each.path, each.kind, each.level) for each in changes] == expected


@pytest.mark.parametrize(("old", "new", "level"), LABELS)
def test_what_is_taken(old: list[str] | None, new: list[str] | None, level: str) -> None:
    """A value that was taken and is refused now breaks; where that is not sure, it breaks, too."""
    before, after = (tool({} if each is None else {"accepts": each}) for each in (old, new))
    assert compare_versions(before, after).level == level


@pytest.mark.parametrize(("old", "new", "level"), BOUNDS)
def test_how_much(old: dict[str, Any], new: dict[str, Any], level: str) -> None:
    """S7, U41: a lower bound breaks; a limit against none does, as nobody knows the session's."""
    assert compare_versions(tool(old), tool(new)).level == level
