"""What does one consistent view of the controller hold: who has a slot, who waits, and why?"""

from __future__ import annotations

from typing import Any

import msgspec

from tool_engine.interfaces.metrics import ConcurrencyMetrics
from tool_engine.model.json.data import Data


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


class ConcurrencySnapshot(msgspec.Struct, frozen=True):
    """The controller at one moment; see `ToolConcurrencyController.snapshot`."""

    metrics: ConcurrencyMetrics
    is_paused: bool
    """Whether `pause()` holds all calls up."""
    buckets: dict[str, dict[str, Any]]
    """Per bucket: `current`, `limit`, `queue`, `utilization`, `rejected`; `wait_p50`, `wait_p95`
    and `wait_p99` in seconds over the last calls that had to wait (None: none had), `paused_for` in
    seconds, the state of the `breaker` (None: it has none), what its limit has learned, if it
    is `adaptive`, and whether it is overloaded, if it minds (`overload`); else None."""
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
    `unknown` for a call that has ended or never was."""
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

    def __str__(self) -> str:
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
        if self.wait_p50 is None or self.wait_p90 is None:
            return text
        return f"{text}; about {self.wait_p50:.2f} s to go (nine in ten: {self.wait_p90:.2f} s)"

    def to_dict(self) -> dict[str, Any]:
        """The explanation as JSON values, with its text as `text`."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return {**values, "text": str(self)}
