"""How does one conversation use the engine, and remember what it did?

Most names are imported when they are first used: a program without conversations pays for none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tool_engine.late_names import find_later

if TYPE_CHECKING:
    from tool_engine.interfaces.source import Source
    from tool_engine.session.discovery import (
        ToolDiscoveryService,
        create_tool_discovery_service,
    )
    from tool_engine.session.toolbox.standing import GroupState, Placed
    from tool_engine.session.toolbox.toolbox import Toolbox
    from tool_engine.sources.composition import (
        combine,
        keep,
        prefix,
        prepare,
        rename,
    )

__all__ = [
    "GroupState",
    "Placed",
    "Source",
    "ToolDiscoveryService",
    "Toolbox",
    "combine",
    "create_tool_discovery_service",
    "keep",
    "prefix",
    "prepare",
    "rename",
]

_MODULES = {
    "discovery": "ToolDiscoveryService create_tool_discovery_service",
    "toolbox.standing": "GroupState Placed",
    "toolbox.toolbox": "Toolbox",
    ".interfaces.source": "Source",
    ".sources.composition": "combine keep prefix prepare rename",
}
"""Module -> the names that it defines."""


if not TYPE_CHECKING:  # a type checker would take any name for one that is there
    __getattr__ = find_later(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
