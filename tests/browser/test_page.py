"""Does the browser of the tests see what a person would, and notice what is wrong?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.browser.conftest import NewPage
from tests.browser.page import Page
from tests.effort import IS_WHOLE

BODY = """<!doctype html><html lang="en"><title>One</title><main><h1>One</h1>
<label>Name <input id="name"></label>
<button id="free">Free</button>
<div class="pile"><button id="under">Under</button><div id="over"></div></div>
<img src="/pixel"><p class="pale">pale</p>
<button disabled>Off</button><button id="fading">Fading</button>
<label>File <input type="file" id="file"></label><a href="/file" download>Take</a>
<script src="/script.js"></script><script>document.title = "inline";</script></main>"""
STYLE = """.pile { position: relative; } #over { position: absolute; inset: 0; }
.pale { color: #eee; background: #fff; }"""
SCRIPT = """document.getElementById("free").addEventListener("click", () => {
  document.title = "clicked " + document.getElementById("name").value;
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey && event.key === "k") document.title = "keys";
});
document.getElementById("fading").addEventListener("click", (event) => {
  document.title = "clicked " + event.target.dataset.number;
});
window.replace = () => {
  const [old, number] = [document.getElementById("fading"), 2];
  const next = old.cloneNode(true);
  next.dataset.number = number;
  next.addEventListener("click", () => { document.title = "clicked " + number; });
  old.replaceWith(next);
};
const link = document.createElement("link"); link.rel = "stylesheet"; link.href = "/style.css";
document.head.append(link);"""
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"
ABROAD = """<!doctype html><title>Abroad</title><img src="http://abroad.invalid/pixel">
<script>new WebSocket("ws://elsewhere.invalid/"); console.error("so", 1);</script>"""


@pytest.fixture
async def site() -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.StreamResponse:
        kinds = {
            "/": (BODY, "text/html"),
            "/script.js": (SCRIPT, "text/javascript"),
            "/style.css": (STYLE, "text/css"),
            "/abroad": (ABROAD, "text/html"),
            "/file": ("what it holds", "text/plain"),
        }
        text, kind = kinds.get(request.path, ("", "text/plain"))
        headers = {} if request.path == "/abroad" else {"content-security-policy": POLICY}
        if request.path == "/file":
            headers["content-disposition"] = 'attachment; filename="a file.txt"'
        return web.Response(text=text, content_type=kind, headers=headers)

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


async def test_what_is_disabled_is_not_clicked(page: Page, site: str) -> None:
    await page.open(site)
    off = await page.find("button", "Off")
    with pytest.raises(AssertionError, match="'Off' is disabled"):
        await off.click()
    with pytest.raises(AssertionError, match="'Off' is disabled"):
        await off.fill("x")


async def test_what_is_replaced_is_found_again(page: Page, site: str) -> None:
    """A part of a page that is live may be another one between a look and a click."""
    await page.open(site)
    fading = await page.find("button", "Fading")
    await page.evaluate("window.replace()")
    assert await fading.attribute("data-number") == "2"
    await page.evaluate("window.replace()")
    await fading.click()
    assert await page.evaluate("document.title") == "clicked 2"


async def test_looked_at_while_others_come(page: Page, site: str) -> None:
    """A look at a page that another one replaces has an answer, too, and the browser lives on."""
    await page.open(site)
    times = 20 if IS_WHOLE else 6
    for number in range(times):
        going = asyncio.create_task(page.send("Page.navigate", url=f"{site}?{number}"))
        for _ in range(10):
            await page.find_all("button", "Free")
        await going
    await (await page.find("button", "Free")).click()
    assert await page.evaluate("location.search") == f"?{times - 1}"


async def test_keys(page: Page, site: str) -> None:
    await page.open(site)
    name = await page.find("textbox", "Name")
    await name.fill("Ann")
    await name.fill("")
    assert await name.value() == ""
    for key in "ab":
        await name.press(key)
    await name.press("ArrowLeft")
    await name.press("Backspace")
    assert await name.value() == "b"
    await page.press("Tab")
    assert await page.evaluate("document.activeElement.id") == "free"
    await page.press("Shift+Tab")
    assert await page.evaluate("document.activeElement.id") == "name"
    await page.press("Control+k")
    assert await page.evaluate("document.title") == "keys"
    assert await name.value() == "b"


async def test_files_go_and_come(page: Page, site: str, tmp_path: Path) -> None:
    sent = tmp_path / "sent.txt"
    sent.write_text("sent", "utf-8")
    await page.open(site)
    file = await page.find("button", "File")
    await file.choose_files(sent)
    assert await page.evaluate("document.getElementById('file').files[0].text()") == "sent"
    take = await page.find("link", "Take")
    came = await page.download(take.click, tmp_path)
    assert (came.name, came.read_text("utf-8")) == ("a file.txt", "what it holds")


async def test_pages_of_two_people_share_no_cookie(new_page: NewPage, site: str) -> None:
    async with new_page() as one, new_page() as other:
        for each in (one, other):
            await each.open(site)
        await one.evaluate("document.cookie = 'who=one'")
        assert await one.evaluate("document.cookie") == "who=one"
        assert await other.evaluate("document.cookie") == ""


async def test_what_a_person_prefers(page: Page, site: str) -> None:
    await page.open(site)
    await page.prefer("dark")
    await page.prefer_motion(is_reduced=True)
    for feature in ("prefers-color-scheme: dark", "prefers-reduced-motion: reduce"):
        assert await page.evaluate(f"matchMedia('({feature})').matches"), feature
    await page.set_size(390, 700)
    assert await page.evaluate("innerWidth") == 390
    await page.set_scripts(are_run=False)
    await page.open(site)
    await (await page.find("button", "Free")).click()
    assert await page.evaluate("document.title") == "One"


async def test_what_leaves_the_host_is_noticed(page: Page, site: str) -> None:
    """Pictures and sockets, though no name leads there; and what a page says went wrong."""
    await page.open(site + "abroad")

    async def look() -> bool:
        return len(page.list_foreign(site)) >= 2

    await page.wait_until(look)
    assert sorted(page.list_foreign(site)) == [
        "http://abroad.invalid/pixel",
        "ws://elsewhere.invalid/",
    ]
    assert "so 1" in page.errors


async def test_a_place_that_cannot_be_reached(page: Page, site: str) -> None:
    with pytest.raises(AssertionError, match="ERR_CONNECTION_REFUSED"):
        await page.open("http://127.0.0.1:65535/")
    await page.open(site)
    await page.open(site + "#part")  # loads nothing
    await page.find("heading", "One")


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
