"""Does a page name a tool that no pattern of a token names?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.conftest import SCOPES, served, write_tokens
from tests.server.test_unknown_tools import HIDDEN, write_zebra
from tests.studio.conftest import Browser
from tool_engine import ToolEngine
from tool_engine.server import create_app
from tool_engine.studio.site import PANES


@pytest.fixture
async def browser(engine: ToolEngine, tmp_path: Path) -> AsyncIterator[Browser]:
    """That of one who operates, and for whom there is no zebra, which others have used."""
    write_zebra(tmp_path / "tools")
    await engine.reload()
    await engine.execute(HIDDEN, {"message": "done"})
    await (await engine.start(HIDDEN, {"message": "later"})).wait()
    tokens = write_tokens(tmp_path / "few.json", {"max": {"scopes": SCOPES, "tools": ["a*"]}})
    app = await asyncio.to_thread(create_app, engine, auth=str(tokens), studio=True)
    async with served(app) as service, Browser(service.url) as browser:
        await browser.sign_in("token-of-max")
        yield browser


async def test_no_page_names_it(browser: Browser) -> None:
    """Those that the menu leads to are there, and say nothing of it; sessions show all tools."""
    for path, _, _ in PANES:
        shown = await browser.open(f"/studio{path}")
        assert shown.status == (403 if path == "/sessions" else 200), path
        assert HIDDEN not in shown.text, path
    assert 'href="/studio/sessions"' not in (await browser.open("/studio/")).text
