"""What is wrong with a tool's name that is no text?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tool_engine.errors import ConfigurationError

_T = TypeVar("_T")

_LONGEST = 80


def find_called(named: Mapping[str, _T], name: str) -> _T | None:
    """Return what has a name, or None.

    Raises:
        ConfigurationError: It is no name, but a tool, a mapping or the like.
    """
    try:
        return named.get(name)
    except TypeError:
        raise ConfigurationError(word_no_name(name)) from None


def word_no_name(value: object) -> str:
    """Return why a value names no tool; a tool itself has a name that does.

    Example:
        >>> word_no_name(None)
        'a tool is called by its name, a text; got None: pass the name, such as "calculator"'
    """
    kind = "None" if value is None else f"a value of type {type(value).__name__}"
    name = value.get("name") if isinstance(value, dict) else getattr(value, "name", None)
    shown = f'"{name}"' if isinstance(name, str) and name.isprintable() else ""
    cure = f"pass its name, {shown[:_LONGEST]}" if shown else 'pass the name, such as "calculator"'
    return f"a tool is called by its name, a text; got {kind}: {cure}"
