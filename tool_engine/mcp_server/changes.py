"""How do clients hear that the tools, prompts or resources have changed?"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, Final, NamedTuple

import mcp_types as types
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from tool_engine.interfaces.source import Source
from tool_engine.logger import get_logger
from tool_engine.mcp_server.identity import connection_of
from tool_engine.mcp_server.offers.prompts import Prompts
from tool_engine.mcp_server.offers.resources import Resources
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

_KINDS: Final = (
    ToolEngineEventType.TOOL_ADDED,
    ToolEngineEventType.TOOL_UPDATED,
    ToolEngineEventType.TOOL_REMOVED,
    ToolEngineEventType.TOOL_QUARANTINED,
    ToolEngineEventType.GROUP_ADDED,
    ToolEngineEventType.GROUP_REMOVED,
    ToolEngineEventType.RELOAD_COMPLETED,
)
_PAUSE: Final = 0.02
"""Seconds in which changes become one notice: a reload of a folder is many events."""
_TURNS: Final = 3
"""Turns of the loop until a notice is with the transport of each listener."""
_LONGEST_SEND: Final = 5.0
"""Seconds that one client may take for a notice; then it is left to its timeout."""

_MOST_LISTENERS: Final = 20_000
"""The most streams of notices, of all clients; `max_open` bounds those of one."""
_MOST_WATCHED: Final = 1_000
"""The most resources that one connection or stream hears of."""

_log: Final = get_logger(__name__)


class _Watched(NamedTuple):
    """A list that clients hear of."""

    read: Callable[[], Any]
    """Returns what differs whenever the list does."""
    notice: Any
    """What is sent to clients of 2026-07-28."""
    send: str
    """The method of a session that sends it to older ones."""

    def read_for_all(self) -> Any:
        """Return the list as it is for clients that may use all tools."""
        return Context().run(self.read)


class Changes:
    """The notices about changed lists, for clients of both eras.

    Those of 2026-07-28 listen with a request of their own; older ones hear it on their connection.

    Args:
        engine: Whose tools change.
        prompts: What clients may read.
        resources: The same.
    """

    def __init__(self, engine: Source, prompts: Prompts, resources: Resources) -> None:
        self._lists = (
            _Watched(lambda: engine.generation, ToolsListChanged(), "send_tool_list_changed"),
            _Watched(prompts.read_all, PromptsListChanged(), "send_prompt_list_changed"),
            _Watched(
                lambda: (resources.describe(), resources.describe_templates()),
                ResourcesListChanged(),
                "send_resource_list_changed",
            ),
        )
        self._last: list[Any] = []
        """The lists as clients have heard of them last."""
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(
            self._bus, max_subscriptions=_MOST_LISTENERS, max_buffered_events=16
        )
        self._connected: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        """The connections of older clients, with what sends on each."""
        self._watched: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._telling: asyncio.Task[None] | None = None
        self._has_changed = False

    def follow(self, subscribe: Callable[..., Any]) -> Callable[[], object]:
        """Follow the events of an engine; return what ends it."""
        self._loop = asyncio.get_running_loop()
        self._last = [each.read_for_all() for each in self._lists]
        subscription: Callable[[], object] = subscribe(self._note_change, _KINDS)
        return subscription

    async def serve_listener(self, ctx: Any, params: types.SubscriptionsListenRequestParams) -> Any:
        """Serve the stream of a client of 2026-07-28, until it leaves.

        Raises:
            MCPError: It wants to hear of too many resources.
        """
        watched = params.notifications.resource_subscriptions or ()
        if len(watched) > _MOST_WATCHED:
            message = f"resourceSubscriptions may be {_MOST_WATCHED:,} at most: listen twice"
            raise MCPError(types.INVALID_PARAMS, message)
        return await self._listen(ctx, params)

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
        self._listen.close()
        telling, self._telling = self._telling, None
        if telling is not None:
            telling.cancel()
            await asyncio.wait([telling])

    def look(self) -> None:
        """Look for changed lists, and let clients hear of them; from any thread."""
        self._note_change()

    def _note_change(self, _event: ToolEngineEvent | None = None) -> None:
        # Code may change tools from any thread.
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._begin_telling)

    def _begin_telling(self) -> None:
        self._has_changed = True
        if self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell_clients())

    async def _tell_clients(self) -> None:
        pause, clock = _PAUSE, asyncio.get_running_loop().time
        try:
            while self._has_changed:
                await asyncio.sleep(pause)
                self._has_changed, begun = False, clock()
                for place, watched in enumerate(self._lists):
                    before, self._last[place] = self._last[place], watched.read_for_all()
                    if before != self._last[place]:
                        await self._tell_of_list(watched)
                # Meanwhile the listeners are sent it: ten thousand take a second of the loop.
                for _ in range(_TURNS):
                    await asyncio.sleep(0)
                pause = max(_PAUSE, clock() - begun)
        finally:
            self._telling = None

    async def _tell_of_list(self, watched: _Watched) -> None:
        await self._bus.publish(watched.notice)
        async with asyncio.TaskGroup() as group:
            for session in list(self._connected.values()):
                group.create_task(_send_notice(getattr(session, watched.send)()))


async def _send_notice(sending: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(_LONGEST_SEND):
            await sending
    except Exception as error:  # noqa: BLE001 - one client must not keep the others from hearing
        _log.debug("mcp_client_not_told", error=type(error).__name__)
