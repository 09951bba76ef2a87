"""What dials the addresses of an HTTP tool, and reads what comes back?"""

from __future__ import annotations

import contextlib
import socket
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from tool_engine.executors.http.addresses import AllowList

__all__ = ["GuardedConnector", "GuardedResolver"]

_READ_SIZE: Final = 64 * 1024


class GuardedResolver(AbstractResolver):
    """Resolves names, and refuses the addresses that a tool may not reach.

    aiohttp dials what this returns and nothing else, so a name that is bound anew between a check
    and the dialling gains nothing.
    """

    def __init__(self, allow: AllowList, inner: AbstractResolver) -> None:
        self._allow = allow
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of `host` that may be dialled.

        Raises:
            AddressRefusedError: None may be.
            OSError: There are none.
        """
        found = await self._inner.resolve(host, port, family)
        if not found:
            raise OSError(None, "it has no address")
        addresses = [result["host"] for result in found]
        permitted = set(self._allow.permitted(host.rstrip("."), port, addresses))
        return [result for result in found if result["host"] in permitted]

    async def close(self) -> None:
        """Closes the resolver that does the work."""
        await self._inner.close()


class GuardedConnector(aiohttp.TCPConnector):
    """Opens connections to what a resolver permits.

    Args:
        resolver: Finds the addresses.
        options: What aiohttp's connector takes besides.
    """

    def __init__(self, resolver: GuardedResolver, **options: Any) -> None:
        # Admission limits how many calls run; a second limit here would queue unseen.
        super().__init__(resolver=resolver, limit=0, **options)

    async def _create_connection(self, *args: Any) -> Any:
        protocol = await super()._create_connection(*args)
        # What was read at once is parsed at once, with nothing else running: a quarter of what
        # asyncio takes. Its own transports have this; one that has not reads as it does.
        with contextlib.suppress(AttributeError):
            protocol.transport.max_size = _READ_SIZE  # type: ignore[union-attr]
        return protocol
