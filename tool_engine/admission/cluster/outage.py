"""For how long has the database of a cluster not answered, and what is said to calls then?"""

from __future__ import annotations

from typing import Final

from tool_engine.errors import AdmissionError, ClusterUnavailableError, ConfigurationError
from tool_engine.redaction import words_of

ON_UNAVAILABLE: Final = ("refuse", "local")
"""What may happen to calls while the database does not answer."""
_AGAIN: Final = 1.0
"""Seconds after which a call that was refused may be tried again."""
_FULL: Final = "53300"
"""The SQLSTATE of a server, a database or a user that has as many connections as it may."""


def describe_loss(error: BaseException) -> str:
    """Return what a statement failed with, in one line: a server says details in further ones."""
    said = words_of(error).partition("\n")[0]
    if getattr(error, "sqlstate", None) == _FULL:
        said += (
            ": each process takes a connection, so raise max_connections, or the connection limit "
            "of the user or the database"
        )
    return said


def refuse_for_good(cluster: str, bucket: str, error: ConfigurationError) -> AdmissionError:
    """Return what ends a call of a process that its cluster does not take."""
    return ClusterUnavailableError(
        f"cluster {cluster!r}, which limits calls of bucket {bucket!r}, does not take this "
        f"process: {error}"
    )


class Outage:
    """The time in which no message was answered.

    Args:
        patience: Seconds after which it is an outage.
    """

    __slots__ = ("_is_refused", "_patience", "_since", "is_known", "reason")

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: float | None = None
        self._is_refused = False
        self.is_known = False
        """It has lasted for the whole patience."""
        self.reason = ""

    def note_failure(self, error: BaseException, now: float) -> None:
        """Note that a connection or a statement failed."""
        self._is_refused = isinstance(error, ConfigurationError)
        self.reason = str(error) if self._is_refused else describe_loss(error)
        if self._since is None:
            self._since = now
        self.is_known = self.is_known or self.lasts(now, self._patience)

    def lasts(self, now: float, seconds: float) -> bool:
        """Return whether it began that long ago."""
        return self._since is not None and now - self._since >= seconds

    def end(self) -> bool:
        """Note an answer; return whether there was an outage."""
        was_known, self._since, self.is_known = self.is_known, None, False
        return was_known

    def refuse(self, cluster: str, bucket: str) -> AdmissionError:
        """Return what ends a call meanwhile."""
        if self._is_refused:
            return ClusterUnavailableError(
                f"cluster {cluster!r}, which limits calls of bucket {bucket!r}, has not taken "
                f"this process for more than {self._patience:g} s: {self.reason}",
                retry_after=_AGAIN,
            )
        return ClusterUnavailableError(
            f"the database of cluster {cluster!r}, which limits calls of bucket {bucket!r}, "
            f"has not answered for more than {self._patience:g} s ({self.reason}); see that it "
            "runs and can be reached, or set on_unavailable to 'local'",
            retry_after=_AGAIN,
        )
