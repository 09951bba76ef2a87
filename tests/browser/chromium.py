"""A Chromium without a window, that tests drive by the DevTools protocol."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
START_LIMIT = 60.0
END_LIMIT = 5.0
BOUND = 20.0
OPTIONS = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--remote-debugging-pipe",  # the browser ends when its other end is closed
    "--no-sandbox",  # root has none, as in a container
    "--no-first-run",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-sync",
)


def find_chromium() -> str | None:
    """Its path; None: there is none here."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextlib.contextmanager
def run_chromium(path: str, folder: Path) -> Iterator[str]:
    """Runs a browser, and yields its address; it ends with this process, however that ends.

    All that it writes is below the folder, and no name but the loopback's leads anywhere.
    """
    log, place = folder / "log", folder / "profile" / "DevToolsActivePort"
    own = {name: str(folder) for name in ("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    with log.open("wb") as said:  # a pipe that is not read would hold the browser up
        options = [*OPTIONS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        process = subprocess.Popen(
            ["sh", "-c", 'exec "$0" "$@" 3<&0 4>&1', path, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
            env=os.environ | own,
        )
    try:
        yield _read_address(process, place, log)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_LIMIT)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read_address(process: subprocess.Popen[bytes], place: Path, log: Path) -> str:
    end = time.monotonic() + START_LIMIT
    while True:
        # The second line is there once the file is whole.
        with contextlib.suppress(FileNotFoundError):
            port, _, target = place.read_text("utf-8").partition("\n")
            if target:
                return f"ws://127.0.0.1:{port}{target}"
        has_time = process.poll() is None and time.monotonic() < end
        assert has_time, f"the browser did not start:\n{log.read_text('utf-8', 'replace')}"
        time.sleep(0.02)


OnEvent = Callable[[str, Any], None]


class DevTools:
    """A connection to a browser; answers and events by the id of their session."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._listeners: dict[str, list[OnEvent]] = {}
        self.is_closed = False

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
        assert not self.is_closed, f"{method}: the browser has ended"
        number = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        message = {"id": number, "method": method, "params": params}
        await self._socket.send_json(message | ({"sessionId": session} if session else {}))
        try:
            async with asyncio.timeout(BOUND):
                found = await answer
        except TimeoutError:
            raise AssertionError(f"{method}: no answer within {BOUND:g} s") from None
        finally:
            self._answers.pop(number, None)
        assert "error" not in found, f"{method}: {found['error']}"
        return found["result"]

    def listen(self, session: str, on_event: OnEvent) -> Callable[[], None]:
        """Hears of the events of a session, "" is the browser's own; returns what ends it."""
        listeners = self._listeners.setdefault(session, [])
        listeners.append(on_event)
        return lambda: listeners.remove(on_event)

    async def _read(self) -> None:
        try:
            async for message in self._socket:
                data = message.json()
                if "id" not in data:
                    for on_event in [*self._listeners.get(data.get("sessionId", ""), [])]:
                        on_event(data["method"], data["params"])
                elif (answer := self._answers.get(data["id"])) and not answer.done():
                    answer.set_result(data)
        finally:
            # What still waits for an answer need not wait for its bound.
            self.is_closed = True
            ended = {"error": "the browser has ended"}
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_result(ended)
