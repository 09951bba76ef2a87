"""What references and conditions are worth."""

from __future__ import annotations

from typing import Any

import pytest

from tool_engine.executors.workflow.evaluation import (
    LEFT_OUT,
    EvaluationError,
    Scope,
    is_true,
    kind_of,
    value_of,
)
from tool_engine.executors.workflow.expression import parse_condition

SCOPE = Scope(
    {"n": 3, "yes": True, "text": "abc", "list": [1, "a", True], "map": {"k": {"d": 1}},
     "nil": None},
    {"a": {"output": {"items": [{"id": 7}], "name": "x"}, "status": "succeeded"},
     "skipped": {"output": None, "status": "skipped"}},
    item={"id": 5},
    index=2,
)  # fmt: skip


def value(text: str, scope: Scope = SCOPE) -> Any:
    return value_of(parse_condition(text), scope)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("params.n", 3),
        ("steps.a.output.items[0].id", 7),
        ("steps.a.output.items[-1]", {"id": 7}),
        ("params.map['k'].d", 1),
        ("item.id", 5),
        ("index", 2),
        ("params.gone", LEFT_OUT),
        ("params.gone ?? 4", 4),
        ("params.nil ?? 4", 4),
        ("params.gone ?? params.nil", None),
        ("steps.skipped.output.x.y ?? 'none'", "none"),
        ("params.yes ?? 1", True),
        ("params.n == 3.0", True),
    ],
)
def test_values(text: str, expected: Any) -> None:
    """D21: a value keeps its type; `??` stands in for what is missing or null."""
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("steps.a.output.itmes", "steps.a.output has items, name; did you mean 'items'?"),
        ("steps.a.output.items[3]", "steps.a.output.items has 1 item"),
        ("steps.a.output.items.id", "is a list, so there is no key in it; write a position"),
        ("steps.a.output[0]", "steps.a.output is a mapping, so there is no position in it"),
        ("steps.a.output.name.x", "steps.a.output.name is a text, so there is no key in it"),
        ("steps.skipped.output.x", "steps.skipped.output is null"),
        ("steps.skipped.output.x ?? steps.skipped.output.y", "there is no steps.skipped.output.y"),
        ("params.gone.x", "the call left out params.gone; for a value that may be missing write"),
        ("params.n < 'a'", "a number and a text cannot be compared with <"),
        ("params.yes > 0", "true and a number cannot be compared"),
        ("1 in params.text", "'in' looks into a list"),
        ("'a' in params.n", "got a text in a number"),
    ],
)
def test_what_is_not_there(text: str, told: str) -> None:
    """D21: a path that leads nowhere says how far it led, what is there, and the cure."""
    with pytest.raises(EvaluationError) as caught:
        value(text)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("params.yes", True),
        ("not params.yes", False),
        ("params.yes and params.n > 2", True),
        ("params.n < 2 or params.n >= 3", True),
        ("params.n < 2 and params.gone.x", False),
        ("params.gone == null", True),
        ("params.gone ?? false", False),
        ("params.yes == 1", False),
        ("params.list == [1, \"a\", true]", True),
        ("params.list == [1, \"a\", 1]", False),
        ("params.list == [1]", False),
        ('params.map == {"k": {"d": 1}}', True),
        ('params.map != {"k": {"d": 2}}', True),
        ('params.map == {"x": 1}', False),
        ("'a' in params.list", True),
        ("true in params.list", True),
        ("false in params.list", False),
        ("'b' in params.text", True),
        ("'k' in params.map", True),
        ("'z' not in params.map", True),
        ("params.text < 'b'", True),
        ("params.n <= 3", True),
    ],
)  # fmt: skip
def test_conditions(text: str, expected: bool) -> None:
    """D21: equality is that of JSON, where true is not 1; `and` and `or` stop early."""
    assert is_true(parse_condition(text), SCOPE) is expected


@pytest.mark.parametrize("text", ["params.text", "params.n", "params.list", "params.gone", "'no'"])
def test_only_true_and_false_are_conditions(text: str) -> None:
    """A text such as "false" is never taken for true."""
    with pytest.raises(EvaluationError, match="not true or false; compare it"):
        is_true(parse_condition(text), SCOPE)


def test_a_value_that_is_too_deep() -> None:
    """A tool's output may be deeper than Python can compare: a clean error."""
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    scope = Scope({"a": deep, "b": [deep]}, {})
    with pytest.raises(EvaluationError, match="too deep"):
        is_true(parse_condition("params.a == params.b"), scope)


def test_many_keys_are_not_all_told() -> None:
    """The message stays short, whatever a tool returned."""
    scope = Scope({"a": {f"k{number}" * 30: 1 for number in range(5000)}}, {})
    with pytest.raises(EvaluationError) as caught:
        value("params.a.x", scope)
    assert "and 4990 more" in str(caught.value)
    assert len(str(caught.value)) < 600
    with pytest.raises(EvaluationError, match="is empty"):
        value("params.a.x", Scope({"a": {}}, {}))


def test_kinds() -> None:
    """Messages say of what kind a value is, never the value."""
    kinds = [kind_of(each) for each in (None, True, False, 1.5, "a", {}, [], object(), LEFT_OUT)]
    assert kinds == [
        *("null", "true", "false", "a number", "a text", "a mapping", "a list", "a object", "null")
    ]
    assert repr(LEFT_OUT) == "LEFT_OUT"
    assert Scope({}, {}).at("x", 3) == Scope({}, {}, "x", 3)
