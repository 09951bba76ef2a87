"""Which services receive the trace that a request is part of?"""

from __future__ import annotations

from collections.abc import Iterable

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tool_engine.errors import ConfigurationError


class TraceHeaders:
    """Trace headers for the allowed hosts; see `TraceCarrier`.

    Args:
        hosts: Names of hosts; `*.example.com` stands for all below that, `*` for all there are.

    Raises:
        ConfigurationError: A host is not a text of that form.
    """

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        names = [hosts] if isinstance(hosts, str) else list(hosts)
        for name in names:
            if not isinstance(name, str) or not _is_pattern(name):
                raise ConfigurationError(
                    f"propagate_to: {name!r} is not a host; write api.example.com, *.example.com "
                    "or *, without scheme, port and path"
                )
        self._all = "*" in names
        self._hosts = frozenset(name.lower() for name in names)
        self._propagator = TraceContextTextMapPropagator()

    def headers_for(self, host: str | None) -> dict[str, str]:
        """Return `traceparent` and `tracestate` of the current span; none for other hosts."""
        headers: dict[str, str] = {}
        if host is None or self._all or self._is_named(host.lower().rstrip(".")):
            self._propagator.inject(headers)
        return headers

    def _is_named(self, host: str) -> bool:
        above = host.split(".")[1:]
        parents = (".".join(above[start:]) for start in range(len(above)))
        return host in self._hosts or any(f"*.{parent}" in self._hosts for parent in parents)


def _is_pattern(name: str) -> bool:
    rest = name.removeprefix("*.") if name != "*" else "all"
    return bool(rest) and not any(mark in rest for mark in "*/:@? ")
