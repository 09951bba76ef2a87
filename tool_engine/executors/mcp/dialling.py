"""Which addresses may a server lead us to, and has one taken a connection?

Every request is dialled to an address that was checked, so that a name that is bound anew between a
check and the dialling gains nothing.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from tool_engine.executors.http.addresses import AllowList
from tool_engine.executors.http.name_threads import NameThreads
from tool_engine.executors.mcp.faults import BadServerError

_MADE: Final = "connection.connect_tcp.complete"
"""What the library below httpx2 calls the moment at which a connection is there."""
_LONGEST_LABEL: Final = 64


def allow_of(url: str, allow: Iterable[str]) -> AllowList:
    """Return what may be dialled: public addresses, the server's own and those of `allow`.

    Raises:
        BadServerError: The URL has no host, or an entry of `allow` is none.
    """
    try:
        own = _read_origin(url)
        AllowList.parse((own,))
    except ValueError:
        # What stands in it may be a secret.
        raise BadServerError(
            "its url is none of a server; write http://host:port/path or https://"
        ) from None
    try:
        return AllowList.parse((own, *allow))
    except ValueError as error:
        raise BadServerError(f"its allow is wrong: {error}", ("allow",)) from None


def _read_origin(url: str) -> str:
    """Return the host and port of a URL; raise `ValueError` if it has none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    is_host = all(0 < len(label) < _LONGEST_LABEL for label in host.rstrip(".").split("."))
    if parts.scheme not in ("http", "https") or not is_host:
        raise ValueError(host)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Dialler:
    """Sends requests over connections to permitted addresses.

    Args:
        allow: The addresses, beside public ones.
        tls: What holds for encrypted connections.
        on_reach: Called when an address has taken a connection, for the first time.
    """

    def __init__(
        self, allow: AllowList, tls: ssl.SSLContext, on_reach: Callable[[], None] | None = None
    ) -> None:
        self._allow = allow
        self._on_reach = on_reach
        self._names = NameThreads()
        self._inner = httpx2.AsyncHTTPTransport(
            verify=tls, limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        )

    async def close(self) -> None:
        """Close all connections."""
        self._names.close()
        await self._inner.aclose()

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request, and return its answer unread.

        Raises:
            AddressRefusedError: Its address is not permitted.
            httpx2.TransportError: It was not reached, or the connection broke.
        """
        host, url = request.url.host, request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await self._find_addresses(host, port)
        extensions = {**request.extensions, "sni_hostname": host}
        if self._on_reach is not None:
            extensions["trace"] = self._note_step
        problem: httpx2.TransportError | None = None
        for address in addresses:
            dialled = httpx2.Request(
                request.method,
                url if address == host else url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions=extensions,
            )
            try:
                return await self._inner.handle_async_request(dialled)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                problem = error
        raise problem or httpx2.ConnectError(f"{host} has no address")

    async def _note_step(self, name: str, facts: Any) -> None:
        if name == _MADE and self._on_reach is not None:
            note_reached, self._on_reach = self._on_reach, None
            note_reached()

    async def _find_addresses(self, host: str, port: int) -> list[str]:
        if _is_address(host):
            # A look-up goes through a thread, which costs more than all the rest of the request.
            return self._allow.permitted(host, port, [host])
        try:
            found = await asyncio.wrap_future(self._names.look_up(host, port))
        except OSError as error:
            raise httpx2.ConnectError(f"{host} cannot be looked up: {error.strerror}") from error
        addresses = dict.fromkeys(str(each[4][0]) for each in found)
        return self._allow.permitted(host.rstrip("."), port, addresses)


@lru_cache(maxsize=256)
def _is_address(host: str) -> bool:
    """Return True for an address that is written as the system would write it."""
    try:
        return str(ip_address(host)) == host and "%" not in host
    except ValueError:
        return False
