"""Pages of a real browser, each with cookies of its own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager

import pytest

from tests.browser.chromium import DevTools, find_chromium, run_chromium
from tests.browser.page import AXE, Page
from tests.server.conftest import engine as engine
from tests.studio.conftest import studio as studio

NewPage = Callable[[], AbstractAsyncContextManager[Page]]


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = find_chromium()
    if path is None:
        pytest.skip("there is no Chromium on the PATH")
    with run_chromium(path, tmp_path_factory.mktemp("chromium")) as address:
        yield address


@pytest.fixture
async def new_page(chromium: str) -> AsyncIterator[NewPage]:
    """Opens a page of one that is signed in nowhere."""
    async with DevTools.connect(chromium) as tools:

        @contextlib.asynccontextmanager
        async def open_page() -> AsyncIterator[Page]:
            context = await tools.send("Target.createBrowserContext")
            async with Page.opened(tools, context["browserContextId"]) as page:
                yield page
            await tools.send(
                "Target.disposeBrowserContext", browserContextId=context["browserContextId"]
            )

        yield open_page


@pytest.fixture
async def page(new_page: NewPage) -> AsyncIterator[Page]:
    async with new_page() as page:
        yield page


@pytest.fixture(scope="session")
def axe() -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: run `make node`")
