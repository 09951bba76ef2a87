"""How does a person come from the command line into the studio?"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.process import END_LIMIT, SERVER, START_LIMIT, write_tools
from tests.studio.conftest import Browser
from tests.warm_async import AsyncProgram, start


@contextlib.asynccontextmanager
async def command(*words: str) -> AsyncIterator[AsyncProgram]:
    """A command that serves until it is ended; killed at last."""
    process = await start("-m", "tool_engine.cli", *words, imports=SERVER)
    process.stdin.close()
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def read_studio(process: AsyncProgram) -> str:
    """The next address of the studio that a command writes."""
    async with asyncio.timeout(START_LIMIT):
        while line := (await process.stderr.readline()).decode():
            if line.startswith("studio: "):
                return line.removeprefix("studio: ").strip()
    raise AssertionError("it ended without an address")


async def end_at_signal(process: AsyncProgram) -> int:
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(END_LIMIT):
        return await process.wait()


async def test_serve_writes_a_link_that_works_once(tmp_path: Path) -> None:
    """Without a token file the API takes no one; the next link follows when one was used."""
    tools = str(write_tools(tmp_path))
    words = ("--tools", tools, "--records", "none", "serve", "--studio", "--port", "0")
    async with command(*words) as process:
        address = await read_studio(process)
        url, _, code = address.partition("/studio/sign-in/")
        assert len(code) == 32
        async with Browser(url) as browser:
            shown = await browser.send(f"/studio/sign-in/{code}")
            assert (shown.status, shown.url) == (200, f"{url}/studio/")
            assert (await browser.open("/studio/tools")).words.count("say") == 1
            assert (await browser.open("/v1/tools")).status == 401
            again = await read_studio(process)
            assert again.startswith(f"{url}/studio/sign-in/")
            assert again != address
        assert await end_at_signal(process) == 128 + signal.SIGTERM


@pytest.mark.parametrize("has_tools", [True, False])
async def test_the_demo_shows_a_busy_engine(tmp_path: Path, has_tools: bool) -> None:
    words = ("--tools", "tools") if has_tools else ()
    async with command(*words, "demo", "--studio", "--port", "0") as process:
        url = (await read_studio(process)).removesuffix("/studio/")
        async with Browser(url) as browser:
            shown = await browser.open("/studio/")
            assert (shown.status, "archive" in shown.words) == (200, True)
            async with asyncio.timeout(START_LIMIT):
                while "trip-to-oslo" not in (await browser.open("/studio/sessions")).words:
                    pass
        assert await end_at_signal(process) == 128 + signal.SIGTERM
