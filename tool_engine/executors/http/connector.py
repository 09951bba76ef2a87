"""How does an HTTP tool dial addresses and read from connections?"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import select
import socket
from collections.abc import Callable
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler

from tool_engine.executors.http.addresses import AllowList
from tool_engine.executors.http.name_threads import NameThreads

_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
_READ_SIZE: Final = 64 * 1024


class NameResolver(AbstractResolver):
    def __init__(self, threads: NameThreads) -> None:
        self._threads = threads

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await asyncio.wrap_future(self._threads.look_up(host, port, family))
        return [
            ResolveResult(
                hostname=host,
                host=_address_text(address),
                port=address[1],
                family=kind,
                proto=protocol,
                flags=_NUMERIC,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        """Do nothing: the threads belong to the executor."""


def _address_text(address: tuple[Any, ...]) -> str:
    zone = address[3] if len(address) > 3 else 0
    return f"{address[0]}%{zone}" if zone else str(address[0])


class GuardedResolver(AbstractResolver):
    """A resolver that refuses the addresses that a tool may not reach.

    aiohttp dials what this returns and nothing else, so a name that is bound anew between a check
    and the dialling gains nothing.
    """

    def __init__(self, allow: AllowList, inner: AbstractResolver) -> None:
        self._allow = allow
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses that may be dialled; raise `AddressRefusedError` if none may."""
        found = await self._inner.resolve(host, port, family)
        if not found:
            raise OSError(None, "it has no address")
        addresses = [result["host"] for result in found]
        permitted = set(self._allow.permitted(host.rstrip("."), port, addresses))
        return [result for result in found if result["host"] in permitted]

    async def close(self) -> None:
        await self._inner.close()


class WholeAnswers(ResponseHandler):
    """A reader that ends an answer without length at an orderly close."""

    _has_news: Callable[[], bool] = staticmethod(lambda: False)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        if connection is not None:
            self._has_news = _make_watch(connection.fileno())

    def is_connected(self) -> bool:
        """Return True if an idle connection can take the next request."""
        # A server's hang-up on an idle connection is noticed at the next step of the event
        # loop, and a request that is sent before that can never be answered.
        return super().is_connected() and not self._has_news()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Mark an unfinished body as cut off, unless the connection ended in order."""
        # aiohttp takes a reset for the end of a body without a length.
        if exc is not None and self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(aiohttp.ClientPayloadError(f"connection lost: {exc}"), exc)
        super().connection_lost(exc)


class GuardedConnector(aiohttp.TCPConnector):
    def __init__(self, resolver: GuardedResolver, **options: Any) -> None:
        # Admission limits how many calls run; a second limit here would queue unseen.
        super().__init__(resolver=resolver, limit=0, **options)
        handler = functools.partial(WholeAnswers, loop=self._loop)
        self._factory = handler  # type: ignore[assignment] # a partial says its result exactly

    async def _create_connection(self, *args: Any) -> Any:
        protocol = await super()._create_connection(*args)
        # One read is parsed in one step, which blocks: a quarter of what asyncio takes.
        # Only its own transports have this limit; another one reads as it does.
        with contextlib.suppress(AttributeError):
            protocol.transport.max_size = _READ_SIZE  # type: ignore[union-attr]
        return protocol


def _make_watch(number: int) -> Callable[[], bool]:
    """Return a function that says whether something has arrived on a connection."""
    if not hasattr(select, "poll"):
        return lambda: bool(select.select([number], [], [], 0)[0])
    # Made once for each connection: it is asked before each request.
    watch = select.poll()
    watch.register(number, select.POLLIN)
    return lambda: bool(watch.poll(0))
