"""In which process did an engine make a call?

The ids of an engine's calls begin with its name, so that one entry says it for all of them.
"""

from __future__ import annotations

from typing import Final

ENGINE_LENGTH: Final = len("call-00000000-")
"""The characters with which the ids of an engine's calls begin, and which name it."""
_MOST: Final = 1_000
"""Engines of this process that are known; the oldest are forgotten."""
_names: Final[dict[str, str]] = {}


def note_process(engine: str, process: str) -> None:
    """Take note of the name of the process in which an engine makes its calls.

    Args:
        engine: How the ids of its calls begin.
        process: The name.
    """
    _names[engine] = process
    while len(_names) > _MOST:
        _names.pop(next(iter(_names)), None)


def process_of(call_id: str | None) -> str | None:
    """Return the name of the process that made a call; None: it is not one of this process."""
    return None if call_id is None else _names.get(call_id[:ENGINE_LENGTH])
