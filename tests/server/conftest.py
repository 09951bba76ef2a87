"""An engine that is served at a free port, and clients with tokens of their own."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
from yarl import URL

from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.access.listening import serve_app
from tool_engine.server import create_app
from tool_engine.server.app import App

BOUND = 20.0
SCOPES = ("call", "read", "approve", "operate")
PEOPLE: dict[str, dict[str, Any]] = {
    "ann": {"scopes": ["call", "read"]},
    "bob": {"scopes": ["call", "read"]},
    "olga": {"scopes": list(SCOPES)},
    "early": {"scopes": ["call", "read"], "priority": 3},
    "reader": {"scopes": ["read"]},
    "narrow": {"scopes": ["call", "read"], "tools": ["add", "no*"]},
    "asker": {"scopes": ["approve"]},
}


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def kind(self) -> str:
        """The kind of problem."""
        assert self.headers["content-type"] == "application/problem+json"
        return str(self.json["type"]).removeprefix("urn:tool-engine:")


class Client:
    """Sends requests with the token of a person."""

    def __init__(self, http: aiohttp.ClientSession, url: str, name: str | None) -> None:
        self.http = http
        self.url = url
        self.headers = {} if name is None else {"authorization": f"Bearer token-of-{name}"}

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **options: Any
    ) -> Answer:
        said = {**self.headers, **(headers or {})}
        address = URL(self.url + path, encoded=True)
        async with self.http.request(method, address, headers=said, **options) as answer:
            return Answer(answer.status, answer.headers, await answer.text())

    async def get(self, path: str, **headers: str) -> Answer:
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.send("GET", path, headers=said)

    async def call(self, name: str, **arguments: Any) -> Answer:
        return await self.send("POST", f"/v1/tools/{name}/calls", json={"arguments": arguments})


class Service:
    """A server that runs."""

    def __init__(self, app: App, url: str, http: aiohttp.ClientSession) -> None:
        self.app = app
        self.url = url
        self._http = http

    def client(self, name: str | None) -> Client:
        return Client(self._http, self.url, name)


def write_tokens(path: Path, people: Mapping[str, Mapping[str, Any]] = PEOPLE) -> Path:
    """Writes the token file: the token of NAME is `token-of-NAME`."""
    entries = [
        {
            "name": name,
            "sha256": hashlib.sha256(f"token-of-{name}".encode()).hexdigest(),
            **fields,
        }
        for name, fields in people.items()
    ]
    path.write_text(json.dumps(entries))  # JSON is YAML
    return path


@contextlib.asynccontextmanager
async def served(app: Any) -> AsyncIterator[Service]:
    """Serves an app at a free port."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve_app(app, "127.0.0.1", 0, ready.set_result, "", grace=1.0, on_end=app.end)
    )
    try:
        async with asyncio.timeout(BOUND), aiohttp.ClientSession() as http:
            first: set[asyncio.Future[Any]] = {serving, ready}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            yield Service(app, ready.result(), http)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ToolEngine]:
    folder = tmp_path / "tools"
    folder.mkdir()
    config = ToolEngineConfig(tools_directory=str(folder), keep_events=1000)
    async with ToolEngine(config) as engine:

        @engine.tool(effect="read")
        async def add(a: int, b: int) -> int:
            """Add two numbers.

            Args:
                a: The first.
                b: The second.
            """
            return a + b

        @engine.tool(effect="read")
        async def endless(context: ToolExecutionContext) -> None:
            """Report once, and never end."""
            await context.report_progress(1, 2, "half")
            await asyncio.Event().wait()

        @engine.tool(effect="read")
        async def note(text: str) -> str:
            """Note a text.

            Args:
                text: The text.
            """
            return text

        @engine.tool(permission="ask_always")
        async def pay(amount: int) -> str:
            """Pay.

            Args:
                amount: How much.
            """
            return f"paid {amount}"

        yield engine


@pytest.fixture
async def service(engine: ToolEngine, tmp_path: Path) -> AsyncIterator[Service]:
    tokens = write_tokens(tmp_path / "tokens.json")
    app = await asyncio.to_thread(create_app, engine, auth=str(tokens))
    async with served(app) as service:
        yield service


@pytest.fixture
def ann(service: Service) -> Client:
    return service.client("ann")


@pytest.fixture
def olga(service: Service) -> Client:
    return service.client("olga")
