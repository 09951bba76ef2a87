"""Who is behind a request, and what may they ask for?"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

import msgspec

SCOPES: Final = ("call", "read", "approve", "operate")
"""What a principal may do: call tools; see tools and what it has started; answer requests for
consent; see and steer all."""


class Principal(msgspec.Struct, frozen=True):
    """Who is behind a request."""

    name: str
    scopes: frozenset[str]
    tools: tuple[str, ...] = ("*",)
    """Patterns of the names of tools, as a shell has them."""

    def may(self, scope: str) -> bool:
        """Return True if it may do what a scope stands for."""
        return scope in self.scopes

    def may_use(self, tool_name: str) -> bool:
        """Return True if it may know and call a tool."""
        return any(fnmatchcase(tool_name, pattern) for pattern in self.tools)
