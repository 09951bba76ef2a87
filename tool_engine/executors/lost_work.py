"""How does a call end whose worker, or server, was lost while it may have run?"""

from __future__ import annotations

from tool_engine.errors import ToolExecutionError


class WorkerLostError(ToolExecutionError):
    """What ran a call was lost: whether the tool ran to its end is unknown."""

    error_type = "worker_lost"

    def reworded(self, message: str) -> WorkerLostError:
        """Return the same failure with another message."""
        return WorkerLostError(message, details=self.details, is_final=self.is_final)
