"""What does a controller look like that decides nothing, and asks one that is far away?

Each side says all that it wants or knows of a slot, under a number that grows: what is lost is said
again, what comes late or twice changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from tests.contracts.doors.wire import PATIENCE, Wire
from tool_engine.admission import ToolConcurrencyController
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ControllerClosedError
from tool_engine.interfaces import AdmissionController
from tool_engine.interfaces.metrics import ConcurrencyMetrics

__all__ = ["FarController"]

HOLD, LEND, DONE = "hold", "lend", "done"


class FarSlot:
    """What this side knows of a slot."""

    def __init__(self, number: int, request: Any, call_id: str | None) -> None:
        self.number = number
        self.request = request
        self.call_id = call_id
        self.bucket = str(request.bucket)
        self.acquired_at = self.queue_wait = 0.0
        self.is_overdue = self.is_released = self.is_given = False
        self.on_superseded: Callable[[], None] | None = None
        self.on_queued: Callable[[], None] | None = None
        self.nested = 0
        self.wish, self.version, self.heard = HOLD, 0, -1
        self.outcome: bool | None = True
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[None] = loop.create_future()
        """Done when the wish to hold it has been granted or refused."""


class FarController(AdmissionController):
    """Asks `far` over a bad line.

    Args:
        far: The controller that decides.
        wire: The line.
    """

    def __init__(self, far: ToolConcurrencyController, wire: Wire) -> None:
        self.far = far
        self.wire = wire
        self.desk = Desk(far, wire, self._hear)
        self._numbers = count()
        self._live: dict[int, FarSlot] = {}
        self._refuses: str | None = None
        self._given = self._returned = self._asked = self._ended = 0
        self._timeouts = 0
        self._idle: list[asyncio.Future[None]] = []

    @property
    def config(self) -> ConcurrencyConfig:
        return self.far.config

    async def admit(
        self,
        request: Any,
        on_queued: Callable[[], None] | None = None,
        call_id: str | None = None,
    ) -> FarSlot:
        loop = asyncio.get_running_loop()
        if self._refuses == "closed" or (self._refuses and request.parent is None):
            raise ControllerClosedError("the controller takes no more calls")
        slot = FarSlot(next(self._numbers), request, call_id)
        slot.on_queued = on_queued
        began = loop.time()
        self._live[slot.number] = slot
        self._asked += 1
        self._insist(slot)
        try:
            await slot.answer
        except BaseException:
            # Also what is given in this moment, or was and is not known of here yet.
            self._say(slot, DONE, outcome=None)
            raise
        finally:
            slot.on_queued = None
            self._ended += 1
        slot.acquired_at = loop.time()
        slot.queue_wait = slot.acquired_at - began
        slot.is_given = True
        self._given += 1
        return slot

    def release(
        self, slot: FarSlot, now: float | None = None, *, outcome: bool | None = True
    ) -> None:
        del now
        if slot.is_released:
            return
        slot.is_released = True
        self._returned += 1
        if not slot.answer.done():
            slot.answer.set_result(None)  # its call waits for it no more
        self._say(slot, DONE, outcome=outcome)

    def mark_overdue(self, slot: FarSlot, outcome: bool | None = False) -> None:
        if not slot.is_overdue and not slot.is_released:
            slot.is_overdue = True
            self._say(slot, slot.wish, outcome=outcome)

    def park(self, slot: FarSlot) -> None:
        slot.nested += 1
        if slot.nested == 1 and not slot.is_released:
            self._say(slot, LEND)

    async def unpark(self, slot: FarSlot) -> None:
        self.unpark_nowait(slot)
        if slot.nested == 0 and not slot.is_released:
            await asyncio.shield(slot.answer)

    def unpark_nowait(self, slot: FarSlot) -> None:
        slot.nested -= 1
        if slot.nested == 0 and not slot.is_released:
            if slot.answer.done():
                slot.answer = asyncio.get_running_loop().create_future()
            self._say(slot, HOLD)

    def stay_parked(self, slot: FarSlot) -> None:
        slot.nested -= 1

    def count_timeout(self) -> None:
        self._timeouts += 1

    def close(self) -> None:
        self._refuses = "closed"
        for slot in self._live.values():
            if not slot.is_given and not slot.answer.done():
                slot.answer.set_exception(ControllerClosedError("the controller is closed"))

    async def drain(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - an answer
        self._refuses = self._refuses or "draining"
        if not self._live:
            return True
        idle = asyncio.get_running_loop().create_future()
        self._idle.append(idle)
        done, _ = await asyncio.wait([idle], timeout=timeout)
        return bool(done)

    def get_metrics(self) -> ConcurrencyMetrics:
        held = [each for each in self._live.values() if each.is_given and not each.is_released]
        zombies = sum(each.is_overdue for each in held)
        parked = sum(each.wish == LEND for each in held)
        waiting = self._asked - self._ended
        return ConcurrencyMetrics(
            current_concurrent=len(held) - parked,
            queue_length=waiting,
            total_acquired=self._given,
            total_released=self._returned,
            active=len(held) - zombies,
            parked=parked,
            zombies=zombies,
            total_enqueued=self._asked,
            total_dequeued=self._ended,
            total_granted=self._given,
            total_cancelled=self._ended - self._given,
        )

    # What is said, until it has been heard; and what is heard.

    def _say(self, slot: FarSlot, wish: str, outcome: bool | None = True) -> None:
        if slot.wish != DONE:
            slot.wish, slot.outcome = wish, outcome
            slot.version += 1
            self._insist(slot)

    def _insist(self, slot: FarSlot, version: int | None = None) -> None:
        """Sends all that is wanted of a slot, again and again until there is no more to hear."""
        if version not in (None, slot.version):
            return  # something newer is being said
        is_settled = slot.heard == slot.version and (slot.wish != HOLD or slot.answer.done())
        if version is not None and is_settled:
            return
        parent = slot.request.parent
        message = Wish(
            slot.number,
            slot.version,
            slot.wish,
            slot.is_overdue,
            slot.outcome,
            slot.request,
            None if parent is None else parent.number,
            slot.call_id,
        )
        self.wire.send(self.desk.hear, message)
        loop = asyncio.get_running_loop()
        loop.call_later(PATIENCE, self._insist, slot, slot.version)

    def _hear(self, answer: Answer) -> None:
        slot = self._live.get(answer.number)
        if slot is None:
            return  # heard before
        if answer.is_superseded and slot.on_superseded is not None and not slot.is_released:
            slot.on_superseded()
        if answer.version != slot.version:
            return  # it knows an older wish
        slot.heard = answer.version
        if slot.wish == DONE:
            self._forget(slot)
        elif slot.wish == HOLD and not slot.answer.done():
            self._settle(slot, answer)

    def _forget(self, slot: FarSlot) -> None:
        del self._live[slot.number]
        for idle in () if self._live else self._idle:
            if not idle.done():
                idle.set_result(None)

    def _settle(self, slot: FarSlot, answer: Answer) -> None:
        if answer.error is not None:
            slot.answer.set_exception(answer.error)
        elif answer.is_held:
            slot.answer.set_result(None)
        elif answer.is_queued and slot.on_queued is not None:
            on_queued, slot.on_queued = slot.on_queued, None
            on_queued()


class Wish(msgspec.Struct):
    """All that one side wants of a slot."""

    number: int
    version: int
    wish: str
    is_overdue: bool
    outcome: bool | None
    request: Any
    parent: int | None
    call_id: str | None


class Answer(msgspec.Struct):
    """All that the other side knows of it."""

    number: int
    version: int
    is_held: bool
    is_queued: bool
    error: Exception | None
    is_superseded: bool


class Entry:
    """What the desk knows of a slot."""

    def __init__(self) -> None:
        self.version = -1
        self.slot: Any = None
        self.task: asyncio.Task[None] | None = None
        self.error: Exception | None = None
        self.is_queued = self.is_lent = self.is_back = self.is_done = False
        self.is_overdue = self.is_superseded = False


class Desk:
    """Where messages arrive at the controller that decides."""

    def __init__(
        self,
        controller: ToolConcurrencyController,
        wire: Wire,
        tell: Callable[[Answer], object],
    ) -> None:
        self.controller = controller
        self.wire = wire
        self._tell = tell
        self.entries: dict[int, Entry] = {}

    def hear(self, wish: Wish) -> None:
        """Does what is wanted, unless it knows of something newer, and answers."""
        entry = self.entries.setdefault(wish.number, Entry())
        if wish.version > entry.version:
            entry.version = wish.version
            self._apply(entry, wish)
        self._answer(wish.number)

    def _apply(self, entry: Entry, wish: Wish) -> None:
        if entry.is_done:
            return
        if wish.wish == DONE:
            entry.is_done = True
            if entry.slot is not None:
                self.controller.release(entry.slot, outcome=wish.outcome)
            elif entry.task is not None:
                entry.task.cancel()
            return
        if entry.slot is None and entry.task is None and entry.error is None:
            entry.task = asyncio.create_task(self._admit(entry, wish))
        if entry.slot is None:
            return
        if wish.is_overdue and not entry.is_overdue:
            entry.is_overdue = True
            self.controller.mark_overdue(entry.slot, wish.outcome)
        if wish.wish == LEND and not entry.is_lent:
            entry.is_lent, entry.is_back = True, False
            self.controller.park(entry.slot)
        elif wish.wish == HOLD and entry.is_lent:
            entry.is_lent = False
            entry.task = asyncio.create_task(self._take_back(entry, wish.number))

    async def _admit(self, entry: Entry, wish: Wish) -> None:
        parent = None if wish.parent is None else self.entries[wish.parent].slot
        request = msgspec.structs.replace(wish.request, parent=parent, spot=None)

        def note_queued() -> None:
            entry.is_queued = True
            self._answer(wish.number)

        try:
            slot = await self.controller.admit(request, note_queued, wish.call_id)
        except Exception as error:  # noqa: BLE001 - it goes to the one who asked
            entry.error = error
        else:
            entry.slot, entry.is_back = slot, True
            slot.on_superseded = lambda: self._supersede(entry, wish.number)
            if entry.is_done:
                self.controller.release(slot, outcome=None)
        entry.task = None
        self._answer(wish.number)

    async def _take_back(self, entry: Entry, number: int) -> None:
        await self.controller.unpark(entry.slot)
        if not entry.is_lent:
            entry.is_back = True
        self._answer(number)

    def _supersede(self, entry: Entry, number: int) -> None:
        """Says so until the slot is given back."""
        entry.is_superseded = True
        if not entry.is_done:
            self._answer(number)
            loop = asyncio.get_running_loop()
            loop.call_later(PATIENCE, self._supersede, entry, number)

    def _answer(self, number: int) -> None:
        entry = self.entries[number]
        answer = Answer(
            number,
            entry.version,
            entry.slot is not None and entry.is_back,
            entry.is_queued,
            entry.error,
            entry.is_superseded,
        )
        self.wire.send(self._tell, answer)
