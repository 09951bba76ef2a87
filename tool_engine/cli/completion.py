"""Which names does the shell offer behind `show`, `call` and `--strategy`?

Completion answers while a person waits for the key to come back, so it reads the `name:` lines
of the files and loads no tool.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import typer

from tool_engine.cli.settings import DEFAULT_TOOLS
from tool_engine.config import STRATEGIES

_NAME: Final = re.compile(rb"""^name:[ \t]*["']?([^\s"'#]+)""", re.MULTILINE)
_MAX_FILES: Final = 2_000
_MAX_BYTES: Final = 65_536


def complete_strategy(incomplete: str) -> list[str]:
    return [name for name in STRATEGIES if name.startswith(incomplete)]


def complete_kind(incomplete: str) -> list[str]:
    from tool_engine.catalog.definition.starter import KINDS

    return [kind for kind in KINDS if kind.startswith(incomplete)]


def complete_tool(ctx: typer.Context, incomplete: str) -> list[str]:
    chosen = ctx.params.get("tools") or ctx.find_root().params.get("tools")
    folder = Path(chosen or os.environ.get("TOOL_ENGINE_TOOLS") or DEFAULT_TOOLS)
    return [name for name in tool_names(folder) if name.startswith(incomplete)]


def tool_names(directory: Path) -> list[str]:
    """Return the sorted names in a folder's files; none if unreadable."""
    names: set[str] = set()
    try:
        files = sorted(path for path in directory.iterdir() if path.suffix in (".yaml", ".yml"))
    except OSError:
        return []
    for path in files[:_MAX_FILES]:
        names.update(names_in(path))
    return sorted(names)


def names_in(path: Path) -> list[str]:
    """Return the names in a file's `name:` lines; none if unreadable."""
    try:
        # A pipe or a device that is named like a tool file would never answer.
        if not path.is_file():
            return []
        with path.open("rb") as stream:
            found = _NAME.findall(stream.read(_MAX_BYTES))
    except OSError:
        return []
    return [name.decode("utf-8", "replace") for name in found]
