"""Which lines differ between two definitions, as people read them?"""

from __future__ import annotations

from difflib import unified_diff
from typing import Final

from tool_engine.catalog.definition.showing import write_shown
from tool_engine.catalog.kinds import Definition

_MOST_LINES: Final = 1_000
"""Lines of one definition; to compare more takes too long."""


def diff_definitions(old: Definition, new: Definition) -> str | None:
    """Return the lines that differ, with `-` and `+` before them, and secrets hidden. May block.

    Returns:
        The lines, some of those around them, and `@@` lines that say where; empty where what
        differs is not shown. None: they are too long to be compared.
    """
    before, after = (write_shown(each).splitlines() for each in (old, new))
    if max(len(before), len(after)) > _MOST_LINES:
        return None
    return "\n".join(list(unified_diff(before, after, lineterm="", n=2))[2:])
