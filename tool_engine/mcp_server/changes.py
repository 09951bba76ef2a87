"""How do clients hear that the list of tools has changed?"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Final

import mcp_types as types
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourceUpdated,
    ToolsListChanged,
)

from tool_engine.logger import get_logger
from tool_engine.mcp_server.identity import connection_of
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

_KINDS: Final = (
    ToolEngineEventType.TOOL_ADDED,
    ToolEngineEventType.TOOL_UPDATED,
    ToolEngineEventType.TOOL_REMOVED,
    ToolEngineEventType.TOOL_QUARANTINED,
    ToolEngineEventType.RELOAD_COMPLETED,
)
_PAUSE: Final = 0.02
"""Seconds in which changes become one notice: a reload of a folder is many events."""
_LONGEST_SEND: Final = 5.0
"""Seconds that one client may take for a notice; then it is left to its timeout."""

_MOST_WATCHED: Final = 1_000
"""The most resources that one client hears of."""

_log: Final = get_logger(__name__)


class Changes:
    """The notices about changed lists, for clients of both eras.

    Those of 2026-07-28 listen with a request of their own; older ones hear it on their connection.
    """

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus, max_subscriptions=10_000, max_buffered_events=16)
        self._connected: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        """The connections of older clients, with what sends on each."""
        self._watched: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._telling: asyncio.Task[None] | None = None
        self._has_changed = False

    def follow(self, subscribe: Callable[..., Any]) -> Callable[[], object]:
        """Follow the events of an engine; return what ends it."""
        self._loop = asyncio.get_running_loop()
        subscription: Callable[[], object] = subscribe(self._note_change, _KINDS)
        return subscription

    def remember_connection(self, session: Any) -> None:
        """Remember the connection of an older client, as long as it lives."""
        connection = connection_of(session)
        if connection is not None:
            self._connected[connection] = session

    async def watch_resource(self, ctx: Any, params: types.SubscribeRequestParams) -> Any:
        """Remember that an older client wants to hear of a resource."""
        connection = connection_of(ctx.session)
        if connection is not None:
            watched = self._watched.setdefault(connection, set())
            if len(watched) < _MOST_WATCHED:
                watched.add(str(params.uri))
        return types.EmptyResult()

    async def forget_resource(self, ctx: Any, params: types.UnsubscribeRequestParams) -> Any:
        """Forget that an older client wanted to hear of a resource."""
        connection = connection_of(ctx.session)
        self._watched.get(connection, set()).discard(str(params.uri))
        return types.EmptyResult()

    async def tell_of_resource(self, uri: str) -> None:
        """Let the clients know that want to hear of a resource."""
        await self._bus.publish(ResourceUpdated(uri=uri))
        async with asyncio.TaskGroup() as group:
            for connection, session in list(self._connected.items()):
                if uri in self._watched.get(connection, ()):
                    group.create_task(_send_notice(session.send_resource_updated(uri)))

    async def close(self) -> None:
        """End all streams of listeners."""
        self._loop = None
        self.listen.close()
        telling, self._telling = self._telling, None
        if telling is not None:
            telling.cancel()
            await asyncio.wait([telling])

    def _note_change(self, _event: ToolEngineEvent) -> None:
        # Code may change tools from any thread.
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._begin_telling)

    def _begin_telling(self) -> None:
        self._has_changed = True
        if self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell_clients())

    async def _tell_clients(self) -> None:
        try:
            while self._has_changed:
                await asyncio.sleep(_PAUSE)
                self._has_changed = False
                await self._bus.publish(ToolsListChanged())
                async with asyncio.TaskGroup() as group:
                    for session in list(self._connected.values()):
                        group.create_task(_send_notice(session.send_tool_list_changed()))
        finally:
            self._telling = None


async def _send_notice(sending: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(_LONGEST_SEND):
            await sending
    except Exception as error:  # noqa: BLE001 - one client must not keep the others from hearing
        _log.debug("mcp_client_not_told", error=type(error).__name__)
