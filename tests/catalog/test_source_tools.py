"""What the added sources give, read and merged: in time that grows with it, and no faster."""

from __future__ import annotations

from typing import Any

import pytest

from tests.growth import growth_of
from tests.sources_of_tools import definition, tool
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.source_tools import Reading, SourceTools, read_given
from tool_engine.model.tool import Tool

PARAMETERS = [{"name": "x", "type": "string", "description": "One.", "min_length": 1}]


def check_nothing(_tool: Tool) -> list[Any]:
    return []


def read(items: list[Any], before: Reading | None = None) -> Reading:
    return read_given("own:x", items, check_nothing, before or Reading(None))


def mappings(count: int) -> list[Any]:
    return [definition(f"t{number}", parameters=PARAMETERS) for number in range(count)]


@pytest.mark.parametrize("form", ["mappings", "tools", "bad ones", "twice"])
@pytest.mark.parametrize("is_again", [False, True])
def test_reading_grows_with_the_list(form: str, is_again: bool) -> None:
    """Also a second reading of what a source gives, in which one is another."""

    def make(count: int) -> tuple[list[Any], Reading | None]:
        items = mappings(count)
        if form == "tools":
            items = [tool(each["name"]) for each in items]
        elif form == "bad ones":
            items = [{"name": each["name"]} for each in items]
        elif form == "twice":
            items = items[: count // 2] * 2
        before = read(items) if is_again else None
        return [*items[:-1], definition("another")], before

    grown = growth_of(lambda given: read(*given), make, start=50, most=3_200)
    assert grown.exponent < 1.5, grown


def test_merging_grows_with_the_sets() -> None:
    """One set more, one of its tools changed, and the set taken away: over many others."""

    def make(count: int) -> tuple[SourceTools, list[Reading]]:
        sources = SourceTools()
        sources.put("own:base", read([tool("base")]))
        many = read([tool(f"t{number}") for number in range(count)])
        changed = read([*[tool("t0", version="2.0.0")], *(many.tools or {}).values()][:-1])
        sources.over(ToolIndex())
        return sources, [many, changed]

    def work(given: tuple[SourceTools, list[Reading]]) -> None:
        sources, readings = given
        base = ToolIndex()
        for reading in readings:
            sources.put("own:x", reading)
            sources.over(base)
        sources.drop("own:x")
        index, _ = sources.over(base)
        assert index.list_names() == ["base"]

    grown = growth_of(work, make, start=100, most=6_400)
    assert grown.exponent < 1.5, grown


def test_a_second_reading_makes_nothing_again() -> None:
    """Neither of mappings, nor of tools, nor of both beside bad ones."""
    items = [*mappings(5), tool("made"), {"name": "bad"}]
    first = read(items)
    again = read([*mappings(5), items[5], {"name": "bad"}], first)
    assert first.errors == again.errors != ()
    assert all(again.tools[name] is each for name, each in first.tools.items())  # type: ignore[union-attr, index]
