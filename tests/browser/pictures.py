"""Takes the pictures of the studio that the documents show: `python -m tests.browser.pictures`."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from tests.browser.chromium import DevTools, find_chromium, run_chromium
from tests.browser.page import Page

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
ARGUMENTS = quote('{"pages": 8}')
PANES = {
    "live": "/",
    "history": "/history",
    "call": "/history?tool=read_archive",
    "tools": "/tools",
    "tester": f"/tester?tool=read_archive&arguments={ARGUMENTS}",
    "parser": "/parser",
    "files": "/files",
    "approvals": "/approvals",
    "tasks": "/tasks",
    "sessions": "/sessions",
    "session": "/sessions/trip-to-oslo",
}
WHOLE = ("call", "session")
"""What is shown to its end, beyond the height of the window."""
WIDTHS = {"": 1280, "-narrow": 390}
HEIGHT = 900
BUSY = 60.0
"""Seconds until the demo has something to show."""


async def take_pictures(address: str, url: str) -> None:
    async with DevTools.connect(address) as tools:
        context = await tools.send("Target.createBrowserContext")
        async with Page.opened(tools, context["browserContextId"]) as page:
            for name, place in PANES.items():
                for ending, width in WIDTHS.items():
                    await page.set_size(width, HEIGHT)
                    await page.open(f"{url}/studio{place}")
                    await use_pane(page, name)
                    if name in WHOLE:
                        whole = await page.evaluate("document.documentElement.scrollHeight")
                        await page.set_size(width, whole)
                    await page.take_screenshot(FOLDER / f"studio-{name}{ending}.png")


async def use_pane(page: Page, name: str) -> None:
    """Does what makes a pane show something."""
    if name == "live":
        await page.find("table", "Waits, the next one first")
    elif name == "call":
        newest, *_ = await page.find_all("link", "read_archive")
        await newest.click_and_load()
        await page.find("heading", "Timeline")
    elif name == "tester":
        await (await page.find("button", "Run")).click()
        await page.find("progressbar", "Progress")
    elif name == "parser":
        await (await page.find("button", "Read")).click()
        await page.wait_for_text("Calls found: 1")


async def read_address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    while line := (await process.stderr.readline()).decode():
        if line.startswith("studio: "):
            return line.removeprefix("studio: ").strip().removesuffix("/studio/")
    raise AssertionError("the demo did not begin")


async def main() -> None:
    path = find_chromium()
    assert path, "there is no Chromium on the PATH"
    FOLDER.mkdir(exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tool_engine.cli", "demo", "--studio", "--port", "0"),
        stdin=subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        url = await read_address(process)
        await asyncio.sleep(BUSY)
        with tempfile.TemporaryDirectory() as folder, run_chromium(path, Path(folder)) as address:
            await take_pictures(address, url)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(main())
