"""How does a call carry its trace without knowing the tracer?

A tracer sets `trace_carrier` for the time of a call. Requests that leave the process for a tool ask
`trace_headers`, which is empty where there is no tracer.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Protocol


class TraceCarrier(Protocol):
    """A tracer of calls."""

    def headers_for(self, host: str | None) -> dict[str, str]:
        """Return the headers that name the trace of the running call; see `trace_headers`."""


trace_carrier: Final[ContextVar[TraceCarrier | None]] = ContextVar(
    "tool_engine_trace_carrier", default=None
)
"""The tracer of the running call; None: there is none."""


def trace_headers(host: str | None = None) -> dict[str, str]:
    """Return the headers that name the running call's trace, such as `traceparent`.

    Args:
        host: The host that would receive them; None: a process of this engine.

    Returns:
        The names in lower case; empty where there is no tracer, or the host must not learn of it.
    """
    carrier = trace_carrier.get()
    return {} if carrier is None else carrier.headers_for(host)
