"""Did a model write the arguments of a call as texts, so that their types had to be read?

Most are read before the call is made. What stands for something else, such as a reference to a
variable of a conversation, can only be read by whoever knows what it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final

__all__ = ["is_written", "written"]

written: Final[ContextVar[Mapping[str, Any] | None]] = ContextVar("written", default=None)
"""The arguments of the call that a text protocol makes in this task; None: it makes none."""


def is_written(arguments: Mapping[str, Any]) -> bool:
    """Whether these are the arguments that a text protocol sent last, or a copy of them."""
    sent = written.get()
    return sent is not None and (sent is arguments or sent == arguments)
