"""Which queued tasks does an engine leave to others, since it has no tool of that name?

While servers of two versions run side by side, a tool may be at one of them only.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from tool_engine.logger import get_logger

_log = get_logger(__name__)


class LeftTools:
    """The tools whose tasks one engine has seen, and does not have.

    Args:
        has_tool: Whether the engine has a tool by now.
    """

    def __init__(self, has_tool: Callable[[str], bool]) -> None:
        self._has_tool = has_tool
        self._since: dict[str, float] = {}
        self.patience = 600.0
        """Seconds for which they are left, from the first one that was seen; for as long again
        those that come end at once."""

    def __repr__(self) -> str:
        return f"<LeftTools {', '.join(sorted(self._since)) or 'none'}>"

    def find_names(self) -> set[str]:
        """Return the tools whose tasks are not to be taken now."""
        now = monotonic()
        self._since = {
            name: since
            for name, since in self._since.items()
            if now - since < 2 * self.patience and not self._has_tool(name)
        }
        return {name for name, since in self._since.items() if now - since < self.patience}

    def leaves(self, tool_name: str) -> bool:
        """Return True if a task is to be given back, as the first of its tool or a late one."""
        if self._has_tool(tool_name):
            return False
        if tool_name not in self._since:
            self._since[tool_name] = monotonic()
            _log.warning("tasks_left", tool=tool_name, seconds=self.patience)
        return tool_name in self.find_names()
