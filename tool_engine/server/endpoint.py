"""How does a request become an operation, and what it returns an answer?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from tool_engine.access.principal import Principal
from tool_engine.access.problem import (
    NOT_KEPT,
    PROTECTED,
    Problem,
    make_ended,
    make_unknown,
    send_problem,
)
from tool_engine.access.stepping import go_on
from tool_engine.access.streams import leave_when_unknown
from tool_engine.errors import (
    EngineClosedError,
    RecordsUnavailableError,
    TaskConflictError,
    TaskNotFoundError,
    ToolEngineError,
    TooManyTasksError,
)
from tool_engine.logger import get_logger
from tool_engine.model.json.returned_value import to_json
from tool_engine.redaction import trace_of
from tool_engine.server.operation import Asked, EventSource, Operation, Reply
from tool_engine.server.reading import decode_body, read_query
from tool_engine.server.served import Served

_log: Final = get_logger(__name__)
_JSON: Final = "application/json"
_EVENTS: Final = b"text/event-stream"
_AT_ONCE: Final = 1 << 16
"""Bytes that are read or written on the event loop; more in a thread."""
_PATIENCE: Final = 0.05
"""Seconds of work after which its client is watched."""
_PROBLEMS: Final = (
    # Of a task that was forgotten while its client waited.
    (TaskNotFoundError, 404, "unknown-task"),
    # The draft of the header proposes 422, which says here that a body does not fit.
    (TaskConflictError, 409, "key-of-another-request"),
    (TooManyTasksError, 429, "too-many-tasks"),
    (ToolEngineError, 409, "not-possible"),
)
"""What errors become, the first that fits."""


class Endpoint:
    """An ASGI app that does one operation.

    Args:
        operation: The operation.
        served: What it works with.
    """

    def __init__(self, operation: Operation, served: Served) -> None:
        self._operation = operation
        self._served = served

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        operation, client = self._operation, None
        try:
            asked = self._read_request(scope)
            if operation.body is not None:
                data = scope["body"]
                is_small = len(data) <= _AT_ONCE
                read = self._read_body
                asked.body = read(data) if is_small else await asyncio.to_thread(read, data)
            work: Any = operation.handler(asked)
            try:
                # Work that never waits costs its client no watching, and no timer.
                waited_for = work.send(None)
            except StopIteration as done:
                answer = done.value
            else:
                client = _Client(receive, scope["is_known"])
                answer = await self._finish_work(work, waited_for, client)
        except Exception as error:  # noqa: BLE001 - each becomes an answer
            await send_problem(_explain_failure(error, operation.name), send)
            return
        if answer is None and operation.answer is not None:
            return  # its client has left
        reply = answer if isinstance(answer, Reply) else Reply(answer)
        if reply.stream is not None:
            await _send_stream_head(reply, send)
            if scope["method"] != "HEAD":
                client = client or _Client(receive, scope["is_known"])
                await _send_stream(reply.stream, operation.name, client, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        body, kind = await _write_reply(reply)
        headers = {"content-type": kind, **reply.headers} if kind else reply.headers
        status = reply.status if reply.status != 200 else operation.status
        await _send_body(send, status, body, headers)

    async def _finish_work(self, work: Any, waited_for: Any, client: _Client) -> Any:
        if self._operation.is_cancelled_with_client:
            return await _while_client_waits(work, waited_for, client)
        return await go_on(work, waited_for)

    def _read_request(self, scope: Any) -> Asked:
        """Return a request without its body."""
        operation = self._operation
        principal: Principal = scope["principal"]
        if operation.scope is not None and not principal.may(operation.scope):
            raise Problem(
                403,
                "not-allowed",
                f"{principal.name!r} may not do this; it takes the scope {operation.scope!r}",
            )
        if operation.is_of_all_tools and not principal.may_use_all:
            raise Problem(
                403,
                "not-allowed",
                f"{principal.name!r} may not do this, which shows all tools; it takes a token "
                "whose `tools` are left out",
            )
        query = read_query(scope["query_string"], operation.query)
        root: str = scope.get("root_path", "").rstrip("/")
        path = scope["path_params"]
        return Asked(self._served, principal, path, query, None, scope["sent"], root)

    def _read_body(self, data: bytes) -> Any:
        kind = self._operation.body
        if data or self._operation.is_body_needed or kind is None:
            return decode_body(data, kind)
        return kind()


async def _write_reply(reply: Reply) -> tuple[bytes, str]:
    """Return the body of an answer, and what kind of text it is; empty: there is none."""
    if reply.data is not None:
        return reply.data, _JSON
    if reply.text is not None:
        return reply.text.encode(), _JSON
    if reply.value is None:
        return b"", ""
    return await write_json(reply.value), _JSON


def _explain_failure(error: Exception, operation: str) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, EngineClosedError | RecordsUnavailableError):
        # A client that sends again what has begun would have it done twice.
        pause = None if getattr(error, "has_begun", False) else 1.0
        return Problem(503, "not-available", str(error), retry_after=pause)
    for kind, status, name in _PROBLEMS:
        if isinstance(error, kind):
            pause = getattr(error, "retry_after", None)
            return Problem(status, name, str(error), retry_after=pause)
    _log.error("request_failed", operation=operation, error=trace_of(error))
    return Problem(500, "server-error", "the server has failed; its log says how")


class _Client:
    """Who waits for an answer.

    Args:
        receive: Its messages.
        is_known: Says whether its token is taken.
    """

    def __init__(self, receive: Any, is_known: Callable[[], Awaitable[bool]]) -> None:
        self._receive = leave_when_unknown(receive, is_known, self._note_unknown)
        self.is_taken = True
        """Whether its token is taken, as far as is known."""

    async def wait_for_end(self) -> None:
        """Wait until it has left, or its token is not taken any more."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def _note_unknown(self) -> None:
        self.is_taken = False


async def _while_client_waits(work: Any, waited_for: Any, client: _Client) -> Any:
    """Return what the work returns; None: its client has left, and the work was cancelled.

    Work that is done soon costs its client no watching.

    Raises:
        Problem: The token of the client is not taken any more, and the work was cancelled.
    """
    task: Any = asyncio.current_task()
    watches: list[Any] = []
    has_left = False

    async def watch() -> None:
        nonlocal has_left
        await client.wait_for_end()
        has_left = True
        task.cancel()

    loop = asyncio.get_running_loop()
    begin = lambda: watches.append(loop.create_task(watch()))  # noqa: E731 - it is short
    watches.append(loop.call_later(_PATIENCE, begin))
    try:
        return await go_on(work, waited_for)
    except asyncio.CancelledError:
        if not has_left or task.uncancel():
            raise
    finally:
        for each in watches:
            each.cancel()
    if not client.is_taken:
        raise make_unknown()
    return None


async def write_json(value: Any) -> bytes:
    """Return a value as JSON; a large one is written in a thread."""
    if isinstance(value, Sized):
        return await asyncio.to_thread(to_json, value.value)
    return to_json(value)


class Sized(msgspec.Struct):
    """A value that is too large to be written on the event loop."""

    value: Any


async def _send_body(send: Any, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    raw = [*PROTECTED, _KEPT if "etag" in headers else NOT_KEPT]
    for name, value in headers.items():
        raw.append((name.encode(), value.encode("latin-1")))
    if status in (204, 304):
        body = b""
    else:
        raw.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


_KEPT: Final = (b"cache-control", b"private, no-cache")
"""Of what has an `ETag`: a client may keep it, and asks each time whether it still holds."""


async def _send_stream_head(reply: Reply, send: Any) -> None:
    raw = [(b"content-type", _EVENTS), NOT_KEPT, *PROTECTED, (b"x-accel-buffering", b"no")]
    await send({"type": "http.response.start", "status": reply.status, "headers": raw})


async def _send_stream(stream: EventSource, operation: str, client: _Client, send: Any) -> None:
    """Send events until they end or the client has left; the last may be a problem."""

    async def write(piece: bytes) -> None:
        await send({"type": "http.response.body", "body": piece, "more_body": True})

    try:
        await _while_client_listens(stream(write), client)
    except asyncio.CancelledError:
        await write(_write_problem(make_ended()))
        raise
    except Exception as error:  # noqa: BLE001 - the head of the answer is sent already
        await write(_write_problem(_explain_failure(error, operation)))


def _write_problem(problem: Problem) -> bytes:
    """Return a problem as an event, as it stands on the wire."""
    return b"event: problem\ndata: %s\n\n" % problem.write()[1]


async def _while_client_listens(work: Any, client: _Client) -> None:
    """Write until the end, or until the client has left.

    Raises:
        Problem: Its token is not taken any more.
    """
    writing = asyncio.ensure_future(work)
    leaving = asyncio.create_task(client.wait_for_end())
    try:
        await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if writing.done():
            writing.result()
    finally:
        for each in (writing, leaving):
            each.cancel()
        await asyncio.gather(writing, leaving, return_exceptions=True)
    if not client.is_taken:
        raise make_unknown()
