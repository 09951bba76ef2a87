"""How are arguments copied against later changes, and which objects refuse to be copied?"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from tool_engine.errors import LiveObjectError
from tool_engine.model.json.plain import is_exact
from tool_engine.model.json.unpacking import LARGE, unpack

_Class = TypeVar("_Class", bound=type[Any])

_pack: Final = msgspec.msgpack.Encoder().encode
_IMMUTABLE: Final = frozenset((str, int, float, bool, type(None)))


def copied(value: Any) -> Any:
    """Return a deep copy; for JSON values several times as quick as `deepcopy`.

    Raises:
        RecursionError: It nests too deep.
    """
    if type(value) is dict and _IMMUTABLE.issuperset(map(type, value.values())):
        # As the arguments of most calls.
        return value.copy()
    try:
        packed = _pack(value)
        if len(packed) >= LARGE and is_exact(value):
            return unpack(packed)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        pass  # it holds what MessagePack has no form for
    return _copied_one_by_one(value)


def _copied_one_by_one(value: Any) -> Any:
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is dict:
        return {
            key: item if type(item) in _IMMUTABLE else _copied_one_by_one(item)
            for key, item in value.items()
        }
    if kind is list:
        return [item if type(item) in _IMMUTABLE else _copied_one_by_one(item) for item in value]
    return deepcopy(value)


def live(cure: str) -> Callable[[_Class], _Class]:
    """Class decorator: refuse to copy or pickle owners of tasks, threads or connections.

    Args:
        cure: What to do instead, as the last part of a sentence.
    """

    def refuse(self: object, *_: object) -> NoReturn:
        raise LiveObjectError(
            f"a {type(self).__name__} cannot be copied or pickled: it is at work; {cure}"
        )

    def mark(cls: _Class) -> _Class:
        for name in ("__copy__", "__deepcopy__", "__reduce_ex__"):
            setattr(cls, name, refuse)
        return cls

    return mark


def copied_whole(cls: _Class) -> _Class:
    """Class decorator: let `copy.copy` copy the state too, which two would change."""
    cls.__copy__ = deepcopy
    return cls
