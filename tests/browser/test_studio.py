"""Can a person use the studio in a browser, whatever tools say?"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.browser.conftest import NewPage
from tests.browser.page import Page
from tests.relay import relayed
from tests.server.conftest import BOUND, Service
from tool_engine import ConcurrencyConfig, ToolEngine, ToolExecutionContext

PANES = ["/", "/tools", "/tools/pay", "/tester?tool=steps", "/parser", "/approvals"]
PANES += ["/history", "/tasks", "/sessions", "/files"]
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202egnp\x1b[2J"


@pytest.fixture
async def engine(engine: ToolEngine) -> AsyncIterator[ToolEngine]:
    """One slot for `steps`, so that a second call waits."""
    config = ConcurrencyConfig(max_concurrent=5, bucket_limits={"one": 1})
    engine.controller.configure(config)
    go_on = asyncio.Event()

    @engine.tool(effect="read", concurrency={"bucket": "one"})
    async def steps(count: int, note: str, context: ToolExecutionContext) -> str:
        """Take steps, and then wait.

        Args:
            count: How many.
            note: What to say.
            context: Hears of each.
        """
        for step in range(count):
            await context.report_progress(step + 1, count, note)
        if count > 1:
            await go_on.wait()
        return note

    yield engine
    go_on.set()


async def sign_in(page: Page, service: Service, name: str | None = None) -> None:
    if name is None:
        await page.open(service.url + service.app.studio.make_link())
        await (await page.find("button", "Open the studio")).click_and_load()
    else:
        await page.open(service.url + "/studio/")
        await (await page.find("textbox", "Token")).fill(f"token-of-{name}")
        await (await page.find("button", "Sign in")).click_and_load()
    await page.find("heading", "Live")


def check_own(page: Page, service: Service) -> None:
    """Nothing was asked of another host, refused by the policy, or went wrong."""
    assert page.list_foreign(service.url) == []
    assert page.violations == []
    assert page.errors == []


@pytest.mark.usefixtures("axe")
async def test_every_pane_is_for_all(page: Page, studio: Service) -> None:
    """No barrier that is serious, in both colours and on a small screen; nothing foreign."""
    await page.prefer("light")
    await page.set_size(1280, 900)
    await sign_in(page, studio)
    for pane in (*PANES, "/live/drain"):
        await page.open(studio.url + "/studio" + pane)
        assert await page.find_barriers() == [], pane
        assert await page.find_barriers_of_colours() == [], pane
        await page.set_size(320, 700)
        wide = await page.evaluate(
            "[...document.querySelectorAll('main > *, header')].map((e) => e.scrollWidth)"
        )
        assert max(wide) <= 320, pane
        await page.set_size(1280, 900)
        check_own(page, studio)


async def test_what_runs_and_waits_is_seen_as_it_happens(
    page: Page, studio: Service, engine: ToolEngine
) -> None:
    await sign_in(page, studio)
    arguments = {"count": 2, "note": "x"}
    first = asyncio.create_task(engine.execute("steps", arguments))
    await page.find("table", "Runs, the oldest first")
    second = asyncio.create_task(engine.execute("steps", arguments))
    await page.find("table", "Waits, the next one first")
    text = await page.text()
    seen = re.findall(r"…[0-9a-f]{8}", text)
    assert len(set(seen)) == 2
    assert re.search(r"one.*1 / 1", text, re.DOTALL)
    # Stopped in the browser, the first one ends, and the second one has the slot.
    stop, *_ = await page.find_all("button", "Stop")
    await stop.click_and_load()
    async with asyncio.timeout(BOUND):
        assert (await first).error_type == "cancelled"

    async def look() -> bool:
        return not await page.find_all("table", "Waits, the next one first")

    await page.wait_until(look)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    check_own(page, studio)


async def test_a_question_stays_with_its_bucket(
    page: Page, studio: Service, engine: ToolEngine
) -> None:
    """Another bucket comes, before it: what was filled in and answered is still of the same one."""
    await engine.execute("steps", {"count": 1, "note": "x"})
    await sign_in(page, studio)
    await page.find("heading", "one")
    await (await page.find("button", "Simulate")).click()
    await page.find("button", "Apply 1 slots")

    @engine.tool(concurrency={"bucket": "earlier"})
    async def come() -> None:
        """Come."""

    for _ in range(3):
        await engine.execute("come", {})
    await page.find("heading", "earlier")
    asked = await page.evaluate(
        """[...document.querySelectorAll("section.card")].map((each) => [
          each.querySelector("h2").textContent,
          ...[...each.querySelectorAll("[name=bucket]")].map((input) => input.value)])"""
    )
    assert asked == [["earlier", "earlier"], ["one", "one", "one"]]
    check_own(page, studio)


async def test_a_connection_that_is_cut_comes_back(
    page: Page, studio: Service, engine: ToolEngine
) -> None:
    """What happened meanwhile is there, once."""
    async with relayed(int(studio.url.rpartition(":")[2])) as relay:
        studio.url = f"http://127.0.0.1:{relay.port}"
        await sign_in(page, studio)
        await relay.cut()
        await page.wait_for_text("The server does not answer: what stands here is from")
        call = asyncio.create_task(engine.execute("steps", {"count": 2, "note": "x"}))
        await asyncio.sleep(0)
        (held,) = engine.controller.snapshot().held
        assert await page.find_all("button", "Stop") == []
        await relay.restore()
        await page.find("table", "Runs, the oldest first")

        async def is_well() -> bool:
            return "does not answer" not in await page.text()

        await page.wait_until(is_well)
        rows = f"document.querySelectorAll('[id=\"held-{held.slot_id}\"]').length"
        assert await page.evaluate(rows) == 1
        assert len(await page.find_all("button", "Stop")) == 1
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

        async def look() -> bool:
            return not await page.find_all("button", "Stop")

        assert await page.wait_until(look)


async def test_a_stream_that_does_not_begin_is_asked_for_again(
    page: Page, studio: Service, engine: ToolEngine
) -> None:
    async with relayed(int(studio.url.rpartition(":")[2])) as relay:
        studio.url = f"http://127.0.0.1:{relay.port}"
        relay.refused = b"/live/stream"
        await sign_in(page, studio)
        await page.wait_for_text("The server does not answer: what stands here is from")
        call = asyncio.create_task(engine.execute("steps", {"count": 2, "note": "x"}))
        await asyncio.sleep(0)
        relay.refused = None
        await page.find("table", "Runs, the oldest first")
        assert "does not answer" not in await page.text()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


async def test_a_tool_is_tried(page: Page, studio: Service) -> None:
    """Loaded by its name, filled in, run; what it says is inert, and what it did is listed."""
    await sign_in(page, studio)
    await page.open(studio.url + "/studio/tester")
    await (await page.find("combobox", "Tool")).fill("steps")
    await (await page.find("button", "Load")).click_and_load()
    await (await page.find("button", "Run")).click()
    await page.wait_for_text("this is needed; fill it in")
    await (await page.find("textbox", "count needed")).fill("1")
    await (await page.find("textbox", "note needed")).fill(HOSTILE.replace("\x1b", ""))
    await (await page.find("button", "Run")).click()
    await page.wait_for_text("succeeded")
    assert "<img src=x onerror=alert(1)>" in await page.text()
    assert (
        await page.evaluate("document.querySelectorAll('#result img, #result script').length") == 0
    )
    await page.find("link", "Load")
    check_own(page, studio)


async def test_a_call_is_stopped_while_it_runs(
    page: Page, studio: Service, engine: ToolEngine
) -> None:
    await sign_in(page, studio)
    await page.open(
        studio.url + "/studio/tester?tool=steps&arguments=%7B%22count%22:3,%22note%22:%22n%22%7D"
    )
    await (await page.find("button", "Run")).click()
    await page.find("progressbar", "Progress")
    await (await page.find("button", "Stop")).click()
    await page.wait_for_text("cancelled")
    assert engine.controller.snapshot().held == []
    check_own(page, studio)


async def test_two_people_answer_one_request(
    new_page: NewPage, studio: Service, engine: ToolEngine
) -> None:
    """Both see it come; one answers, and it is gone for the other."""
    async with new_page() as olga, new_page() as asker:
        await sign_in(olga, studio, "olga")
        await asker.open(studio.url + "/studio/")
        await (await asker.find("textbox", "Token")).fill("token-of-asker")
        await (await asker.find("button", "Sign in")).click_and_load()
        for each in (olga, asker):
            await each.open(studio.url + "/studio/approvals")
        call = asyncio.create_task(engine.execute("pay", {"amount": 7}))
        await asker.find("button", "Allow")
        await (await olga.find("textbox", "Reason")).fill("too much")
        await (await olga.find("button", "Refuse")).click_and_load()
        async with asyncio.timeout(BOUND):
            result = await call
        assert "too much" in str(result.error)
        await asker.wait_for_text("Nothing waits for consent")
        check_own(olga, studio)


async def test_enter_in_the_reason_is_no_yes(
    page: Page, studio: Service, engine: ToolEngine
) -> None:
    """Enter presses the first button of a form: one that writes why not has said no."""
    await sign_in(page, studio)
    call = asyncio.create_task(engine.execute("pay", {"amount": 7}))
    await page.open(studio.url + "/studio/approvals")
    reason = await page.find("textbox", "Reason")
    await reason.fill("too much")
    await reason.press("Enter")
    async with asyncio.timeout(BOUND):
        result = await call
    assert (result.error_type, "too much" in str(result.error)) == ("execution_rejected", True)
    check_own(page, studio)


async def test_a_reason_stays_with_its_request(
    page: Page, studio: Service, engine: ToolEngine
) -> None:
    """While one writes why not, another request before it is gone."""
    await sign_in(page, studio)
    calls = []
    for amount in (1, 2, 3):
        calls.append(asyncio.create_task(engine.execute("pay", {"amount": amount})))
        while len(await engine.approvals.pending()) < amount:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0)
    await page.open(studio.url + "/studio/approvals")
    oldest, *_ = await engine.approvals.pending()
    _, reason, _ = await page.find_all("textbox", "Reason")
    await reason.fill("too much")
    await reason.focus()
    await engine.approvals.answer(oldest.token, True, by="another")

    async def look() -> bool:
        return len(await page.find_all("textbox", "Reason")) == 2

    await page.wait_until(look)
    await page.press("Enter")
    async with asyncio.timeout(BOUND):
        result = await calls[1]
    assert "too much" in str(result.error)
    assert not calls[2].done()
    calls[2].cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_without_scripts(page: Page, studio: Service, engine: ToolEngine) -> None:
    """All is there but for what moves: forms and links do the rest."""
    await page.set_scripts(are_run=False)
    await sign_in(page, studio)
    await page.open(studio.url + "/studio/tester?tool=add")
    await (await page.find("textbox", "a needed")).fill("1")
    await (await page.find("textbox", "b needed")).fill("2")
    await (await page.find("button", "Run")).click_and_load()
    await page.wait_for_text("succeeded")
    call = asyncio.create_task(engine.execute("pay", {"amount": 7}))
    async with asyncio.timeout(BOUND):
        while not await engine.approvals.pending():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    await page.open(studio.url + "/studio/approvals")
    await (await page.find("button", "Allow")).click_and_load()
    async with asyncio.timeout(BOUND):
        assert (await call).is_success


async def test_the_search_finds_while_one_types(page: Page, studio: Service) -> None:
    await sign_in(page, studio)
    await page.open(studio.url + "/studio/tools")
    await page.press("/")
    assert await page.evaluate("document.activeElement.id") == "query"
    await (await page.find("searchbox", "Search")).fill("add numbers")

    async def look() -> Any:
        return await page.find_all("link", "add") and not await page.find_all("link", "pay")

    await page.wait_until(look)
    assert "query=add" in await page.evaluate("location.search")
    check_own(page, studio)
