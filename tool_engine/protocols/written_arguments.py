"""Did a model write a call's arguments as text, so that their types had to be inferred?

Most are converted before the call is made. A placeholder, such as a reference to a variable of a
conversation, can only be converted by the code that knows its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final

written: Final[ContextVar[Mapping[str, Any] | None]] = ContextVar("written", default=None)
"""The arguments of this task's call by a text protocol, or None."""


def is_written(arguments: Mapping[str, Any]) -> bool:
    """Return True for a text protocol's last arguments, or a copy."""
    sent = written.get()
    return sent is not None and (sent is arguments or sent == arguments)
