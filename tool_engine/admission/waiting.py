"""What is one call that waits for a slot?"""

from __future__ import annotations

import asyncio
from typing import Any

from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import ConcurrencySlot, Order
from tool_engine.errors import AdmissionError


class Waiter:
    """One position in a queue: ends exactly once, as granted, refused or given up."""

    __slots__ = (
        "call_id",
        "due",
        "enqueued_at",
        "future",
        "is_queued",
        "is_waiting",
        "lane",
        "order",
        "request",
        "resumes",
        "slot",
        "weight",
    )

    def __init__(
        self,
        lane: Any,
        request: AdmissionRequest,
        order: Order,
        enqueued_at: float,
        call_id: str | None = None,
    ) -> None:
        self.lane = lane
        """The `Lane` that it stands in."""
        self.request = request
        self.weight = request.weight
        self.order = order
        self.enqueued_at = enqueued_at
        self.call_id = call_id
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_waiting = True
        self.is_queued = False
        """Whether it counts against `queue_size`; calls made by running calls do not."""
        self.resumes: ConcurrencySlot | None = None
        """The parked slot that is to be taken again; None: a new one is wanted."""
        self.slot: ConcurrencySlot | None = None
        """What it was given."""
        self.due: float | None = None
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
