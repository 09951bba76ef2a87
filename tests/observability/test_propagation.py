"""Do services and worker processes learn of the trace of a call, those and no others?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.calls.audit import make_engine
from tests.calls.samples import bare
from tests.observability.telemetry import Telemetry, traceparent_of
from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.errors import ConfigurationError
from tool_engine.observability.opentelemetry import instrument
from tool_engine.observability.spans import TraceHeaders

FOREIGN = "00-11111111111111111111111111111111-2222222222222222-01"


class Site:
    """A service that keeps the headers of the requests that it gets."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        self.redirect: str | None = None
        self.port = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if self.redirect is not None:
            target, self.redirect = self.redirect, None
            return web.Response(status=302, headers={"Location": target})
        return web.json_response({})

    def get(self, name: str) -> list[str | None]:
        return [headers.get(name) for headers in self.headers]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    server = web.TCPSite(runner, "127.0.0.1", 0)
    await server.start()
    made.port = runner.addresses[0][1]
    yield made
    await runner.cleanup()


def http_engine(site: Site, host: str = "127.0.0.1", **headers: str) -> ToolEngine:
    engine = make_engine()
    url = f"http://{host}:{site.port}/"
    request = {"method": "GET", "url": url, **({"headers": headers} if headers else {})}
    allow = [f"127.0.0.1:{site.port}", f"localhost:{site.port}"]
    entry = {"type": "http", "handler": "http_request", "request": request, "allow": allow}
    engine.register_tool(bare("fetch", category="http", entry=entry))
    return engine


@pytest.mark.parametrize(
    ("hosts", "is_told"),
    [
        ((), False),
        (("127.0.0.1",), True),
        (("*",), True),
        ("*", True),
        (("api.example.com",), False),
    ],
)
async def test_http_propagation(
    hosts: Any, is_told: bool, telemetry: Telemetry, site: Site
) -> None:
    """A request carries the trace to the hosts that were named, and to no others."""
    engine = http_engine(site)
    with instrument(engine, telemetry.tracers, propagate_to=hosts):
        result = await engine.execute("fetch")
    assert result.is_success, result.error
    await engine.execute("fetch")
    await engine.close()
    expected = traceparent_of(telemetry.span("execute_tool fetch")) if is_told else None
    assert site.get("traceparent") == [expected, None]


async def test_own_headers_stay(telemetry: Telemetry, site: Site) -> None:
    """A tool that names a trace itself keeps its header, and ours are not mixed with it."""
    engine = http_engine(site, TraceParent=FOREIGN)
    with instrument(engine, telemetry.tracers, propagate_to="*"):
        result = await engine.execute("fetch")
    await engine.close()
    assert result.is_success, result.error
    assert site.get("traceparent") == [FOREIGN]
    assert site.get("tracestate") == [None]


async def test_redirected_propagation(telemetry: Telemetry, site: Site) -> None:
    """A request that is redirected to a host that was not named does not tell it of the trace."""
    engine = http_engine(site)
    site.redirect = f"http://localhost:{site.port}/"
    with instrument(engine, telemetry.tracers, propagate_to=["127.0.0.1"]):
        result = await engine.execute("fetch")
    await engine.close()
    assert result.is_success, result.error
    told = traceparent_of(telemetry.span("execute_tool fetch"))
    assert site.get("traceparent") == [told, None]


async def test_baggage_stays(telemetry: Telemetry, site: Site) -> None:
    """What the program keeps in its baggage leaves with no request."""
    from opentelemetry import baggage, context

    engine = http_engine(site)
    token = context.attach(baggage.set_baggage("user", "secret"))
    try:
        with instrument(engine, telemetry.tracers, propagate_to="*"):
            await engine.execute("fetch")
    finally:
        context.detach(token)
    await engine.close()
    assert site.get("baggage") == [None]
    assert "secret" not in str(site.headers)


@pytest.mark.parametrize(
    ("hosts", "host", "is_told"),
    [
        (["api.example.com"], "API.example.com.", True),
        (["API.example.com"], "api.example.com", True),
        (["*.example.com"], "api.example.com", True),
        (["*.example.com"], "a.b.example.com", True),
        (["*.example.com"], "example.com", False),
        (["*.example.com"], "badexample.com", False),
        (["example.com"], "api.example.com", False),
        (["*"], "anything", True),
        ([], "api.example.com", False),
        ([], None, True),
    ],
)
def test_hosts(hosts: list[str], host: str | None, is_told: bool, telemetry: Telemetry) -> None:
    """Names of hosts are compared without case; `*.` stands for what is below, not for itself."""
    with telemetry.tracer.start_as_current_span("now"):
        assert bool(TraceHeaders(hosts).headers_for(host)) is is_told


@pytest.mark.parametrize(
    "host", ["", "*.", "http://a.b", "a.b:80", "a.*", "a/b", "**", None, 1, "a@b", "a b"]
)
def test_wrong_hosts(host: Any) -> None:
    """What is no host is refused, where it would match nothing."""
    with pytest.raises(ConfigurationError, match="is not a host"):
        TraceHeaders([host])


HANDLERS = """
import os
from opentelemetry import trace

def seen():
    context = trace.get_current_span().get_span_context()
    return [f"{context.trace_id:032x}", f"{context.span_id:016x}", os.environ.get("TRACEPARENT")]

async def seen_async():
    return seen()

def fails():
    raise ValueError
"""
BARE_HANDLERS = """
import os, sys

def seen():
    return [os.environ.get("TRACEPARENT"), "opentelemetry" in sys.modules]
"""


def python_engine(
    folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, handlers: str, *names: str
) -> ToolEngine:
    (folder / f"{module}.py").write_text(handlers)
    monkeypatch.syspath_prepend(str(folder))
    tools = folder / "tools"
    tools.mkdir()
    for name in names:
        (tools / f"{name}.yaml").write_text(
            f"name: {name}\ndescription: What a worker sees\n"
            f"entry: {{type: custom, handler: '{module}:{name}', "
            "config: {isolation: process, workers: 1}}\n"
        )
    return ToolEngine(ToolEngineConfig(tools_directory=str(tools), auto_reload=False))


async def test_worker_processes(
    telemetry: Telemetry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler in a worker process finds the span of its call, and none after it."""
    names = ("seen", "seen_async", "fails")
    engine = python_engine(tmp_path, monkeypatch, "traced_handlers", HANDLERS, *names)
    async with asyncio.timeout(60), engine:
        with instrument(engine, telemetry.tracers):
            await engine.execute("fails")
            found = {name: (await engine.execute(name)).output for name in names[:2]}
        after = await engine.execute("seen")
    for name in names[:2]:
        span = telemetry.span(f"execute_tool {name}")
        told = traceparent_of(span)
        _, trace_id, span_id, _ = told.split("-")
        assert found[name] == {"result": [trace_id, span_id, told]}
    assert after.output == {"result": ["0" * 32, "0" * 16, None]}


async def test_worker_without_opentelemetry(
    telemetry: Telemetry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that has no use for OpenTelemetry finds the trace in its environment."""
    engine = python_engine(tmp_path, monkeypatch, "untraced_handlers", BARE_HANDLERS, "seen")
    async with asyncio.timeout(60), engine:
        with instrument(engine, telemetry.tracers):
            traced = await engine.execute("seen")
        after = await engine.execute("seen")
    told = traceparent_of(telemetry.span("execute_tool seen"))
    assert (traced.output, after.output) == ({"result": [told, False]}, {"result": [None, False]})
