"""A real web server on a free loopback port, and short ways to make tools for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from tool_engine.executors.http.http_executor import HTTPExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.parameter import ToolParameter
from tool_engine.model.tool import Tool, ToolCategory

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Site:
    """The server, the requests that it got, and what it answers."""

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.answer: Handler = self._echo
        self.ended: list[str] = []
        self.received = asyncio.Event()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        self.received.set()
        try:
            return await self.answer(request)
        finally:
            self.ended.append(request.path)

    async def _echo(self, request: web.Request) -> web.Response:
        return web.json_response({"path": request.raw_path, "method": request.method})


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async for found in served():
        yield found


@pytest.fixture
async def other_site() -> AsyncIterator[Site]:
    async for found in served():
        yield found


async def served() -> AsyncIterator[Site]:
    site = Site()
    app = web.Application(handler_args={"auto_decompress": False})
    app.router.add_route("*", "/{tail:.*}", site.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.port = runner.addresses[0][1]
    try:
        yield site
    finally:
        await runner.cleanup()


@pytest.fixture
async def executor() -> AsyncIterator[HTTPExecutor]:
    executor = HTTPExecutor()
    yield executor
    await executor.close()


def make_tool(
    entry: dict[str, Any], *parameters: ToolParameter | str, name: str = "sample"
) -> Tool:
    return Tool(
        id=name,
        name=name,
        version="1.0.0",
        description="A sample",
        category=ToolCategory.HTTP,
        tags=[],
        parameters=[
            ToolParameter(p, "string", required=True) if isinstance(p, str) else p
            for p in parameters
        ],
        implementation_config=entry,
    )


@pytest.fixture
def make() -> Callable[..., Tool]:
    return make_tool


@pytest.fixture
def context() -> ToolExecutionContext:
    return ToolExecutionContext()


class Run:
    """Runs a tool that may reach the loopback address."""

    def __init__(self, executor: HTTPExecutor, make: Callable[..., Tool]) -> None:
        self.executor, self.make = executor, make
        self.allow = ["127.0.0.1:*"]

    async def request(self, _allow: list[str] | None = None, **params: Any) -> Any:
        allow = self.allow if _allow is None else _allow
        tool = self.make({"handler": "http_request", "allow": allow}, "url")
        return await self.execute(tool, params)

    async def declared(
        self, request: dict[str, Any], params: dict[str, Any] | None = None, **entry: Any
    ) -> Any:
        declared = {"request": request, "allow": self.allow, **entry}
        tool = self.make(declared, *(ToolParameter(name, "string") for name in params or {}))
        if "{" in request["url"].replace("${", ""):
            tool = self.make(declared, *(params or {}))
        return await self.execute(tool, params or {})

    async def execute(self, tool: Tool, params: dict[str, Any]) -> Any:
        async with asyncio.timeout(10.0):
            return await self.executor.execute(tool, params, ToolExecutionContext())


@pytest.fixture
def run(executor: HTTPExecutor, make: Callable[..., Tool]) -> Run:
    return Run(executor, make)
