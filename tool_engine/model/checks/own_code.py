"""Which code is the engine's own, and which did a program give it to run?"""

from __future__ import annotations

from typing import Any, Final

HANDLER: Final = "handler"
"""The attribute in which what the engine wraps around a program's code holds it."""


def code_behind(runs: Any) -> Any:
    """Return what a program gave the engine to run, without what the engine wrapped around it."""
    while is_own(runs) and getattr(runs, HANDLER, None) is not None:
        runs = getattr(runs, HANDLER)
    return runs


def is_own(code: object) -> bool:
    """True for code of the engine, and for objects of its classes."""
    return str(getattr(code, "__module__", "")).startswith("tool_engine.")
