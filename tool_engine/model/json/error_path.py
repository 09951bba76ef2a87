"""Where in a value is the error that jsonschema-rs reports?

The path of its errors is ambiguous: the keys `"7"`, `"07"` and `"+7"` become the number 7, as the
eighth item of a list does, and an empty key is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeAlias

_Path: TypeAlias = tuple[str | int, ...]


class _Error(Protocol):
    """An error of jsonschema-rs."""

    @property
    def instance_path(self) -> Sequence[str | int]: ...
    @property
    def instance(self) -> Any: ...


def find_error(error: _Error, value: Any) -> tuple[_Path, Any]:
    """Return the path to the fault in the keys and positions of `value`, and what is there.

    Args:
        error: What the validator says about `value`.
        value: Plain JSON.

    Example:
        >>> from jsonschema_rs import Draft202012Validator
        >>> rules = Draft202012Validator({"additionalProperties": {"type": "integer"}})
        >>> error = next(rules.iter_errors({"07": "x"}))
        >>> error.instance_path, find_error(error, {"07": "x"})
        ([7], (('07',), 'x'))
    """
    found = list(_follow_steps(value, list(error.instance_path), ()))
    # Several keys may be the same number: the one is meant whose value is the wrong one.
    same = [place for place in found if place[1] == error.instance] if len(found) > 1 else found
    return (same or found or [((), value)])[0]


def _follow_steps(value: Any, steps: list[str | int], path: _Path) -> Iterator[tuple[_Path, Any]]:
    if not steps:
        yield path, value
    if isinstance(value, dict):
        if "" in value:
            yield from _follow_steps(value[""], steps, (*path, ""))
        for key in _matching_keys(value, steps[0]) if steps else ():
            yield from _follow_steps(value[key], steps[1:], (*path, key))
    elif isinstance(value, list) and steps and isinstance(steps[0], int) and steps[0] < len(value):
        yield from _follow_steps(value[steps[0]], steps[1:], (*path, steps[0]))


def _matching_keys(value: dict[str, Any], step: str | int) -> list[str]:
    if isinstance(step, str):
        return [step] if step in value else []
    return [key for key in value if _strip_zeros(key) == str(step)]


def _strip_zeros(key: str) -> str:
    """Return `key` without leading zeros, if the validator takes it for a number."""
    digits = key.removeprefix("+")
    return (digits.lstrip("0") or "0") if digits.isdigit() else ""
