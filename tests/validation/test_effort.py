"""What is wrong deep inside of a schema that doubles with each level is not looked for on each way.

Looked at: arguments, defaults, examples, outputs. Without the bound each of these takes longer than
any limit of a test, as 2 to the power of its levels.
"""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine import ToolConfigLoader, ToolEngine, ToolEngineConfig, ToolParameterValidator
from tool_engine.catalog.lint import lint_tool
from tool_engine.errors import DefinitionError
from tool_engine.validation.effort import count_levels, find_levels
from tool_engine.validation.output import OutputCheck

DOUBLED: dict[str, Any] = {
    "$ref": "#/$defs/pair",
    "$defs": {
        "pair": {
            "anyOf": [
                {"type": "array", "items": {"$ref": "#/$defs/pair"}},
                {"type": "array", "items": {"$ref": "#/$defs/pair"}, "maxItems": 5},
                {"type": "integer"},
            ]
        }
    },
}
ONE_WAY = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}


def nested(levels: int, inside: Any) -> Any:
    for _ in range(levels):
        inside = [inside]
    return inside


def definition(**parameter: Any) -> dict[str, Any]:
    listed = {"name": "p", "type": "any", "description": "d", "schema": DOUBLED, **parameter}
    return {"name": "t", "description": "d", "parameters": [listed]}


def test_how_deep_all_is_said() -> None:
    """Where one way leads to each place, as deep as values may be; where two do, some levels."""
    assert find_levels(ONE_WAY) == find_levels({"type": "array"}) == 64
    assert 5 < find_levels(DOUBLED) < 20
    assert count_levels(nested(40, 1)) == 41


def test_arguments() -> None:
    """A shallow one is explained at its place, a deep one as a whole; both are refused."""
    tool = ToolConfigLoader().from_mapping(definition())
    validate = ToolParameterValidator().validate
    assert validate(tool, {"p": nested(40, 1)}).is_valid
    for levels in (2, 40):
        found = validate(tool, {"p": nested(levels, "x")})
        assert [error.path for error in found.errors] == ["p"]


def test_defaults_and_examples() -> None:
    """A definition is refused or judged as quickly."""
    with pytest.raises(DefinitionError, match="own rules"):
        ToolConfigLoader().from_mapping(definition(default=nested(30, "x")))
    shown = {**definition(), "examples": [{"params": {"p": nested(30, "x")}}]}
    flaws = lint_tool(ToolConfigLoader().from_mapping(shown))
    assert [each.path for each in flaws if "own rules" in each.message] == ["examples[0].params.p"]


def test_outputs() -> None:
    """What a tool returns, too."""
    check = OutputCheck(DOUBLED)
    assert check.find_misfits({"result": nested(40, 1)}) == []
    assert len(check.find_misfits({"result": nested(40, "x")})) == 1


async def test_a_secret_below_a_reference_is_in_no_finding() -> None:
    """What stands where an object with a secret belongs is hidden, however deep."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "login": LOGIN}}
    schema = {"type": "object", "properties": node["properties"], "$defs": {"node": node}}
    engine = ToolEngine(ToolEngineConfig(auto_reload=False))
    found = {"name": "t", "description": "d", "parameters": schema}
    engine.register_tool(found, lambda **sent: 1)
    async with engine:
        result = await engine.execute("t", {"next": {"next": {"login": "hunter22"}}})
        (record,) = await engine.store.query_call_records()
    assert result.error_type == "validation_error"
    assert "hunter22" not in f"{result.to_dict()} {record.to_dict()}"


LOGIN = {"type": "object", "properties": {"password": {"type": "string", "writeOnly": True}}}
