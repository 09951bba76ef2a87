"""Does an operator see the engine move, and steer it, with a mouse and without one?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.browser.page import Page
from tests.browser.test_studio import PANES, check_own, sign_in
from tests.browser.test_studio import engine as engine
from tests.browser.test_studio_calls import BEYOND
from tests.server.conftest import BOUND, Service
from tests.server.test_sessions import keep_session
from tool_engine import ToolEngine, ToolExecutionContext

FOCUSABLE = """(() => {
  window.reached ??= new Set();
  const all = "a[href], button, input, select, textarea, summary, [tabindex]";
  return [...document.querySelectorAll(all)].filter((each) => each.tabIndex >= 0
    && !each.disabled && each.type !== "hidden" && each.checkVisibility());
})()"""
NOTE_FOCUS = """(() => {
  const each = document.activeElement;
  if (each === document.body) return null;
  window.reached.add(each);
  const style = getComputedStyle(each);
  const box = each.getBoundingClientRect();
  const isSeen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  const isThere = box.width > 1 && box.bottom > 0 && box.top < innerHeight;
  return isSeen && isThere ? "" : each.outerHTML.slice(0, 200);
})()"""
UNREACHED = f"{FOCUSABLE}.filter((each) => !window.reached.has(each)).map((e) => e.outerHTML)"
MOVING = """[...document.querySelectorAll('*')].filter((each) => {
  const style = getComputedStyle(each);
  return style.transitionDuration !== "0s" || style.animationName !== "none"
    || style.scrollBehavior !== "auto";
}).length + document.getAnimations().length"""
BARS = "document.querySelectorAll('#timeline rect').length"
STEP = {"count": 1, "note": "x"}


async def wait_for_waiters(engine: ToolEngine, count: int) -> None:
    async with asyncio.timeout(BOUND):
        while len(engine.controller.snapshot().waiting) != count:  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0.01)


async def test_the_timeline_moves(page: Page, studio: Service, engine: ToolEngine) -> None:
    """Each call that has a slot is a bar, on a page that is not loaded again."""
    await sign_in(page, studio)
    await page.evaluate("window.isSame = true")
    seen = await page.evaluate(BARS)
    for _ in range(2):
        await engine.execute("steps", STEP)

        async def look(before: int = seen) -> Any:
            return await page.evaluate(BARS) > before

        await page.wait_until(look)
        seen = await page.evaluate(BARS)
    assert await page.evaluate("window.isSame")
    check_own(page, studio)


async def test_what_another_limit_would_do(page: Page, studio: Service, engine: ToolEngine) -> None:
    """What was and what would be stand beside each other, and one click sets it."""
    await asyncio.gather(*(engine.execute("steps", STEP) for _ in range(8)))
    await sign_in(page, studio)
    await (await page.find("spinbutton", "What if it had slots?")).fill("3")
    await (await page.find("button", "Simulate")).click()
    await page.find("table", "The last 8 calls of all buckets, as they went and with 3 slots")
    heads = [each.name for each in await page.find_all("columnheader")]
    assert {"Now", "Then"} <= set(heads)
    await (await page.find("button", "Apply 3 slots")).click_and_load()
    assert engine.controller.config.bucket_limits["one"] == 3
    await page.wait_for_text("0 / 3")
    check_own(page, studio)


async def test_pause_drain_and_resume(page: Page, studio: Service, engine: ToolEngine) -> None:
    await sign_in(page, studio)
    await (await page.find("button", "Pause")).click_and_load()
    await page.wait_for_text("Paused: no call starts")
    call = asyncio.create_task(engine.execute("steps", STEP))
    await page.find("table", "Waits, the next one first")
    await (await page.find("button", "Resume")).click_and_load()
    async with asyncio.timeout(BOUND):
        assert (await call).is_success
    await (await page.find("button", "Drain …")).click_and_load()
    assert (await engine.execute("steps", STEP)).is_success
    await page.find("heading", "Take no more calls?")
    await (await page.find("button", "Drain")).click_and_load()
    await page.wait_for_text("Draining: what runs and waits goes on")
    refused = await engine.execute("steps", STEP)
    assert not refused.is_success
    await (await page.find("button", "Resume")).click_and_load()
    assert (await engine.execute("steps", STEP)).is_success
    check_own(page, studio)


async def fill_panes(engine: ToolEngine) -> list[asyncio.Task[Any]]:
    """Has something in each pane, with names that are long, and returns what goes on."""
    long = "x" * 120
    await keep_session(engine, "chat-" + long)
    await engine.execute("nix" + long, {}, ToolExecutionContext(caller_id=long))
    calls = [
        asyncio.create_task(engine.execute("steps", {"count": 2, "note": long})) for _ in range(2)
    ]
    calls.append(asyncio.create_task(engine.execute("pay", {"amount": 10**40})))
    await wait_for_waiters(engine, 1)
    await engine.start("note", {"text": long})
    return calls


async def end_calls(calls: list[asyncio.Task[Any]]) -> None:
    for each in calls:
        each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_by_keyboard_alone(page: Page, studio: Service, engine: ToolEngine) -> None:
    """Tab reaches each control of each pane, which then is seen, and goes on past the last one."""
    calls = await fill_panes(engine)
    await page.set_size(1280, 900)
    await sign_in(page, studio)
    for pane in PANES:
        if pane != "/":  # whose rows come and go while one walks
            await page.open(studio.url + "/studio" + pane)
        count = len(await page.evaluate(f"{FOCUSABLE}.map(() => 1)"))
        assert count > 10, pane
        for _ in range(count + 50):
            await page.press("Tab")
            found = await page.evaluate(NOTE_FOCUS)
            if found is None:
                break
            assert found == "", pane
        assert await page.evaluate(UNREACHED) == [], pane
    await end_calls(calls)
    check_own(page, studio)


async def test_keys_do_what_they_say(page: Page, studio: Service) -> None:
    """The first Tab offers the content, Enter follows and opens, Escape clears."""
    await sign_in(page, studio)
    await page.open(studio.url + "/studio/history")
    await page.press("Tab")
    assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"
    await page.press("Enter")
    await page.wait_until(lambda: page.evaluate("document.activeElement.id === 'main'"))
    await page.press("/")
    assert await page.evaluate("document.activeElement.name") == "tool"
    await page.send("Input.insertText", text="add")
    await page.press("Escape")
    assert await page.evaluate("document.activeElement.value") == ""
    assert not await page.find_all("textbox", "Session")
    await page.evaluate("document.querySelector('summary').focus()")
    await page.press("Enter")
    await page.find("searchbox", "Session")
    check_own(page, studio)


async def test_every_width(page: Page, studio: Service, engine: ToolEngine) -> None:
    """No pane has to be moved sideways, from a phone to a wall, whatever stands in it."""
    calls = await fill_panes(engine)
    await sign_in(page, studio)
    record, *_ = await engine.query_call_records()
    more = [f"/history/calls/{record.call_id}", "/sessions/chat-" + "x" * 120]
    for pane in [*PANES, *more]:
        await page.open(studio.url + "/studio" + pane)
        for width in (320, 2560):
            await page.set_size(width, 900)
            assert await page.evaluate(BEYOND) == [], (pane, width)
    await end_calls(calls)
    check_own(page, studio)


@pytest.mark.parametrize("path", ["/", "/tester?tool=steps", "/tasks", "/history"])
async def test_nothing_moves_that_need_not(page: Page, studio: Service, path: str) -> None:
    """One that wants less motion has none."""
    await page.prefer_motion(is_reduced=True)
    await sign_in(page, studio)
    await page.open(studio.url + "/studio" + path)
    assert await page.evaluate(MOVING) == 0
