"""Who may hold a connection to a server, and how are its requests read and answered?"""

from __future__ import annotations

import asyncio
import logging
import sys
from contextvars import copy_context
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from tool_engine.access.listener import count_room
from tool_engine.access.plain_http import PlainAnswer, PlainRequest, read_plain
from tool_engine.access.problem import write_too_many, write_unreadable

_log: Final = logging.getLogger("uvicorn.error.requests")
_log.setLevel(logging.ERROR)
_HEAD_LIMIT: Final = 10.0
"""Seconds within which the head of a request must have come."""
_LINGER_LIMIT: Final = 1.0
"""Seconds for which a client that is refused may go on sending."""
_MOST_REFUSED: Final = 16
"""Such clients at once; then the first of them is cut off."""
_MOST_HELD: Final = 4 << 10
"""Bytes that wait in this process beside one write: what never reads costs little more."""
_LONG_PART: Final = 1 << 14
"""Bytes of a part that waits for no others."""
_LINE_END: Final = b"\r\n"


class ServerConfig(uvicorn.Config):
    """What the connections of one server share."""

    is_ending = False
    """True once the connections that there were have been closed or let end."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.refused: dict[TimedProtocol, None] = {}
        """Connections that are closed, whose clients may not have read yet why; oldest first."""


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


class PatientConnection(h11.Connection):
    """What h11 knows of a connection, but that empty lines before a request are passed over.

    RFC 9112 (2.2) has a server do so: some clients send one after a body.
    """

    def next_event(self) -> Any:
        if self.their_state is h11.IDLE:
            waiting, length = self.trailing_data[0], 0
            while waiting.startswith(_LINE_END, length):
                length += len(_LINE_END)
            if length:
                # No public way leads there.
                self._receive_buffer.maybe_extract_at_most(length)
            if waiting[length:] == _LINE_END[:1]:
                return h11.NEED_DATA
        return super().next_event()


class TimedProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn has it, but for seven things.

    A client must send the head of a request in time, there are only so many of them, no request
    sees context variables that another one of its connection has set, what an answer writes in one
    turn of the loop, such as its head and its body, goes out as one packet, what is no request is
    answered with a problem, and not logged, empty lines before a request are none, and a plain
    request takes a shorter way.
    """

    config: ServerConfig
    _head_timer: asyncio.TimerHandle | None = None
    _held = b""
    """What came while a plain request was answered."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.conn = PatientConnection(h11.SERVER)

    def connection_made(self, transport: Any) -> None:
        transport.set_write_buffer_limits(_MOST_HELD)
        self._context = copy_context()
        self._joined = _JoinedWrites(transport, self.loop)
        # What strangers send, before any token is looked at, fills no log.
        self.logger = _log
        super().connection_made(self._joined)  # type: ignore[arg-type]
        if self.config.is_ending:
            # uvicorn has closed all that it knew: it would wait for this one for the whole grace.
            transport.close()
            return
        if len(self.connections) > count_room():
            # Not accepting would leave it waiting, and asyncio would log each turn of the loop.
            self._refuse_client(write_too_many())
            return
        self._time_head()

    def _refuse_client(self, answer: bytes) -> None:
        """Send a last answer, and read on for a while."""
        self._joined.write(answer)
        # A system whose process closes while a request still comes resets the connection: the
        # client would fail as it sends, and never read why.
        self._joined.end_writing()
        self._end_timer()
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
        if self in self.config.refused:
            return
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
        is_whole = cycle is not None and not (cycle.response_complete or cycle.more_body)
        if is_whole and any(_is_close(*each) for each in self.headers):
            return  # its client has said that nothing follows: what does is not read
        # This is called where what is wrong is caught.
        if cycle is None or cycle.response_complete:
            self._refuse_client(write_unreadable(sys.exception()))
        elif not cycle.response_started:
            self._refuse_client(write_unreadable(None))
        else:
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


class _JoinedWrites:
    """A transport that sends what is written in one turn of the loop at once.

    Args:
        transport: Sends it.
        loop: Whose turns count.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._is_lost = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not data:
            return
        if not self._parts:
            self._loop.call_soon(self._send_parts)
        self._parts.append(data)
        if len(data) > _LONG_PART:
            # So that what writes hears when the client does not keep up.
            self._send_parts()

    def close(self) -> None:
        self._send_parts()
        self._transport.close()

    def end_writing(self) -> None:
        """Say that nothing more comes; what the client sends is still read."""
        self._send_parts()
        self._transport.write_eof()

    def drop(self) -> None:
        """Send nothing more."""
        self._is_lost = True

    def _send_parts(self) -> None:
        parts, self._parts = self._parts, []
        # To write to a client that has left is a line of asyncio's in the log, again and again.
        if parts and not (self._is_lost or self._transport.is_closing()):
            self._transport.write(b"".join(parts))


def _is_close(name: bytes, value: bytes) -> bool:
    return name == b"connection" and value.lower() == b"close"
