"""Which calls get the result of a call that runs already?

Calls of a `single_flight` tool with the same key and the same arguments share one run: the first
one leads, those that come while it runs follow. Followers end in the same step as their leader, so
that nobody can change the result before they have it. A call whose leader was cancelled, or gave
up earlier than the call itself would, leads itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from math import inf
from typing import Any, Protocol

from tool_engine.admission.request import digest_of, tool_key_of
from tool_engine.admission.slot import ConcurrencySlot, ancestry
from tool_engine.ending import CallEnding
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.tool import Tool
from tool_engine.progress import CANCELLED, Call, too_late

__all__ = ["Flight", "Flights", "leads_flight"]


class _Runner(Protocol):
    """The pipeline, as far as it matters here."""

    def execute(
        self,
        tool_name: str,
        params: Any = None,
        context: ToolExecutionContext | None = None,
        *,
        parent: ConcurrencySlot | None = None,
        leads: Flight | None = None,
    ) -> Awaitable[ToolExecutionResult]:
        """Takes one call through all steps."""
        ...


class Flight:
    """One run and those who wait for its result.

    Args:
        tool: What its leader has consent to run.
    """

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.call: Call | None = None
        """The leader."""
        self.followers: dict[_Follower, None] = {}

    @property
    def slot(self) -> ConcurrencySlot | None:
        """The leader's, once it has one."""
        return None if self.call is None else self.call.slot

    def leader_id(self) -> str | None:
        """The leader's call; None before it has begun."""
        return None if self.call is None else self.call.call_id

    def seconds(self) -> float:
        """How long the leader may run."""
        if self.call is None or self.slot is None:
            return inf
        return self.call.deadline_from(self.slot.acquired_at) - self.slot.acquired_at


class _Follower:
    """One call that waits for the result of another."""

    def __init__(self, call: Call, ancestors: frozenset[ConcurrencySlot]) -> None:
        loop = asyncio.get_running_loop()
        self.call = call
        self.ancestors = ancestors
        """The slots of the calls that it is part of."""
        self.began = loop.time()
        self.context = copy_context()
        """Its caller's: what is told of its end belongs there, and not to the leader's."""
        self.landed: asyncio.Future[ToolExecutionResult | None] = loop.create_future()
        """Its result, or None when it gets none from its leader."""

    def deadline(self, flight: Flight, now: float) -> float:
        """When it gives up: its time runs while its leader does, not while that one waits."""
        slot = flight.slot
        return self.call.deadline_from(now if slot is None else max(self.began, slot.acquired_at))

    @property
    def has_result(self) -> bool:
        return self.landed.done() and self.landed.result() is not None


class Flights:
    """The runs that others may share; one per pipeline.

    Args:
        ending: Ends those that follow.
        followed: Is kept up to date with what tells whose run a call shares.
    """

    def __init__(
        self, ending: CallEnding, followed: dict[str, Callable[[], str | None]] | None = None
    ) -> None:
        self._ending = ending
        self._followed = {} if followed is None else followed
        self._flights: dict[Any, Flight] = {}

    async def take(
        self,
        runner: _Runner,
        call: Call,
        params: Any,
        arguments: dict[str, Any],
        parent: ConcurrencySlot | None,
    ) -> ToolExecutionResult:
        """Lets a call lead, or wait for the result of the one that does."""
        tool: Tool = call.plan.tool  # type: ignore[union-attr] # a call has a plan when it comes here
        key = _key_of(tool, call, arguments)
        ancestors = frozenset(ancestry(parent))
        while True:
            flight = self._flights.get(key)
            if key is None or (flight is not None and self._waits_for(flight, ancestors)):
                return await runner.execute(
                    call.tool_name, params, call.context, parent=parent, leads=Flight(tool)
                )
            if flight is None:
                return await self._lead(key, Flight(tool), runner, call, params, parent)
            result = await self._follow(flight, _Follower(call, ancestors))
            if result is not None:
                return result

    async def _lead(
        self,
        key: Any,
        flight: Flight,
        runner: _Runner,
        call: Call,
        params: Any,
        parent: ConcurrencySlot | None,
    ) -> ToolExecutionResult:
        self._flights[key] = flight
        result = None
        try:
            result = await runner.execute(
                call.tool_name, params, call.context, parent=parent, leads=flight
            )
        finally:
            del self._flights[key]
            self._land(flight, result)
        return result

    def _land(self, flight: Flight, result: ToolExecutionResult | None) -> None:
        now = asyncio.get_running_loop().time()
        for follower in flight.followers:
            shared = None
            if result is not None and not _is_leaders_own(flight, result, follower):
                shared = follower.context.run(
                    self._ending.share, follower.call, result, now - follower.began, flight.call
                )
            follower.landed.set_result(shared)

    async def _follow(self, flight: Flight, follower: _Follower) -> ToolExecutionResult | None:
        """The shared result; None when there will be none."""
        flight.followers[follower] = None
        self._followed[follower.call.call_id] = flight.leader_id
        loop = asyncio.get_running_loop()
        until, now = -inf, loop.time()
        try:
            # While the leader waits for its slot the deadline moves: it is looked at again.
            while not follower.landed.done() and until < (later := follower.deadline(flight, now)):
                until = later
                await asyncio.wait([follower.landed], timeout=max(0.0, until - now))
                now = loop.time()
        except BaseException:
            if not follower.has_result:
                self._ending.fail(follower.call, CANCELLED)
            raise
        finally:
            del flight.followers[follower]
            del self._followed[follower.call.call_id]
        if follower.landed.done():
            return follower.landed.result()
        return self._ending.fail(follower.call, too_late(follower.call, now - follower.began))

    def _waits_for(self, flight: Flight, ancestors: frozenset[ConcurrencySlot]) -> bool:
        """Whether the leader waits, over whatever steps, for a call that asks to wait for it."""
        seen = [flight] if ancestors else []
        for each in seen:
            if each.slot in ancestors:
                return True
            seen += [
                other
                for other in self._flights.values()
                if other not in seen
                and any(each.slot in some.ancestors for some in other.followers)
            ]
        return False


def leads_flight(call: Call, flight: Flight | None) -> bool:
    """Whether the call is the one that others of its flight wait for."""
    if flight is not None:
        flight.call = call
    return flight is not None


def _key_of(tool: Tool, call: Call, arguments: dict[str, Any]) -> Any:
    """What calls that share a run have in common; None: the call has no key, and shares none."""
    value = tool_key_of(tool, call.context, arguments)
    if value is None:
        return None
    same = value if tool.concurrency.key == "params" else digest_of(arguments)
    # What only one conversation has may be named like what another one has.
    owner = None if call.plan is None else call.plan.request.owner
    return (tool.name, tool.definition_hash, value, same, owner)


def _is_leaders_own(flight: Flight, result: ToolExecutionResult, follower: _Follower) -> bool:
    """Whether the end of the leader says nothing about what the follower would get."""
    if result.error_type == "cancelled":
        return True
    return result.error_type == "timeout" and flight.seconds() < follower.call.timeout
