"""Which objects refuse to be copied, and which are copied with their state?"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NoReturn, TypeVar

from tool_engine.errors import LiveObjectError

_Class = TypeVar("_Class", bound=type[Any])


def refuse_copying(cure: str) -> Callable[[_Class], _Class]:
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
