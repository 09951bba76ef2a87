"""Who gets into the studio, and who does not any more?"""

from __future__ import annotations

import asyncio
import json
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
        assert (moved.status, moved.headers["location"]) == (303, "/studio/sign-in")
        part = await browser.open(path, follows=False, hx_request="true")
        assert (part.status, part.headers["hx-redirect"]) == (200, "/studio/sign-in")


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
