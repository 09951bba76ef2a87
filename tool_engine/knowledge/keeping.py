"""What is kept of an output that is not shown whole?

Besides the usual record, the whole output, to be read later: up to `MOST_KEPT` bytes, of a larger
one the beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tool_engine.knowledge.snapshot import MAX_SNAPSHOT, beginning, copy_whole, snapshot
from tool_engine.model.result import MOST_KEPT


class KeptOutput(msgspec.Struct, frozen=True):
    result: bytes
    """A snapshot of what the tool returned."""
    whole: bytes | None
    """A snapshot of the output before its limits, if `result` does not have all of it."""
    is_whole: bool
    """Whether nothing of the output was lost."""


def keep_output(
    returned: dict[str, Any], output: dict[str, Any], fits: Callable[[Any], bool]
) -> KeptOutput:
    """Keep what a tool returned and, if it differs or is too long, its output.

    Args:
        returned: What the tool returned.
        output: What its limits picked from that: the same object where they pick nothing.
        fits: Whether a value is small enough to be copied whole.
    """
    is_same = output is returned
    whole = copy_whole(output, MOST_KEPT) if fits(output) else None
    if is_same and whole is not None and len(whole) <= MAX_SNAPSHOT:
        return KeptOutput(whole, None, True)
    is_huge = whole is None if is_same else not fits(returned)
    result = beginning(returned) if is_huge else snapshot(returned)
    if whole is None and not is_same:
        # What the limits left out is not to be read in the place of what they picked.
        return KeptOutput(result, beginning(output), False)
    return KeptOutput(result, whole, whole is not None)
