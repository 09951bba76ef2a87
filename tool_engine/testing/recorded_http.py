"""How does an HTTP tool receive recorded answers without a network?

The executor and aiohttp are the real ones: a request is written to bytes and an answer read from
bytes. Only the connection is a piece of memory. It cannot dial, so a test reaches nothing, whatever
the tool and its arguments are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
from yarl import URL

from tool_engine.executors.http.addresses import AllowList
from tool_engine.executors.http.http_executor import HTTPExecutor
from tool_engine.executors.http.response_entry import SavePlan
from tool_engine.testing.exchanges import Recording, SentRequest
from tool_engine.testing.scratch import ScratchFolder, scratch_plan


class RecordedHTTPExecutor(HTTPExecutor):
    """Runs HTTP tools against a recording. One call at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._recording = Recording()
        self.scratch: ScratchFolder | None = None
        """Where answers are saved; None: nowhere, and a tool that saves fails."""

    @property
    def recording(self) -> Recording:
        """The recording that answers the next request."""
        return self._recording

    @recording.setter
    def recording(self, recording: Recording) -> None:
        # Which requests a test has to record must not depend on the tests before it.
        self._tokens.forget()
        self._recording = recording

    async def _save_answer(
        self, request: Any, sending: Any, plan: SavePlan, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        return await super()._save_answer(
            request, sending, scratch_plan(plan, self.scratch), params
        )

    def _make_connector(self, allow: AllowList) -> aiohttp.BaseConnector:
        return _MemoryConnector(self)


class _MemoryConnector(aiohttp.BaseConnector):
    """Opens a new piece of memory for each request, for http and https alike."""

    def __init__(self, executor: RecordedHTTPExecutor) -> None:
        super().__init__(force_close=True, limit=0)
        self._executor = executor

    async def _create_connection(self, req: Any, *_: Any) -> Any:
        protocol = self._factory()
        protocol.connection_made(_Memory(protocol, req.url.origin(), self._executor.recording))
        return protocol


class _Memory(asyncio.Transport):
    """The connection: collects one request, then delivers its answer."""

    def __init__(self, protocol: Any, origin: URL, recording: Recording) -> None:
        super().__init__()
        self._protocol = protocol
        self._origin = origin
        self._recording = recording
        self._written = b""
        self._is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._written += bytes(data)
        sent = _request_in(self._written, self._origin)
        if sent is None:
            return
        self._written = b""
        # As a socket would: the answer comes when the writer has gone on.
        asyncio.get_running_loop().call_soon(self._answer_request, sent)

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self._end_connection(None)

    def abort(self) -> None:
        self._end_connection(None)

    def pause_reading(self) -> None:
        """Do nothing: the whole answer is there at once."""

    def resume_reading(self) -> None:
        """Do nothing: the whole answer is there at once."""

    def _answer_request(self, sent: SentRequest) -> None:
        if self._is_closed:
            return
        answer = self._recording.answer(sent)
        if answer is None:
            self._end_connection(ConnectionResetError("not recorded"))
        else:
            self._protocol.data_received(answer)
            # The end of the body is the end of the connection, so that no header has to say it.
            self._end_connection(None)

    def _end_connection(self, error: Exception | None) -> None:
        if not self._is_closed:
            self._is_closed = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, error)


def _request_in(data: bytes, origin: URL) -> SentRequest | None:
    """Return the request that `data` holds; None while a part of it is missing."""
    head, separator, body = data.partition(b"\r\n\r\n")
    if not separator:
        return None
    first, *lines = head.decode("utf-8", "backslashreplace").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    if len(body) < int(headers.get("content-length", 0)):
        return None
    return SentRequest(method, URL(f"{origin}{target}", encoded=True), headers, body)
