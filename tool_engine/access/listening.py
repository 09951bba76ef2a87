"""At which address is a server reached, and who can hold it up?"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from tool_engine.access.joined_writes import JoinedWrites
from tool_engine.access.listener import MOST_WAITING, count_room, open_listener
from tool_engine.access.plain_http import PlainAnswer, PlainRequest, read_plain
from tool_engine.access.problem import make_ended, send_problem, write_too_many, write_unreadable

_log: Final = logging.getLogger("uvicorn.error.requests")
_log.setLevel(logging.ERROR)
GRACE: Final = 5
"""Seconds that open requests get when the server ends."""
_LONGEST_END: Final = 2.0
"""Seconds beyond the grace after which a server is not waited for any more."""
_HEAD_LIMIT: Final = 10.0
"""Seconds within which the head of a request must have come."""
_IDLE_LIMIT: Final = 75
"""Seconds for which a connection stays open between two requests."""
_LINGER_LIMIT: Final = 1.0
"""Seconds for which a client that is refused may go on sending."""
_MOST_REFUSED: Final = 16
"""Such clients at once; then the first of them is cut off."""
_MOST_AT_ONCE: Final = 16
"""Connections that are taken in one turn of the loop; only then they are counted."""
_LOOK_PERIOD: Final = 0.002
"""Seconds between two looks whether what is open has ended."""
_DATE_PERIOD: Final = 1.0
"""Seconds for which answers say the same time."""
_MOST_HELD: Final = 4 << 10
"""Bytes that wait in this process beside one write: what never reads costs little more."""


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
    config = _Config(
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


class _Config(uvicorn.Config):
    is_ending = False
    """True once the connections that there were have been closed or let end."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.refused: dict[TimedProtocol, None] = {}
        """Connections beyond the limit, whose clients may not have read yet why; oldest first."""


class _Server(uvicorn.Server):
    """A server that leaves the signals of the process to the program."""

    config: _Config

    def __init__(self, config: _Config) -> None:
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


class PlainCycle(RequestResponseCycle):
    """A plain request and its answer, of which h11 hears nothing."""

    _answer: PlainAnswer | None = None

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        kind, answer = message["type"], self._answer
        expected = "http.response.start" if answer is None else "http.response.body"
        if kind != expected or self.response_complete:
            ended = ", and the answer is complete" if self.response_complete else ""
            raise RuntimeError(f"an app has sent {kind!r} instead of {expected!r}{ended}")
        if answer is None:
            self.response_started = True
            headers = [*self.default_headers, *message.get("headers", ())]
            self._answer = answer = PlainAnswer(self.transport.write, self.keep_alive)
            answer.send_head(message["status"], headers)
            return
        is_last = not message.get("more_body", False)
        answer.send_part(message.get("body", b""), is_last)
        if is_last:
            self.response_complete = True
            self.message_event.set()
            if not (self.keep_alive and answer.is_followed):
                self.transport.close()
            self.on_response()


class TimedProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn has it, but for six things.

    A client must send the head of a request in time, there are only so many of them, no request
    sees context variables that another one of its connection has set, what an answer writes in one
    turn of the loop, such as its head and its body, goes out as one packet, what is no request is
    answered with a problem, and not logged, and a plain request takes a shorter way.
    """

    config: _Config
    _head_timer: asyncio.TimerHandle | None = None
    _held = b""
    """What came while a plain request was answered."""

    def connection_made(self, transport: Any) -> None:
        transport.set_write_buffer_limits(_MOST_HELD)
        self._context = copy_context()
        self._joined = JoinedWrites(transport, self.loop)
        # What strangers send, before any token is looked at, fills no log.
        self.logger = _log
        super().connection_made(self._joined)  # type: ignore[arg-type]
        if self.config.is_ending:
            # uvicorn has closed all that it knew: it would wait for this one for the whole grace.
            transport.close()
            return
        if len(self.connections) > count_room():
            self._refuse_client()
            return
        self._time_head()

    def _refuse_client(self) -> None:
        # Not accepting would leave it waiting, and asyncio would log each turn of the loop.
        self._joined.write(write_too_many())
        # A system whose process closes while a request still comes resets the connection: the
        # client would fail as it sends, and never read why.
        self._joined.end_writing()
        self._head_timer = self.loop.call_later(_LINGER_LIMIT, self.transport.close)
        refused = self.config.refused
        if len(refused) >= _MOST_REFUSED:
            first = next(iter(refused))
            del refused[first]
            first.transport.close()
        refused[self] = None

    def data_received(self, data: bytes) -> None:
        if self in self.config.refused:
            return
        cycle = self.cycle
        if isinstance(cycle, PlainCycle) and not cycle.response_complete:
            self._held += data
            self.flow.pause_reading()
            return
        if self._is_between_requests() and (plain := read_plain(data)) is not None:
            self._begin_answer(plain)
            return
        super().data_received(data)
        # Most heads come whole, and need no timer.
        if self.conn.their_state is not h11.IDLE:
            self._end_timer()
        elif self._head_timer is None:
            self._time_head()

    def _is_between_requests(self) -> bool:
        conn = self.conn
        is_idle = conn.our_state is h11.IDLE and conn.their_state is h11.IDLE
        return is_idle and not conn.trailing_data[0]

    def _begin_answer(self, plain: PlainRequest) -> None:
        """Have the app answer, as uvicorn does."""
        self._unset_keepalive_if_required()
        self._end_timer()
        self.headers = plain.headers
        scope = plain.make_scope(self.server, self.client, self.scheme, self.app_state)
        self.scope = scope  # type: ignore[assignment]
        self.cycle = PlainCycle(
            scope=self.scope,
            conn=self.conn,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            on_response=self.on_response_complete,
        )
        self.cycle.body += plain.body
        self.cycle.more_body = False
        self.cycle.keep_alive = plain.is_followed
        self.cycle.message_event.set()
        task = self.loop.create_task(self.cycle.run_asgi(self.app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request, as all else is answered that cannot be done."""
        del msg
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(write_unreadable())
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: it is a request as any other, and its cure would be none."""

    def on_response_complete(self) -> None:
        # A request that has come with the one before would begin in that one's context.
        self._context.run(super().on_response_complete)
        if self._held and not self.transport.is_closing():
            data, self._held = self._held, b""
            self._context.run(self.data_received, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_timer()
        self.config.refused.pop(self, None)
        # To send to a client that has left would lose the connection a second time.
        self._joined.drop()
        super().connection_lost(exc)

    def _time_head(self) -> None:
        self._head_timer = self.loop.call_later(_HEAD_LIMIT, self._close_late)

    def _end_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close_late(self) -> None:
        self._head_timer = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()
