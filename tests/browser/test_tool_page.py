"""Can an operator read a whole tool in a browser, run its tests, and try its examples?"""

from __future__ import annotations

import pytest

from tests.browser.page import Page
from tests.browser.test_studio import check_own, sign_in
from tests.server.conftest import Service
from tests.server.test_sessions import PIN, keep_session
from tests.studio.test_tool_page import write
from tool_engine import ToolEngine

WIDEST = "Math.max(...[...document.querySelectorAll('main > *')].map((e) => e.scrollWidth))"


@pytest.mark.usefixtures("axe")
async def test_a_tool_of_a_file(page: Page, studio: Service, engine: ToolEngine) -> None:
    """Its tests run into the page, an example fills in the tester, and no one is shut out."""
    await write(engine)
    await write(engine, "1.1.0")
    await page.prefer("light")
    await sign_in(page, studio)
    await page.open(studio.url + "/studio/tools/weather")
    await (await page.find("button", "Run the tests")).click()
    await page.find("table", "Outcome of the tests")
    await page.wait_for_text("weather.yaml:15")
    assert (await page.evaluate("location.pathname")).endswith("/tools/weather")
    assert await page.find_barriers() == []
    assert await page.find_barriers_of_colours() == []
    await page.set_size(320, 700)
    assert await page.evaluate(WIDEST) <= 320
    await (await page.find("link", "Load into the tester")).click_and_load()
    filled = await (await page.find("textbox", "city needed")).value()
    assert "<script>alert(1)</script>" in filled
    check_own(page, studio)


@pytest.mark.usefixtures("axe")
async def test_a_session(page: Page, studio: Service, engine: ToolEngine) -> None:
    """From the list to what was said, without its secrets."""
    await keep_session(engine)
    await sign_in(page, studio)
    await page.open(studio.url + "/studio/sessions")
    await (await page.find("link", "chat-1")).click_and_load()
    await page.find("heading", "What was said and done")
    await page.find("table", "Spent of its bounds")
    assert PIN not in await page.text()
    assert await page.find_barriers() == []
    await page.set_size(320, 700)
    assert await page.evaluate(WIDEST) <= 320
    check_own(page, studio)
