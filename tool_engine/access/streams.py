"""When does a stream end whose reader may not read it any more?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, Final
from weakref import WeakKeyDictionary

from tool_engine.access.problem import make_unknown, send_problem
from tool_engine.logger import get_logger
from tool_engine.redaction import trace_of

_log: Final = get_logger(__name__)
IsKnown = Callable[[], Awaitable[bool]]
_LOOK: Final = 10.0
"""Seconds between two looks at the token of a reader."""


class _Looks:
    """Looks at the tokens of all who listen in one event loop, by one timer.

    A reader whose token is still taken is not woken, and of many with one token one look is enough.
    """

    def __init__(self) -> None:
        self._readers: dict[IsKnown, set[asyncio.Future[None]]] = {}
        self._under_way: dict[IsKnown, asyncio.Task[None]] = {}
        self._is_timed = False

    def begin_looking(self, is_known: IsKnown) -> asyncio.Future[None]:
        """Return what is done once a token is not taken; `end_looking` follows."""
        unknown: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers.setdefault(is_known, set()).add(unknown)
        if not self._is_timed:
            self._time_look()
        return unknown

    def end_looking(self, is_known: IsKnown, unknown: asyncio.Future[None]) -> None:
        """Look no more for a reader."""
        readers = self._readers[is_known]
        readers.remove(unknown)
        if not readers:
            del self._readers[is_known]
            if is_known in self._under_way:
                # Here, for what is cancelled before it begins does nothing at all, nor `finally`.
                self._under_way.pop(is_known).cancel()

    def _time_look(self) -> None:
        self._is_timed = True
        # In the context of no request: what it looks at is of many.
        asyncio.get_running_loop().call_later(_LOOK, self._look_at_all, context=Context())

    def _look_at_all(self) -> None:
        self._is_timed = False
        for each in self._readers:
            # One that hangs holds up no other.
            if each not in self._under_way:
                self._under_way[each] = asyncio.ensure_future(self._look_at(each))
        if self._readers:
            self._time_look()

    async def _look_at(self, is_known: IsKnown) -> None:
        is_taken = False
        try:
            is_taken = await is_known()
        except Exception as error:  # noqa: BLE001 - of who cannot be known no one may read
            _log.error("request_failed", operation="find_principal", error=trace_of(error))
        finally:
            if self._under_way.get(is_known) is asyncio.current_task():
                del self._under_way[is_known]
        if not is_taken:
            for each in self._readers.get(is_known, ()):
                if not each.done():
                    each.set_result(None)


_looks: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Looks]] = WeakKeyDictionary()


def leave_when_unknown(
    receive: Any, is_known: IsKnown, on_unknown: Callable[[], object] | None = None
) -> Any:
    """Return a `receive` for which a client has left as soon as its token is not taken.

    What a stream holds and runs is given up then, as for each client that leaves.

    Args:
        receive: Gives the messages of the client.
        is_known: Says whether its token is taken; those that are equal are asked once for all.
        on_unknown: Called when it is not taken any more.
    """

    async def receive_while_known() -> Any:
        loop = asyncio.get_running_loop()
        looks = _looks.setdefault(loop, _Looks())
        coming = asyncio.ensure_future(receive())
        unknown = looks.begin_looking(is_known)
        try:
            await asyncio.wait((coming, unknown), return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                return coming.result()
            if on_unknown is not None:
                on_unknown()
            return {"type": "http.disconnect"}
        finally:
            coming.cancel()
            looks.end_looking(is_known, unknown)

    return receive_while_known


async def answer_while_known(app: Any, scope: Any, receive: Any, send: Any) -> None:
    """Let an app answer until the token of its client is not taken, and end what it has begun.

    An answer that says how long it is, and has begun before, goes out whole.
    """
    answer = _Answer(send)
    await app(scope, leave_when_unknown(receive, scope["is_known"], answer.give_up), answer.send)
    await answer.end()


class _Answer:
    """The answer to one client, as far as it may read it."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self._is_taken = True
        """Whether the token of the client is taken, as far as is known."""
        self._has_begun = False
        self._is_open = False
        self._is_measured = False
        """Whether it said how long it is."""

    def give_up(self) -> None:
        """Note that its reader may read no more."""
        self._is_taken = False

    async def send(self, message: Any) -> None:
        if not (self._is_taken or (self._is_measured and self._is_open)):
            return  # of work that went on when it was given up
        if message["type"] == "http.response.start":
            self._has_begun = True
            self._is_open = True
            names = [name for name, _ in message.get("headers", ())]
            self._is_measured = b"content-length" in names
        else:
            self._is_open = message.get("more_body", False)
        await self._send(message)

    async def end(self) -> None:
        """End an answer that its reader may not read any more, or say that it may not."""
        if self._is_open:
            await self._send({"type": "http.response.body", "body": b""})
        elif not (self._has_begun or self._is_taken):
            await send_problem(make_unknown(), self._send)
