"""Does an operator see what runs, what waits and why, and what another limit would do?"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.server.conftest import BOUND, Service, write_tokens
from tests.studio.conftest import Browser
from tool_engine import ConcurrencyConfig, ToolEngine, ToolExecutionContext
from tool_engine.access import streams
from tool_engine.studio.pages.timeline import draw_timeline


@pytest.fixture
async def busy(engine: ToolEngine) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """A bucket with one slot: a call of ann's holds it, one of hers and one of bob's wait."""
    engine.controller.configure(ConcurrencyConfig(max_concurrent=5, bucket_limits={"one": 1}))
    started = asyncio.Event()

    @engine.tool(effect="read", concurrency={"bucket": "one"})
    async def hold() -> None:
        """Hold a slot."""
        started.set()
        await asyncio.Event().wait()

    calls = []
    for name in ("ann", "ann", "bob"):
        context = ToolExecutionContext(caller_id=name)
        calls.append(asyncio.create_task(engine.execute("hold", {}, context)))
        async with asyncio.timeout(BOUND):
            await started.wait()
    while len(engine.controller.snapshot().waiting) < 2:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.01)
    yield calls
    for each in calls:
        each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_who_holds_and_who_waits(olga: Browser, engine: ToolEngine, busy: list[Any]) -> None:
    snapshot = engine.controller.snapshot()
    shown = await olga.open("/studio/")
    calls = [each.call_id for each in snapshot.held] + [each.call_id for each in snapshot.waiting]
    assert [each for each in calls if str(each) not in shown.text] == []
    assert "1 / 1" in shown.words
    # Why, and behind whom: the holder stands in the row of the first that waits.
    row = shown.text[shown.text.index("Waits, the next one first") :]
    assert str(snapshot.held[0].call_id) in row[: row.index("</tr>", row.index("<td"))]


async def test_an_adaptive_limit(olga: Browser, engine: ToolEngine) -> None:
    """Between which bounds it finds itself, whether it is frozen, and why it is what it is."""
    policy = {"kind": "aimd", "min": 2, "max": 50}
    for is_frozen in (False, True):
        adaptive: Any = {"custom": {**policy, "freeze": is_frozen}}
        engine.controller.configure(ConcurrencyConfig(adaptive=adaptive))
        await engine.execute("add", {"a": 1, "b": 1})
        words = (await olga.open("/studio/")).words
        assert "adaptive 2–50" in words
        assert ("adaptive 2–50, frozen" in words) is is_frozen
        reason = engine.controller.snapshot().buckets["custom"]["adaptive"]["reason"]
        assert str(reason) in words


async def test_others_are_not_seen(ann: Browser, engine: ToolEngine, busy: list[Any]) -> None:
    """One that does not operate sees its own calls, and ends no other one."""
    snapshot = engine.controller.snapshot()
    shown = await ann.open("/studio/")
    of_bob = str(snapshot.waiting[1].call_id)
    assert str(snapshot.waiting[0].call_id) in shown.text
    assert of_bob not in shown.text
    await ann.send(f"/studio/live/calls/{of_bob}/stop")
    assert len(engine.controller.snapshot().waiting) == 2
    await ann.send(f"/studio/live/calls/{snapshot.held[0].call_id}/stop")
    async with asyncio.timeout(BOUND):
        assert (await busy[0]).error_type == "cancelled"


@pytest.mark.usefixtures("busy")
async def test_links_lead_to_what_one_may_see(
    studio: Service, olga: Browser, engine: ToolEngine
) -> None:
    """Behind whom a call waits is a link, to one's own calls; others have no names."""
    first, of_bob = (str(each.call_id) for each in engine.controller.snapshot().waiting)
    async with Browser(studio.url) as bob:
        await bob.sign_in("token-of-bob")
        shown = await bob.open("/studio/")
    linked = re.compile(r'href="/studio/history/calls/([^"]+)"')
    assert set(linked.findall(shown.text)) == {of_bob}
    assert "another call is the first of its line" in shown.words
    assert first[-8:] not in shown.text
    assert first in linked.findall((await olga.open("/studio/")).text)


async def test_what_if(olga: Browser, engine: ToolEngine) -> None:
    """The newest calls are replayed under another limit, which is then set with one click."""
    for number in range(3):
        await engine.execute("add", {"a": number, "b": 1})
    shown = await olga.open("/studio/live/what-if?bucket=custom&limit=8")
    assert "The last 3 calls of all buckets, as they went and with 8 slots" in shown.words
    assert "Calls that ran 3 3 Calls that did not 0 0" in shown.words
    assert "_" not in shown.words  # words of people, no names of fields
    assert engine.controller.config.bucket_limits == {}
    await olga.open("/studio/")
    await olga.send("/studio/live/limits", {"bucket": "custom", "limit": "8"})
    assert engine.controller.config.bucket_limits == {"custom": 8}
    await olga.send("/studio/live/limits", {"bucket": "*", "limit": "7"})
    assert engine.controller.config.max_concurrent == 7


@pytest.mark.parametrize("limit", ["", "-1", "x", "1.5", "9" * 30])
async def test_limits_that_are_none(olga: Browser, engine: ToolEngine, limit: str) -> None:
    await olga.open("/studio/")
    before = engine.controller.config
    refused = await olga.send("/studio/live/limits", {"bucket": "custom", "limit": limit})
    assert refused.status == 422
    assert engine.controller.config == before


async def test_pause_and_resume(olga: Browser, engine: ToolEngine) -> None:
    await olga.open("/studio/")
    shown = await olga.send("/studio/live/pause")
    assert "Paused: no call starts" in shown.words
    assert engine.controller.snapshot().is_paused
    assert "Paused" not in (await olga.send("/studio/live/resume")).words
    assert not engine.controller.snapshot().is_paused
    assert (await olga.send("/studio/live/explode")).status == 404


async def test_drain_in_two_steps(olga: Browser, engine: ToolEngine) -> None:
    """It is asked first what becomes of calls; resume is offered where there is what to resume."""
    first = await olga.open("/studio/")
    assert "/live/resume" not in first.text
    asked = await olga.open("/studio/live/drain")
    assert "Take no more calls?" in asked.words
    assert (await engine.execute("add", {"a": 1, "b": 2})).is_success
    shown = await olga.send("/studio/live/drain")
    assert "Draining: what runs and waits goes on" in shown.words
    assert "/live/resume" in shown.text
    assert "/live/drain" not in shown.text
    assert not (await engine.execute("add", {"a": 1, "b": 2})).is_success
    shown = await olga.send("/studio/live/resume")
    assert "Draining" not in shown.words
    assert "/live/resume" not in shown.text
    assert (await engine.execute("add", {"a": 1, "b": 2})).is_success


def test_a_slot_is_one_row() -> None:
    """Calls one after the other stand in one row, also those too short to be seen."""
    end = datetime.now(UTC)
    start = end - timedelta(minutes=5)

    def record(number: int, at: float, seconds: float) -> dict[str, Any]:
        ended = start + timedelta(seconds=at + seconds)
        return {
            "reached_executor": True,
            "created_at": ended.isoformat(),
            "execution_time": seconds,
            "call_id": str(number),
            "tool_name": "add",
            "bucket": "one",
            "error_type": None,
        }

    in_turn = [record(number, 10 + number * 0.01, 0.009) for number in range(50)]
    (strip,) = draw_timeline(in_turn, [], start, end).strips
    assert {bar.y for bar in strip.bars} == {0}
    beside = [record(number, 10.0, 5.0) for number in range(3)]
    (strip,) = draw_timeline(beside, [], start, end).strips
    assert len({bar.y for bar in strip.bars}) == 3


async def test_the_timeline(olga: Browser, engine: ToolEngine) -> None:
    """A call that ended, one that failed and one that runs have their bars; a refused one none."""
    await engine.execute("add", {"a": 1, "b": 2})
    await engine.execute("add", {"a": "x"})
    running = asyncio.create_task(engine.execute("endless", {}))
    while not engine.controller.snapshot().held:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.01)
    shown = await olga.open("/studio/live/timeline")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert sorted(re.findall(r'<rect class="(\w+)"', shown.text)) == ["running", "succeeded"]


async def read_until(answer: aiohttp.ClientResponse, text: str) -> str:
    said = ""
    async with asyncio.timeout(BOUND):
        while text not in said:
            piece = await answer.content.readany()
            assert piece, f"the stream ended: {said[-300:]}"
            said += piece.decode()
    return said


async def test_the_view_follows(olga: Browser, engine: ToolEngine) -> None:
    """Each change is sent, as a part of the page."""
    async with olga._http.get(olga.url + "/studio/live/stream") as answer:
        await read_until(answer, "0<span")
        call = asyncio.create_task(engine.execute("endless", {}))
        said = await read_until(answer, "endless")
        assert "<html" not in said
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await read_until(answer, "0<span")


async def test_a_view_ends_with_its_token(
    studio: Service, ann: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that was open when its token was taken back shows nothing more."""
    monkeypatch.setattr(streams, "_LOOK", 0.05)
    async with ann._http.get(ann.url + "/studio/live/stream") as answer:
        await read_until(answer, "0<span")
        monkeypatch.setattr("tool_engine.access.tokens._PAUSE", 0.0)
        studio.app.studio.sign_ins._auth._next_look = 0.0
        people = {"bob": {"scopes": ["read"]}}
        await asyncio.to_thread(write_tokens, tmp_path / "tokens.yaml", people)
        async with asyncio.timeout(BOUND):
            await answer.content.read()
    assert answer.content.at_eof()
    assert (await ann.open("/studio/", follows=False)).status == 303
