"""At which address is an app served, and how does its server end?"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import uvicorn

from tool_engine.access.client_connection import ServerConfig, TimedProtocol
from tool_engine.access.heads import read_target
from tool_engine.access.listener import MOST_WAITING, open_listener
from tool_engine.access.problem import make_ended, send_problem

GRACE: Final = 5
"""Seconds that open requests get when the server ends."""
_LONGEST_END: Final = 2.0
"""Seconds beyond the grace after which a server is not waited for any more."""
_IDLE_LIMIT: Final = 75
"""Seconds for which a connection stays open between two requests."""
_MOST_AT_ONCE: Final = 16
"""Connections that are taken in one turn of the loop; only then they are counted."""
_LOOK_PERIOD: Final = 0.002
"""Seconds between two looks whether what is open has ended."""
_DATE_PERIOD: Final = 1.0
"""Seconds for which answers say the same time."""


async def serve_app(
    app: Any,
    host: str,
    port: int,
    on_ready: Callable[[str], object] | None,
    path: str,
    *,
    grace: float = GRACE,
    on_end: Callable[[], object] | None = None,
) -> None:
    """Serve an ASGI app until this is cancelled.

    Args:
        app: The app.
        host: The address.
        port: The port; 0: any that is free.
        on_ready: Gets the URL, once it answers.
        path: What the URL ends in.
        grace: Seconds that open requests get when it ends.
        on_end: Called when it begins to end.

    Raises:
        ConfigurationError: The address cannot be served at.
    """
    listener = open_listener(host, port)
    config = ServerConfig(
        partial(_answer_until_end, app),
        http=TimedProtocol,
        # A request that would become a socket is one like others: its guard refuses it in time.
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_IDLE_LIMIT,
        backlog=_MOST_AT_ONCE,
        lifespan="on",
        interface="asgi3",
    )
    server = _Server(config)
    try:
        if on_ready is not None:
            bound = listener.getsockname()
            shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
            on_ready(f"http://{shown}:{bound[1]}{path}")
        await _run_until_cancelled(server, listener, grace, on_end)
    finally:
        listener.close()


async def _answer_until_end(app: Any, scope: Any, receive: Any, send: Any) -> None:
    """Let an app answer; what the server ends before has an answer that says so."""
    if scope["type"] == "lifespan":
        await _live_until_end(app, scope, receive, send)
        return
    if scope["path"][:1] != "/":
        scope = read_target(scope)
    try:
        await app(scope, receive, send)
    except asyncio.CancelledError:
        if scope["type"] != "http":
            raise
        # Which of the two can be sent depends on how far the answer had come.
        with contextlib.suppress(RuntimeError):
            await send_problem(make_ended(), send)
        with contextlib.suppress(RuntimeError):
            await send({"type": "http.response.body", "body": b""})


async def _live_until_end(app: Any, scope: Any, receive: Any, send: Any) -> None:
    """Let an app live; uvicorn does not write that it was cut as a failure of the app."""
    life: Any = asyncio.current_task()

    async def send_unless_cut(message: Any) -> None:
        # Starlette sends a traceback, which uvicorn writes.
        if not (life.cancelling() and message["type"].endswith(".failed")):
            await send(message)

    with contextlib.suppress(asyncio.CancelledError):
        await app(scope, receive, send_unless_cut)


async def _run_until_cancelled(
    server: _Server,
    listener: socket.socket,
    grace: float,
    on_end: Callable[[], object] | None,
) -> None:
    """Serve; when this is cancelled, open requests get a moment to end."""
    serving = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        if on_end is not None:
            on_end()
        try:
            await server.let_requests_end(grace)
            await asyncio.wait([serving], timeout=grace + _LONGEST_END)
        except asyncio.CancelledError:
            server.cut_requests()
            await asyncio.wait([serving], timeout=_LONGEST_END)
        serving.cancel()
        await asyncio.wait([serving])
        raise


class _Server(uvicorn.Server):
    """A server that leaves the signals of the process to the program."""

    config: ServerConfig

    def __init__(self, config: ServerConfig) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()
        self._grace = 0.0

    async def let_requests_end(self, grace: float) -> None:
        """Begin to end, once the requests that are open have ended, or after `grace` seconds.

        Until then others are heard: a probe, or a proxy with other servers, learns of it in time.
        """
        loop, open_now = asyncio.get_running_loop(), set(self.server_state.tasks)
        limit = loop.time() + grace
        try:
            if open_now:
                await asyncio.wait(open_now, timeout=grace)
        finally:
            # What has begun meanwhile has what is left.
            self._begin_end(max(limit - loop.time(), 0.0))

    def cut_requests(self) -> None:
        """Begin to end without waiting for a request."""
        self._begin_end(0.0)
        for each in self.server_state.tasks:
            each.cancel()

    def _begin_end(self, grace: float) -> None:
        self._grace = grace
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        # uvicorn looks ten times a second whether to end: here it hears of it at once.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _DATE_PERIOD)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # A connection that is taken in this very turn of the loop needs one more to be seen here:
        # neither asyncio nor uvicorn would ever close it.
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError):
            for each in sockets or ():
                loop.remove_reader(each)
        await asyncio.sleep(0)
        self.config.is_ending = True
        for server in self.servers:
            server.close()
        for each in sockets or ():
            each.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        try:
            await asyncio.wait_for(self._wait_tasks_to_complete(), self._grace)
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()
        await self.lifespan.shutdown()

    async def _wait_tasks_to_complete(self) -> None:
        # uvicorn looks ten times a second, and not before a tenth of one has passed.
        while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110 - no event
            await asyncio.sleep(_LOOK_PERIOD)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            # asyncio has one number for both.
            each.listen(MOST_WAITING)

    def capture_signals(self) -> Any:
        return contextlib.nullcontext()
