"""Which schemas may a tool's parameters have? Strategies that make them."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from tool_engine.testing.arguments import ArgumentMaker

NUMBERS = st.integers(-50, 50) | st.floats(-50, 50, allow_nan=False).map(lambda x: round(x, 2))
PATTERNS = st.sampled_from(["^[a-z]+$", r"\d{2,4}", "^(GET|POST)$", "x", "^a?b*c{3}$", "[^a-f]"])


def _bounded(low: str, high: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Any of the two bounds, the lower one first."""
    both = st.tuples(values, values).map(lambda pair: {low: min(pair), high: max(pair)})
    return both | values.map(lambda value: {low: value}) | values.map(lambda value: {high: value})


def _with(base: dict[str, Any], *extra: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    chosen: list[st.SearchStrategy[Any]] = [st.just({}) | each for each in extra]
    return st.tuples(*chosen).map(
        lambda parts: {k: v for p in (base, *parts) for k, v in p.items()}
    )


LENGTHS = st.integers(0, 12)
SCALARS = st.one_of(
    _with({"type": "string"}, _bounded("minLength", "maxLength", LENGTHS)),
    _with({"type": "string"}, PATTERNS.map(lambda pattern: {"pattern": pattern})),
    _with({"type": "integer"}, _bounded("minimum", "maximum", st.integers(-50, 50))),
    _with(
        {"type": "integer", "multipleOf": 5},
        st.integers(-50, 50).map(lambda low: {"minimum": low, "maximum": low + 30}),
    ),
    _with({"type": "number"}, _bounded("minimum", "maximum", NUMBERS)),
    NUMBERS.map(lambda x: {"type": "number", "exclusiveMinimum": x, "exclusiveMaximum": x + 1}),
    st.just({"type": "boolean"}),
    st.just({"type": ["string", "null"]}),
    st.just({}),
    st.just({"const": [1]}),
    st.just({"type": "string", "enum": ["GET", "POST"]}),
    st.just({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 3}]}),
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(["a", "b", "name", "x y"])
    properties = st.dictionaries(names, inner, max_size=3)
    return st.one_of(
        _with(
            {"type": "array"},
            _bounded("minItems", "maxItems", st.integers(0, 4)),
            inner.map(lambda items: {"items": items}),
        ),
        properties.map(
            lambda each: {
                "type": "object",
                "properties": each,
                "required": sorted(each)[:1],
                "additionalProperties": False,
            }
        ),
        inner.map(lambda each: {"type": "object", "additionalProperties": each}),
    )


SCHEMAS = st.recursive(SCALARS, _containers, max_leaves=6)


def arguments_schema(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """The schema of a tool with these parameters."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def maker(schema: dict[str, Any], *known: dict[str, Any], seed: int = 0) -> ArgumentMaker:
    """A maker of arguments for `schema`."""
    return ArgumentMaker(schema, Random(seed), known)  # noqa: S311 - repeats itself
