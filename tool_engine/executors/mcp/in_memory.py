"""How is a server of this process called, with no wire in between?

The SDK's way waits for a turn of the loop in each call, under scopes of cancellation. A call of a
tool needs neither: it is a function that is called, and its caller has a deadline of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

import anyio
from mcp import Client
from mcp.server import Server
from mcp.server.runner import modern_error_data, modern_on_request
from mcp.shared.direct_dispatcher import DirectDispatcher, create_direct_dispatcher_pair
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.transport_context import TransportContext

_CALL: Final = "tools/call"
_LEGACY: Final = "legacy"
_HERE: Final = TransportContext(kind="direct", can_send_request=False)


def call_directly(client: Client, server: Any) -> None:
    """Have a client that is not connected yet call the tools of a server directly.

    One that talks as before 2026-07-28, whose servers may ask in return, goes the SDK's way.
    """
    # No public way leads there: where a later SDK has no such attribute, its own way stays.
    usual = getattr(client, "_connect", None)
    if isinstance(server, Server) and usual is not None:
        client._connect = _make_connect(server, usual)  # noqa: SLF001 - see above


def _make_connect(server: Server[Any], usual: Callable[..., Awaitable[Any]]) -> Any:
    async def connect(stack: AsyncExitStack, mode: str, raise_exceptions: bool) -> Any:
        if mode == _LEGACY:
            return await usual(stack, mode, raise_exceptions)
        state = await stack.enter_async_context(server.lifespan(server))
        near, far = create_direct_dispatcher_pair(raise_handler_exceptions=raise_exceptions)
        on_request = modern_on_request(server, state)
        group = await stack.enter_async_context(anyio.create_task_group())
        direct = _DirectCalls(near, far, on_request)
        stack.callback(direct.close)
        await group.start(far.run, on_request, _drop_notification)
        return direct

    return connect


async def _drop_notification(context: Any, method: str, params: Any) -> None:
    """Take a notification of a client: the protocol has none."""
    del context, method, params


class _DirectCalls:
    """The client's side, as a `Dispatcher` of the SDK: all but calls of tools goes its way."""

    def __init__(
        self, near: DirectDispatcher, far: DirectDispatcher, on_request: OnRequest
    ) -> None:
        self._near = near
        self._far = far
        self._on_request = on_request
        self._numbers = itertools.count(1)
        self._is_open = False

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if method != _CALL or not self._is_open:
            return await self._near.send_raw_request(method, params, opts)
        on_progress = opts.get("on_progress") if opts else None
        context = _CallContext(f"call-{next(self._numbers)}", self._far, on_progress)
        try:
            return await self._on_request(context, method, params)
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001 - as on a wire, it is the server's answer
            raise MCPError.from_error_data(modern_error_data(error)) from None

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await self._near.notify(method, params, opts)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: Any = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        self._is_open = True
        try:
            await self._near.run(
                on_request, on_notify, on_notify_intercept, task_status=task_status
            )
        finally:
            self._is_open = False

    def close(self) -> None:
        self._is_open = False
        self._far.close()


class _CallContext:
    """What a server hears and says during one call: a `DispatchContext` of the SDK."""

    __slots__ = ("_cancel_requested", "_far", "_on_progress", "request_id")

    transport = _HERE
    can_send_request = False
    message_metadata = None

    def __init__(self, request_id: str, far: DirectDispatcher, on_progress: Any) -> None:
        self.request_id = request_id
        self._far = far
        self._on_progress = on_progress
        self._cancel_requested: anyio.Event | None = None

    @property
    def cancel_requested(self) -> anyio.Event:
        """Never set: a call that is given up is cancelled."""
        self._cancel_requested = self._cancel_requested or anyio.Event()
        return self._cancel_requested

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await self._far.notify(method, params, opts)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        if self._on_progress is not None:
            # As on a wire, a server does not hear what becomes of its word.
            with suppress(Exception):
                await self._on_progress(progress, total, message)
