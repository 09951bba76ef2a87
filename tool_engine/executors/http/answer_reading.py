"""How is an HTTP answer's body read, within a limit on its decoded size?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import aiohttp

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.http.answer import HTTPAnswer
from tool_engine.executors.http.decompression import Decoder, DecodingError, decoder_for

_BREATH: Final = 256 * 1024
"""Bytes that are decoded before other tasks get their turn."""


class Budget:
    """The bytes that all answers of one call may have together.

    Args:
        max_bytes: The most, after decoding. Before it, an answer may have twice as many: one that
            decodes to nothing must end as well.
        cure: The advice in the error when it is too little.
    """

    def __init__(
        self,
        max_bytes: int,
        cure: str = "ask for less, or raise entry.request.max_bytes in the tool's YAML",
    ) -> None:
        self.max_bytes = max_bytes
        self.cure = cure
        self._decoded = max_bytes
        self._encoded = 2 * max_bytes + _BREATH

    @property
    def spent(self) -> int:
        return self.max_bytes - self._decoded

    def spend(self, *, encoded: int = 0, decoded: int = 0) -> bool:
        self._encoded -= encoded
        self._decoded -= decoded
        return self._encoded >= 0 and self._decoded >= 0


async def read_answer(response: aiohttp.ClientResponse, budget: Budget) -> HTTPAnswer:
    """Return the whole answer; raise if cut off or beyond the budget."""
    if "Content-Encoding" not in response.headers:
        size = response.content_length
        if size is not None and budget.spend(encoded=size, decoded=size):
            return answer_of(response, await response.content.read())
    pieces: list[bytes] = []

    async def keep(piece: bytes) -> None:
        pieces.append(piece)

    await pour_body(response, budget, keep)
    return answer_of(response, pieces[0] if len(pieces) == 1 else b"".join(pieces))


def answer_of(response: aiohttp.ClientResponse, body: bytes = b"") -> HTTPAnswer:
    received = response.headers
    return HTTPAnswer(
        status=response.status,
        reason=response.reason or "",
        received=received,
        content_type=response.content_type if "Content-Type" in received else "",
        charset=response.charset,
        body=body,
        url=response.url,
    )


async def pour_body(
    response: aiohttp.ClientResponse, budget: Budget, write: Callable[[bytes], Awaitable[None]]
) -> None:
    """Decode the body into `write`, piece by piece; raise as `read_answer`."""
    decoder: Decoder | None = None
    since_breath = 0
    try:
        async for data in response.content.iter_any():
            if decoder is None:
                decoder = decoder_for(", ".join(response.headers.getall("Content-Encoding", ())))
            if not budget.spend(encoded=len(data)):
                raise _too_large(response, budget)
            for piece in decoder.feed(data):
                if not budget.spend(decoded=len(piece)):
                    raise _too_large(response, budget)
                await write(piece)
                since_breath += len(piece)
                if since_breath >= _BREATH:
                    since_breath = 0
                    await asyncio.sleep(0)
        if decoder is not None:
            decoder.close()
    except DecodingError as error:
        response.close()
        raise ToolExecutionError(f"the answer of {_name_origin(response)} {error}") from None


def is_success(response: aiohttp.ClientResponse) -> bool:
    return 200 <= response.status < 300


def _name_origin(response: aiohttp.ClientResponse) -> str:
    return str(response.url.host_port_subcomponent)


def _too_large(response: aiohttp.ClientResponse, budget: Budget) -> ToolExecutionError:
    response.close()
    return ToolExecutionError(
        f"the answer of {_name_origin(response)} is larger than {budget.max_bytes} bytes; "
        f"{budget.cure}"
    )
