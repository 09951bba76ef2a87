"""How do calls end that a server does not answer as it should?"""

from __future__ import annotations

from tool_engine.errors import ToolExecutionError


class BadServerError(Exception):
    """A server cannot be used: what it did, in the words that follow its name."""


class NotSentError(Exception):
    """A call did not reach its server, so that it has not run."""


class ServerLostError(ToolExecutionError):
    """A server was lost in a call: whether the tool ran is unknown."""

    error_type = "worker_lost"

    def reworded(self, message: str) -> ServerLostError:
        """Return the same failure with another message."""
        return ServerLostError(message, details=self.details, is_final=self.is_final)
