"""Do a function's hints ask for more than what JSON gives?

This file imports nothing of the engine: a worker process loads it by its path.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any, Final

ADAPTING: Final = "tool_engine.catalog.code.adapting"
"""The module that makes values of a function's hints; loaded for functions that have some."""
_SAME: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (float,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
"""Type in a definition -> the hints whose values are just what JSON gives."""


def asks_types(function: Any, declared: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return True if a hint may ask for more than JSON gives."""
    while isinstance(function, functools.partial):
        function = function.func
    if not callable(function):
        return False
    call = function if inspect.isroutine(function) else type(function).__call__
    hints = getattr(inspect.unwrap(call), "__annotations__", {})
    return any(
        name in hints and not _is_same(hints[name], schema.get("type"))
        for name, schema in declared.items()
    )


def _is_same(hint: Any, kind: Any) -> bool:
    same = _SAME.get(kind, ()) if isinstance(kind, str) else ()
    names = [each.__name__ for each in same]
    return hint in names if isinstance(hint, str) else any(hint is each for each in same)
