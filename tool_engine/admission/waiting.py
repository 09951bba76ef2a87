"""What is one call that waits for a slot?"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import ConcurrencySlot, Order
from tool_engine.errors import AdmissionError


class Waiter(msgspec.Struct, eq=False):
    """One position in a queue: ends exactly once, as granted, refused or given up."""

    lane: Any
    """The `Lane` that it stands in."""
    request: AdmissionRequest
    weight: int
    order: Order
    enqueued_at: float
    future: asyncio.Future[None]
    """What its task waits for."""
    call_id: str | None = None
    is_waiting: bool = True
    is_queued: bool = False
    """Whether it counts against `queue_size`; calls made by running calls do not."""
    resumes: ConcurrencySlot | None = None
    """The parked slot that is to be taken again; None: a new one is wanted."""
    slot: ConcurrencySlot | None = None
    """What it was given."""
    due: float | None = None
    """Under `fair`: the round that it was to be served in when it became first in its lane."""

    @property
    def is_new(self) -> bool:
        """Whether it asks for a call of its own, and not for one that a running call is part of."""
        return self.resumes is None and self.request.parent is None

    def wake(self, error: AdmissionError | None = None) -> None:
        """Ends the wait; a waiter whose task was cancelled meanwhile finds out by itself."""
        if self.future.done():
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)
