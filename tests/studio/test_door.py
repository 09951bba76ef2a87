"""Which requests of browsers reach a page?"""

from __future__ import annotations

import asyncio
import html
import io
import re
from typing import Any

import pytest

from tests.server.conftest import Service, served
from tests.studio.conftest import Browser
from tool_engine import ToolEngine
from tool_engine.server import create_app


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "same-origin"}, 200),
    ],
)
async def test_pages_of_others(olga: Browser, headers: Any, status: int) -> None:
    assert (await olga.open("/studio/", **headers)).status == status


@pytest.mark.parametrize("accept", ["text/html,application/xhtml+xml,*/*;q=0.8", "text/html"])
async def test_the_bare_address_leads_a_browser_here(olga: Browser, accept: str) -> None:
    moved = await olga.open("/", follows=False, accept=accept)
    assert (moved.status, moved.headers["location"]) == (303, "/studio/")
    assert (await olga.open("/", accept=accept)).url == f"{olga.url}/studio/"


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("/", "*/*"),
        ("/", "application/json"),
        ("/", "application/json, text/html;q=0.5"),
        ("/v1/tools", "text/html"),
    ],
)
async def test_what_programs_ask_for_leads_nowhere(olga: Browser, path: str, accept: str) -> None:
    assert (await olga.open(path, follows=False, accept=accept)).status == 401


@pytest.mark.parametrize("csrf", ["", "x", "é", "z" * 24])
async def test_forms_that_are_of_no_page(olga: Browser, engine: ToolEngine, csrf: str) -> None:
    await olga.open("/studio/")
    olga.csrf = csrf
    refused = await olga.send("/studio/live/pause")
    assert refused.status == 403
    assert not engine.controller.snapshot().is_paused


async def test_a_form_of_another_site(olga: Browser, engine: ToolEngine) -> None:
    """Also with the secret of the page, should it have leaked."""
    await olga.open("/studio/")
    foreign: list[Any] = [{"origin": "http://evil.example"}, {"sec_fetch_site": "cross-site"}]
    for headers in foreign:
        assert (await olga.send("/studio/live/pause", **headers)).status == 403
    assert not engine.controller.snapshot().is_paused
    assert (await olga.send("/studio/live/pause")).status == 200
    assert engine.controller.snapshot().is_paused


async def test_what_one_may_not_do_is_not_offered(ann: Browser, engine: ToolEngine) -> None:
    shown = await ann.open("/studio/")
    assert shown.status == 200
    assert "Pause" not in shown.words
    refused = await ann.send("/studio/live/pause")
    assert refused.status == 403
    assert "operate" in refused.words
    assert not engine.controller.snapshot().is_paused


async def test_policies_of_every_answer(olga: Browser, studio: Service) -> None:
    """Pages, parts, files, moves and refusals: none may be framed, or run what is not its own."""
    page = await olga.open("/studio/")
    files = re.findall(r'(?:href|src)="(/studio/static/[^"]+)"', page.text)
    assert len(files) == 5
    async with Browser(studio.url) as stranger:
        answers = [
            page,
            *[await olga.open(file) for file in files],
            await olga.open("/studio/tools", hx_request="true"),
            await olga.open("/studio/nothing"),
            await olga.open("/studio/", host="evil.example"),
            await stranger.open("/studio/", follows=False),
        ]
    for each in answers:
        policy = each.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert each.headers["x-content-type-options"] == "nosniff"
    assert [each.status for each in answers[1:6]] == [200] * 5
    assert not re.search(r"<script>|\son\w+=|style=", page.text)


@pytest.mark.parametrize(
    "path",
    [
        "/static/x/../../site.py",
        "/static/x/%2e%2e%2fsite.py",
        "/static/x/..%5csite.py",
        "/static/x/",
    ],
)
async def test_files_that_are_none_of_the_pages(olga: Browser, path: str) -> None:
    shown = await olga.open("/studio" + path)
    assert shown.status in (404, 303)
    assert "import annotations" not in shown.text


async def test_without_tokens_this_machine_needs_none(engine: ToolEngine) -> None:
    app = await asyncio.to_thread(create_app, engine, studio=True)
    async with served(app) as service, Browser(service.url) as browser:
        assert service.app.studio.make_link() == "/studio/"
        assert "local" in (await browser.open("/studio/")).words
        assert (await browser.open("/studio/", x_forwarded_for="10.0.0.1")).status == 403


async def test_the_api_takes_no_cookie(olga: Browser) -> None:
    """A page of the studio is no way around tokens."""
    assert (await olga.open("/v1/tools")).status == 401


async def test_bodies_that_are_no_forms(olga: Browser) -> None:
    await olga.open("/studio/")
    wrong = await olga._ask(
        "POST", "/studio/live/pause", {"content-type": "application/json"}, data=b"{}"
    )
    assert wrong.status == 415
    kind = "application/x-www-form-urlencoded"
    large = await olga._ask(
        "POST", "/studio/live/pause", {"content-type": kind}, data=io.BytesIO(b"x" * (5 << 20))
    )
    assert large.status == 413


async def test_languages_and_colours(olga: Browser) -> None:
    assert '<html lang="en">' in (await olga.open("/studio/")).text
    chinese = await olga.open("/studio/", accept_language="fr, zh-CN;q=0.9, en;q=0.8")
    assert '<html lang="zh">' in chinese.text
    assert "实时" in chinese.words
    filtered = await olga.open("/studio/tools?query=a+b&order=calls")
    (back,) = re.findall(r'name="back" value="([^"]*)"', filtered.text)
    chosen = {"language": "zh", "back": html.unescape(back)}
    shown = await olga.send("/studio/choices", chosen)
    assert shown.url == filtered.url
    assert '<html lang="zh">' in shown.text
    dark = await olga.send("/studio/choices", {"theme": "dark", "back": "//evil.example"})
    assert dark.url.endswith("/studio/")
    assert 'data-theme="dark"' in dark.text
