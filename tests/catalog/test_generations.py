"""Snapshots that were there are found again, as long as they are kept."""

from __future__ import annotations

import msgspec
import pytest

from tool_engine import GenerationNotFoundError, Tool, ToolConfigLoader
from tool_engine.catalog.generations import Generations, find_difference
from tool_engine.catalog.index import ToolIndex


def tool(name: str, version: str = "1.0.0") -> Tool:
    made = ToolConfigLoader().from_mapping({"name": name, "description": "x", "version": version})
    return msgspec.structs.replace(made, source=f"{name}.yaml")


def test_numbers_between_two_generations() -> None:
    """A number that a registration used stands for the state of the folder at that time."""
    generations = Generations(3)
    for names in ("a", "ab", "abc"):
        generations.add(ToolIndex(map(tool, names)), "reload")
        generations.amend(generations.index)
    assert [each.number for each in generations.kept()] == [1, 3, 5]
    assert generations.number == 6
    assert [generations.find(number).number for number in range(1, 7)] == [1, 1, 3, 3, 5, 5]
    for number in (0, 7):
        with pytest.raises(GenerationNotFoundError, match="kept are: 1, 3, 5"):
            generations.find(number)
    assert repr(generations) == "Generations(number=6, kept=[1, 3, 5])"


def test_one_that_keeps_only_the_present() -> None:
    """With one there is nowhere to go back to, and the present is still found."""
    generations = Generations(1)
    generations.add(ToolIndex(), "load")
    assert generations.find(1) is generations.kept()[0]
    with pytest.raises(GenerationNotFoundError, match="keep_generations \\(1\\)"):
        generations.find(0)


def test_difference() -> None:
    """Names that came, changed and went; the same definition in another place did not change."""
    same, moved = tool("same"), tool("moved")
    before = ToolIndex([same, moved, tool("changes"), tool("goes")])
    after = ToolIndex(
        [
            same,
            msgspec.structs.replace(moved, source="elsewhere.yaml"),
            tool("changes", "2.0.0"),
            tool("comes"),
        ]
    )
    assert find_difference(before, after) == (["comes"], ["changes"], ["goes"])
    assert find_difference(after, after) == ([], [], [])
