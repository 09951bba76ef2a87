"""Which numbers and words may a setting hold?

Each check names the setting, the value and what is allowed.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable

from tool_engine.errors import ConfigurationError

__all__ = ["check_choice", "check_count", "check_share", "nearest"]


def nearest(word: object, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` when a known word is near, else nothing."""
    near = difflib.get_close_matches(str(word)[:80], list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check_count(name: str, value: object, *, minimum: float = 0, maximum: float = math.inf) -> None:
    """Raises `ConfigurationError` unless `value` is a whole number in these bounds."""
    if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum:
        return
    bounds = f">= {minimum}" if maximum == math.inf else f"from {minimum} to {maximum}"
    raise ConfigurationError(f"{name} must be a whole number {bounds}, got {value!r}")


def check_share(name: str, value: object) -> None:
    """Raises `ConfigurationError` unless `value` is a positive, finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:  # type: ignore[operator] # it is a number
        raise ConfigurationError(f"{name} must be a positive, finite number, got {value!r}")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raises `ConfigurationError`, with the nearest choice, unless `value` is one of them."""
    known = list(choices)
    if value not in known:
        raise ConfigurationError(
            f"{name} must be one of {', '.join(known)}, got {value!r}{nearest(value, known)}"
        )
