"""Which calls share the run of a like call?

Calls of a `single_flight` tool with the same key and the same arguments share one run: the first
one leads, those that come while it runs follow. Followers end in the same step as their leader, so
that no other task can change the result before they have it. A call whose leader was cancelled, or
gave up earlier than the call itself would, leads itself.

Conversations stay apart: a call never gets a result shaped by another conversation's settings,
and its own are checked again before it gets any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextvars import Context, copy_context
from math import inf
from typing import Any, Final, Protocol

from tool_engine.admission.request import digest_of, tool_key_of
from tool_engine.admission.slot import walk_ancestry
from tool_engine.calls.call import Call, too_late
from tool_engine.calls.ending import CallEnding
from tool_engine.calls.failure import Failure, refusal_of
from tool_engine.calls.plan import Plan
from tool_engine.calls.present import SHARING, PresentCalls, StoppedError, Wait
from tool_engine.errors import QueueTimeoutError
from tool_engine.interfaces import Slot
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.tool import Tool

_FOR_NEW_CALLS: Final = frozenset({"queue_full", "rejected"})
"""What the queue says to calls that no running call makes."""
_IN_LINE: Final = _FOR_NEW_CALLS | {"queue_timeout", "rate_limited", "circuit_open"}
"""What it says to calls that are no tasks."""


class _Runner(Protocol):
    def take_steps(
        self,
        tool_name: str,
        params: Any,
        context: ToolExecutionContext | None,
        *,
        parent: Slot | None = None,
        begun: Flight | None = None,
    ) -> Awaitable[ToolExecutionResult]:
        """Take one call through all steps; of a flight's leader, the remaining ones."""

    def recheck(self, call: Call, arguments: dict[str, Any]) -> Plan | Failure:
        """Return the present plan of a call that has waited, or why it may not start."""


class Flight:
    """One run and the calls that wait for its result.

    Args:
        call: The leader.
        plan: What it has consent to run.
        arguments: What it has consent to run it with.
    """

    def __init__(self, call: Call, plan: Plan, arguments: dict[str, Any]) -> None:
        self.call = call
        self.plan = plan
        self.arguments = arguments
        self.conversation = _conversation_of(call)
        self.followers: dict[_Follower, None] = {}

    @property
    def slot(self) -> Slot | None:
        return self.call.slot  # type: ignore[no-any-return]

    def runs(self, plan: Plan) -> bool:
        """Return True if it runs the very tool that another call may run."""
        return self.plan.runs_same(plan)

    def key_for(self, key: Any, other: Flight) -> Any:
        """Return the key under which another call with the same key may share a run.

        The calls that the tool made went by the rules of the leader's conversation.
        """
        is_for_both = self.call.inside is None or self.conversation == other.conversation
        return key if is_for_both else (key, other.conversation)

    def is_open_to(self, call: Call) -> bool:
        """Return True unless calls of its tool went by the rules of another conversation."""
        return self.call.inside is None or self.conversation == _conversation_of(call)

    def seconds(self) -> float:
        if self.slot is None:
            return inf
        return self.call.deadline_from(self.slot.acquired_at) - self.slot.acquired_at


class _Follower:
    def __init__(self, call: Call, arguments: dict[str, Any], ancestors: frozenset[Slot]) -> None:
        loop = asyncio.get_running_loop()
        self.call = call
        self.arguments = arguments
        self.patience = inf
        """Seconds that it waits for a leader without a slot; infinity: as long as the leader."""
        self.ancestors = ancestors
        """The slots of the calls that it is part of."""
        self.began = loop.time()
        self.context = copy_context()
        """Its caller's context variables, for its events, in place of the leader's."""
        self.landed: asyncio.Future[ToolExecutionResult | None] = loop.create_future()
        """Its result, or None when it gets none from its leader."""

    def deadline(self, flight: Flight, now: float) -> float:
        """Return when it gives up: its time counts only while its leader runs."""
        slot = flight.slot
        if slot is None:
            return min(self.call.deadline_from(now), self.began + self.patience)
        return self.call.deadline_from(max(self.began, slot.acquired_at))

    @property
    def has_result(self) -> bool:
        return self.landed.done() and self.landed.result() is not None


class Flights:
    """The runs that others may share; one object per pipeline.

    Args:
        ending: Ends those that follow.
        present: Knows those that wait.
        find_patience: Returns the seconds that a call of a plan may wait for its slot.
    """

    def __init__(
        self, ending: CallEnding, present: PresentCalls, find_patience: Callable[[Plan], float]
    ) -> None:
        self._ending = ending
        self._find_patience = find_patience
        self._present = present
        self._flights: dict[Any, Flight] = {}
        self._followed: dict[str, Flight] = {}
        """For each sharing call, by its id, the flight that it follows."""
        self._led: dict[str, Flight] = {}
        """For each call that leads, by its id, its flight."""

    def leader_of(self, call_id: str) -> str | None:
        """Return the id of the call whose run this one shares, if it does."""
        flight = self._followed.get(call_id)
        return None if flight is None else flight.call.call_id

    def sharers_of(self, call: Call) -> Iterator[tuple[Call, Context]]:
        """Yield the calls that may hear how far this one, whose run they share, has come."""
        flight = self._led.get(call.call_id)
        if flight is None:
            return
        for follower in flight.followers:
            if flight.is_open_to(follower.call):
                yield follower.call, follower.context

    async def take(
        self,
        runner: _Runner,
        call: Call,
        plan: Plan,
        arguments: dict[str, Any],
        parent: Slot | None,
    ) -> ToolExecutionResult | None:
        """Let a call lead, or wait for the result of the one that does.

        None where it has waited in vain, and its tool is not any more what it may run.
        """
        key = _key_of(plan.tool, call, arguments)
        ancestors = frozenset(walk_ancestry(parent))
        while True:
            own = Flight(call, plan, arguments)
            flight = self._flights.get(key)
            if flight is not None:
                key = flight.key_for(key, own)
                flight = self._flights.get(key)
            if key is not None and flight is None:
                return await self._lead_flight(key, own, runner, parent)
            if flight is None or not flight.runs(plan) or self._waits_for(flight, ancestors):
                return await _run_leader(runner, own, parent)
            result = await self._follow_flight(flight, _Follower(call, arguments, ancestors))
            if result is not None:
                return result
            now = runner.recheck(call, arguments)
            if isinstance(now, Failure):
                return self._ending.fail(call, now)
            if not own.runs(now):
                return None
            key = flight.key_for(key, own)

    async def _lead_flight(
        self, key: Any, flight: Flight, runner: _Runner, parent: Slot | None
    ) -> ToolExecutionResult:
        self._flights[key] = self._led[flight.call.call_id] = flight
        result = None
        try:
            result = await _run_leader(runner, flight, parent)
        finally:
            del self._flights[key], self._led[flight.call.call_id]
            self._land_flight(flight, result, runner)
        return result

    def _land_flight(
        self, flight: Flight, result: ToolExecutionResult | None, runner: _Runner
    ) -> None:
        now = asyncio.get_running_loop().time()
        # A leader without a slot was refused: by the queue, or by its own conversation.
        if flight.slot is None and not _may_go_on(runner, flight):
            result = None
        for follower in flight.followers:
            shared = None
            # What has landed cannot be stopped, and what was stopped before gets no result.
            self._present.waits.pop(follower.call.call_id, None)
            found = None if follower.call.stopped is not None else result
            if found is not None and _may_have(flight, found, follower, runner):
                _note_shared(flight, follower.call)
                shared = follower.context.run(
                    self._ending.share, follower.call, found, now - follower.began, flight.call
                )
            follower.landed.set_result(shared)

    async def _follow_flight(
        self, flight: Flight, follower: _Follower
    ) -> ToolExecutionResult | None:
        flight.followers[follower] = None
        self._followed[follower.call.call_id] = flight
        task: Any = follower.call.context.task
        if task is not None:
            task.note_call(follower.call)
        elif flight.call.context.task is not None:
            # That one may wait in line for as long as it is kept.
            follower.patience = self._find_patience(flight.plan)
        if flight.call.reports is not None:
            flight.call.reports.welcome(follower.call)
        loop = asyncio.get_running_loop()
        until, now = -inf, loop.time()
        try:
            # The deadline moves while the leader waits for its slot: it is computed again.
            with Wait(self._present, follower.call, SHARING):
                while not follower.landed.done() and until < (
                    later := follower.deadline(flight, now)
                ):
                    until = later
                    await asyncio.wait([follower.landed], timeout=max(0.0, until - now))
                    now = loop.time()
        except StoppedError:
            if not follower.has_result:
                return self._ending.fail(follower.call, follower.call.cancelled)
        except BaseException:
            if not follower.has_result:
                self._ending.fail(follower.call, follower.call.cancelled)
            raise
        finally:
            del flight.followers[follower]
            del self._followed[follower.call.call_id]
        if follower.landed.done():
            return follower.landed.result()
        failure = _explain_end(flight, follower, now - follower.began)
        return self._ending.fail(follower.call, failure)

    def _waits_for(self, flight: Flight, ancestors: frozenset[Slot]) -> bool:
        """Return True if the leader waits, however indirectly, for a call that asks to follow."""
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


def _note_shared(flight: Flight, follower: Call) -> None:
    """Apply the result policies of conversations in the shared call to each that shares it."""
    follower.note_for_maker(flight.plan.tool)
    inside = flight.call.inside
    if inside is None:
        return
    follower.note_inside(*inside.values())
    note = getattr(follower.context.scope, "note_inside", None)
    if note is not None:
        note(inside.values())


async def _run_leader(runner: _Runner, flight: Flight, parent: Slot | None) -> ToolExecutionResult:
    """Run a leader with what was approved, and nothing that its caller can change."""
    call = flight.call
    return await runner.take_steps(call.tool_name, None, call.context, parent=parent, begun=flight)


def _key_of(tool: Tool, call: Call, arguments: dict[str, Any]) -> Any:
    """Return the key that sharing calls have in common; None: the call shares none."""
    value = tool_key_of(tool, call.context, arguments)
    if value is None:
        return None
    same = value if tool.concurrency.key == "params" else digest_of(arguments)
    # Two conversations may have different tools of one name.
    owner = None if call.plan is None else call.plan.request.owner
    return (tool.name, tool.definition_hash, value, same, owner)


def _conversation_of(call: Call) -> Any:
    """Return a key for the rules of the calls that its tool makes."""
    scope = call.context.scope
    return getattr(scope, "conversation", scope)


def _may_go_on(runner: _Runner, waits: Flight | _Follower) -> bool:
    """Return True if a call that has waited is still allowed."""
    now = runner.recheck(waits.call, waits.arguments)
    # Work that goes on while the engine closes has its result.
    return not isinstance(now, Failure) or now.error_type == "engine_closed"


def _explain_end(flight: Flight, follower: _Follower, waited: float) -> Failure:
    """Return why a call ends that waits for its leader no more."""
    if flight.slot is not None or waited < follower.patience:
        return too_late(follower.call, waited)
    follower.call.waited = waited
    return refusal_of(
        QueueTimeoutError(
            f"waited {waited:g} s for the run of call {flight.call.call_id!r}, a task that waits "
            "for a slot itself; raise queue_timeout or the limit that is full, or make fewer "
            "calls at once"
        )
    )


def _waits_on(follower: _Follower) -> frozenset[str]:
    """Return the refusals in line that are none for the follower: it waits on where others end."""
    if follower.call.context.task is not None:
        return _IN_LINE
    # What it is part of has begun: that is not given up for what has not.
    return _FOR_NEW_CALLS if follower.ancestors else frozenset()


def _may_have(
    flight: Flight, result: ToolExecutionResult, follower: _Follower, runner: _Runner
) -> bool:
    """Return True if the follower would get the leader's end itself, and may get it now."""
    if result.error_type == "cancelled":
        return False
    if result.error_type == "timeout" and flight.seconds() < follower.call.timeout:
        return False
    if flight.slot is None and result.error_type in _waits_on(follower):
        return False
    if not flight.is_open_to(follower.call):
        return False
    return follower.context.run(_may_go_on, runner, follower)
