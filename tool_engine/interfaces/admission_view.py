"""What does one consistent view of a controller hold: who has a slot, who waits, and why?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from tool_engine.interfaces.metrics import ConcurrencyMetrics
from tool_engine.model.json.data import Data

ANOTHER: Final = "another call"
"""Stands where the id of a call is not to be named, or where it has none."""
_WITHOUT_SLOT: Final = ("unknown", "asking", "ended")


class HeldSlot(msgspec.Struct, Data, frozen=True):
    """A slot that was given and not given back, parked ones included."""

    slot_id: str
    call_id: str | None
    tool_name: str | None
    bucket: str
    key: str | None
    weight: int
    priority: int
    state: str
    """`active`, `bypass`, `parked` or `zombie`."""
    held_for: float
    """Seconds since it was given."""
    queue_wait: float
    """Seconds between asking for it and having it."""
    is_overdue: bool
    """Held for longer than `slot_ttl` without a sign of life, or by work that outlived its call."""


class WaitingCall(msgspec.Struct, Data, frozen=True):
    """A call that waits for a slot."""

    call_id: str | None
    tool_name: str | None
    bucket: str
    key: str | None
    weight: int
    priority: int
    position: int
    """1 for the next one of its bucket."""
    waited: float
    """Seconds since it asked."""
    reason: str
    """What holds it up."""
    behind: str | None = None
    """The call that goes first of all that this one waits behind, which `reason` names; None: none
    does, or it has no id."""

    def hide_calls(self, is_named: Callable[[str], bool]) -> WaitingCall:
        """Return the same with the ids of some other calls hidden.

        Args:
            is_named: Says of an id whether it may be named.
        """
        reason, (behind,) = _hide_ids(self.reason, [self.behind], is_named)
        return msgspec.structs.replace(self, reason=reason, behind=behind)


class ConcurrencySnapshot(msgspec.Struct, frozen=True):
    """The controller at one moment; see `ToolConcurrencyController.snapshot`."""

    metrics: ConcurrencyMetrics
    is_paused: bool
    """Whether `pause()` holds all calls up."""
    buckets: dict[str, dict[str, Any]]
    """Per bucket: `current`, `limit`, `queue`, `utilization`, `rejected`; `wait_p50`, `wait_p95`
    and `wait_p99` in seconds over the last calls that had to wait (None: none had), `paused_for` in
    seconds, the state of the `breaker` (None: it has none), what its limit has learned, if it
    is `adaptive`, whether it is overloaded, if it minds (`overload`), and how many units it has of
    a cluster's limit (`leased`); else None."""
    keys: dict[str, dict[str, Any]]
    """Per key that holds or wants a slot: `current`, `limit` and `queue`."""
    tool_keys: dict[str, dict[str, dict[str, Any]]]
    """The same for the keys of tools, by tool; arguments appear as digests only."""
    tool_breakers: dict[str, str]
    """The states of the breakers of tools: `closed`, `open` or `half_open`."""
    held: list[HeldSlot]
    """The oldest first."""
    waiting: list[WaitingCall]
    """The next one first, if no limit changes and no other call comes."""
    is_draining: bool = False
    """Whether `drain()` has new calls refused."""

    def to_dict(self) -> dict[str, Any]:
        """The view as JSON values."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values


class WaitExplanation(msgspec.Struct, frozen=True):
    """Why a call waits; its text says it in a sentence."""

    call_id: str
    state: str
    """`waiting`, `running`, `parked` (it waits for a call of its own, its slot is lent out),
    `sharing` (it gets the result of another call, which `holders` names and the rest is about), or
    `unknown` for a call that has ended or never was, with a reason if its work was lost. Over HTTP
    also `asking` (it waits for consent) and `ended`."""
    bucket: str | None = None
    position: int = 0
    """1 for the next one of its bucket; 0 when it does not wait."""
    ahead: list[str] = []
    """The calls of its bucket that come before it, the next one first; at most ten."""
    holders: list[str] = []
    """The calls that hold what it waits for; at most ten."""
    reason: str = ""
    waited: float = 0.0
    """Seconds since it asked for a slot."""
    wait_p50: float | None = None
    """Seconds that it will wait from now on with a chance of one half; None: nothing to go by."""
    wait_p90: float | None = None
    """The same with a chance of nine tenths."""
    behind: str | None = None
    """The call that goes first of all that this one waits behind, which `reason` names; None: none
    does, or it has no id."""
    cluster: str | None = None
    """Where it stands among the calls of all processes that share the limit. Said over HTTP alone,
    as it asks the database: in a program it is `await engine.cluster.explain(call_id)`."""

    def hide_calls(self, is_named: Callable[[str], bool]) -> WaitExplanation:
        """Return the same with the ids of some other calls hidden; how many they are stays.

        Args:
            is_named: Says of an id whether it may be named.
        """
        others = [self.behind, *self.ahead, *self.holders]
        reason, shown = _hide_ids(self.reason, others, is_named)
        first = 1 + len(self.ahead)
        return msgspec.structs.replace(
            self, reason=reason, behind=shown[0], ahead=shown[1:first], holders=shown[first:]
        )

    def __str__(self) -> str:
        if self.state in _WITHOUT_SLOT and self.reason:
            return f"{self.call_id}: {self.reason}"
        if self.state == "unknown":
            return (
                f"{self.call_id} neither holds a slot nor waits for one; the engine gives the ids: "
                "take that of an event, of the snapshot or of context.call_id in a tool"
            )
        if self.state == "sharing":
            return f"{self.call_id} shares the run of another call: {self.reason}"
        if self.state != "waiting":
            state = "runs" if self.state == "running" else "is parked"
            return f"{self.call_id} {state} in bucket {self.bucket!r}: {self.reason}"
        text = (
            f"{self.call_id} has waited {self.waited:.2f} s as number {self.position} for bucket "
            f"{self.bucket!r}: {self.reason}"
        )
        if self.cluster is not None:
            text = f"{text}; of all processes: {self.cluster}"
        if self.wait_p50 is None or self.wait_p90 is None:
            return text
        return f"{text}; about {self.wait_p50:.2f} s to go (nine in ten: {self.wait_p90:.2f} s)"

    def to_dict(self) -> dict[str, Any]:
        """The explanation as JSON values, with its text as `text`."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return {**values, "text": str(self)}


def _hide_ids(
    text: str, ids: Iterable[str | None], is_named: Callable[[str], bool]
) -> tuple[str, list[Any]]:
    """Return a text and ids, in which those that may not be named are `ANOTHER`."""
    shown: list[str | None] = []
    for each in ids:
        is_shown = each is None or each == ANOTHER or is_named(each)
        shown.append(each if is_shown else ANOTHER)
        if each is not None and not is_shown:
            text = text.replace(each, ANOTHER)
    return text, shown


class ClusterProcess(msgspec.Struct, Data, frozen=True):
    """A process that takes part."""

    process: str
    """Its name."""
    units: dict[str, int]
    """What it holds, by resource, such as `{"bucket:ai": 2}`; it need not use all of it."""
    waiting: int
    """How many of its calls wait for all processes to give something back."""
    seconds_left: float
    """Until it counts as gone if it says nothing."""
    is_connected: bool
    """False: its connection has ended, and it has the grace to come back."""


class ClusterWaiting(msgspec.Struct, Data, frozen=True):
    """A call that waits for units of the cluster."""

    position: int
    """1 for the next one of all."""
    process: str
    units: dict[str, int]
    """What it waits for, by resource."""
    priority: int
    waited: float
    """Seconds since it asked."""
    is_held: bool
    """Whether its process held it up when its turn came, so that it is passed over."""


class ClusterSnapshot(msgspec.Struct, Data, frozen=True):
    """A cluster at one moment."""

    name: str
    revision: int
    """The edition of the limits that holds."""
    strategy: str
    limits: dict[str, int]
    """Units in all, by resource: `bucket:NAME`, `rate:NAME` (starts in its period), and of each
    value of a key `key:FIELD`; also what tools define, such as `key:tool NAME`."""
    used: dict[str, int]
    """How many of these processes hold; of rates, the starts that count now; of a key, the units
    of all values together."""
    breakers: dict[str, str]
    """The state of each breaker: `closed`, `open` or `half_open`."""
    processes: list[ClusterProcess]
    waiting: list[ClusterWaiting]
    """The next one first."""
    paused: dict[str, float]
    """Seconds for which no call of a resource starts."""
    gated_for: float
    """Seconds until units are given again at the latest: after a crash of the server, each process
    that is known first says what it holds. 0.0: they are given."""
