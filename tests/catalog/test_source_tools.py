"""What the added sources give, read and merged: in time that grows with it, and no faster."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.effort import share_of
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


@pytest.mark.parametrize("beside", [[], [{"name": "bad"}], [tool("made")]])
@pytest.mark.parametrize("at", [0, 15, 16, 39])
def test_a_mapping_that_its_owner_writes_in_is_made_anew(beside: list[Any], at: int) -> None:
    """However deep, and in a list that is the same object: True is not 1, and nor is 1.0."""
    items = [*mappings(40), *beside]
    first = read(items)
    items[at]["parameters"] = [{**PARAMETERS[0], "type": "any", "default": 1}]
    del items[at]["parameters"][0]["min_length"]
    second = read(items, first)
    items[at]["parameters"][0]["default"] = True
    third = read(items, second)
    for reading, default in (second, 1), (third, True):
        assert reading.tools is not None
        assert reading.tools[f"t{at}"].parameters[0].default is default
    same = [name for name in first.tools or {} if (third.tools or {})[name] is first.tools[name]]  # type: ignore[index]
    assert len(same) == 39 + sum(isinstance(each, Tool) for each in beside)


@pytest.mark.parametrize("change", ["replaced", "removed", "added", "bad one"])
def test_only_what_is_another_is_made(change: str) -> None:
    """Wherever it stands, and however many stand beside it."""
    made: list[str] = []

    def check(tool: Tool) -> list[Any]:
        made.append(tool.name)
        return []

    items = mappings(100)
    first = read_given("own:x", items, check, Reading(None))
    made.clear()
    again = mappings(100)
    if change == "replaced":
        again[50] = definition("t50", version="2.0.0")
    elif change == "removed":
        del again[50]
    elif change == "added":
        again.insert(50, definition("new"))
    else:
        again[50] = {"name": "t50"}
    second = read_given("own:x", again, check, first)
    assert made == {"added": ["new"], "removed": []}.get(change, ["t50"])
    assert list(second.tools or {}) == [each["name"] for each in again]
    assert len(second.errors) == (change == "bad one")


def test_a_name_given_twice_means_what_is_given_when_it_is_once_again() -> None:
    """Not what it meant while nothing said which of the two is it."""
    first = read(mappings(40))
    other = [*mappings(40), definition("t3", version="2.0.0")]
    twice = read(other, first)
    assert twice.tools is not None
    assert twice.tools["t3"].version == "1.0.0"
    other[3] = definition("another")
    once = read(other, twice)
    assert once.tools is not None
    assert once.tools["t3"].version == "2.0.0"
    assert once.errors == ()


MADE = {
    (name, version): tool(name, version=version)
    for name in "abcd"
    for version in ("1.0.0", "2.0.0")
}
ITEMS = st.tuples(
    st.sampled_from("abcd"),
    st.sampled_from(["mapping", "tool", "bad"]),
    st.sampled_from(["1.0.0", "2.0.0"]),
)
"""A name, what says it, and the version of the tool."""


def write_item(name: str, form: str, version: str) -> Any:
    if form == "bad":
        return {"name": name}
    return MADE[name, version] if form == "tool" else definition(name, version=version)


def read_naively(items: list[tuple[str, str, str]], before: dict[str, str]) -> dict[str, str]:
    """What each name means when nothing is kept but what it meant before."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(name for name, *_ in items):
        said = [(form, version) for each, form, version in items if each == name]
        if len(said) == 1 and said[0][0] != "bad":
            found[name] = said[0][1]
        elif name in before:
            found[name] = before[name]
    return found


@settings(max_examples=share_of(300))
@given(st.lists(st.tuples(st.integers(0, 17), st.lists(ITEMS, max_size=5)), max_size=6))
def test_readings_one_after_another(steps: list[tuple[int, list[tuple[str, str, str]]]]) -> None:
    """As if nothing were kept: tools that fail, come back, move and are given twice, in order."""
    before, meant = Reading(None), dict[str, str]()
    for beside, last in steps:
        items = [*[(f"t{each}", "mapping", "1.0.0") for each in range(beside)], *last]
        given = [write_item(*item) for item in items]
        reading, meant = read(given, before), read_naively(items, meant)
        assert reading.tools is not None
        assert [(name, each.version) for name, each in reading.tools.items()] == [*meant.items()]
        assert reading.errors == read(given).errors
        before = reading
