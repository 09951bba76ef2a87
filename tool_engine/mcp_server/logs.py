"""How does a client read the lines that tools write for people?"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final

import mcp_types as types
from mcp.server.connection import allowed_log_levels
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tool_engine.mcp_server.asking import find_request
from tool_engine.mcp_server.identity import connection_of
from tool_engine.model.event import ToolEngineEvent, ToolEngineEventType

_LEVELS: Final = types.LoggingLevel.__args__  # type: ignore[attr-defined]  # from low to high
_FIRST: Final = "info"
"""The level of an older client that has not set one."""


class Logs:
    """The lines of running calls, for the clients that want them.

    Those of 2026-07-28 say with each request from which level on; older ones on their connection.
    """

    def __init__(self) -> None:
        self._levels: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def follow(self, subscribe: Callable[..., Any]) -> Callable[[], object]:
        """Follow the events of an engine; return what ends it."""
        subscription: Callable[[], object] = subscribe(
            self._note_line, ToolEngineEventType.EXECUTION_LOGGED
        )
        return subscription

    async def set_level(self, ctx: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
        """Remember from which level on an older client wants lines."""
        connection = connection_of(ctx.session)
        if connection is not None:
            self._levels[connection] = params.level
        return types.EmptyResult()

    def _note_line(self, event: ToolEngineEvent) -> None:
        request = find_request()
        if request is None:
            return
        level = _level_of(event.data.get("level"))
        ctx = request.ctx
        if level not in self._list_wanted(ctx):
            return
        params = types.LoggingMessageNotificationParams(
            level=level, logger=event.tool_name, data=event.data.get("message")
        )
        request.notices.note_line(params)

    def _list_wanted(self, ctx: Any) -> Any:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return allowed_log_levels(ctx.protocol_version, ctx.meta)
        connection = connection_of(ctx.session)
        least = _FIRST if connection is None else self._levels.get(connection, _FIRST)
        return _LEVELS[_LEVELS.index(least) :]


def _level_of(level: object) -> Any:
    return level if level in _LEVELS else "info"
