"""How does a client hear of its tasks, without asking again and again?

It listens for them with `subscriptions/listen`, beside what else it listens for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from tool_engine.logger import get_logger
from tool_engine.mcp_server.tasks.client_tasks import ClientTasks, require_tasks

_MOST: Final = 100
"""The most tasks of one stream."""
_LOOK: Final = 0.5
"""Seconds between two looks at the tasks of a stream."""
_log: Final = get_logger(__name__)

_Listen = Callable[[Any, types.SubscriptionsListenRequestParams], Awaitable[Any]]


def read_task_ids(params: types.SubscriptionsListenRequestParams) -> list[str]:
    """Return the tasks that a client wants to hear of.

    Raises:
        MCPError: They are no list of ids, or too many.
    """
    found = (params.notifications.model_extra or {}).get("taskIds") or []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise MCPError(types.INVALID_PARAMS, "taskIds must be a list of ids of tasks")
    if len(found) > _MOST:
        raise MCPError(types.INVALID_PARAMS, f"taskIds may be {_MOST} at most: listen twice")
    return list(dict.fromkeys(found))


async def listen_with_tasks(
    tasks: ClientTasks, listen: _Listen, ctx: Any, params: types.SubscriptionsListenRequestParams
) -> Any:
    """Serve a stream of notices, those about tasks among them.

    Args:
        tasks: The tasks of the server.
        listen: Serves the other notices.
        ctx: The SDK's context of the request.
        params: What the client wants to hear of.

    Raises:
        MCPError: The client takes no tasks.
    """
    require_tasks(ctx, "notices of tasks are for clients that take tasks")
    session = _TaskSession(tasks, ctx, read_task_ids(params))
    try:
        return await listen(replace(ctx, session=session), params)
    finally:
        session.end()


class _TaskSession:
    """The session of one stream, which reports its tasks once the stream has begun."""

    def __init__(self, tasks: ClientTasks, ctx: Any, task_ids: list[str]) -> None:
        self._tasks = tasks
        self._ctx = ctx
        self._task_ids = task_ids
        self._sending: asyncio.Task[None] | None = None

    async def send_notification(self, notification: Any, related_request_id: Any = None) -> None:
        """Send a notice; the first one says which tasks the client will hear of."""
        if not isinstance(notification, types.SubscriptionsAcknowledgedNotification):
            await self._ctx.session.send_notification(notification, related_request_id)
            return
        heard = [each for each in self._task_ids if await self._is_known(each)]
        wanted = notification.params.notifications.model_dump(exclude_none=True)
        honored = types.SubscriptionFilter(**wanted, taskIds=heard)  # type: ignore[call-arg]
        params = notification.params.model_copy(update={"notifications": honored})
        acknowledged = types.SubscriptionsAcknowledgedNotification(params=params)
        await self._ctx.session.send_notification(acknowledged, related_request_id)
        self._sending = asyncio.get_running_loop().create_task(self._send_tasks(heard))

    def end(self) -> None:
        """Send no more."""
        if self._sending is not None:
            self._sending.cancel()

    async def _is_known(self, task_id: str) -> bool:
        try:
            await self._tasks.read(self._ctx, task_id)
        except MCPError as error:
            if error.code != types.INVALID_PARAMS:
                raise
            return False
        return True

    async def _send_tasks(self, heard: list[str]) -> None:
        """Send each task as it is and as it changes, until all have ended."""
        last: dict[str, Any] = dict.fromkeys(heard)
        try:
            while last:
                for task_id in list(last):
                    if await self._send_if_new(task_id, last):
                        del last[task_id]
                await asyncio.sleep(_LOOK)
        except Exception as error:  # noqa: BLE001 - a client that has left reads nothing
            _log.debug("mcp_client_not_told", error=type(error).__name__)

    async def _send_if_new(self, task_id: str, last: dict[str, Any]) -> bool:
        """Send a task if it has changed; True: there will be no more of it."""
        try:
            state, task = await self._tasks.read(self._ctx, task_id)
        except MCPError as error:
            # A database that does not answer now may do so later.
            return error.code == types.INVALID_PARAMS
        # That it has waited longer is no news.
        now = state.status, state.progress, task.get("inputRequests")
        if now != last[task_id]:
            last[task_id] = now
            params = {**task, "_meta": {SUBSCRIPTION_ID_META_KEY: self._ctx.request_id}}
            notice: Any = types.Notification[dict[str, Any], str](
                method="notifications/tasks", params=params
            )
            await self._ctx.session.send_notification(notice, self._ctx.request_id)
        return state.is_final
