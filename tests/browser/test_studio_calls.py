"""Does a person see calls and tasks move, and keep what they had in hand?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.browser.page import Page
from tests.browser.test_studio import check_own, sign_in
from tests.server.conftest import BOUND, Service
from tool_engine import ToolEngine, ToolExecutionContext

BEYOND = (
    "document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('*')]"
    ".filter((e) => e.getBoundingClientRect().right > innerWidth).map((e) => e.outerHTML)"
)
"""Asks for what stands beyond the right end of a page that has to be moved sideways."""
HOSTILE = "<img src=x onerror=alert(1)>\u202egnp"


class Steps:
    """A tool that goes on when it is let to."""

    def __init__(self) -> None:
        self.next = asyncio.Semaphore(0)
        self.ends = asyncio.Event()


@pytest.fixture
async def steps(engine: ToolEngine) -> AsyncIterator[Steps]:
    steps = Steps()

    @engine.tool(effect="read")
    async def walk(context: ToolExecutionContext) -> str:
        """Walk, one step after another."""
        for number in range(1, 100):
            await steps.next.acquire()
            if steps.ends.is_set():
                break
            await context.report_progress(number, 100, f"step {number}")
            await context.log(f"line {number} {HOSTILE}")
        await engine.execute("add", {"a": 1, "b": 2}, context)
        return "walked"

    yield steps
    steps.ends.set()
    steps.next.release()


async def start_call(engine: ToolEngine) -> tuple[str, asyncio.Task[Any]]:
    call_id = engine.calls.reserve_id()
    call = asyncio.create_task(engine.execute("walk", {}, call_id=call_id))
    async with asyncio.timeout(BOUND):
        while await engine.calls.find(call_id) is None:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    return call_id, call


async def test_a_call_is_followed_to_its_end(
    page: Page, studio: Service, engine: ToolEngine, steps: Steps
) -> None:
    """What its tool says comes as it is said; focus stays; at the end it asks no more."""
    await sign_in(page, studio)
    call_id, call = await start_call(engine)
    await page.open(f"{studio.url}/studio/history/calls/{call_id}")
    await page.evaluate("document.querySelector('a.button').focus()")
    await page.wait_for_text("Nothing yet")

    async def speak(number: int) -> None:
        steps.next.release()
        await page.wait_for_text(f"line {number} <img src=x onerror=alert(1)>")

    # A page that has just been opened hears from when it is connected.
    await page.wait_until(lambda: page.evaluate("!!document.querySelector('#call')._htmx?.sse"))
    await speak(1)
    await speak(2)
    await page.find("progressbar", "Progress")
    assert await page.evaluate("document.activeElement.textContent") == "Run again in the tester"
    steps.ends.set()
    steps.next.release()
    await page.wait_for_text("walked")
    await page.find("link", "add")
    assert "line 2" in await page.text()
    assert not await page.find_all("button", "Stop")
    await page.wait_until(lambda: page.evaluate("!document.querySelector('#call')._htmx?.sse"))
    async with asyncio.timeout(BOUND):
        await call
    check_own(page, studio)


async def test_tasks_move_under_ones_hands(
    page: Page, studio: Service, engine: ToolEngine, steps: Steps
) -> None:
    """The list is new every two seconds; what has the focus and what is typed stays."""
    await sign_in(page, studio)
    task = await engine.start("walk", {})
    await page.open(studio.url + "/studio/tasks")
    await (await page.find("searchbox", "Tool")).fill("half a na")
    await page.evaluate(f"document.getElementById('cancel-{task.id}').focus()")
    steps.next.release()
    await page.wait_for_text("step 1")
    assert await page.evaluate("document.activeElement.id") == f"cancel-{task.id}"
    assert await (await page.find("searchbox", "Tool")).value() == "half a na"
    await (await page.find("button", "Cancel")).click_and_load()
    await page.wait_for_text("cancelled")
    assert task.status == "cancelled"
    check_own(page, studio)


async def test_filters_stand_in_the_address(
    page: Page, studio: Service, engine: ToolEngine
) -> None:
    """Only those that are used, so that the link can be sent to another person."""
    await engine.execute("add", {"a": 1, "b": 2})
    await engine.execute("note", {})
    await sign_in(page, studio)
    await page.open(studio.url + "/studio/history")
    await (await page.find("combobox", "Tool")).fill("add")
    await (await page.find("button", "Filter")).click_and_load()
    assert await page.evaluate("location.search") == "?tool=add"
    await page.find("link", "add")
    assert not await page.find_all("link", "note")
    check_own(page, studio)


@pytest.mark.usefixtures("axe")
async def test_calls_and_tasks_are_for_all(
    page: Page, studio: Service, engine: ToolEngine, steps: Steps
) -> None:
    """No barrier that is serious on a page with something in it, on a small screen, too."""
    await page.prefer("light")
    await sign_in(page, studio)
    long = "x" * 300
    await engine.execute("nix" + long, {})
    await engine.execute("note", {"text": long}, ToolExecutionContext(conversation_id=long))
    records = await engine.query_call_records()
    call_id, call = await start_call(engine)
    task = await engine.start("walk", {})
    steps.next.release()
    calls = [f"/history/calls/{each}" for each in (call_id, *(one.call_id for one in records))]
    for path in ("/history", "/history?since=x", *calls, "/tasks", f"/tasks/{task.id}"):
        await page.set_size(1280, 900)
        await page.open(studio.url + "/studio" + path)
        assert await page.find_barriers_of_colours() == [], path
        for width in (1280, 320):
            await page.set_size(width, 900)
            assert await page.find_barriers() == [], path
            assert await page.evaluate(BEYOND) == [], path
    steps.ends.set()
    for _ in range(3):
        steps.next.release()
    await asyncio.gather(call, task.wait(BOUND))
