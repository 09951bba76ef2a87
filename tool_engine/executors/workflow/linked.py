"""What does a loaded workflow know of its fit with the other tools?

A tool is a value of its definition alone; whether the tools that it calls are there depends on the
catalog. The linker puts a copy in its place that carries both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tool_engine.model.tool import Tool

__all__ = ["broken_links", "unlinked", "with_links"]

_BROKEN: Final = "_broken_links"
_UNLINKED: Final = "_unlinked"


def with_links(tool: Tool, findings: Sequence[str], broken: Sequence[str]) -> Tool:
    """A copy of `tool` that tells of its fit with other tools.

    Args:
        tool: The workflow, as its definition says it.
        findings: What does not fit.
        broken: The part of that with which it cannot run.
    """
    copy = msgspec.structs.replace(tool, findings=[*tool.findings, *findings])
    copy.__dict__[_BROKEN] = tuple(broken)
    copy.__dict__[_UNLINKED] = tool
    return copy


def unlinked(tool: Tool) -> Tool:
    """The tool as its definition says it."""
    original: Tool = tool.__dict__.get(_UNLINKED, tool)
    return original


def broken_links(tool: Tool) -> tuple[str, ...]:
    """Why the tool cannot run with the tools that are there; empty when it can."""
    broken: tuple[str, ...] = tool.__dict__.get(_BROKEN, ())
    return broken
