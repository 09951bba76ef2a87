"""Does the quick way of a call take nothing that the validator refuses?"""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any
from unittest.mock import ANY

import msgspec
import pytest

from tests.calls.samples import bare
from tool_engine import ToolEngine, ToolEngineConfig, ToolParameterValidator
from tool_engine.validation.acceptance import is_sealed


class Point(msgspec.Struct):
    x: int = 1


class Equal(msgspec.Struct):
    """Equal to anything, its own fields as a mapping too."""

    x: int = 1
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


class Agreeing(dict[str, Any]):
    """A mapping that is equal to anything."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return True


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


KINDS: dict[str, dict[str, Any]] = {
    "open": {"type": "object"},
    "list": {"type": "array"},
    "text": {"type": "string"},
    "number": {"type": "number"},
    "mixed": {
        "type": "object",
        "validation": {"properties": {"a": {"type": "integer"}, "b": {"type": "number"}}},
    },
    "closed": {"type": "object", "validation": {"properties": {"a": {"type": "array"}}}},
}
VALUES = [
    *(b"x", bytearray(b"x"), datetime(2026, 1, 1, tzinfo=UTC), {1: 2}, {None: 1}, {1, 2}, (1, 2)),
    *(2.0, 1.5, {"a": 2.0, "b": 1.5}, {"a": 1, "b": 1.5}, {"a": 1.5, "b": 1}),
    *({f"b{n}": n + 0.5 for n in range(50)}, {"a": 1, "b": float("inf")}, {"a": "\xcb" * 9}),
    *(Point(), Equal(), ANY, float("inf"), float("nan"), "\ud800", 10**30, 10**4000),
    *(
        nested(62),
        nested(63),
        nested(64),
        nested(200),
        OrderedDict(a=1),
        MappingProxyType({"a": 1}),
    ),
]


@pytest.mark.parametrize("kind", KINDS)
async def test_execute_takes_what_the_validator_takes(kind: str) -> None:
    """Values that only Python has, or that nest too deep, are refused by `execute` as well."""
    got: list[Any] = []

    async def keep(p: Any) -> None:
        got.append(p)

    spec = {"name": "p", "description": "x", "required": True, **KINDS[kind]}
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        tool = engine.register_tool(bare("t", parameters=[spec]), keep)
        await engine.execute("t", {"p": "warm"})
        for value in VALUES:
            for sent in (value, {"a": value}, [value], {"a": [value]}):
                got.clear()
                checked = ToolParameterValidator().validate(tool, {"p": sent})
                result = await engine.execute("t", {"p": sent})
                assert result.is_success is checked.is_valid, (kind, sent)
                if checked.is_valid:
                    assert repr(got) == repr([checked.validated_params["p"]])
                else:
                    assert result.error_type == "validation_error"


@pytest.mark.parametrize("is_open", [True, False])
async def test_an_object_that_equals_all(is_open: bool) -> None:
    """What is packed like an object but is none is refused, and nothing of it is left out."""
    inner = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "additionalProperties": is_open,
    }
    schema = {"type": "object", "properties": {"p": inner}, "required": ["p"]}
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.register_tool(bare("t", parameters=schema), lambda p: p)
        result = await engine.execute("t", {"p": Equal()})
        assert (result.is_success, result.error_type) == (False, "validation_error")
        assert (await engine.execute("t", {"p": {"a": 1}})).is_success


async def test_a_mapping_that_equals_all() -> None:
    """It is taken for what it holds: what the schema does not name is not left out of it."""
    inner = {"type": "object", "properties": {"a": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"p": inner}, "required": ["p"]}
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.register_tool(bare("t", parameters=schema), lambda p: p)
        held = {"a": 1, "b": [2]}
        assert (await engine.execute("t", {"p": Agreeing(held)})).output == held


async def test_too_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound on how many values a call may carry holds on every way."""
    monkeypatch.setattr("tool_engine.validation.shape.MAX_VALUES", 500)
    monkeypatch.setattr("tool_engine.validation.acceptance.MAX_VALUES", 500)

    async def keep(p: Any) -> int:
        return len(p)

    spec = {"name": "p", "description": "x", "type": "array", "items": {"type": "boolean"}}
    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.register_tool(bare("t", parameters=[{**spec, "required": True}]), keep)
        assert (await engine.execute("t", {"p": [True] * 400})).is_success
        found = await engine.execute("t", {"p": [True] * 600})
        assert found.error_type == "validation_error"
        assert "at most 500 values" in str(found.error)


@pytest.mark.parametrize(
    ("schema", "is_closed"),
    [
        ({"type": "string"}, True),
        ({"type": ["integer", "null"]}, True),
        ({"type": "array", "items": {"type": "string"}}, False),
        ({}, False),
        ({"type": "object"}, False),
        ({"type": "object", "additionalProperties": False}, True),
        (
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {"a": {"type": "null"}},
            },
            True,
        ),
        ({"type": "object", "additionalProperties": False, "properties": {"a": True}}, False),
        (
            {"type": "object", "additionalProperties": False, "patternProperties": {"": True}},
            False,
        ),
    ],
)
def test_sealed(schema: dict[str, Any], is_closed: bool) -> None:
    """A schema is trusted alone only where it looks at each value, and bounds their number."""
    assert is_sealed(schema, containers=8) is is_closed
