"""Whose task is begun next, where one owner has very many?"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tool_engine import ConcurrencyConfig, ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.background import places
from tool_engine.background.places import EACH

BOUND = 120.0
FLOOD = 80
NAME = {"name": "name", "type": "string", "description": "Which", "required": True}


class Service:
    """Engines that share tasks, each with one slot, whose tool runs on once it may."""

    def __init__(self, engines: list[ToolEngine]) -> None:
        self.engines = engines
        self.goes_on = asyncio.Event()
        self.begun: list[tuple[str | None, str]] = []
        self.begun_by: dict[int, list[str | None]] = defaultdict(list)

    async def work(self, engine: int, name: str, context: ToolExecutionContext) -> None:
        self.begun.append((context.caller_id, name))
        self.begun_by[engine].append(context.caller_id)
        await self.goes_on.wait()

    async def start(self, owner: str, count: int, tool: str = "work", **said: Any) -> list[Any]:
        context = ToolExecutionContext(caller_id=owner, **said)
        names = [f"{owner} {each}" for each in range(count)]
        # At both at once: no two of them may get the same turn.
        count_engines = len(self.engines)
        starting = (
            self.engines[place % count_engines].start(tool, {"name": name}, context)
            for place, name in enumerate(names)
        )
        return list(await asyncio.gather(*starting))


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    url, count = None, 1
    if request.param == "sqlite":
        url, count = f"sqlite:///{tmp_path}/kept.db", 2
    elif request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        url, count = await asyncio.to_thread(server.emptied_database), 2
    config = ToolEngineConfig(
        tools_directory=str(tmp_path), auto_reload=False, records=url, close_timeout=1.0
    )
    async with asyncio.timeout(BOUND), AsyncExitStack() as stack:
        service = Service([])
        for number in range(count):
            engine = ToolEngine(config, concurrency=ConcurrencyConfig(max_concurrent=1))
            await stack.enter_async_context(engine)
            await engine.load()
            for name in ("work", "mail"):
                engine.register_tool(
                    {"name": name, "description": "Works", "parameters": [NAME]},
                    partial(service.work, number),
                )
            service.engines.append(engine)
        yield service


async def test_owners_take_turns(service: Service) -> None:
    """Bob's tasks, and those of cleo's other tool, are begun between ann's, at all engines."""
    flood = await service.start("ann", FLOOD)
    others = [*await service.start("bob", 3), *await service.start("cleo", 3, "mail")]
    later = max([(await each.refresh()).message or "" for each in others[:3]])
    assert "number" in later
    assert int(later.split("number ")[1].split()[0]) <= 2 * 6
    service.goes_on.set()
    for each in (*flood, *others):
        assert (await each.wait()).is_success
    assert len(service.begun) == FLOOD + 6
    # Those that ask for a slot already go before, at each engine; then two of ann's to one of bob's
    # at most, and as many as ask then. Of two engines one may be faster: each has its own order.
    asking = len(service.engines) * (EACH + 1)
    for owners in service.begun_by.values():
        others_at = [place for place, owner in enumerate(owners) if owner in ("bob", "cleo")]
        assert max(others_at, default=0) < 2 * asking + 3 * 3
    if len(service.engines) == 1:
        names = [name for owner, name in service.begun if owner == "ann"]
        assert names == [f"ann {each}" for each in range(FLOOD)]


async def test_what_is_urgent_goes_before(service: Service) -> None:
    """Priority goes before turns."""
    flood = await service.start("ann", FLOOD)
    urgent = await service.start("bob", FLOOD, priority=1)
    service.goes_on.set()
    for each in (*flood, *urgent):
        assert (await each.wait()).is_success
    asking = len(service.engines) * (EACH + 1)
    late = [owner for owner, _ in service.begun[asking : asking + FLOOD]]
    assert late.count("ann") <= asking


async def test_questions_take_turns(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bob is asked about before all of ann's are, and his question stands second."""
    engine = service.engines[0]
    monkeypatch.setattr(places, "_ASKING", EACH)
    for each in service.engines[1:]:
        await each.close()
    del service.engines[1:]
    engine.approvals.take_questions()
    pay = {"name": "pay", "description": "Pays", "parameters": [NAME], "permission": "ask_always"}
    engine.register_tool(pay, partial(service.work, 0))
    service.goes_on.set()
    flood = await service.start("ann", 3 * EACH, "pay")

    answered: set[str] = set()

    async def list_asked() -> list[Any]:
        # The one that was answered may still be listed.
        asked = await engine.approvals.pending()
        return [each for each in asked if each.token not in answered]

    async with asyncio.timeout(BOUND):
        while len(asked := await list_asked()) < EACH:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.01)
        (bobs,) = await service.start("bob", 1, "pay")
        assert {each.principal for each in asked} == {"ann"}
        while (await bobs.refresh()).status != "input_required":
            # Those that had asked for a slot by then ask for consent beside.
            if len(asked := await list_asked()) >= EACH:
                answered.add(asked[0].token)
                await engine.approvals.answer(asked[0].token, True)
            await asyncio.sleep(0.01)
        # Behind all of ann's he would be asked after one more than these.
        assert len(answered) < 2 * EACH
        owners: list[Any] = []
        while "bob" not in owners:  # he asks a moment before it is listed
            await asyncio.sleep(0.01)
            owners = [each.principal for each in await list_asked()]
    assert owners[:2] == ["ann", "bob"]
    for each in (*flood, bobs):
        await each.cancel()
