"""Does a trace go on through clients and servers of MCP, and only to those that may know it?"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from opentelemetry import baggage, context
from opentelemetry.propagate import inject
from opentelemetry.trace import set_span_in_context

from tests import warm
from tests.calls.audit import make_engine
from tests.mcp_server.test_living import serving
from tests.observability.meta_program import make_server
from tests.observability.telemetry import Telemetry, parent_of, traceparent_of
from tests.warm import SDK
from tool_engine import MCPSource, ToolEngine
from tool_engine.mcp_server import MCPServer
from tool_engine.observability.opentelemetry import instrument

pytestmark = pytest.mark.timeout(60)
PROGRAM = Path(__file__).with_name("meta_program.py")
HIDDEN = ("traceparent", "tracestate", "baggage")


@asynccontextmanager
async def source_of(way: str, revision: str | None) -> AsyncIterator[MCPSource]:
    """A server that answers with what it was sent beside the arguments."""
    if way == "stdio":
        yield MCPSource("meta", command=[*warm.python(*SDK), str(PROGRAM)], revision=revision)
        return
    app = make_server().streamable_http_app(streamable_http_path="/mcp")
    async with serving(app) as url:
        yield MCPSource("meta", url=f"{url}/mcp", revision=revision)


async def read_meta(engine: ToolEngine) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What came with a call, and with the lists before it."""
    result = await engine.execute("meta", {})
    assert result.is_success, result.error
    call, *lists = json.loads(result.output["content"][0]["text"])
    return call, lists


@pytest.mark.parametrize("revision", [None, "2025-11-25"])
@pytest.mark.parametrize(
    ("way", "hosts", "is_sent"),
    [("stdio", (), True), ("http", (), False), ("http", ("127.0.0.1",), True)],
)
async def test_servers_learn_of_the_trace_that_may(
    telemetry: Telemetry, way: str, hosts: tuple[str, ...], is_sent: bool, revision: str | None
) -> None:
    """As with requests of HTTP tools; no server is sent baggage, or the trace of what connects."""
    outside = telemetry.tracer.start_span("outside")
    mark = context.attach(baggage.set_baggage("user", "ann", set_span_in_context(outside)))
    try:
        async with make_engine() as engine, source_of(way, revision) as source:
            await engine.add_source(source)
            with instrument(engine, telemetry.tracers, propagate_to=hosts):
                sent, lists = await read_meta(engine)
    finally:
        context.detach(mark)
    own = telemetry.span("execute_tool meta")
    assert own.parent is not None
    assert own.parent.span_id == outside.get_span_context().span_id
    assert sent.get("traceparent") == (traceparent_of(own) if is_sent else None)
    assert "baggage" not in sent
    assert lists
    assert [each for each in lists if set(HIDDEN) & set(each)] == []


@pytest.mark.parametrize("era", ["2026-07-28", "legacy"])
async def test_the_trace_of_a_client_goes_on(telemetry: Telemetry, era: str) -> None:
    """A call is part of the trace of the client that has made it, over HTTP."""
    async with make_engine() as engine:

        @engine.tool(description="Adds.")
        async def add(a: int, b: int) -> int:
            return a + b

        meta: dict[str, Any] = {}
        outside = telemetry.tracer.start_span("client")
        inject(meta, set_span_in_context(outside))
        with instrument(engine, telemetry.tracers):
            async with (
                serving(MCPServer(engine).app()) as url,
                Client(f"{url}/mcp", mode=era) as client,
            ):
                await client.call_tool("add", {"a": 1, "b": 2}, meta=meta)  # type: ignore[arg-type]
                await client.call_tool("add", {"a": 1, "b": 2})
    first, second = telemetry.spans("execute_tool add")
    assert parent_of(first) == outside.get_span_context().span_id
    assert first.context.trace_id == outside.get_span_context().trace_id
    assert parent_of(second) is None
