"""How are a struct's fields set at the price of plain attributes?

Setting a field of a `msgspec.Struct` costs three times as much as setting one of a slotted class,
because the struct looks whether the garbage collector must know it from then on. What is made, set
and dropped on the path of every call is spared that.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

_Struct = TypeVar("_Struct", bound=type[msgspec.Struct])


def settable(cls: _Struct) -> _Struct:
    """Class decorator: make setting the fields of a struct class quick.

    Only for a class whose every instance is made with a value that is itself tracked by the garbage
    collector, such as a list or an object of a Python class: the instance is tracked from the start
    then. Otherwise a cycle that is tied later would never be freed. Or for one with `gc=False`.
    """
    cls.__setattr__ = object.__setattr__  # type: ignore[method-assign]
    cls.__delattr__ = object.__delattr__  # type: ignore[method-assign]
    return cls
