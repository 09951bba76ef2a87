"""Who gets into the studio, and who does not any more?"""

from __future__ import annotations

import asyncio
import html
import json
import re
from pathlib import Path

import pytest

from tests.server.conftest import Service, write_tokens
from tests.studio.conftest import NAVIGATION, Browser
from tool_engine.studio.signing_in import SignIns


async def test_a_link_signs_in_once(studio: Service) -> None:
    link = studio.app.studio.make_link()
    async with Browser(studio.url) as first, Browser(studio.url) as second:
        asked = await first.open(link)
        assert "It works once" in asked.words
        assert first.cookies() == []  # what only looks at a link does not use it
        shown = await first.send(link)
        assert (shown.status, shown.url) == (200, studio.url + "/studio/")
        assert "operator" in shown.words
        again = await second.send(link)
        assert (again.status, second.cookies()) == (403, [])
        assert "was used or is too old" in (await second.open(link)).words


async def test_the_cookie(studio: Service) -> None:
    """No script reads it, no other site sends it, and other ports have others."""
    async with Browser(studio.url) as browser:
        link = studio.app.studio.make_link()
        answer = await browser.send(link, follows=False)
        (cookie,) = browser.cookies()
        said = answer.headers["set-cookie"]
    assert cookie.key == f"studio_{studio.url.rpartition(':')[2]}"
    assert "; HttpOnly" in said
    assert "; SameSite=Strict" in said
    assert "; Path=/studio" in said


async def test_a_token_signs_in(studio: Service) -> None:
    async with Browser(studio.url) as browser:
        wrong = await browser.sign_in("token-of-no-one")
        assert (wrong.status, browser.cookies()) == (403, [])
        assert "not known" in wrong.words
        shown = await browser.sign_in("token-of-ann")
        assert "ann" in shown.words


@pytest.mark.parametrize("path", ["/studio/", "/studio", "/studio/tools", "/studio/nothing"])
async def test_without_a_session_there_is_nothing(studio: Service, path: str) -> None:
    async with Browser(studio.url) as browser:
        moved = await browser.open(path, follows=False)
        place = path.removeprefix("/studio").strip("/")
        way_in = "/studio/sign-in" + (f"?next=%2F{place}" if place else "")
        assert (moved.status, moved.headers["location"]) == (303, way_in)
        shown = f"{studio.url}/studio/{place}"
        part = await browser.open(
            "/studio/live/timeline", follows=False, hx_request="true", hx_current_url=shown
        )
        assert (part.status, part.headers["hx-redirect"]) == (200, way_in)


async def test_one_comes_to_the_page_that_was_asked_for(studio: Service) -> None:
    async with Browser(studio.url) as browser:
        page = "/studio/history?tool=a+b%26c&outcome=failed"
        asked = await browser.open(page)
        assert asked.url.startswith(studio.url + "/studio/sign-in")
        (place,) = re.findall(r'name="next" value="([^"]*)"', asked.text)
        fields = {"token": "wrong", "next": html.unescape(place)}
        wrong = await browser.send("/studio/sign-in", fields)
        assert f'name="next" value="{place}"' in wrong.text
        shown = await browser.send("/studio/sign-in", {**fields, "token": "token-of-ann"})
        assert shown.url == studio.url + page


@pytest.mark.parametrize(
    "place",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "/../v1",
        "/a/../../v1/tools",
        "/..",
        "/\r\nset-cookie: a=b",
        "@evil.example",
        "",
        "javascript:alert(1)",
    ],
)
async def test_no_way_in_leads_elsewhere(studio: Service, place: str) -> None:
    async with Browser(studio.url) as browser:
        fields = {"token": "token-of-ann", "next": place}
        moved = await browser.send("/studio/sign-in", fields, follows=False)
        to = moved.headers["location"]
        assert re.fullmatch(r"/studio/[-%\w:=.]*", to), to
        assert ".." not in to


async def test_a_browser_that_is_signed_in_signs_in_anew(studio: Service, ann: Browser) -> None:
    """A link or a token of another: its session begins, and the one before it ends."""
    (cookie,) = ann.cookies()
    link = studio.app.studio.make_link()
    asked = await ann.open(link)
    assert "Go on as ann" in asked.words
    ann.csrf = ""  # this page has none
    assert "operator" in (await ann.send(link)).words
    assert (await ann.send(link)).status == 403
    shown = await ann.sign_in("token-of-olga")
    assert (shown.status, "olga" in shown.words) == (200, True)
    async with Browser(studio.url) as thief:
        moved = await thief.open("/studio/", follows=False, cookie=f"{cookie.key}={cookie.value}")
        assert moved.status == 303


async def test_one_that_only_approves_has_a_first_page(studio: Service) -> None:
    async with Browser(studio.url) as asker:
        shown = await asker.sign_in("token-of-asker")
        assert (shown.status, shown.url) == (200, studio.url + "/studio/approvals")
        dark = await asker.send("/studio/choices", {"theme": "dark", "back": "/approvals"})
        assert (dark.status, 'data-theme="dark"' in dark.text) == (200, True)


async def test_signing_out(studio: Service, olga: Browser) -> None:
    (cookie,) = olga.cookies()
    await olga.open("/studio/")
    await olga.send("/studio/sign-out")
    async with Browser(studio.url) as thief:
        stolen = f"{cookie.key}={cookie.value}"
        moved = await thief.open("/studio/", follows=False, cookie=stolen)
        assert moved.status == 303


async def test_a_token_that_is_taken_back_ends_its_sessions(
    studio: Service, ann: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await ann.open("/studio/")).url == studio.url + "/studio/"
    monkeypatch.setattr("tool_engine.access.tokens._PAUSE", 0.0)
    studio.app.studio.sign_ins._auth._next_look = 0.0
    await asyncio.to_thread(write_tokens, tmp_path / "tokens.yaml", {"bob": {"scopes": ["read"]}})
    assert (await ann.open("/studio/")).url == studio.url + "/studio/sign-in"


async def test_a_session_sends_no_token_to_the_page(ann: Browser) -> None:
    shown = await ann.open("/studio/")
    assert "token-of-ann" not in shown.text + json.dumps(dict(shown.headers))


def test_codes_and_sessions_grow_old() -> None:
    now = [0.0]
    sign_ins = SignIns(None, lambda: now[0])
    code = sign_ins.make_code()
    now[0] = 3599.0
    assert sign_ins.knows_code(code)
    now[0] = 3600.0
    assert not sign_ins.knows_code(code)
    assert sign_ins.use_code(code) is None


async def test_a_session_that_is_not_used_ends() -> None:
    now = [0.0]
    sign_ins = SignIns(None, lambda: now[0])
    session_id = sign_ins.use_code(sign_ins.make_code())
    assert session_id is not None
    now[0] = 12 * 3600.0 - 1
    assert await sign_ins.find(session_id) is not None
    now[0] += 12 * 3600.0
    assert await sign_ins.find(session_id) is None


async def test_sessions_are_bounded() -> None:
    """The one that was used longest ago gives way."""
    sign_ins = SignIns(None, lambda: 0.0)
    ids = [sign_ins.use_code(sign_ins.make_code()) for _ in range(1_000)]
    assert ids[0] is not None
    assert await sign_ins.find(ids[0]) is not None
    sign_ins.use_code(sign_ins.make_code())
    assert await sign_ins.find(ids[0]) is not None
    assert ids[1] is not None
    assert await sign_ins.find(ids[1]) is None


async def test_a_link_from_another_site_shows_the_way_in(studio: Service, ann: Browser) -> None:
    """A page of another site may lead here; it sees and does nothing with what is signed in."""
    headers = {**NAVIGATION, "sec-fetch-site": "cross-site"}
    said = {name.replace("-", "_"): value for name, value in headers.items()}
    moved = await ann.open("/studio/", follows=False, **said)
    assert (moved.status, moved.headers["location"]) == (303, "/studio/sign-in")
    shown = await ann.open("/studio/tools?query=add", follows=True, **said)
    # From there it is one step of this site, with which the browser sends its cookie.
    assert '<a href="/studio/tools?query=add">Go on, if you are signed in</a>' in shown.text
