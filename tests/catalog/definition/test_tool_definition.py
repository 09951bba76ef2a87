"""Do a definition's result limits make sense, and which limits does it describe?"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tool_engine import ToolConfigLoader
from tool_engine.catalog.change.compatibility import compare_versions
from tool_engine.catalog.definition.export import export_to_yaml
from tool_engine.catalog.strict_yaml import load_all
from tool_engine.errors import DefinitionError
from tool_engine.model.result import CutStrategy, ResultLimits, ResultShow
from tool_engine.model.tool import Tool


def load(result: Any = None) -> Tool:
    definition = {"name": "t", "description": "A tool", "entry": {"type": "custom"}}
    if result is not None:
        definition["result"] = result
    return ToolConfigLoader().from_mapping(definition)


def test_limits_are_read() -> None:
    """Every key of `result`; 2.0e3 is a whole number in JSON and YAML."""
    tool = load({"max_chars": 2000.0, "max_items": 20, "strategy": "tail", "select": "a.b"})
    assert tool.result == ResultLimits(2_000, 20, CutStrategy.TAIL, "a.b")
    assert type(tool.result.max_chars) is int
    assert load().result is None
    assert load({"show": "none"}).result == ResultLimits(show=ResultShow.NONE)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({}, "must not be empty"),
        ({"max_chars": 99}, "at least 100"),
        ({"max_chars": "8k"}, "a whole number"),
        ({"max_items": 0}, "at least 1"),
        ({"strategy": "heads", "max_items": 3}, "did you mean 'head'"),
        ({"max_char": 500}, "did you mean 'max_chars'"),
        ({"select": "a["}, "not a JMESPath expression"),
        ({"select": "$.a"}, "leave out the $. at its beginning"),
        ({"select": "[" * 5_000}, "not a JMESPath expression"),
        ({"select": ""}, "must not be empty"),
        ({"strategy": "head"}, "add max_chars or max_items"),
        ({"show": "sumary"}, "did you mean 'summary'"),
        ({"show": None}, "full"),
        ("500", "a mapping"),
    ],
)
def test_wrong_limits_are_found_at_load(result: Any, message: str) -> None:
    """K3: a limit that means nothing, and an expression that cannot run, never reach a call."""
    with pytest.raises(DefinitionError) as caught:
        load(result)
    assert message in str(caught.value)
    assert "result" in str(caught.value)


@pytest.mark.parametrize(
    "result",
    [
        {"max_chars": 500},
        {"max_items": 3, "strategy": "head"},
        {"select": "items[?a > `1`].{b: c}"},
        {"show": "none"},
        {"limit": 9, "show": "full"},
        {"max_chars": 500, "max_items": 3, "strategy": "head_tail"},
    ],
)
def test_an_export_loads_as_the_same(result: dict[str, Any]) -> None:
    """What is written by `export` has the same limits and the same hash."""
    tool = load(result)
    (document,) = load_all(export_to_yaml(tool), "exported")
    again = ToolConfigLoader().from_mapping(document)
    assert again.result == tool.result
    assert again.definition_hash == tool.definition_hash


def test_limits_are_part_of_the_hash() -> None:
    """Two tools with the same hash behave the same, so other limits are another hash."""
    hashes = {load(each).definition_hash for each in (None, {"max_items": 3}, {"max_items": 4})}
    assert len(hashes) == 3


@pytest.mark.parametrize(
    ("old", "new", "level", "path"),
    [
        ({"max_chars": 500}, {"max_chars": 600}, "compatible", "result.max_chars"),
        ({"max_chars": 600}, {"max_chars": 500}, "breaking", "result.max_chars"),
        (None, {"max_items": 5}, "breaking", "result.max_items"),
        ({"max_items": 5}, None, "compatible", "result.max_items"),
        ({"select": "a"}, {"select": "b"}, "breaking", "result.select"),
        (
            {"max_items": 5},
            {"max_items": 5, "strategy": "head"},
            "breaking",
            "result.strategy",
        ),
    ],
)
def test_what_a_change_of_limits_means(old: Any, new: Any, level: str, path: str) -> None:
    """An answer that may lack what it had breaks who reads it; one that has more does not."""
    (change,) = compare_versions(load(old), load(new)).changes
    assert (change.level, change.path) == (level, path)


def test_limits_that_limit_nothing_change_nothing() -> None:
    """Written in code: no limits, and limits without one, are the same for callers."""
    tool = load()
    limited = msgspec.structs.replace(tool, result=ResultLimits())
    assert compare_versions(tool, limited).level == "cosmetic"


def test_a_parameter_has_the_same_fields_however_it_is_written() -> None:
    """A definition's words are fields, but for rules beside the type and a default of null."""
    block: dict[str, Any] = {
        "type": "string",
        "validation": {"min_length": 1},
        "default": "a",
        "secret": True,
    }
    flat: dict[str, Any] = {"type": "string", "min_length": 1, "default": "a", "secret": True}
    empty: dict[str, Any] = {"type": "any", "default": None}
    definition = {"name": "t", "description": "A tool."}
    for listed in ([block], [block, empty], [flat], [flat, empty]):
        named = [
            {"name": name, "description": "A.", **each}
            for name, each in zip("ab", listed, strict=False)
        ]
        tool = ToolConfigLoader().from_mapping({**definition, "parameters": named})
        first = tool.parameters[0]
        assert first.validation == {"min_length": 1}
        assert (first.type, first.default, first.has_default, first.secret, first.required) == (
            *("string", "a", True, True, False),
        )
        assert [each.has_default for each in tool.parameters[1:]] == [True] * (len(named) - 1)
