"""What does a loaded workflow know of its fit with the other tools?

A tool depends on its definition alone; the presence of the tools that it calls depends on the
catalog. The linker replaces it by a copy that carries both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tool_engine.model.tool import Tool

_BROKEN: Final = "_broken_links"
_UNLINKED: Final = "_unlinked"


def with_links(tool: Tool, findings: Sequence[str], broken: Sequence[str]) -> Tool:
    """Return a copy with its misfits; the `broken` ones prevent running."""
    copy = msgspec.structs.replace(tool, findings=[*tool.findings, *findings])
    copy.__dict__[_BROKEN] = tuple(broken)
    copy.__dict__[_UNLINKED] = tool
    return copy


def find_unlinked(tool: Tool) -> Tool:
    original: Tool = tool.__dict__.get(_UNLINKED, tool)
    return original


def broken_links(tool: Tool) -> tuple[str, ...]:
    """Return why the tool cannot run with the present tools, if so."""
    broken: tuple[str, ...] = tool.__dict__.get(_BROKEN, ())
    return broken
