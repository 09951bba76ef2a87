"""A Chromium without a window, that tests drive by the DevTools protocol."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
START_LIMIT = 60.0
BOUND = 20.0
_ADDRESS = re.compile(r"DevTools listening on (ws://\S+)")


def find_chromium() -> str | None:
    """Its path; None: there is none here."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextlib.contextmanager
def run_chromium(path: str, folder: Path) -> Iterator[str]:
    """Runs a browser, and yields its address; all its processes are ended by their group."""
    process = subprocess.Popen(
        [
            path,
            "--headless=new",
            "--remote-debugging-port=0",
            f"--user-data-dir={folder}",
            "--no-sandbox",  # root has none, as in a container
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--disable-sync",
            "about:blank",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = ""
        while (found := _ADDRESS.search(said)) is None:
            line = process.stderr.readline()
            assert line, f"the browser did not start:\n{said}"
            said += line
        yield found[1]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


class DevTools:
    """A connection to a browser; answers and events by the id of their session."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._listeners: dict[str, Callable[[str, Any], None]] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, address: str) -> AsyncIterator[DevTools]:
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(address, max_msg_size=0) as socket,
        ):
            tools = cls(socket)
            reading = asyncio.create_task(tools._read())
            try:
                yield tools
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def send(self, method: str, session: str = "", **params: Any) -> Any:
        """What the browser answers to a command.

        Raises:
            AssertionError: It refuses it, or does not answer.
        """
        number = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        message = {"id": number, "method": method, "params": params}
        await self._socket.send_json(message | ({"sessionId": session} if session else {}))
        async with asyncio.timeout(BOUND):
            found = await answer
        assert "error" not in found, f"{method}: {found['error']}"
        return found["result"]

    def listen(self, session: str, on_event: Callable[[str, Any], None]) -> None:
        self._listeners[session] = on_event

    async def _read(self) -> None:
        async for message in self._socket:
            data = message.json()
            if "id" in data:
                answer = self._answers.pop(data["id"])
                if not answer.done():
                    answer.set_result(data)
            elif (on_event := self._listeners.get(data.get("sessionId", ""))) is not None:
                on_event(data["method"], data["params"])
