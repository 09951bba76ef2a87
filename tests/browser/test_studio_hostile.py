"""Does a browser come to no harm, and to its place, whatever others have written or pressed?"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.browser.page import Page
from tests.browser.test_studio import check_own, sign_in
from tests.server.conftest import BOUND, Service
from tests.studio.test_names import NAMES
from tests.studio.test_scale import LARGEST, write_tools
from tool_engine import ToolEngine

NODES = "document.querySelectorAll('*').length"
MOST_NODES = 6_000
IS_FREE = "!document.querySelector('#form').dataset.sent"
TWICE = "function() { this.click(); this.click(); }"


async def test_links_to_any_name(page: Page, studio: Service, engine: ToolEngine) -> None:
    """What browsers make of dots, slashes and what is not seen leads nowhere else."""
    for name in NAMES:
        await engine.store.sessions.save(name, {})
    await sign_in(page, studio)
    places: list[int] = []
    for number, name in enumerate(reversed(NAMES)):
        await page.open(studio.url + "/studio/sessions")
        links = await page.find_all("link")
        if not places:  # the list is the same each time, and each question takes its time
            addresses = [str(await each.attribute("href")) for each in links]
            places = [at for at, each in enumerate(addresses) if "/sessions/" in each]
        await links[places[number]].click_and_load()
        assert await page.find_all("heading", "Variables"), name
    check_own(page, studio)


@pytest.mark.parametrize("is_double", [True, False])
async def test_pressed_twice(
    page: Page, studio: Service, engine: ToolEngine, is_double: bool
) -> None:
    """Two clicks are one call, be it over at once or not; pressed anew, it runs again."""
    await sign_in(page, studio)
    await page.open(studio.url + '/studio/tester?tool=add&arguments={"a":1,"b":2}')
    for count in (1, 2):
        button = await page.find("button", "Run")
        await (button.click(2) if is_double else button.call(TWICE))

        async def look(wanted: int = count) -> Any:
            await page.find("link", "All about this call")
            return len(await engine.query_call_records()) == wanted

        await page.wait_until(look)
        await page.wait_until(lambda: page.evaluate(IS_FREE))
    check_own(page, studio)


async def test_a_question_is_answered_once(page: Page, studio: Service, engine: ToolEngine) -> None:
    """Two clicks at once allow one of two calls, not what comes to stand in its place."""
    await sign_in(page, studio)
    await page.open(studio.url + "/studio/approvals")
    calls = [asyncio.create_task(engine.execute("pay", {"amount": each})) for each in (1, 2)]

    async def count() -> int:
        return len(await page.find_all("button", "Allow"))

    async def are_two() -> bool:
        return await count() == 2

    async def is_one() -> bool:
        return await count() == 1

    await page.wait_until(are_two)
    first, _ = await page.find_all("button", "Allow")
    await first.click(2)
    await page.wait_until(is_one)
    await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED, timeout=BOUND)
    assert len(await engine.approvals.pending()) == 1
    assert sum(each.done() for each in calls) == 1
    for each in calls:
        each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    check_own(page, studio)


async def test_no_page_shows_it_in_a_frame(page: Page, studio: Service) -> None:
    """Another page cannot lay its own buttons over these."""

    async def answer(_: web.Request) -> web.Response:
        frame = f'<iframe src="{studio.url}/studio/approvals"></iframe>'
        return web.Response(
            text=f"<!doctype html><title>x</title>{frame}", content_type="text/html"
        )

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        await sign_in(page, studio)
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        await page.open(f"http://127.0.0.1:{port}/")
        (frame,) = (await page.send("Page.getFrameTree"))["frameTree"]["childFrames"]
        assert frame["frame"]["url"].startswith("chrome-error://")
        assert frame["frame"]["unreachableUrl"].startswith(studio.url)
    finally:
        await runner.cleanup()


async def test_the_whole_of_a_large_result(
    page: Page, studio: Service, engine: ToolEngine, tmp_path: Path
) -> None:
    """The page has a part, and stays small; the file has what the tool gave."""
    text = "line <b>\n" * 1_200_000

    @engine.tool(effect="read")
    async def tell() -> str:
        """Tell."""
        return text

    await sign_in(page, studio)
    await page.open(studio.url + "/studio/tester?tool=tell")
    await (await page.find("button", "Run as a task")).click_and_load()
    link = await page.find("link", "Download the whole")
    assert await page.evaluate(NODES) < MOST_NODES
    assert len(await page.text()) < LARGEST
    kept = await page.download(link.click, tmp_path)
    assert json.loads(kept.read_bytes())["result"]["output"]["result"] == text
    check_own(page, studio)


async def test_many_tools_are_few_nodes(page: Page, studio: Service, engine: ToolEngine) -> None:
    """A page of any number of tools is one that a browser does not labour at."""
    await write_tools(engine, 2_000)
    await sign_in(page, studio)
    for path in ("/tools", "/tools?query=do", "/tester", "/files", "/history"):
        await page.open(studio.url + "/studio" + path)
        assert await page.evaluate(NODES) < MOST_NODES, path
    check_own(page, studio)
