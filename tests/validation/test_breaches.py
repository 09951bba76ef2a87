"""Is everything found that a value breaks, at its place, and at a price that grows with the value?

Looked at: every keyword that a schema may hold, on values that are wrong in each of their parts.
What lists errors elsewhere (`declaration`, the catalog's own checks) reads what an author wrote.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import given

from tests.properties.test_one_truth_about_arguments import fitting, raw_schemas, values
from tests.security.heartbeat import assert_beats_on
from tool_engine import Tool, ToolCategory, ToolEngine, ToolEngineConfig, ToolParameter
from tool_engine.validation import ToolParameterValidator
from tool_engine.validation.breaches import Broken, Missing, Undeclared, find_breaches, is_small
from tool_engine.validation.position import Position

STRICT = ToolParameterValidator(strict=True)
NAMES = {"propertyNames": {"pattern": "^[a-z]+$"}}
FORMS = [{"type": "object", "required": [f"x{number}"]} for number in range(30)]


def tool(schema: dict[str, Any], kind: str = "object") -> Tool:
    parameter = ToolParameter("v", kind, schema=schema)
    return Tool("t", "t", "1", "", ToolCategory.CUSTOM, [], [parameter], {})


def keys(number: int) -> dict[str, Any]:
    return {f"k{index}": 0 for index in range(number)}


def numbers(number: int) -> list[Any]:
    return list(range(number))


WRONG: list[tuple[str, dict[str, Any], Callable[[int], Any]]] = [
    ("object", NAMES, keys),
    ("object", {"allOf": [NAMES]}, keys),
    ("object", {"if": {}, "then": NAMES}, keys),
    ("object", {"anyOf": FORMS}, keys),
    ("object", {"anyOf": [{"anyOf": FORMS}] * 5}, keys),
    ("object", {"oneOf": [{"additionalProperties": {"type": "string"}}] * 20}, keys),
    ("object", {"anyOf": FORMS}, lambda n: {"list": numbers(n)}),
    ("array", {"anyOf": [{"items": {"type": "string"}}] * 30}, numbers),
    ("array", {"items": {"anyOf": FORMS[:5]}}, lambda n: [{"c": 1}] * (n // 4)),
    ("object", {"patternProperties": {"^k": {"type": "string"}}}, keys),
    ("object", {"patternProperties": {"^z": {}}, "additionalProperties": False}, keys),
    ("object", {"dependentRequired": {f"k{n}": [f"z{n}"] for n in range(300)}}, keys),
    ("object", {"dependentSchemas": {f"k{n}": {"required": ["z"]} for n in range(50)}}, keys),
    ("object", {"additionalProperties": {"type": "string"}}, keys),
    ("object", {"properties": {"a": {}}, "unevaluatedProperties": False}, keys),
    ("array", {"prefixItems": [{}], "unevaluatedItems": {"type": "string"}}, numbers),
    ("array", {"prefixItems": [{}], "items": {"type": "string"}}, numbers),
    ("array", {"items": False}, numbers),
    ("array", {"contains": {"type": "string"}}, numbers),
    ("array", {"items": {"type": "string"}}, numbers),
    ("array", {"items": {"type": "string"}}, lambda n: ["a"] * n + [1]),
    ("object", {"not": {"type": "object"}}, keys),
    ("object", {"enum": [{"a": number} for number in range(50)]}, keys),
    ("object", {"maxProperties": 1}, keys),
]


@pytest.mark.parametrize(("kind", "schema", "make"), WRONG)
def test_what_is_wrong_is_found_in_linear_time(
    kind: str, schema: dict[str, Any], make: Callable[[int], Any]
) -> None:
    """X5: eight times as much that is wrong takes about eight times as long."""
    declared = tool(schema, kind)

    def seconds(number: int) -> float:
        value, taken = make(number), []
        for _ in range(3):
            began = time.process_time()
            result = STRICT.validate(declared, {"v": value})
            taken.append(time.process_time() - began)
            assert not result.is_valid
            assert 0 < len(result.errors) <= 101
        return min(taken)

    seconds(10)
    small, large = seconds(1000), seconds(8000)
    assert large < 0.25 + 16 * small


@pytest.mark.beats
@pytest.mark.parametrize("schema", [NAMES, {"anyOf": FORMS}, {"oneOf": [NAMES] * 3}])
async def test_the_heart_beats_on_while_wrong_keys_are_refused(schema: dict[str, Any]) -> None:
    """X5: a hundred kilobytes of wrong keys are refused at once."""

    async def never(v: Any = None) -> None:
        pytest.fail("it ran")

    async with ToolEngine(ToolEngineConfig("none", auto_reload=False)) as engine:
        engine.register_tool(tool(schema), never)
        await assert_beats_on(lambda: engine.execute("t", {"v": keys(8000)}))
        result = await engine.execute("t", {"v": keys(8000)})
    assert result.error_type == "validation_error"


def test_wrong_keys_are_named() -> None:
    """X5: a rule about keys names the wrong ones, once for the object."""
    (finding,) = STRICT.validate(tool(NAMES), {"v": {**keys(7), "right": 1}}).errors
    assert finding.path == "v"
    assert finding.message == (
        "'v' must have keys that each match the pattern ^[a-z]+$, "
        "got 'k0', 'k1', 'k2', 'k3', 'k4' and 2 more"
    )


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"allOf": [{"required": ["a"]}]}, {}, "missing required parameter 'v.a'"),
        (
            {"allOf": [{"properties": {"a": {}}, "additionalProperties": False}]},
            {"b": 1},
            "unknown parameter 'v.b': known are \"a\"",
        ),
        (
            {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}},
            {"a": 1},
            "missing required parameter 'v.b'",
        ),
        (
            {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}},
            {},
            "missing required parameter 'v.c'",
        ),
        ({"dependentSchemas": {"a": {"maxProperties": 1}}}, {"a": 1, "b": 2}, "at most 1 key"),
        ({"propertyNames": False}, {"a": 1}, "have keys that each be left out"),
        (
            {"anyOf": [{"required": ["a"]}, {"properties": {"b": {"type": "string"}}}]},
            {"b": 1},
            "(1) it must have the key 'a', or (2) 'b' must be a string",
        ),
        ({"anyOf": [False, {"required": ["a"]}]}, {}, "(1) it must be left out, or (2) it must"),
        (
            {"anyOf": [{"additionalProperties": False}, {"required": ["a"]}]},
            {"b": 1},
            "(1) it must not have the key 'b', or (2)",
        ),
        ({"anyOf": FORMS}, {}, "(10) it must have the key 'x9', or 20 more"),
        ({"const": {"a": 1}}, {}, 'must be {"a": 1}'),
        ({"patternProperties": {"^a": False}}, {"ab": 1}, "'v.ab' must be left out"),
    ],
)
def test_words(schema: dict[str, Any], value: Any, message: str) -> None:
    """X5: what a branch asks for is told at its place, as if it stood outside."""
    found = STRICT.validate(tool(schema), {"v": value}).errors
    assert message in found[0].message


def test_a_large_value_under_rules_for_the_whole() -> None:
    """Of a rule that cannot be taken apart, a large value learns only which parameter breaks it."""
    declared = tool({"properties": {"a": {}}, "unevaluatedProperties": False})
    few, many = keys(3), keys(300)
    assert is_small(few)
    assert not is_small(many)
    assert not is_small(["x" * 200_000])
    assert len(STRICT.validate(declared, {"v": few}).errors) == 3
    (finding,) = STRICT.validate(declared, {"v": many}).errors
    assert finding.path == "v"
    required = Tool(
        "t", "t", "1", "", ToolCategory.CUSTOM, [], [
            *declared.parameters, ToolParameter("w", "integer", required=True),
        ], {},
    )  # fmt: skip
    found = STRICT.validate(required, {"v": many}).errors
    assert [each.path for each in found] == ["w", "v"]


@given(raw_schemas().flatmap(lambda schema: fitting(schema, values).map(lambda v: (schema, v))))
def test_breaches_agree_with_the_reference(drawn: tuple[dict[str, Any], Any]) -> None:
    """X5: something is found exactly where an independent validator finds something."""
    schema, value = drawn
    reference = jsonschema.Draft202012Validator(schema)
    found = list(find_breaches(value, Position.of(schema)))
    assert bool(found) is not reference.is_valid(value)
    for breach in found:
        at: Any = value
        for step in breach.path:
            at = at[step]
        if isinstance(breach, Broken):
            assert at == breach.value
            assert breach.read().rule
        elif isinstance(breach, Missing):
            assert breach.name not in at
        else:
            assert isinstance(breach, Undeclared)
            assert breach.key in at
