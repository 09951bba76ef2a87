"""How does a call say which trace it belongs to, without knowing what traces it?

A tracer sets `trace_carrier` for the time of a call. What leaves the process on behalf
of a tool asks `trace_headers`, and gets nothing where there is no tracer.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Protocol

__all__ = ["TraceCarrier", "trace_carrier", "trace_headers"]


class TraceCarrier(Protocol):
    """A tracer of calls."""

    def headers_for(self, host: str | None) -> dict[str, str]:
        """The headers that name the trace of the running call; see `trace_headers`."""


trace_carrier: Final[ContextVar[TraceCarrier | None]] = ContextVar(
    "tool_engine_trace_carrier", default=None
)
"""What traces the running call; None: nothing does."""


def trace_headers(host: str | None = None) -> dict[str, str]:
    """The headers that name the trace of the running call, such as `traceparent`.

    Args:
        host: The host that would receive them; None: a process of this engine.

    Returns:
        The names in lower case; empty where there is no tracer, or the host is not to be told.
    """
    carrier = trace_carrier.get()
    return {} if carrier is None else carrier.headers_for(host)
