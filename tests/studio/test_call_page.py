"""Does a person see what happened to a call, and what happens to it now?"""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.server.conftest import BOUND, Service, served, write_tokens
from tests.studio.conftest import Browser, Shown
from tool_engine import ConcurrencyConfig, ToolEngine, ToolExecutionContext
from tool_engine.server import create_app
from tool_engine.studio.pages.call_timeline import draw_stages

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202egnp.\u200bexe"
ANN = ToolExecutionContext(caller_id="ann", conversation_id="c-1")


async def run(engine: ToolEngine, name: str, arguments: Any = None) -> str:
    """Calls a tool, and returns the id of the call."""
    result = await engine.execute(name, arguments or {}, ANN)
    assert result.call_id
    return result.call_id


@pytest.fixture
async def running(engine: ToolEngine, studio: Service) -> AsyncIterator[str]:
    """A call of ann's that runs; its tool speaks when it is told to."""
    begun = asyncio.Event()

    @engine.tool(effect="read")
    async def speak(context: ToolExecutionContext) -> str:
        """Speak."""
        await context.report_progress(1, 4, "a quarter")
        begun.set()
        async with asyncio.timeout(BOUND):
            for _ in range(100):
                await context.log(f"said {HOSTILE}", "warning")
                await asyncio.sleep(0.05)
        return "done"

    call_id = engine.calls.reserve_id()
    task = asyncio.create_task(engine.execute("speak", {}, ANN, call_id=call_id))
    async with asyncio.timeout(BOUND):
        await begun.wait()
    yield call_id
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def path_of(call_id: str, rest: str = "") -> str:
    return f"/studio/history/calls/{call_id}{rest}"


def stages_of(shown: Shown) -> list[str]:
    """The names of the stages in the timeline."""
    (table,) = re.findall(r'<table class="stages">.*?</table>', shown.text, re.DOTALL)
    return [
        re.sub(r"<[^>]*>", "", each).strip()
        for each in re.findall(r'<th scope="row">(.*?)</th>', table)
    ]


async def test_a_call_that_has_ended(olga: Browser, engine: ToolEngine) -> None:
    call_id = await run(engine, "add", {"a": 1, "b": 2})
    shown = await olga.open(path_of(call_id))
    assert shown.status == 200
    assert stages_of(shown) == ["Runs"]
    for words in ("succeeded", call_id, "ann", "c-1", '"a": 1', '"result": 3', "done"):
        assert words in shown.words
    assert f'href="/studio/tester?tool=add&amp;call={call_id}"' in shown.text
    assert "hx-sse:connect" not in shown.text
    assert "Stop" not in shown.words


async def test_attempts(olga: Browser, engine: ToolEngine) -> None:
    """Each has a row, and so have the pauses between them."""
    left = [1, 2]

    @engine.tool(effect="read", retry={"attempts": 3, "backoff": 0.01})
    async def flaky() -> str:
        """Fail two times."""
        if left:
            left.pop()
            raise ConnectionError("away")
        return "there"

    shown = await olga.open(path_of(await run(engine, "flaky")))
    assert stages_of(shown)[0] == "Attempt 1 execution_error"
    assert stages_of(shown)[-1] == "Attempt 3"
    assert stages_of(shown).count("Pauses before the next attempt") == 2
    assert shown.text.count('<rect class="failed"') == 2
    assert shown.text.count('<rect class="succeeded"') == 1


async def test_a_call_that_runs(olga: Browser, running: str) -> None:
    """It can be stopped, and the page then says how it ended."""
    shown = await olga.open(path_of(running))
    assert "running" in shown.words
    assert stages_of(shown) == ["Runs"]
    assert f'hx-sse:connect="{path_of(running, "/stream")}"' in shown.text
    stopped = await olga.send(path_of(running, "/stop"))
    assert stopped.url.endswith(path_of(running))
    assert "cancelled" in stopped.words
    again = await olga.send(path_of(running, "/stop"))  # pressed twice
    assert (again.status, "cancelled" in again.words) == (200, True)


async def test_what_is_heard_while_it_runs(
    olga: Browser, engine: ToolEngine, running: str, studio: Service
) -> None:
    """Progress and lines come as they happen, and the stream ends with the call."""
    cookies = {each.key: each.value for each in olga.cookies()}
    url = studio.url + path_of(running, "/stream")
    text, has_stopped = "", False
    async with (
        asyncio.timeout(BOUND),
        aiohttp.ClientSession(cookies=cookies) as http,
        http.get(url) as answer,
    ):
        async for piece in answer.content.iter_any():
            text += piece.decode()
            if "said" in text and not has_stopped:
                has_stopped = True
                assert await engine.calls.cancel(running)
    assert text.endswith("event: end\ndata: \n\n")
    last = text.rpartition("\n\ndata: ")[2]
    assert "said &lt;script&gt;" in last
    assert not re.search("[\x1b\u202e\u200b]", text)
    assert "cancelled" in last


async def test_why_it_waits(olga: Browser, engine: ToolEngine, running: str) -> None:
    """The reason stands there, and who holds what it waits for."""
    engine.controller.configure(ConcurrencyConfig(max_concurrent=1))
    call_id = engine.calls.reserve_id()
    task = asyncio.create_task(engine.execute("add", {"a": 1, "b": 2}, ANN, call_id=call_id))
    async with asyncio.timeout(BOUND):
        while not engine.controller.snapshot().waiting:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
    shown = await olga.open(path_of(call_id))
    assert "Why it waits" in shown.words
    assert f'href="{path_of(running)}"' in shown.text
    assert stages_of(shown) == ["Waits for a slot"]
    await engine.calls.cancel(running)
    await task
    shown = await olga.open(path_of(call_id))
    assert "Why it waits" not in shown.words
    assert stages_of(shown) == ["Waits for a slot", "Runs"]


async def test_a_tree_of_calls(olga: Browser, engine: ToolEngine) -> None:
    """What a call has made stands below it, and what made it before it."""

    @engine.tool(effect="read")
    async def top(context: ToolExecutionContext) -> int:
        """Call the middle two times, and one that fails."""
        for _ in range(2):
            await engine.execute("middle", {}, context)
        await engine.execute("note", {}, context)
        return 1

    @engine.tool(effect="read")
    async def middle(context: ToolExecutionContext) -> int:
        """Call the bottom."""
        await engine.execute("add", {"a": 1, "b": 2}, context)
        return 2

    shown = await olga.open(path_of(await run(engine, "top")))
    tree = re.sub(r"\s+", " ", shown.text[shown.text.index('<ul class="tree">') :])
    tree = tree[: tree.index("</section>")]
    names = re.findall(r"<bdi>([^<]+)</bdi></a> <span class=\"tag (\w+)", tree)
    assert names == [
        ("middle", "ok"), ("add", "ok"), ("middle", "ok"), ("add", "ok"), ("note", "bad")
    ]  # fmt: skip
    (lowest,) = (await engine.query_call_records(tool_name="add"))[:1]
    assert lowest.call_id
    shown = await olga.open(path_of(lowest.call_id))
    assert "Made by top › middle › add" in shown.words


async def test_a_tree_that_is_wide_and_deep(olga: Browser, engine: ToolEngine) -> None:
    """A page shows a part of it, and where the rest is."""

    @engine.tool(effect="read")
    async def dig(context: ToolExecutionContext, depth: int) -> int:
        """Call itself.

        Args:
            depth: How often.
        """
        for number in range(60 if depth == 40 else 1):
            if depth > 0:
                await engine.execute("dig", {"depth": depth - 1 if number == 0 else 0}, context)
        return depth

    engine.controller.configure(ConcurrencyConfig(max_concurrent=100))
    call_id = await run(engine, "dig", {"depth": 40})
    shown = await olga.open(path_of(call_id))
    assert f'href="/studio/history?parent={call_id}"' in shown.text
    assert 10 < shown.text.count("<li>") < 100
    text = shown.text[shown.text.index('<ul class="tree">') :]
    while left := re.search(r'<li><a [^>]*hx-get="([^"]*)"[^>]*>[^<]*</a></li>', text):
        more = await olga.open(html.unescape(left[1]))
        assert calls_of(more.text)
        text = text[: left.start()] + more.text + text[left.end() :]
    seen = calls_of(text)
    assert len(seen) == len(set(seen)) == 40 + 59
    *_, first = await engine.query_call_records(parent_call_id=call_id)
    assert seen[0] == first.call_id


def calls_of(text: str) -> list[str]:
    """The ids of the calls of a tree, as it is read."""
    return re.findall(r'<li><a href="/studio/history/calls/([^"]+)">', text)


async def test_what_is_below_a_call_of_another(ann: Browser, engine: ToolEngine) -> None:
    @engine.tool(effect="read")
    async def top(context: ToolExecutionContext) -> None:
        """Call one."""
        await engine.execute("add", {"a": 1, "b": 2}, context)

    theirs = await engine.execute("top", {}, ToolExecutionContext(caller_id="bob"))
    shown = await ann.open(path_of(theirs.call_id or "", "/below"))
    assert (calls_of(shown.text), "It made no calls." in shown.words) == ([], True)


async def test_what_a_tool_said_is_kept(olga: Browser, engine: ToolEngine) -> None:
    """The last lines are there when the page is opened after the end, inert."""

    @engine.tool(effect="read")
    async def speak(context: ToolExecutionContext) -> None:
        """Speak."""
        for number in range(130):
            await context.log(f"line {number}. {HOSTILE}", "warning")

    shown = await olga.open(path_of(await run(engine, "speak")))
    assert "30 lines before these are not shown." in shown.words
    assert "line 129. <script>" in shown.words
    assert "line 29." not in shown.words
    assert "<script>alert" not in shown.text
    assert "lines_before" not in shown.words
    silent = await olga.open(path_of(await run(engine, "add", {"a": 1, "b": 2})))
    assert "The last lines of a call are kept with its events." in silent.words


async def test_long_values_are_cut(olga: Browser, engine: ToolEngine) -> None:
    """The page has the beginning, and the record can be kept whole."""
    text = "long " * 200_000

    async def tell() -> str:
        return text

    engine.register_tool(
        {"name": "tell", "description": "Tell.", "result": {"max_chars": 1000}}, tell
    )
    call_id = await run(engine, "tell")
    shown = await olga.open(path_of(call_id))
    assert len(shown.text) < 100_000
    assert "only the beginning is kept" in shown.words
    kept = await olga.open(path_of(call_id, "/record"))
    assert kept.headers["content-disposition"] == f'attachment; filename="{call_id}.json"'
    assert json.loads(kept.text)["result"] == {"result": text}


async def test_hostile_values(olga: Browser, engine: ToolEngine) -> None:
    """They are shown as text."""
    call_id = await run(engine, HOSTILE, {HOSTILE: f"javascript:{HOSTILE}"})
    shown = await olga.open(path_of(call_id))
    assert shown.status == 200
    assert "<script>alert" not in shown.text
    assert not re.search("[\x1b\u202e\u200b]", shown.text)
    assert 'href="javascript:' not in shown.text


async def test_calls_of_others(ann: Browser, engine: ToolEngine, running: str) -> None:
    """They are not there, whether they run or have ended."""
    theirs = await engine.execute("add", {"a": 1, "b": 2}, ToolExecutionContext(caller_id="bob"))
    for call_id in (theirs.call_id or "", "none", "../tools", "%2e%2e%2fx"):
        for rest in ("", "/stream", "/record"):
            assert "result" not in (shown := await ann.open(path_of(call_id, rest))).words
            assert shown.status in (200, 404)  # a stream that ends at once
    assert (await ann.send(path_of(theirs.call_id or "", "/stop"))).status == 404
    assert (await ann.open(path_of(running))).status == 200


async def test_one_that_may_only_read(studio: Service, engine: ToolEngine) -> None:
    """What has ended is shown; nothing is offered that takes more."""
    result = await engine.execute("add", {"a": 1, "b": 2}, ToolExecutionContext(caller_id="reader"))
    async with Browser(studio.url) as reader:
        await reader.sign_in("token-of-reader")
        shown = await reader.open(path_of(result.call_id or ""))
        assert "succeeded" in shown.words
        assert "Run again" not in shown.words
        assert (await reader.open(path_of(result.call_id or "", "/stream"))).status == 403
        assert (await reader.send(path_of(result.call_id or "", "/stop"))).status == 403
        assert "Tasks" not in shown.words


async def test_where_no_events_are_kept(tmp_path: Path) -> None:
    """The timeline is made of the record, and the page says how events are kept."""
    async with ToolEngine() as engine:

        @engine.tool(effect="read")
        async def one() -> int:
            """Return one."""
            return 1

        call_id = await run(engine, "one")
        app = await asyncio.to_thread(
            create_app, engine, auth=str(write_tokens(tmp_path / "t")), studio=True
        )
        async with served(app) as service, Browser(service.url) as olga:
            await olga.sign_in("token-of-olga")
            shown = await olga.open(path_of(call_id))
    assert stages_of(shown) == ["Runs"]
    assert "This engine keeps no events" in shown.words
    assert "set keep_events" in shown.words


def event(event_type: str, seconds: float, /, **data: Any) -> dict[str, Any]:
    return {"event_type": event_type, "timestamp": (START + timedelta(seconds=seconds)).isoformat(),
            "data": data}  # fmt: skip


START = datetime(2026, 1, 1, tzinfo=UTC)
RECORD = {
    "created_at": (START + timedelta(seconds=10)).isoformat(),
    "execution_time": 4.0,
    "queue_wait": 2.0,
    "reached_executor": True,
    "attempts": 3,
    "outcome": "timeout",
    "error_type": "timeout",
}


@pytest.mark.parametrize(
    ("events", "record", "stages"),
    [
        ([], RECORD, [("queue", 0, 2, "succeeded"), ("attempt", 2, 4, "timeout")]),
        (
            [],
            {**RECORD, "reached_executor": False, "outcome": "rejected", "execution_time": 0.0},
            [("queue", 0, 2, "rejected")],
        ),
        (
            [
                event("approval_requested", 0, kind="execution"),
                event("approval_answered", 1, is_approved=True),
                event("execution_queued", 1),
                event("execution_started", 3),
                event("execution_retried", 6, attempt=2, delay=1, error_type="timeout"),
                event("execution_failed", 10),
            ],
            RECORD,
            [
                ("consent", 0, 1, "succeeded"),
                ("queue", 1, 2, "succeeded"),
                ("attempt", 3, 2, "timeout"),
                ("pause", 5, 1, "succeeded"),
                ("attempt", 6, 4, "timeout"),
            ],
        ),
        (
            [
                event("approval_requested", 0, kind="execution"),
                event("approval_answered", 4, is_approved=False),
                event("execution_failed", 4),
            ],
            {**RECORD, "reached_executor": False, "queue_wait": 0.0, "outcome": "rejected"},
            [("consent", 0, 4, "rejected")],
        ),
        ([event("execution_queued", 17)], None, [("queue", 0, 3, "running")]),
        ([], None, [("consent", 0, 7, "running")]),
    ],
)
def test_what_a_timeline_shows(events: Any, record: Any, stages: Any) -> None:
    state = {"state": "asking", "seconds": 7.0}
    found = draw_stages(state, record, events, START + timedelta(seconds=20))
    assert [(e.kind, round(e.offset), round(e.seconds), e.outcome) for e in found] == stages
    assert all(0 <= e.x < e.x + e.width <= 1000 for e in found)
