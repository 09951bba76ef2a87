"""Does a link of another principal say as little as one that leads nowhere?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.server.conftest import BOUND, Service
from tests.studio.conftest import Browser
from tool_engine import ToolEngine, ToolExecutionContext

BOB = ToolExecutionContext(caller_id="bob")
PLACES = [
    ("GET", "/history/calls/{ended}"),
    ("GET", "/history/calls/{ended}/record"),
    ("GET", "/history/calls/{ended}/below"),
    ("POST", "/history/calls/{ended}/stop"),
    ("GET", "/history/calls/{present}"),
    ("GET", "/history/calls/{present}/stream"),
    ("POST", "/history/calls/{present}/stop"),
    ("POST", "/live/calls/{present}/stop"),
    ("GET", "/tester?tool=add&call={ended}"),
    ("GET", "/tasks/{task}"),
    ("GET", "/tasks/{task}/result"),
    ("POST", "/tasks/{task}/cancel"),
    ("GET", "/history?parent={ended}"),
    ("GET", "/history?task={task}"),
    ("GET", "/sessions/{session}"),
    ("POST", "/approvals/{token}"),
    ("GET", "/tools/{tool}"),
]


@pytest.fixture
async def bobs(engine: ToolEngine) -> AsyncIterator[dict[str, str]]:
    """What bob has: calls, a task, a session and a question."""
    ended = await engine.execute("add", {"a": 1, "b": 2}, BOB)
    present = engine.calls.reserve_id()
    calls = [
        asyncio.create_task(engine.execute("endless", {}, BOB, call_id=present)),
        asyncio.create_task(engine.execute("pay", {"amount": 1}, BOB)),
    ]
    task = await engine.start("note", {"text": "of bob"}, BOB)
    await task.wait(BOUND)
    await engine.store.sessions.save("of-bob", {})
    async with asyncio.timeout(BOUND):
        while not (asked := await engine.approvals.pending()):  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0.01)
        while await engine.calls.find(present) is None:  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0.01)
    yield {
        "ended": ended.call_id or "",
        "present": present,
        "task": task.id,
        "session": "of-bob",
        "token": asked[0].token,
        "tool": "pay",
    }
    for each in calls:
        each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


@pytest.mark.parametrize(("method", "place"), PLACES)
async def test_what_is_not_ones_own(
    studio: Service, engine: ToolEngine, bobs: dict[str, str], method: str, place: str
) -> None:
    """Status and words are those of a name that was made up."""
    path = f"/studio{place}".format(**bobs)
    (name,) = (each for key, each in bobs.items() if f"{{{key}}}" in place)
    made_up = "made-up-" + "x" * len(name)
    async with Browser(studio.url) as narrow:
        await narrow.sign_in("token-of-narrow")
        ask = narrow.open if method == "GET" else narrow.send
        theirs, none = await ask(path), await ask(path.replace(name, made_up))
    assert theirs.status == none.status
    assert theirs.words.replace(name, made_up) == none.words
    if method == "GET" and "/stream" not in place:
        async with Browser(studio.url) as olga:
            await olga.sign_in("token-of-olga")
            assert (await olga.open(path)).status == 200  # it is there
    present = await engine.calls.find(bobs["present"])
    assert present is not None
    assert len(await engine.approvals.pending()) == 1
