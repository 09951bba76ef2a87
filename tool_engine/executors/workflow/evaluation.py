"""What is the value of a reference or condition while a workflow runs?"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tool_engine.executors.workflow.expression import (
    All,
    AnyOf,
    Comparison,
    FirstOf,
    Literal,
    Node,
    Not,
    Path,
)
from tool_engine.model.checks.nearness import suggest_near

_MOST_KEYS: Final = 10
_LONGEST_KEY: Final = 40


class _LeftOut:
    """The value of an optional parameter that the call left out."""

    def __repr__(self) -> str:
        return "LEFT_OUT"


LEFT_OUT: Final = _LeftOut()


class EvaluationError(ValueError):
    """A reference leads nowhere, or a condition is neither true nor false."""


class Scope(msgspec.Struct, frozen=True):
    params: Mapping[str, Any]
    steps: Mapping[str, Mapping[str, Any]]
    item: Any = None
    index: int = -1
    """From 0; -1 where there is none."""

    def at(self, item: Any, index: int) -> Scope:
        return Scope(self.params, self.steps, item, index)


def value_of(node: Node, scope: Scope) -> Any:
    """Return the value, or `LEFT_OUT`; raise `EvaluationError` if there is none."""
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Path):
        return _follow_path(node, scope)
    if isinstance(node, FirstOf):
        return _first_present(node, scope)
    return is_true(node, scope)


def is_true(node: Node, scope: Scope) -> bool:
    """Return the truth of a condition; a text or a number raises `EvaluationError`."""
    if isinstance(node, All):
        return all(is_true(each, scope) for each in node.nodes)
    if isinstance(node, AnyOf):
        return any(is_true(each, scope) for each in node.nodes)
    if isinstance(node, Not):
        return not is_true(node.node, scope)
    if isinstance(node, Comparison):
        return _evaluate_comparison(node, scope)
    value = _none_if_left_out(value_of(node, scope))
    if not isinstance(value, bool):
        shown = node if isinstance(node, Path) else "it"
        raise EvaluationError(
            f"{shown} is {kind_of(value)}, not true or false; compare it, such as {shown} != null"
        )
    return value


def kind_of(value: Any) -> str:
    if value is None or value is LEFT_OUT:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"


def _none_if_left_out(value: Any) -> Any:
    return None if value is LEFT_OUT else value


def _first_present(node: FirstOf, scope: Scope) -> Any:
    *others, last = node.options
    for option in others:
        try:
            value = _none_if_left_out(value_of(option, scope))
        except EvaluationError:
            continue
        if value is not None:
            return value
    return value_of(last, scope)


def _follow_path(path: Path, scope: Scope) -> Any:
    if path.root == "params" and path.parts and path.parts[0] not in scope.params:
        if len(path.parts) == 1:
            return LEFT_OUT
        raise EvaluationError(f"the call left out {path.upto(1)}{_suggest_default(path)}")
    if path.root in ("item", "index") and scope.index < 0:
        raise EvaluationError(f"there is no {path}: the step failed before its first item")
    value: Any = getattr(scope, path.root)
    for count, part in enumerate(path.parts):
        value = _step_into(value, part, path, count)
    return value


def _step_into(value: Any, part: str | int, path: Path, count: int) -> Any:
    if isinstance(value, Mapping) and isinstance(part, str):
        if part in value:
            return value[part]
        raise EvaluationError(f"there is no {path}: {path.upto(count)} {_list_keys(value, part)}")
    if isinstance(value, list | tuple) and isinstance(part, int):
        if -len(value) <= part < len(value):
            return value[part]
        raise EvaluationError(
            f"there is no {path}: {path.upto(count)} has {_count_noun(len(value), 'item')}"
            f"{_suggest_default(path)}"
        )
    wanted = "position in it" if isinstance(part, int) else "key in it"
    if isinstance(value, list | tuple):
        wanted = "key in it; write a position, such as [0]"
    raise EvaluationError(
        f"there is no {path}: {path.upto(count)} is {kind_of(value)}, so there is no {wanted}"
        f"{_suggest_default(path)}"
    )


def _list_keys(value: Mapping[Any, Any], part: str) -> str:
    names = [str(key)[:_LONGEST_KEY] for key in value]
    if not names:
        return "is empty"
    more = f" and {len(names) - _MOST_KEYS} more" if len(names) > _MOST_KEYS else ""
    return f"has {', '.join(names[:_MOST_KEYS])}{more}{suggest_near(part, names)}"


def _suggest_default(path: Path) -> str:
    return f"; for a value that may be missing write {path} ?? and what stands for it"


def _count_noun(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _evaluate_comparison(node: Comparison, scope: Scope) -> bool:
    left, right = (_none_if_left_out(value_of(side, scope)) for side in (node.left, node.right))
    try:
        return _compare_values(node, left, right)
    except RecursionError:
        raise EvaluationError("the two values are too deep to be compared") from None


def _compare_values(node: Comparison, left: Any, right: Any) -> bool:
    if node.symbol in ("==", "!="):
        return _is_same(left, right) is (node.symbol == "==")
    if node.symbol in ("in", "not in"):
        return _contains_part(right, left) is (node.symbol == "in")
    if not (_is_number(left) and _is_number(right)) and not (
        isinstance(left, str) and isinstance(right, str)
    ):
        raise EvaluationError(
            f"{kind_of(left)} and {kind_of(right)} cannot be compared with {node.symbol}; it "
            "compares two numbers or two texts"
        )
    return _ORDERS[node.symbol](left, right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_same(left: Any, right: Any) -> bool:
    """Return True for equality as in JSON, where true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_is_same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_is_same, left, right))
    return bool(left == right)


def _contains_part(whole: Any, part: Any) -> bool:
    if isinstance(whole, str) and isinstance(part, str):
        return part in whole
    if isinstance(whole, list | tuple):
        return any(_is_same(each, part) for each in whole)
    if isinstance(whole, Mapping) and isinstance(part, str):
        return part in whole
    raise EvaluationError(
        f"'in' looks into a list, for a text in a text, or for a key in a mapping; got "
        f"{kind_of(part)} in {kind_of(whole)}"
    )
