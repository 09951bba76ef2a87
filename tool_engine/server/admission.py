"""What does a client see of slots and queues, and what may an operator try?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tool_engine.access.problem import Problem
from tool_engine.admission.snapshot import ConcurrencySnapshot, HeldSlot, WaitingCall
from tool_engine.server.operation import Asked, serve_at


class Limits(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Limits to try; what is left out is as it is now."""

    max_concurrent: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    bucket_limits: dict[str, Annotated[int, Meta(ge=0, le=1_000_000)]] | None = None
    strategy: str | None = None
    queue_size: Annotated[int, Meta(ge=0, le=10_000_000)] | None = None
    queue_timeout: Annotated[float, Meta(gt=0)] | None = None


class SimulationRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What if these had been the limits?"""

    limits: Limits = msgspec.field(default_factory=Limits)
    last: Annotated[int, Meta(ge=1, le=100_000, description="The newest calls to replay.")] = 1000
    seed: Annotated[int, Meta(ge=0)] = 0


class Simulation(msgspec.Struct):
    """How the newest calls went, and how they would have gone."""

    calls: int
    original: dict[str, Any]
    simulated: dict[str, Any]
    notes: list[str]
    """What the figures do not say."""


@serve_at("GET", "/v1/admission", scope="read", answer=ConcurrencySnapshot)
async def get_admission(asked: Asked) -> Any:
    """Show slots and queues at this moment.

    Single calls are the principal's own; one that operates sees all.
    """
    snapshot = asked.engine.controller.snapshot()
    owner, may_use = asked.owner, asked.principal.may_use
    own = (
        set()
        if owner is None
        else {each.call_id for each in await asked.engine.calls.list(caller_id=owner)}
    )

    def is_seen(entry: HeldSlot | WaitingCall) -> bool:
        is_own = owner is None or entry.call_id in own
        return is_own and (entry.tool_name is None or may_use(entry.tool_name))

    return msgspec.structs.replace(
        snapshot,
        keys=snapshot.keys if owner is None else {},
        tool_keys=_leave_out(snapshot.tool_keys, may_use) if owner is None else {},
        tool_breakers=_leave_out(snapshot.tool_breakers, may_use),
        held=list(filter(is_seen, snapshot.held)),
        waiting=list(filter(is_seen, snapshot.waiting)),
    ).to_dict()


def _leave_out(by_tool: dict[str, Any], may_use: Callable[[str], bool]) -> dict[str, Any]:
    """Return what is about the tools that may be used."""
    return {name: value for name, value in by_tool.items() if may_use(name)}


@serve_at(
    "POST",
    "/v1/simulations",
    scope="operate",
    answer=Simulation,
    body=SimulationRequest,
    errors=(409,),
)
async def simulate_limits(asked: Asked) -> Any:
    """Replay the newest calls under other limits, on a clock of its own."""
    from tool_engine.testing.simulation import simulate
    from tool_engine.testing.trace import Trace

    body: SimulationRequest = asked.body
    records = await asked.engine.query_call_records(limit=body.last)
    if not any(each.reached_executor for each in records):
        raise Problem(409, "no-calls", "no call that ran is kept; call a tool first")
    said = {
        name: each for name, each in msgspec.structs.asdict(body.limits).items() if each is not None
    }
    now = asked.engine.controller.config
    config = msgspec.structs.replace(now, **said) if said else now
    report = await asyncio.to_thread(simulate, Trace.of(records), config, seed=body.seed)
    return Simulation(
        len(report.original_calls),
        msgspec.to_builtins(report.original.total),
        msgspec.to_builtins(report.simulated.total),
        list(report.notes),
    )


OPERATIONS = (get_admission, simulate_limits)
