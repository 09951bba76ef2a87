"""What does a call hold while it runs, and how is it held for the length of a block?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from types import TracebackType
from typing import Any, Final

import msgspec

from tool_engine.admission.request import AdmissionRequest
from tool_engine.errors import LeaseLostError
from tool_engine.interfaces import AdmissionController, Slot
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.json.data import show_repr
from tool_engine.model.settings.settable import settable

Order = tuple[float, int, int]
"""A place in line: the strategy's key, then the number of the arrival, then that of a call made by
a call, which inherits the first two."""
ACTIVE: Final = "active"
BYPASS: Final = "bypass"
"""Of a call that the limits do not apply to."""
PARKED: Final = "parked"
RELEASED: Final = "released"
ZOMBIE: Final = "zombie"
_numbers: Final = count(1)


@refuse_copying("pass it on as it is")
@settable
class ConcurrencySlot(msgspec.Struct, eq=False):
    """Permission to run now, given by a controller and to be given back to it once.

    The slot remembers what was counted for it, so that giving it back undoes exactly that.
    """

    lane: Any
    """The `Lane` that it was given in, which knows its bucket and its keys."""
    weight: int
    """How many units of the limits the slot takes."""
    arrival: int
    """The number of the call in the order of asking."""
    acquired_at: float
    """When the slot was given, on the controller's clock."""
    request: Any
    """The `AdmissionRequest` that it was given for."""
    call_id: str | None = None
    """The call that holds it; None where the caller named none."""
    is_listed: bool = False
    """Whether snapshots find it among those that are held."""
    key: float = 0.0
    """What the strategy puts before the arrival."""
    state: str = ACTIVE
    """`active`, `bypass`, `parked`, `zombie` or `released`."""
    counted: float = 0.0
    """Seconds since `acquired_at` that are accounted for: held before it was parked, or parked."""
    queue_wait: float = 0.0
    """Seconds between asking for the slot and having it."""
    is_gated: bool = False
    """Whether its lane counts it, and what bounds that lane: rates, breakers, keys."""
    is_bypass: bool = False
    is_overdue: bool = False
    """True once the call has ended for its caller while its work goes on."""
    nested: int = 0
    """Calls made by the slot's own call that have not ended."""
    resuming: Any = None
    """The waiter with which a parked slot is taken again."""
    probes: tuple[tuple[Any, Any], ...] = ()
    """What each `CircuitBreaker`, and an `AdaptiveLimit`, gave for the call, to be given back to it
    with the outcome."""
    renewed_at: float | None = None
    """When its holder last said that it is alive, on the controller's clock."""
    on_superseded: Callable[[], None] | None = None
    """Called when a newer call with the same key is to take the place of its call."""
    number: int = 0
    """Distinguishes it from others, calls of calls included; 0: it has not been asked for yet."""

    @property
    def order(self) -> Order:
        """The place in line that the call had; what it calls itself inherits it."""
        return (self.key, self.arrival, 0)

    @property
    def slot_id(self) -> str:
        """Names the slot in this process, such as `slot_00000000002a`; given when asked for."""
        if not self.number:
            self.number = next(_numbers)
        return f"slot_{self.number:012x}"

    @property
    def is_released(self) -> bool:
        """Whether it was given back."""
        return self.state is RELEASED

    @property
    def bucket(self) -> str:
        """The name of the bucket that the slot counts against."""
        return str(self.lane.bucket.name)

    def __repr__(self) -> str:
        return f"<ConcurrencySlot {self.state} bucket={self.bucket!r} weight={self.weight}>"

    __rich_repr__ = show_repr


class HeldSlots(set[ConcurrencySlot]):
    """The slots of one controller that are held, as far as they are listed.

    To list each slot that a call took at once would cost more than to give it: those whose calls
    wait for something are listed when others look, see `listed`, and no other code can look at one
    whose tool is in its first step.
    """

    __slots__ = ("find_running",)

    def __init__(self) -> None:
        super().__init__()
        self.find_running: Callable[[], Iterable[ConcurrencySlot]] = tuple
        """Returns the slots of calls whose tools wait for something, listed or not."""

    def show(self, slot: ConcurrencySlot) -> None:
        """List a slot; one that was lent is listed when it is taken again."""
        slot.is_listed = True
        if slot.state is ACTIVE:
            self.add(slot)

    def listed(self) -> HeldSlots:
        """Return these with all that can be looked at by now."""
        for slot in self.find_running():
            if not slot.is_listed:
                self.show(slot)
        return self


def walk_ancestry(slot: Slot | None) -> Iterator[Slot]:
    """Yield the slot and those of the calls that its call is part of, the innermost first."""
    while slot is not None:
        yield slot
        slot = slot.request.parent


@settable
class SlotBlock(msgspec.Struct, eq=False, gc=False):
    """`async with controller.slot(...) as slot`: acquires on entry, releases on exit."""

    # Nothing that these refer to refers to leases: the garbage collector need not know of them.
    _controller: AdmissionController
    _request: AdmissionRequest
    _slot: Any = None

    async def __aenter__(self) -> Any:
        slot = self._slot = self._controller.admit_nowait(self._request)
        if slot is None:
            slot = self._slot = await self._controller.admit(self._request)
        return slot

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            if self._controller.release(self._slot):
                raise LeaseLostError(
                    "another process may have had this slot before it was given back, for this one "
                    "was cut off or stood still: what was done in it may have been too much at "
                    "once; look at it, then do it again"
                )
        else:
            is_fault = not isinstance(error, asyncio.CancelledError | GeneratorExit)
            self._controller.release(self._slot, outcome=False if is_fault else None)
