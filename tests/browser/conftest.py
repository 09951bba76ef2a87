"""Pages of a real browser, each with cookies of its own."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.browser.chromium import DevTools, find_chromium, run_chromium
from tests.browser.page import AXE, Page
from tests.server.conftest import engine as engine
from tests.studio.conftest import studio as studio

NewPage = Callable[[], AbstractAsyncContextManager[Page]]


@pytest.fixture(scope="session")
def chromium() -> Iterator[str]:
    path = find_chromium()
    if path is None:
        pytest.skip("there is no Chromium on the PATH")
    # Short: the browser makes a socket below it, whose path has a bound.
    with (
        tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder,
        run_chromium(path, Path(folder)) as address,
    ):
        yield address


@pytest.fixture
async def new_page(chromium: str) -> AsyncIterator[NewPage]:
    """Opens a page of one that is signed in nowhere."""
    async with DevTools.connect(chromium) as tools:

        @contextlib.asynccontextmanager
        async def open_page() -> AsyncIterator[Page]:
            # It goes with the connection: asked to dispose of it, a busy browser may not answer.
            context = await tools.send("Target.createBrowserContext", disposeOnDetach=True)
            async with Page.opened(tools, context["browserContextId"]) as page:
                yield page

        yield open_page


@pytest.fixture
async def page(new_page: NewPage) -> AsyncIterator[Page]:
    async with new_page() as page:
        yield page


@pytest.fixture(scope="session")
def axe() -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: run `make node`")
