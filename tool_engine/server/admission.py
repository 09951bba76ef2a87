"""What does a client see of slots and queues, and what may an operator try?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tool_engine.access.problem import Problem
from tool_engine.calls.engine_calls import PresentCall
from tool_engine.calls.foreign_controller import hold_to_contract
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ClusterUnavailableError, ConfigurationError
from tool_engine.interfaces.admission_view import (
    ClusterSnapshot,
    ConcurrencySnapshot,
    HeldSlot,
    WaitExplanation,
    WaitingCall,
)
from tool_engine.model.record import ToolCallRecord
from tool_engine.model.settings.limit_proposal import LimitProposals
from tool_engine.server.operation import Asked, serve_at


class Limits(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Other limits; what is left out stays as it is now, and so do buckets that are not named."""

    max_concurrent: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    bucket_limits: (
        dict[Annotated[str, Meta(min_length=1)], Annotated[int, Meta(ge=1, le=1_000_000)]] | None
    ) = None
    strategy: Literal["fifo", "priority", "fair", "reject"] | None = None
    queue_size: Annotated[int, Meta(ge=0, le=10_000_000)] | None = None
    queue_timeout: Annotated[float, Meta(gt=0, le=1e9)] | None = None


class PresentLimits(msgspec.Struct):
    """The limits that hold now."""

    max_concurrent: int
    bucket_limits: dict[str, int]
    strategy: str
    queue_size: int
    queue_timeout: float | None
    """Seconds; null: no bound."""


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

    Single calls are the principal's own; one that operates sees all. Behind whom a call waits is
    said of own calls by their ids, and of others as `another call`.
    """
    snapshot = hold_to_contract(asked.engine.controller).snapshot()
    owner, may_use = asked.owner, asked.principal.may_use
    is_named = await find_named(asked)

    def is_seen(entry: HeldSlot | WaitingCall) -> bool:
        is_own = owner is None or is_named(entry.call_id)
        return is_own and (entry.tool_name is None or may_use(entry.tool_name))

    return msgspec.structs.replace(
        snapshot,
        is_draining=snapshot.is_draining or asked.served.is_draining,
        keys=snapshot.keys if owner is None else {},
        tool_keys=_leave_out(snapshot.tool_keys, may_use) if owner is None else {},
        tool_breakers=_leave_out(snapshot.tool_breakers, may_use),
        held=list(filter(is_seen, snapshot.held)),
        waiting=[each.hide_calls(is_named) for each in filter(is_seen, snapshot.waiting)],
    ).to_dict()


@serve_at(
    "GET",
    "/v1/cluster",
    scope="operate",
    is_of_all_tools=True,
    answer=ClusterSnapshot,
    errors=(404, 503),
)
async def get_cluster(asked: Asked) -> Any:
    """Show who holds and who waits for what all processes of the cluster share; asks its database.

    Values of keys, such as ids of conversations, are those of everybody.
    """
    cluster = asked.engine.cluster
    if cluster is None:
        raise Problem(
            404,
            "no-cluster",
            "this engine shares no limits with other processes; start it with --cluster URL",
        )
    try:
        return (await cluster.snapshot()).to_dict()
    except ClusterUnavailableError as error:
        raise Problem(503, "cluster-unavailable", str(error)) from error


async def find_named(asked: Asked) -> Callable[[str | None], bool]:
    """Return what says of the id of a call whether the principal may know it."""
    if asked.owner is None and asked.principal.may_use_all:
        return lambda _: True
    found = await asked.engine.calls.list(caller_id=asked.owner)
    named = {each.call_id for each in found if asked.principal.may_use(each.tool_name)}
    return named.__contains__


def describe_no_slot(
    explanation: WaitExplanation, found: PresentCall | ToolCallRecord
) -> WaitExplanation:
    """Return what there is to say of a call that neither has a slot nor waits for one."""
    if isinstance(found, ToolCallRecord):
        return msgspec.structs.replace(
            explanation, state="ended", reason=f"it has ended: {found.outcome.value}"
        )
    if found.state != "asking":
        return explanation
    reason = "it waits for consent, and for no slot meanwhile; see GET /v1/approvals"
    return msgspec.structs.replace(
        explanation, state=found.state, waited=found.seconds, reason=reason
    )


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
    config = _change_limits(asked.engine.controller.config, body.limits)
    report = await asyncio.to_thread(simulate, Trace.of(records), config, seed=body.seed)
    return Simulation(
        len(report.original_calls),
        msgspec.to_builtins(report.original.total),
        msgspec.to_builtins(report.simulated.total),
        list(report.notes),
    )


class ProposalRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """For which buckets, and from which calls?"""

    buckets: list[Annotated[str, Meta(min_length=1)]] | None = None
    """Null: all with enough calls."""
    last: Annotated[int, Meta(ge=1, le=100_000, description="The newest calls.")] = 1000


@serve_at(
    "POST",
    "/v1/limits/proposals",
    scope="operate",
    answer=LimitProposals,
    body=ProposalRequest,
    errors=(409,),
)
async def propose_limits(asked: Asked) -> Any:
    """Propose limits for buckets from the newest calls, each with its reason and its certainty.

    What a proposal does not know, it says. Nothing is changed.
    """
    proposing = import_module("tool_engine.testing.proposal")
    body: ProposalRequest = asked.body
    records = await asked.engine.query_call_records(limit=body.last)
    config = asked.engine.controller.config
    try:
        found: LimitProposals = await asyncio.to_thread(
            proposing.propose_limits, records, config, buckets=body.buckets
        )
    except ConfigurationError as error:
        raise Problem(409, "too-few-calls", str(error)) from error
    return found


@serve_at("GET", "/v1/limits", scope="read", answer=PresentLimits)
async def get_limits(asked: Asked) -> Any:
    """Show the limits that hold now."""
    return _describe_limits(asked.engine.controller.config)


@serve_at(
    "POST", "/v1/limits", scope="operate", answer=PresentLimits, body=Limits, errors=(409, 422)
)
async def set_limits(asked: Asked) -> Any:
    """Set other limits at once, for calls that wait too; no call that runs is ended.

    They hold until the engine ends: its configuration is not written.
    """
    controller = asked.engine.controller
    controller.configure(_change_limits(controller.config, asked.body))
    return _describe_limits(controller.config)


def _change_limits(now: ConcurrencyConfig, limits: Limits) -> ConcurrencyConfig:
    """Return a configuration with other limits.

    Raises:
        Problem: A limit is none that an engine can have.
    """
    said = {name: each for name, each in msgspec.structs.asdict(limits).items() if each is not None}
    if "bucket_limits" in said:
        said["bucket_limits"] = {**now.bucket_limits, **said["bucket_limits"]}
    try:
        return msgspec.structs.replace(now, **said)
    except ConfigurationError as error:
        raise Problem(422, "invalid-body", f"the body does not fit: {error}") from error


def _describe_limits(config: ConcurrencyConfig) -> PresentLimits:
    return PresentLimits(
        config.max_concurrent,
        dict(config.bucket_limits),
        config.strategy,
        config.queue_size,
        config.queue_timeout,
    )


OPERATIONS = (get_admission, get_cluster, get_limits, set_limits, propose_limits, simulate_limits)
