"""Does an operator see the cluster over HTTP and in the studio, and nobody else?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from tests import warm
from tests.cluster.conftest import Make
from tests.cluster.conftest import Service as Work
from tests.cluster.crew import BOUND
from tests.server.conftest import Service, served, write_tokens
from tests.studio.conftest import Browser
from tool_engine import ToolEngine, ToolExecutionContext
from tool_engine.interfaces.admission_view import ClusterSnapshot
from tool_engine.server import create_app


async def wait_for_third(
    one: ToolEngine, other: ToolEngine, service: Work
) -> list[asyncio.Task[Any]]:
    """Two calls of one process run, and one of the other waits for them."""
    calls = [asyncio.create_task(one.execute("work")) for _ in range(2)]
    await service.until(2)
    calls.append(asyncio.create_task(other.execute("work")))
    async with asyncio.timeout(BOUND):
        assert other.cluster is not None
        while not (await other.cluster.snapshot()).waiting:  # noqa: ASYNC110 - only the database knows
            await asyncio.sleep(0.01)
    return calls


async def test_who_holds_what(make: Make, service: Work, tmp_path: Path) -> None:
    one, other = make(), make()
    await one.load()
    await other.load()
    calls = await wait_for_third(one, other, service)
    tokens = str(write_tokens(tmp_path / "tokens.yaml"))
    app = await asyncio.to_thread(create_app, one, auth=tokens, studio=True)
    async with served(app) as server:
        await check_api(server)
        await check_pages(server)
        await check_explanation(server)
        service.gate.set()
        await asyncio.gather(*calls)


async def check_api(server: Service) -> None:
    found = msgspec.convert((await server.client("olga").get("/v1/cluster")).json, ClusterSnapshot)
    assert (found.limits, found.used) == ({"bucket:ai": 2}, {"bucket:ai": 2})
    assert [(each.process, each.units) for each in found.processes] == [
        ("p0", {"bucket:ai": 2}),
        ("p1", {}),
    ]
    assert [(each.position, each.process) for each in found.waiting] == [(1, "p1")]
    assert (await server.client("ann").get("/v1/cluster")).status == 403


async def check_explanation(server: Service) -> None:
    """Who made the call sees what the database knows, without being an operator."""
    ann = server.client("ann")
    mine = asyncio.create_task(ann.call("work"))
    async with asyncio.timeout(BOUND):
        while True:
            for each in (await ann.get("/v1/calls")).json["items"]:
                found = (await ann.get(f"/v1/calls/{each['call_id']}/explanation")).json
                if (found.get("cluster") or "").startswith("number 2"):
                    expected = "number 2 for bucket:ai in the cluster, behind 1 call of p1; held by"
                    assert found["cluster"] == f"{expected} p0 (2)"
                    assert f"; of all processes: {expected}" in found["text"]
                    mine.cancel()
                    return
            await asyncio.sleep(0.01)


async def check_pages(server: Service) -> None:
    async with Browser(server.url) as olga:
        await olga.sign_in("token-of-olga")
        for path in ("/studio/", "/studio/live/cluster"):
            words = (await olga.open(path)).words
            assert "bucket:ai 2 2" in words
            assert "p0 bucket:ai 2 0 p1 – 1" in words
            assert "1 p1 bucket:ai 1" in words
    async with Browser(server.url) as ann:
        await ann.sign_in("token-of-ann")
        assert "Cluster" not in (await ann.open("/studio/")).words


async def test_a_database_that_does_not_answer(make: Make, tmp_path: Path) -> None:
    """The page shows all else, and says why this is not there."""
    engine = make(on_unavailable="local")
    await engine.load()
    tokens = str(write_tokens(tmp_path / "tokens.yaml"))
    app = await asyncio.to_thread(create_app, engine, auth=tokens, studio=True)
    async with served(app) as server:
        engine.controller.member._connection.abort()  # type: ignore[attr-defined]
        answer = await server.client("olga").get("/v1/cluster")
        assert (answer.status, answer.kind) == (503, "cluster-unavailable")
        async with Browser(server.url) as olga:
            await olga.sign_in("token-of-olga")
            engine.controller.member._connection.abort()  # type: ignore[attr-defined]
            shown = await olga.open("/studio/")
            assert shown.status == 200
            assert "does not answer" in shown.words


async def test_an_engine_of_its_own(tmp_path: Path) -> None:
    async with ToolEngine() as engine:
        tokens = str(write_tokens(tmp_path / "tokens.yaml"))
        app = await asyncio.to_thread(create_app, engine, auth=tokens, studio=True)
        async with served(app) as server:
            answer = await server.client("olga").get("/v1/cluster")
            assert (answer.status, answer.kind) == (404, "no-cluster")
            async with Browser(server.url) as olga:
                await olga.sign_in("token-of-olga")
                assert "Cluster" not in (await olga.open("/studio/")).words


async def test_a_look_before_the_engine_has_loaded(make: Make) -> None:
    """It takes part from then on; it was said that its connection had ended."""
    cluster = make().cluster
    assert cluster is not None
    async with asyncio.timeout(BOUND):
        found = await cluster.snapshot()
    assert found.limits == {"bucket:ai": 2}
    assert [each.process for each in found.processes] == ["p0"]


async def test_where_a_call_stands_that_has_an_id_of_its_own(make: Make, service: Work) -> None:
    """One that shares a run stands where that one does; an id may come with the context."""
    one, other = make(bucket_limits={"ai": 1}), make(bucket_limits={"ai": 1})
    concurrency = {"bucket": "ai", "key": "tool", "collision": "single_flight"}
    other.tool(name="same", effect="read", concurrency=concurrency)(service.work)
    for engine in (one, other):
        await engine.load()
    running = asyncio.create_task(one.execute("work"))
    await service.until(1)
    ids = [other.calls.reserve_id() for _ in range(2)]
    calls = [other.execute("same", call_id=each) for each in ids]
    context = ToolExecutionContext(call_id="mine")

    async def until_waiting(count: int) -> None:
        assert other.cluster is not None
        while len((await other.cluster.snapshot()).waiting) < count:  # noqa: ASYNC110 - the database says it
            await asyncio.sleep(0.01)

    async def take_slot() -> None:
        async with other.controller.slot("ai", context=context):
            pass

    place = "number {} for bucket:ai in the cluster"
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(call)
        await until_waiting(1)
        group.create_task(take_slot())
        await until_waiting(2)
        assert other.cluster is not None
        first, shared = [await other.cluster.explain(each) for each in ids]
        assert first.startswith(place.format(1))
        assert shared == f"it shares the run of another call: {first}"
        assert (await other.cluster.explain("mine")).startswith(place.format(2))
        service.gate.set()
        await running


async def test_the_limit_of_a_key(make: Make, service: Work, url: str, tmp_path: Path) -> None:
    """It is that of each value: 2 were held of 1."""
    engine = make(bucket_limits={"ai": 29}, key_limits={"conversation_id": 1})
    await engine.load()
    calls = [
        asyncio.create_task(
            engine.execute("work", context=ToolExecutionContext.for_conversation("ann", str(talk)))
        )
        for talk in range(29)
    ]
    await service.until(29)
    status = ["-m", "tool_engine", "--cluster", url, "cluster", "status"]
    ended = await asyncio.to_thread(warm.run, status)
    assert "key:conversation_id\t1 for each value\t29\t0\t-" in ended.stdout, ended
    assert "bucket:ai 29, key:conversation_id 29 (29 values)\t0\t" in ended.stdout
    tokens = str(write_tokens(tmp_path / "tokens.yaml"))
    app = await asyncio.to_thread(create_app, engine, auth=tokens, studio=True)
    async with served(app) as server, Browser(server.url) as olga:
        await olga.sign_in("token-of-olga")
        words = (await olga.open("/studio/live/cluster")).words
        assert "key:conversation_id 29 1 for each value" in words
        assert "and 10 more" in words
        service.gate.set()
        await asyncio.gather(*calls)
