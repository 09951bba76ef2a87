"""What of this machine stands against the start of a server, without a try?"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tool_engine.catalog.kinds import ServerDefinition
from tool_engine.executors.mcp.programs import explain_start
from tool_engine.mcp_servers.settings import list_unset, settings_of


def list_obstacles(server: ServerDefinition) -> Iterator[str]:
    """Yield what is missing here, each with its place and its cure. Blocks."""
    unset = list(map(str, list_unset(server)))
    yield from unset
    settings = settings_of(server)
    if unset or not settings.command or not server.is_enabled:
        return
    found = explain_start(settings.command, {**os.environ, **settings.env}, settings.cwd)
    if found is not None:
        what = f"the server {server.name!r} does not start here: {found}"
        yield f"{server.locate(found.part)}: {what}"
