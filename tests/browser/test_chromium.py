"""Does a browser end with the tests that it is for, however those end?"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import BOUND, DevTools, find_chromium, run_chromium
from tests.browser.page import Page

RUN = """
import sys, time
from pathlib import Path
from tests.browser.chromium import find_chromium, run_chromium
with run_chromium(find_chromium(), Path(sys.argv[1])) as address:
    print(address, flush=True)
    time.sleep(600)
"""
PROCESSES = Path("/proc")


@pytest.fixture
def folder(chromium: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def list_processes(folder: Path) -> list[str]:
    """Those whose home is the folder."""
    found, home = [], f"HOME={folder}".encode()
    for process in PROCESSES.glob("[0-9]*"):
        try:
            if home in (process / "environ").read_bytes().split(b"\0"):
                found.append(process.name)
        except OSError:  # it has ended, or is another user's
            continue
    return found


def wait_for_end(folder: Path) -> None:
    end = time.monotonic() + BOUND
    while left := list_processes(folder):
        assert time.monotonic() < end, f"left behind: {left}"
        time.sleep(0.02)


needs_proc = pytest.mark.skipif(not PROCESSES.is_dir(), reason="processes are listed by /proc")


@needs_proc
def test_a_browser_ends_when_a_test_fails(folder: Path) -> None:
    path = find_chromium()
    assert path is not None
    with contextlib.suppress(ZeroDivisionError), run_chromium(path, folder):
        assert len(list_processes(folder)) > 1
        raise ZeroDivisionError
    wait_for_end(folder)


@needs_proc
def test_a_browser_ends_with_a_run_that_is_killed(folder: Path) -> None:
    words = [sys.executable, "-c", RUN, str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as run:
        assert run.stdout is not None
        try:
            assert run.stdout.readline().startswith(b"ws://127.0.0.1:")
            assert len(list_processes(folder)) > 1
        finally:
            run.kill()
    wait_for_end(folder)


def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\necho no such display >&2\nexit 1\n", "utf-8")
    program.chmod(0o755)
    with (
        pytest.raises(AssertionError, match="did not start:\nno such display"),
        run_chromium(str(program), tmp_path),
    ):
        pass


async def test_an_end_is_noticed_at_once(folder: Path) -> None:
    """No look waits for an answer of a browser that has ended, nor for its own bound."""
    path = find_chromium()
    assert path is not None
    with run_chromium(path, folder) as address:
        async with DevTools.connect(address) as tools:
            context = (await tools.send("Target.createBrowserContext"))["browserContextId"]
            began = time.monotonic()
            with pytest.raises(AssertionError, match="the browser has ended"):  # noqa: PT012 - the page is closed within, too
                async with Page.opened(tools, context) as page:
                    looking = asyncio.create_task(page.find("button", "Never"))
                    await page.evaluate("1")
                    await tools.send("Browser.close")
                    await looking
            assert time.monotonic() - began < BOUND / 2
