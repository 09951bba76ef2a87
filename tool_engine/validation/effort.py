"""How deep may a value be of which all that is wrong is said?

Whether a value fits is found once for each schema and place. What is wrong is said anew on each way
that leads to a schema: where one refers to itself in two branches, the ways double with each level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import jsonschema_rs

from tool_engine.model.json.references import IN_PLACE, inner_schemas, resolve_pointer
from tool_engine.validation.shape import MAX_DEPTH
from tool_engine.validation.uniqueness import LINEAR

_MOST_WAYS: Final = 2_000
_MOST_SCHEMAS: Final = 5_000
_ENDLESS: Final = float("inf")
_WHOLE: Final = "urn:whole"


def find_errors(
    rules: jsonschema_rs.Validator,
    schema: Mapping[str, Any],
    value: Any,
    *,
    only_first: bool = False,
) -> Iterator[jsonschema_rs.ValidationError]:
    """Yield what is wrong with a value; one error for all of it where more takes too long.

    Args:
        rules: The validator of `schema`.
        schema: JSON Schema.
        value: Plain JSON.
        only_first: Whether one error is enough, as of a long value: all are made at once.
    """
    if count_levels(value) <= find_levels(schema):
        yield from _find_first(rules, value) if only_first else rules.iter_errors(value)
    elif not rules.is_valid(value):
        # An error of `not` is never about what is inside.
        yield from jsonschema_rs.Draft202012Validator(
            {"not": {"not": {"$ref": _WHOLE}}},
            registry=jsonschema_rs.Registry([(_WHOLE, dict(schema))]),
            pattern_options=jsonschema_rs.RegexOptions(),
            validate_formats=True,
            keywords=LINEAR,
            offline=True,
        ).iter_errors(value)


def _find_first(
    rules: jsonschema_rs.Validator, value: Any
) -> Iterator[jsonschema_rs.ValidationError]:
    try:
        rules.validate(value)
    except jsonschema_rs.ValidationError as error:
        yield error


def find_levels(schema: Mapping[str, Any]) -> int:
    """Return how deep a value may be so that few ways lead to each of its places."""
    nodes = _list_schemas(schema)
    if not any("$ref" in node for node in nodes):
        return MAX_DEPTH
    if len(nodes) > _MOST_SCHEMAS:
        return 0
    beside = {id(each): _list_ids(_list_beside(schema, each)) for each in nodes}
    below = {id(each): _list_ids(_list_below(each)) for each in nodes}
    order = _order_by_need(beside)
    ways: dict[int, float] = {}
    for level in range(MAX_DEPTH):
        before, ways = ways, _count_ways(order, beside, below, ways)
        if ways[id(schema)] > _MOST_WAYS:
            return level
        if ways == before:
            break
    return MAX_DEPTH


def count_levels(value: Any) -> int:
    """Return how deep a value is nested; a text or a number has one level."""
    level, found = [value], 0
    while level and found <= MAX_DEPTH:
        found += 1
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
    return found


def _order_by_need(beside: Mapping[int, list[int]]) -> list[int]:
    """Return the schemas so that each comes after all that apply to the same value."""
    found: dict[int, None] = {}
    for start in beside:
        waiting = [start]
        while waiting:
            missing = [each for each in beside.get(waiting[-1], ()) if each not in found]
            if waiting[-1] in found or not missing or len(waiting) > _MOST_SCHEMAS:
                found[waiting.pop()] = None
            else:
                waiting += missing
    return list(found)


def _count_ways(
    order: list[int],
    beside: Mapping[int, list[int]],
    below: Mapping[int, list[int]],
    before: Mapping[int, float],
) -> dict[int, float]:
    """Return for each schema how many are applied to a value, one level more than `before`."""
    found: dict[int, float] = {}
    for node in order:
        own = sum(found.get(each, _ENDLESS) for each in beside.get(node, ()))
        deeper = [before.get(each, 0) for each in below.get(node, ())]
        found[node] = 1 + own + max(deeper, default=0)
    return found


def _list_ids(schemas: list[Mapping[str, Any]]) -> list[int]:
    return [id(each) for each in schemas]


def _list_beside(whole: Mapping[str, Any], node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = [resolve_pointer(whole, node.get("$ref"))]
    for keyword in IN_PLACE & node.keys():
        found += (each for _, each in inner_schemas(keyword, node[keyword]))
    return [each for each in found if isinstance(each, Mapping)]


def _list_below(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        each
        for keyword in node.keys() - IN_PLACE
        for _, each in inner_schemas(keyword, node[keyword])
        if isinstance(each, Mapping)
    ]


def _list_schemas(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: dict[int, Mapping[str, Any]] = {}
    waiting: list[Any] = [schema]
    while waiting and len(found) <= _MOST_SCHEMAS:
        each = waiting.pop()
        if isinstance(each, Mapping) and id(each) not in found:
            found[id(each)] = each
            waiting.append(resolve_pointer(schema, each.get("$ref")))
            for keyword, value in each.items():
                waiting += (inner for _, inner in inner_schemas(keyword, value))
    return list(found.values())
