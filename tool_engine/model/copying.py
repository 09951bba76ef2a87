"""How are arguments copied, so that nobody else can change them?"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

__all__ = ["copied"]

_IMMUTABLE: Final = frozenset((str, int, float, bool, type(None)))


def copied(value: Any) -> Any:
    """A copy, down to the last list; of JSON values several times as quick as `deepcopy`.

    Raises:
        RecursionError: It nests too deep.
    """
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is dict:
        return {
            key: item if type(item) in _IMMUTABLE else copied(item) for key, item in value.items()
        }
    if kind is list:
        return [item if type(item) in _IMMUTABLE else copied(item) for item in value]
    return deepcopy(value)
