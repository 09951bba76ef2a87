"""How do clients hear that the tools, prompts or resources have changed?"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Sequence
from operator import eq
from typing import Any, Final, NamedTuple

import mcp_types as types
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from tool_engine.logger import get_logger
from tool_engine.mcp_server.finding import Finder
from tool_engine.mcp_server.identity import View, connection_of
from tool_engine.mcp_server.listing import Listing
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
    is_same: Callable[[Any, Any], bool] = eq


class _Audience:
    """The clients that see the same lists, which are compared once for all of them.

    Args:
        view: What they see.
        lists: Those that they hear of.
    """

    def __init__(self, view: View, lists: Sequence[_Watched]) -> None:
        self.bus = InMemorySubscriptionBus()
        self.streams: set[Any] = set()
        """What hears for each stream of a client of 2026-07-28."""
        self.connected: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        """The connections of older clients, with what sends on each."""
        self._view = view
        self._lists = lists
        self._last = self._read_lists()
        """The lists as these clients have heard of them last."""

    def find_changed(self) -> list[_Watched]:
        """Return the lists that are others than at the last look."""
        before, self._last = self._last, self._read_lists()
        compared = zip(self._lists, before, self._last, strict=True)
        return [each for each, old, new in compared if not each.is_same(old, new)]

    def _read_lists(self) -> list[Any]:
        return [self._view.run_as_client(each.read) for each in self._lists]


class _Audiences:
    """All who hear of changes: the bus of the streams of clients of 2026-07-28."""

    def __init__(self, lists: Sequence[_Watched]) -> None:
        self._lists = lists
        self._made: dict[View, _Audience] = {}

    def find(self) -> _Audience:
        """Return that of the client of this request."""
        view = View.of_request()
        if (made := self._made.get(view)) is None:
            made = self._made[view] = _Audience(view, self._lists)
        return made

    def list_present(self) -> list[_Audience]:
        """Return those that are not empty; the others are forgotten."""
        present = {
            view: each for view, each in self._made.items() if each.streams or each.connected
        }
        self._made = present
        return list(present.values())

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Have a stream hear what those hear that see the same."""
        audience = self.find()
        end_listening = audience.bus.subscribe(listener)
        audience.streams.add(listener)

        def unsubscribe() -> None:
            audience.streams.discard(listener)
            end_listening()

        return unsubscribe

    async def publish(self, event: ServerEvent) -> None:
        """Have all streams hear of something."""
        for audience in self.list_present():
            await audience.bus.publish(event)


class Changes:
    """The notices about changed lists, for clients of both eras; each hears of its own lists.

    Those of 2026-07-28 listen with a request of their own; older ones hear it on their connection.

    Args:
        tools: What clients may call.
        prompts: What they may read.
        resources: The same.
    """

    def __init__(self, tools: Listing | Finder, prompts: Prompts, resources: Resources) -> None:
        lists = (
            _Watched(
                tools.read_list, ToolsListChanged(), "send_tool_list_changed", tools.is_same_list
            ),
            _Watched(prompts.read_all, PromptsListChanged(), "send_prompt_list_changed"),
            _Watched(
                lambda: (resources.describe(), resources.describe_templates()),
                ResourcesListChanged(),
                "send_resource_list_changed",
            ),
        )
        self._audiences = _Audiences(lists)
        self._listen = ListenHandler(
            self._audiences, max_subscriptions=_MOST_LISTENERS, max_buffered_events=16
        )
        self._watched: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._telling: asyncio.Task[None] | None = None
        self._has_changed = False

    def follow(self, subscribe: Callable[..., Any]) -> Callable[[], object]:
        """Follow the events of an engine; return what ends it."""
        self._loop = asyncio.get_running_loop()
        for audience in self._audiences.list_present():
            audience.find_changed()
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
            self._audiences.find().connected[connection] = session

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
        await self._audiences.publish(ResourceUpdated(uri=uri))
        async with asyncio.TaskGroup() as group:
            for audience in self._audiences.list_present():
                for connection, session in list(audience.connected.items()):
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
        if self._loop is None:
            return  # it was closed since the change was noted
        self._has_changed = True
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell_clients())

    async def _tell_clients(self) -> None:
        pause, clock = _PAUSE, asyncio.get_running_loop().time
        while self._has_changed:
            await asyncio.sleep(pause)
            self._has_changed, begun = False, clock()
            await self._tell_of_lists()
            # Meanwhile the listeners are sent it: ten thousand take a second of the loop.
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            pause = max(_PAUSE, clock() - begun)

    async def _tell_of_lists(self) -> None:
        async with asyncio.TaskGroup() as group:
            for audience in self._audiences.list_present():
                changed = audience.find_changed()
                for each in changed:
                    await audience.bus.publish(each.notice)
                for session in list(audience.connected.values()) if changed else ():
                    group.create_task(_send_notices(session, [each.send for each in changed]))
                await asyncio.sleep(0)


async def _send_notices(session: Any, methods: Sequence[str]) -> None:
    for each in methods:
        await _send_notice(getattr(session, each)())


async def _send_notice(sending: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(_LONGEST_SEND):
            await sending
    except Exception as error:  # noqa: BLE001 - one client must not keep the others from hearing
        _log.debug("mcp_client_not_told", error=type(error).__name__)
