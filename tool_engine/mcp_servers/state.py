"""What is known of a server that is named?"""

from __future__ import annotations

import msgspec

from tool_engine.model.json.data import Data


class MCPServerState(msgspec.Struct, Data, frozen=True, kw_only=True):
    """A server of tools, and how it is with it now."""

    name: str
    place: str
    """The file that names it, or `mcp_servers`."""
    state: str
    """What it is doing, in words that follow its name."""
    is_connected: bool = False
    is_enabled: bool = True
    version: str = ""
    """The name and the version that it gives itself; empty: it gave none yet."""
    tools: tuple[str, ...] = ()
    """The names of its tools here, quarantined ones too."""
    findings: tuple[str, ...] = ()
    """Warnings about its definition."""
