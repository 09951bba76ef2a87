"""Who hears of it when a slot is wanted, given, refused and given back?"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.admission.waiting import Waiter
from tool_engine.errors import AdmissionError
from tool_engine.logger import get_logger
from tool_engine.model.foreign import ends_caller
from tool_engine.model.json.data import Data
from tool_engine.redaction import words_of

_log: Final = get_logger(__name__)

QUEUED: Final = "slot_queued"
GRANTED: Final = "slot_granted"
REJECTED: Final = "slot_rejected"
GIVEN_UP: Final = "slot_given_up"
RELEASED: Final = "slot_released"


class SlotEvent(msgspec.Struct, Data, frozen=True, kw_only=True):
    """One step of one call through admission."""

    event_type: str
    """`slot_queued`, `slot_granted`, `slot_rejected`, `slot_given_up` or `slot_released`."""
    at: float
    """When it happened, in seconds on the controller's clock."""
    bucket: str
    wait_ms: float
    """Milliseconds that the call has waited until then, or did wait for the slot it had."""
    weight: int = 1
    key: str | None = None
    """What the call shares with others, see `KeyLimits`."""
    call_id: str | None = None
    held_ms: float | None = None
    """Milliseconds for which the slot was held; only when it is given back."""
    error_type: str | None = None
    """Why it was refused, such as `queue_full`."""


class Announcer:
    """Calls callbacks with what happened, soon: never before the step that it happened in is over.

    So a callback, however slow, does not stand between a slot and the call that is to get it.
    """

    __slots__ = ("_callbacks", "_pending")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[SlotEvent], None]] = []
        self._pending: deque[SlotEvent] = deque()

    def __bool__(self) -> bool:
        """Whether there is a callback to call."""
        return bool(self._callbacks)

    def subscribe(
        self, callback: Callable[[SlotEvent], None], observe: Callable[[bool], None]
    ) -> Callable[[], None]:
        """Call `callback` with every event from now on; returns what ends that.

        `observe` is called with whether there is a callback to call.
        """
        self._callbacks = [*self._callbacks, callback]
        observe(True)

        def unsubscribe() -> None:
            self._callbacks = [each for each in self._callbacks if each is not callback]
            observe(bool(self))

        return unsubscribe

    def queued(self, waiter: Waiter, now: float) -> None:
        """A call stands in line."""
        self._queue_event(_of_waiter(QUEUED, waiter, now))

    def granted(self, slot: ConcurrencySlot, now: float) -> None:
        """A call has its slot, at once or after a wait."""
        self._queue_event(_of_slot(GRANTED, slot, now))

    def refused(self, request: AdmissionRequest, now: float, error: AdmissionError) -> None:
        """A call may not even wait."""
        self._queue_event(
            _of_request(REJECTED, request, request.call_id, now, 0.0, error.error_type)
        )

    def ended(self, waiter: Waiter, now: float, error: AdmissionError | None) -> None:
        """A wait ended without a slot: it was refused, or given up."""
        kind = GIVEN_UP if error is None else REJECTED
        self._queue_event(
            _of_waiter(kind, waiter, now, None if error is None else error.error_type)
        )

    def released(self, slot: ConcurrencySlot, now: float) -> None:
        """A slot was given back."""
        self._queue_event(_of_slot(RELEASED, slot, now))

    def _queue_event(self, event: SlotEvent) -> None:
        self._pending.append(event)
        if len(self._pending) > 1:
            return  # the step that delivers the first takes this one along
        try:
            loop = asyncio.get_running_loop()
            # One turn later than those who were given slots in this step.
            loop.call_soon(loop.call_soon, self._deliver_events)
        except RuntimeError:  # no loop runs that it could be done in later
            self._deliver_events()

    def _deliver_events(self) -> None:
        events, self._pending = self._pending, deque()
        for event in events:
            for callback in self._callbacks:
                try:
                    callback(event)
                except BaseException as error:  # a listener must not stop the others
                    if ends_caller(error):
                        raise
                    _log.warning("slot_subscriber_failed", error=words_of(error))


def _of_waiter(kind: str, waiter: Waiter, now: float, error_type: str | None = None) -> SlotEvent:
    request, waited = waiter.request, now - waiter.enqueued_at
    return _of_request(kind, request, waiter.call_id or request.call_id, now, waited, error_type)


def _of_request(
    kind: str,
    request: AdmissionRequest,
    call_id: str | None,
    now: float,
    waited: float,
    error_type: str | None,
) -> SlotEvent:
    return SlotEvent(
        event_type=kind,
        at=now,
        bucket=request.bucket,
        wait_ms=waited * 1e3,
        weight=request.weight,
        key=request.key,
        call_id=call_id,
        error_type=error_type,
    )


def _of_slot(kind: str, slot: ConcurrencySlot, now: float) -> SlotEvent:
    request = slot.request
    return SlotEvent(
        event_type=kind,
        at=now,
        bucket=slot.bucket,
        wait_ms=slot.queue_wait * 1e3,
        weight=slot.weight,
        key=request.key,
        call_id=slot.call_id or request.call_id,
        held_ms=(now - slot.acquired_at) * 1e3 if kind is RELEASED else None,
    )
