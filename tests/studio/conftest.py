"""A studio that is served at a free port, and browsers that are signed in to it."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import aiohttp
import pytest

from tests.server.conftest import Service, served, write_tokens
from tests.server.conftest import engine as engine
from tool_engine import ToolEngine
from tool_engine.server import create_app
from tool_engine.studio import Studio as Studio

NAVIGATION = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
"""What a browser says of a link that a person has followed."""


class Shown(NamedTuple):
    """A page as a browser got it."""

    status: int
    url: str
    headers: Any
    text: str

    @property
    def words(self) -> str:
        """What stands on the page, without its markup."""
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", self.text)).split())


class Browser:
    """Asks for pages with cookies of its own, and follows where it is sent."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
        self.csrf = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def open(self, path: str, *, follows: bool = True, **headers: str) -> Shown:
        return await self._ask("GET", path, headers=headers, allow_redirects=follows)

    async def send(
        self, path: str, fields: Any = None, *, follows: bool = True, **headers: str
    ) -> Shown:
        """Sends a form, with the secret of the page that was shown last."""
        form = [("csrf", self.csrf), *(fields or {}).items()]
        return await self._ask("POST", path, headers=headers, data=form, allow_redirects=follows)

    async def sign_in(self, token: str) -> Shown:
        return await self.send("/studio/sign-in", {"token": token})

    def cookies(self) -> list[Any]:
        return list(self._http.cookie_jar)

    async def _ask(self, method: str, path: str, headers: dict[str, str], **options: Any) -> Shown:
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._http.request(method, self.url + path, headers=said, **options) as answer:
            text = await answer.text()
        found = re.search(r'name="csrf" value="([^"]+)"', text)
        if found:
            self.csrf = found[1]
        return Shown(answer.status, str(answer.url), answer.headers, text)


@pytest.fixture
async def studio(engine: ToolEngine, tmp_path: Path) -> AsyncIterator[Service]:
    """A studio for people with tokens, as the API has them."""
    tokens = str(write_tokens(tmp_path / "tokens.yaml"))
    app = await asyncio.to_thread(create_app, engine, auth=tokens, studio=True)
    async with served(app) as service:
        yield service


@pytest.fixture
async def olga(studio: Service) -> AsyncIterator[Browser]:
    """One that may do all."""
    async with Browser(studio.url) as browser:
        await browser.sign_in("token-of-olga")
        yield browser


@pytest.fixture
async def ann(studio: Service) -> AsyncIterator[Browser]:
    """One that calls tools and sees what it called."""
    async with Browser(studio.url) as browser:
        await browser.sign_in("token-of-ann")
        yield browser
