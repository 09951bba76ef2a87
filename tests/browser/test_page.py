"""Does the browser of the tests see what a person would, and notice what is wrong?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from tests.browser.page import Page

BODY = """<!doctype html><html lang="en"><title>One</title><main><h1>One</h1>
<label>Name <input id="name"></label>
<button id="free">Free</button>
<div class="pile"><button id="under">Under</button><div id="over"></div></div>
<img src="/pixel"><p class="pale">pale</p>
<script src="/script.js"></script><script>document.title = "inline";</script></main>"""
STYLE = """.pile { position: relative; } #over { position: absolute; inset: 0; }
.pale { color: #eee; background: #fff; }"""
SCRIPT = """document.getElementById("free").addEventListener("click", () => {
  document.title = "clicked " + document.getElementById("name").value;
});
const link = document.createElement("link"); link.rel = "stylesheet"; link.href = "/style.css";
document.head.append(link);"""
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'"


@pytest.fixture
async def site() -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        policy = {
            "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'"
        }
        kinds: dict[str, tuple[str, str]] = {
            "/": (BODY, "text/html"),
            "/script.js": (SCRIPT, "text/javascript"),
            "/style.css": (STYLE, "text/css"),
        }
        text, kind = kinds.get(request.path, ("", "text/plain"))
        return web.Response(text=text, content_type=kind, headers=policy)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


async def test_what_a_person_does(page: Page, site: str) -> None:
    await page.open(site)
    await (await page.find("textbox", "Name")).fill("Ann")
    await (await page.find("button", "Free")).click()
    assert await page.evaluate("document.title") == "clicked Ann"
    assert await page.find_all("button", "Nowhere") == []


async def test_what_lies_under_something_is_not_clicked(page: Page, site: str) -> None:
    await page.open(site)
    under = await page.find("button", "Under")
    await page.wait_until(lambda: page.evaluate("document.styleSheets.length"))
    with pytest.raises(AssertionError, match="something lies over"):
        await under.click()


async def test_what_a_policy_refuses_is_noticed(page: Page, site: str) -> None:
    await page.open(site)

    async def look() -> Any:
        return len(page.violations) >= 2  # the picture, and the script in the page

    await page.wait_until(look)
    assert await page.evaluate("document.title") == "One"
    assert page.list_foreign(site) == []
    assert page.list_foreign("http://127.0.0.1:1/") != []


@pytest.mark.usefixtures("axe")
async def test_barriers_are_found(page: Page, site: str) -> None:
    await page.open(site)
    found = " ".join(await page.find_barriers())
    assert "image-alt" in found
