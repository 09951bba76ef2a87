"""Does a call tell others of its trace only where somebody traces it?"""

from __future__ import annotations

import asyncio

from tool_engine.model.trace import trace_carrier, trace_headers


class Carrier:
    def headers_for(self, host: str | None) -> dict[str, str]:
        return {"traceparent": f"for {host}"}


def test_nobody() -> None:
    """Where nobody traces there are no headers."""
    assert trace_headers() == {}
    assert trace_headers("example.com") == {}


async def test_somebody() -> None:
    """Who traces is asked with the host, in the context that was set and in no other."""

    async def traced() -> list[dict[str, str]]:
        trace_carrier.set(Carrier())
        return [trace_headers(), trace_headers("example.com")]

    told = await asyncio.create_task(traced())
    assert told == [{"traceparent": "for None"}, {"traceparent": "for example.com"}]
    assert trace_headers() == {}
