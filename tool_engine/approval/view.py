"""Where does an engine have its approvals?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tool_engine.approval.desk import EngineApprovals
    from tool_engine.interfaces import CallScope


class ApprovalsView:
    """The approvals of an engine."""

    _bus: Any

    @property
    def approvals(self) -> EngineApprovals:
        """The open requests for approval about this engine's tools, of all its sessions."""
        made: EngineApprovals | None = self.__dict__.get("_approvals")
        if made is None:
            # Loaded by name: most engines ask no person. One object, whichever thread is first.
            desk = import_module("tool_engine.approval.desk")
            mine = desk.EngineApprovals(self, self._bus, self._require_open, self._ask_here)
            made = self.__dict__.setdefault("_approvals", mine)
        return made

    def _ask_here(self, scope: CallScope) -> None:
        """Ask `scope` about the calls of no session from now on."""

    def _require_open(self) -> None:
        """Raise `EngineClosedError` where the engine cannot be used."""
