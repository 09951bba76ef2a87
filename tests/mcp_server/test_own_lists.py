"""Does a client hear that its own lists have changed, and of no others?"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.mcp_server.conftest import ERAS
from tests.mcp_server.test_transports import DEADLINE, HEADERS, META, serving
from tool_engine import ToolEngine
from tool_engine.mcp_server import MCPServer
from tool_engine.mcp_server.changes import _Audience

LISTS = ("tools", "prompts", "resources")
OLDER = {key: value for key, value in HEADERS.items() if not key.startswith("M")}


def write_tokens(folder: Path, **tools: str) -> str:
    """Tokens of these people, each for the tools of one pattern."""
    hashes = {who: hashlib.sha256(who.encode()).hexdigest() for who in tools}
    lines = [
        f'- {{name: {who}, sha256: "{hashes[who]}", tools: ["{each}"]}}'
        for who, each in tools.items()
    ]
    (folder / "tokens.yaml").write_text("\n".join(lines) + "\n")
    return str(folder / "tokens.yaml")


@asynccontextmanager
async def listen(url: str, era: str, who: str) -> AsyncIterator[list[str]]:
    """Gives the lists of which the client of a token has heard until now."""
    heard: list[str] = []

    async def read(answer: aiohttp.ClientResponse) -> None:
        async for line in answer.content:
            if line.startswith(b"data:") and b"list_changed" in line:
                method = json.loads(line[5:])["method"]
                heard.append(method.split("/")[1])

    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        said = {**HEADERS, "Authorization": f"Bearer {who}"}
        if era == "legacy":
            said = {**OLDER, "Authorization": said["Authorization"]}
            about = {"protocolVersion": "2025-11-25", "capabilities": {}}
            about["clientInfo"] = {"name": "test", "version": "1"}
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
            async with session.post(url, json=body, headers=said) as first:
                said["Mcp-Session-Id"] = first.headers["mcp-session-id"]
                await first.read()
            begun = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            async with session.post(url, json=begun, headers=said) as second:
                await second.read()
            answering = session.get(url, headers=said)
        else:
            said["Mcp-Method"] = "subscriptions/listen"
            wanted = {f"{each}ListChanged": True for each in LISTS}
            body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"}
            body["params"] = {"_meta": META, "notifications": wanted}
            answering = session.post(url, json=body, headers=said)
        answer = await stack.enter_async_context(answering)
        if era != "legacy":
            await answer.content.readline()
        reading = asyncio.create_task(read(answer))
        try:
            yield heard
        finally:
            reading.cancel()
            await asyncio.wait([reading])


class World:
    """An engine with a tool for each of two clients, who listen to what it serves."""

    def __init__(self, engine: ToolEngine) -> None:
        self.engine, self.server = engine, MCPServer(engine)
        self.heard: dict[str, list[str]] = {}
        for name in ("calc", "newc"):
            self.set_tool(name, "Counts.")
            self.set_rules(name, "Be quick.")

    def set_tool(self, name: str, text: str) -> None:
        if name in self.engine.list_names():
            self.engine.unregister_tool(name)
        self.engine.tool(name=name, description=text)(lambda: 1)

    def set_rules(self, name: str, text: str) -> None:
        if name in self.engine.groups:
            self.engine.unregister_group(name)
        self.engine.register_group({"name": name, "tools": [name], "rules": text})

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():  # noqa: ASYNC110 - clients hear of it
            await asyncio.sleep(0.01)


@asynccontextmanager
async def listened(engine: ToolEngine, tmp_path: Path, era: str) -> AsyncIterator[World]:
    world, tokens = World(engine), write_tokens(tmp_path, ann="calc*", bob="*")
    async with (
        asyncio.timeout(DEADLINE),
        serving(engine, world.server, token_file=tokens) as url,
        listen(url, era, "ann") as ann,
        listen(url, era, "bob") as bob,
    ):
        world.heard = {"ann": ann, "bob": bob}
        while not (ann and bob):
            # A stream of the older kind has begun when what comes on it is heard.
            world.server.add_resource(f"docs://{len(world.server._resources.describe())}", str)
            await asyncio.sleep(0.1)
        yield world


@pytest.mark.parametrize("era", ERAS)
async def test_who_sees_nothing_of_it_hears_nothing(
    engine: ToolEngine, tmp_path: Path, era: str
) -> None:
    """A tool that changes is told of to those that may see it, and so are rules."""
    async with listened(engine, tmp_path, era) as world:
        ann, bob = world.heard["ann"], world.heard["bob"]
        for change, name, text in (
            (world.set_tool, "newc", "Counts anew."),
            (world.set_tool, "other", "Is new."),
            (world.set_rules, "newc", "Be slow."),
        ):
            change(name, text)
            await world.until(lambda: {"tools", "prompts"} & {*bob} != set())
            bob.clear()
        # What was told before is heard before.
        world.set_tool("calc", "Counts anew.")
        await world.until(lambda: "tools" in ann)
        world.set_rules("calc", "Be slow.")
        await world.until(lambda: "prompts" in ann)
        assert [each for each in ann if each != "resources"] == ["tools", "prompts"]


async def test_what_is_not_in_the_list_is_not_told_of(engine: ToolEngine) -> None:
    """Limits, or code that is registered anew, change no word that a client reads."""
    world = World(engine)
    audiences = world.server._changes._audiences
    audiences.subscribe(lambda event: None)
    (audience,) = audiences.list_present()
    world.set_tool("calc", "Counts.")
    assert audience.find_changed() == []
    engine.unregister_tool("calc")
    engine.tool(name="calc", description="Counts.", timeout=7)(lambda: 1)
    assert audience.find_changed() == []
    world.set_tool("calc", "Counts anew.")
    assert [each.send for each in audience.find_changed()] == ["send_tool_list_changed"]


async def test_the_lists_of_many_are_compared_once(
    engine: ToolEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look costs the same for ten thousand who see the same as for one; who left is forgotten."""
    looks: list[_Audience] = []
    find_changed = _Audience.find_changed

    def count(audience: _Audience) -> Any:
        looks.append(audience)
        return find_changed(audience)

    monkeypatch.setattr(_Audience, "find_changed", count)
    world, heard = World(engine), []
    changes = world.server._changes
    ends = [
        changes._audiences.subscribe(lambda event, n=n: heard.append(n))  # type: ignore[misc]
        for n in range(10_000)
    ]
    world.set_tool("calc", "Counts anew.")
    await changes._tell_of_lists()
    assert (len(looks), sorted(heard)) == (1, [*range(10_000)])
    for end in ends:
        end()
    await changes._tell_of_lists()
    assert len(looks) == 1
    assert changes._audiences.list_present() == []
