"""Does a person see how far tasks are, what they wait for, and how they ended?"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.server.conftest import BOUND, Service
from tests.studio.conftest import Browser, Shown
from tool_engine import ConcurrencyConfig, ToolEngine, ToolExecutionContext

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202egnp.\u200bexe"


@pytest.fixture(autouse=True)
async def end_tasks(engine: ToolEngine) -> AsyncIterator[None]:
    """An engine that closes would wait for those that never end."""
    yield
    for each in await engine.tasks.list(limit=1000):
        await engine.tasks.cancel(each.id)


async def start(engine: ToolEngine, name: str, arguments: Any = None, owner: str = "ann") -> Any:
    return await engine.start(name, arguments or {}, ToolExecutionContext(caller_id=owner))


async def start_endless(engine: ToolEngine) -> Any:
    """A task that has come half of its way, and never ends."""
    task = await start(engine, "endless")
    async with asyncio.timeout(BOUND):
        while task.progress is None:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    return task


def rows_of(shown: Shown) -> list[str]:
    return re.findall(r'<tr id="task-([^"]+)"', shown.text)


async def test_no_task(olga: Browser) -> None:
    assert "There are no tasks." in (await olga.open("/studio/tasks")).words


async def test_tasks(olga: Browser, engine: ToolEngine) -> None:
    """Each is a row, the newest first, with its progress, and a button while it goes on."""
    runs = await start_endless(engine)
    done = await start(engine, "add", {"a": 1, "b": 2})
    await done.wait(BOUND)
    asks = await start(engine, "pay", {"amount": 1})
    async with asyncio.timeout(BOUND):
        while asks.status != "input_required":  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    shown = await olga.open("/studio/tasks")
    assert rows_of(shown) == [asks.id, done.id, runs.id]
    assert 'value="0.5000"' in shown.text
    for words in ("50 % half", "running", "succeeded", "waits for a person"):
        assert words in shown.words
    assert len(re.findall(r'action="/studio/tasks/[^"]+/cancel"', shown.text)) == 2


async def test_what_a_task_waits_for(olga: Browser, engine: ToolEngine) -> None:
    """A queued one says it, in the list and on its page."""
    engine.controller.configure(ConcurrencyConfig(max_concurrent=1))
    await start_endless(engine)
    waits = [await start(engine, "add", {"a": each, "b": 2}) for each in range(3)]
    for path in ("/studio/tasks", f"/studio/tasks/{waits[0].id}"):
        shown = await olga.open(path)
        assert "waits for a slot" in shown.words
        assert re.search("waited .* as number 1 for bucket", shown.words)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("status=running", 1),
        ("status=succeeded", 2),
        ("tool=endless", 1),
        ("tool=add&owner=bob", 1),
        ("owner=bob&status=running", 0),
        ("status=&tool=&owner=", 3),
    ],
)
async def test_filters(olga: Browser, engine: ToolEngine, query: str, count: int) -> None:
    await start_endless(engine)
    for owner in ("ann", "bob"):
        task = await start(engine, "add", {"a": 1, "b": 2}, owner)
        await task.wait(BOUND)
    shown = await olga.open(f"/studio/tasks?{query}")
    assert len(rows_of(shown)) == count
    assert count or "No task matches." in shown.words
    address = re.search(r'id="rows" hx-get="([^"]+)"', shown.text)
    assert address
    polled = await olga.open(address[1].replace("&amp;", "&"), hx_request="true")
    assert rows_of(polled) == rows_of(shown)
    assert "<html" not in polled.text


@pytest.mark.parametrize(
    ("query", "status"), [("status=nice", 400), ("cursor=nix", 404), ("cursor=bml4", 404)]
)
async def test_filters_that_cannot_be(olga: Browser, query: str, status: int) -> None:
    shown = await olga.open(f"/studio/tasks?{query}")
    assert shown.status == status
    assert 'role="alert"' in shown.text
    assert 'name="status"' in shown.text


async def test_pages(olga: Browser, engine: ToolEngine) -> None:
    """All tasks are on some page, each once."""
    for number in range(120):
        await start(engine, "add", {"a": number, "b": 0})
    seen, path = [], "/studio/tasks?tool=add"
    while path:
        shown = await olga.open(path)
        seen += rows_of(shown)
        following = re.search(r'<a rel="next" href="([^"]+)"', shown.text)
        path = following[1].replace("&amp;", "&") if following else ""
    assert len(seen) == len(set(seen)) == 120


async def test_a_task(olga: Browser, engine: ToolEngine) -> None:
    """Its page moves while it runs, and stays as it ended; pressing twice does no harm."""
    task = await start_endless(engine)
    path = f"/studio/tasks/{task.id}"
    shown = await olga.open(path)
    assert f'hx-get="{path}"' in shown.text
    assert f'href="/studio/history/calls/{task.state.call_id}"' in shown.text
    part = await olga.open(path, hx_request="true")
    assert part.text.startswith('<div id="task" hx-get=')
    cancelled = await olga.send(f"{path}/cancel")
    assert (cancelled.status, "cancelled" in cancelled.words) == (200, True)
    assert "olga wished so" in cancelled.words
    assert (await olga.send(f"{path}/cancel")).status == 200
    assert "hx-get" not in (await olga.open(path, hx_request="true")).text


async def test_a_long_result(olga: Browser, engine: ToolEngine) -> None:
    """The page has its beginning, the list nothing of it, and the whole can be kept."""
    rows = [{"n": each, "text": HOSTILE} for each in range(100_000)]

    @engine.tool(effect="read")
    async def many() -> list[Any]:
        """Return many rows."""
        return rows

    task = await start(engine, "many")
    await task.wait(BOUND)
    shown = await olga.open(f"/studio/tasks/{task.id}")
    assert 20_000 < len(shown.text) < 150_000
    assert "<script>alert" not in shown.text
    assert not re.search("[\x1b\u202e\u200b]", shown.text)
    assert len((await olga.open("/studio/tasks")).text) < 20_000
    kept = await olga.open(f"/studio/tasks/{task.id}/result")
    assert len(json.loads(kept.text)["result"]["output"]["result"]) == 100_000


async def test_hostile_words(olga: Browser, engine: ToolEngine) -> None:
    """What a tool says of its progress and its failure is text."""

    @engine.tool(effect="read")
    async def lie(context: ToolExecutionContext) -> None:
        """Lie."""
        await context.report_progress(1, 2, HOSTILE)
        raise ValueError(HOSTILE)

    task = await start(engine, "lie", owner=f'"><img src=x>{HOSTILE}')
    await task.wait(BOUND)
    for path in ("/studio/tasks", f"/studio/tasks/{task.id}"):
        shown = await olga.open(path)
        assert "failed" in shown.words
        assert "<script>alert" not in shown.text
        assert "<img" not in shown.text
        assert not re.search("[\x1b\u202e\u200b]", shown.text)


async def test_tasks_of_others(ann: Browser, studio: Service, engine: ToolEngine) -> None:
    """They are not there, to see or to cancel."""
    theirs = await start(engine, "endless", owner="bob")
    mine = await start(engine, "add", {"a": 1, "b": 2})
    for query in ("", "?owner="):
        shown = await ann.open(f"/studio/tasks{query}")
        assert rows_of(shown) == [mine.id]
        assert 'name="owner"' not in shown.text
    assert rows_of(await ann.open("/studio/tasks?owner=bob")) == []
    for rest in ("", "/result"):
        refused = await ann.open(f"/studio/tasks/{theirs.id}{rest}")
        assert (refused.status, "there is no task" in refused.words) == (404, True)
    assert (await ann.send(f"/studio/tasks/{theirs.id}/cancel")).status == 404
    assert theirs.status in ("queued", "running")
