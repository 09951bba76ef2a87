"""Which timeout has a context that names none?"""

from __future__ import annotations

from typing import Final

__all__ = ["DEFAULT_TIMEOUT"]


class _DefaultTimeout(float):
    """The documented default of 30 seconds, told apart from a 30 that the user asked for."""

    def __reduce__(self) -> str:
        """Its name: what is copied, or goes to another process, is this same one there."""
        return "DEFAULT_TIMEOUT"


DEFAULT_TIMEOUT: Final[float] = _DefaultTimeout(30.0)
"""The timeout of a context that names none: reads as 30.0, and lets the tool's own `timeout`, then
the controller's `default_timeout`, decide."""
