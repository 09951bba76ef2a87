"""May a call run, and when? What decides it, and what does a call hold meanwhile?

The engine has no other way to admission than what stands here: a controller may be local, or stand
for one that is somewhere else.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ConfigurationError
from tool_engine.interfaces.admission_view import ConcurrencySnapshot, WaitExplanation
from tool_engine.interfaces.metrics import ConcurrencyMetrics
from tool_engine.model.settings.concurrency import BreakerPolicy, CollisionPolicy, ToolRate


class SlotRequest(Protocol):
    """What a call asks for: an `AdmissionRequest`.

    Only to be read: calls that are alike share one.
    """

    @property
    def bucket(self) -> str:
        """The named limit that the call counts against."""

    @property
    def priority(self) -> int:
        """Smaller is more urgent."""

    @property
    def weight(self) -> int:
        """How many units of the limits the call takes."""

    @property
    def timeout(self) -> float | None:
        """Seconds that the call may wait; None: the controller's `queue_timeout`."""

    @property
    def is_bypass(self) -> bool:
        """Whether the limits do not apply to the caller."""

    @property
    def key(self) -> str | None:
        """A key that limits calls together, such as of one conversation; see `KeyLimits`."""

    @property
    def parent(self) -> Any:
        """The slot of the outer call; None: no call makes it."""

    @property
    def tool_name(self) -> str | None:
        """The tool; None: the controller is used without an engine."""

    @property
    def tool_key(self) -> Any:
        """What calls of the tool must have in common to count against `tool_key_limit`."""

    @property
    def tool_key_limit(self) -> int | None:
        """How many calls of one `tool_key` may run at once."""

    @property
    def collision(self) -> CollisionPolicy:
        """What happens to a call whose `tool_key` is busy."""

    @property
    def rate(self) -> ToolRate | None:
        """How many calls of the tool may start in a period."""

    @property
    def breaker(self) -> BreakerPolicy | None:
        """The rule that pauses a tool which fails too often."""


class Slot(Protocol):
    """Permission to run now.

    A controller makes its own, and is given back the same object.
    """

    on_superseded: Callable[[], None] | None
    """Set by the engine: ends the call, because a newer one with the same key takes its place."""

    @property
    def bucket(self) -> str:
        """The bucket that the slot counts against."""

    @property
    def request(self) -> Any:
        """The `SlotRequest` that it was given for."""

    @property
    def acquired_at(self) -> float:
        """Start of the slot, and of the call's time, on the loop's clock."""

    @property
    def queue_wait(self) -> float:
        """Seconds between asking for the slot and having it."""

    @property
    def is_overdue(self) -> bool:
        """Whether the work outlives its call; see `mark_overdue`."""

    @property
    def is_released(self) -> bool:
        """Whether `release` has been called."""


class AdmissionUser(Protocol):
    """What a controller may ask of the engine whose calls it admits."""

    def current_slot(self) -> Any:
        """Return the slot of the call that is running now, or None."""

    def leader_of(self, call_id: str) -> str | None:
        """Return the id of the call whose run this one shares, or None."""

    def explain_lost(self, call_id: str) -> str | None:
        """Return what is known of a call whose work never said that it had ended, or None."""

    def explain_place(self, call_id: str) -> str:
        """Say where a call is that runs elsewhere; empty: there is nothing to say."""

    def forget_plans(self) -> None:
        """Take note that `config` has changed; to be called after it has."""

    def end_lost(self, slots: Collection[Any]) -> None:
        """End the calls of these slots, whose units others may have: their results do not count."""

    def note_limit(self, facts: dict[str, Any]) -> None:
        """Take note that an adaptive limit has changed; at most once a second for a bucket.

        The facts are `bucket`, `previous`, `limit` and `reason`.
        """


class AdmissionController(Protocol):
    """Decides whether and when a call may run, by slots.

    All of it is called on the engine's event loop. What may have to wait is async, and can be
    cancelled at each of its awaits without keeping anything. Nothing else waits: a controller that
    has to send a message does so later, and again until it has arrived. What may be left out has a
    default here: derive from this class, and write what is abstract.

    A slot is held by the engine and never by the tool, until `release`. The engine closes the
    controller when it is closed itself, so each controller serves one engine.
    """

    @property
    @abstractmethod
    def config(self) -> ConcurrencyConfig:
        """The limits that calls are planned by: default timeout, keys, who bypasses."""

    @abstractmethod
    async def admit(
        self,
        request: Any,
        on_queued: Callable[[], None] | None = None,
        call_id: str | None = None,
    ) -> Slot:
        """Wait until the call may run, and return its slot.

        Each slot counts until `release`. A cancelled wait ends with nothing held, also where the
        slot is given in the same moment, or the answer comes later. A slot that is wanted by a call
        of a call (`request.parent`) must not wait for its parent's: see `park`.

        Args:
            request: What the call needs, a `SlotRequest`.
            on_queued: Called at most once, and only while the call waits because no slot is free.
            call_id: The call.

        Raises:
            AdmissionError: The call was refused, at once or after waiting.
        """

    @abstractmethod
    def release(
        self, slot: Any, now: float | None = None, *, outcome: bool | None = True
    ) -> bool | None:
        """Give back exactly what was counted for the slot, in any state.

        Never waits and never raises. A second time changes nothing.

        Args:
            slot: The slot.
            now: The time on the loop's clock, where the engine knows it.
            outcome: What breakers learn: the call succeeded, failed, or None for neither.

        Returns:
            True: others may have had the slot before, so that the result of its call does not
            count. A controller whose slots are its own returns nothing.
        """

    @abstractmethod
    def mark_overdue(self, slot: Any, outcome: bool | None = False) -> None:
        """Note that the work goes on although the call has ended.

        `slot.is_overdue` is true from now on. The slot stays taken until `release`, where the
        outcome is not counted again.
        """

    @abstractmethod
    def close(self) -> None:
        """Refuse new calls for good, and end all waits; idempotent."""

    @abstractmethod
    async def drain(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - an answer, not a failure
        """Refuse new calls; wait at most `timeout` seconds until nothing runs.

        Returns:
            Whether nothing does, and all that was to be sent has been.
        """

    @abstractmethod
    def get_metrics(self) -> ConcurrencyMetrics:
        """Return what it has given to this engine."""

    # Optional from here on. First: a controller that needs others.

    async def open(self) -> None:
        """Get ready for calls; called by `load`.

        Raises:
            ToolEngineError: It cannot give slots, and the engine is not to start.
        """
        return

    async def leave(self) -> None:
        """Let go of everything; called last, after `close` and when all work has ended."""
        return

    # What speeds up calls that need not wait.

    def admit_nowait(
        self, request: Any, now: float | None = None, call_id: str | None = None
    ) -> Slot | None:
        """Return a slot if the call may run now; else None.

        Never waits and never raises; after None the engine asks by `admit`.
        """
        del request, now, call_id
        return None

    # Lending: a call does not run while it waits for a call of its own, or for its next attempt.

    def park(self, slot: Any) -> None:
        """Lend the slot out while its call waits.

        One of the three below follows, or `release`. The slots of calls that wait for each other
        must not hold each other up: a controller that does not lend gives a call with a
        `request.parent` a slot without counting it.
        """
        del slot

    async def unpark(self, slot: Any) -> None:
        """Wait until the slot counts again, ahead of new calls.

        Returns at once while another `park` of the slot is not over. Cancelled, it leaves the slot
        to come back by itself or to be released.
        """
        del slot

    def unpark_nowait(self, slot: Any) -> None:
        """Do as `unpark` without waiting: the slot counts once there is room."""
        del slot

    def stay_parked(self, slot: Any) -> None:
        """Leave the slot lent: the call has ended, and `release` follows."""
        del slot

    # Limits that move.

    def attach(self, user: AdmissionUser) -> None:
        """Take note of the engine; called once, before all else.

        Raises:
            ConfigurationError: It has an engine.
        """
        del user

    def pause_bucket(self, name: str, seconds: float) -> None:
        """Give no slots of a bucket for some time, as its service asks."""
        del name, seconds

    def note_overload(self, slot: Any) -> None:
        """Note that the service refused the slot's call, or that its time ran out.

        Comes before the slot's `release` or `mark_overdue`, and perhaps twice.
        """
        del slot

    def pause_left(self, bucket: str) -> float:
        """Return the seconds left of a bucket's pause; 0.0: none."""
        del bucket
        return 0.0

    def explain_shut(self) -> str | None:
        """Return why no call that comes now gets a slot, such as `paused`; None: some do.

        While it says so, the engine begins no tasks, which others may run; `draining` may end.
        """
        return None

    def tools_in_line(self) -> Iterable[str]:
        """Return the names of tools for whose own limits calls wait: see `adopt`."""
        return ()

    def adopt(self, requests: Iterable[Any]) -> None:
        """Apply the newest limits of tools, in these requests, to waiting calls."""
        del requests

    # Observation only.

    def watch(self, slot: Any) -> None:
        """Let views show the slot, which others than its call may now read."""
        del slot

    def count_timeout(self) -> None:
        """Count a call that ran out of time while it ran."""
        return

    def get_bucket_metrics(self) -> dict[str, dict[str, Any]]:
        """Return per bucket `current`, `limit`, `queue` and `utilization`."""
        return {}

    def snapshot(self) -> ConcurrencySnapshot:
        """Return who holds a slot and who waits; without a method of its own, sums alone."""
        return ConcurrencySnapshot(
            self.get_metrics(),
            is_paused=self.explain_shut() == "paused",
            buckets=self.get_bucket_metrics(),
            keys={},
            tool_keys={},
            tool_breakers={},
            held=[],
            waiting=[],
            is_draining=self.explain_shut() == "draining",
        )

    def explain(self, call_id: str) -> WaitExplanation:
        """Return why a call waits, behind which, and about how much longer."""
        reason = f"the controller {type(self).__qualname__} keeps no account of single calls"
        return WaitExplanation(call_id, "unknown", reason=reason)

    # Steering, by people and programs: over HTTP, in the studio.

    def pause(self) -> None:
        """Give no more slots: calls wait, running ones go on.

        Raises:
            ConfigurationError: It cannot; so do the two below.
        """
        raise _make_inability(self, "paused", "pause")

    def resume(self) -> None:
        """End a pause or a drain."""
        raise _make_inability(self, "resumed", "resume")

    def configure(self, config: ConcurrencyConfig) -> None:
        """Apply another configuration at once, to calls that wait too."""
        del config
        raise _make_inability(self, "given other limits", "configure")


def _make_inability(controller: object, what: str, method: str) -> ConfigurationError:
    return ConfigurationError(
        f"the controller {type(controller).__qualname__} cannot be {what} as it stands; write its "
        f"method {method}"
    )
