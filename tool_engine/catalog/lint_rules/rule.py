"""What is one rule of the linter?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from tool_engine.catalog.yaml.document import Path
from tool_engine.model.tool import Tool

ERROR: Final = "error"
"""The tool will be refused or leaks something."""
WARNING: Final = "warning"
"""A model will use the tool worse than it could."""

Flaw = tuple[Path, str]
"""Where in the definition, and what is wrong there, with its cure."""


class LintRule(msgspec.Struct, frozen=True):
    """One thing that a good definition does not do."""

    code: str
    """`L`, the number of the subject and two digits."""
    severity: str
    """`error` or `warning`."""
    summary: str
    """What it finds."""
    reason: str
    """Why that is bad."""
    check: Callable[[Tool], Iterable[Flaw]]
