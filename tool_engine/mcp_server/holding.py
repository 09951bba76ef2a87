"""Which calls wait for consent while their client is away, and comes back for the result?

A client of 2026-07-28 need not stay for as long as a person takes to answer: the request ends, and
the client repeats it. The call waits on meanwhile, as one call with one record.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tool_engine.mcp_server.asking import ClientRequest
from tool_engine.mcp_server.own_tasks import OwnTasks
from tool_engine.model.call import ToolExecutionResult

HOLDS: Final = 30.0
"""Seconds that a client waits in one round; most give up after a minute."""
_GRACE: Final = 60.0
"""Seconds in which it has to come back; then its call is cancelled."""
_MOST: Final = 1_000
"""The most calls whose clients are away at once; others wait in their requests."""

_Call = asyncio.Task[ToolExecutionResult]


class _Held(NamedTuple):
    call: _Call
    request: ClientRequest
    giving_up: asyncio.TimerHandle


class HeldCalls:
    """The calls of one server whose clients are away.

    Args:
        tasks: What all calls of the server run in.
    """

    def __init__(self, tasks: OwnTasks) -> None:
        self._held: dict[str, _Held] = {}
        self._tasks = tasks

    async def run(
        self, request: ClientRequest, calling: Coroutine[Any, Any, ToolExecutionResult]
    ) -> ToolExecutionResult | None:
        """Run a call; what cancels this cancels the call.

        Returns:
            How it ended; None: it waits, and the client is to come back for it.
        """
        return await self._follow_call(self._tasks.start(calling), request)

    async def go_on(
        self, name: str, now: ClientRequest
    ) -> tuple[ClientRequest, ToolExecutionResult | None]:
        """Go on with the call that a client comes back for.

        Args:
            name: The call's, as the client's state has it.
            now: The request that the client came back with.

        Raises:
            MCPError: It has been given up.
        """
        held = self._held.pop(name, None)
        if held is None:
            message = "the call that waited for consent is over; call again without requestState"
            raise MCPError(types.INVALID_PARAMS, message, {"reason": "call_over"})
        held.giving_up.cancel()
        held.request.come_back(now)
        return held.request, await self._follow_call(held.call, held.request)

    def close(self) -> None:
        """Forget all calls that are left; they are cancelled with the tasks that they run in."""
        for held in self._held.values():
            held.giving_up.cancel()
        self._held.clear()

    async def _follow_call(self, call: _Call, request: ClientRequest) -> ToolExecutionResult | None:
        try:
            while not call.done():
                await asyncio.wait([call], timeout=HOLDS)
                if not call.done() and request.waits and len(self._held) < _MOST:
                    self._hold_call(call, request)
                    return None
        except asyncio.CancelledError:
            call.cancel()
            raise
        return self._tasks.read_result(call)

    def _hold_call(self, call: _Call, request: ClientRequest) -> None:
        name = secrets.token_hex(16)
        giving_up = asyncio.get_running_loop().call_later(_GRACE, self._give_up, name)
        self._held[name] = _Held(call, request, giving_up)
        request.hold(name)

    def _give_up(self, name: str) -> None:
        held = self._held.pop(name, None)
        if held is not None:
            held.call.cancel()
