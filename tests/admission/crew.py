"""Callers of one controller, by name, and what must be true of the controller at every moment."""

from __future__ import annotations

import asyncio
from typing import Any

from tool_engine.admission import ConcurrencySlot, ToolConcurrencyController
from tool_engine.admission.request import AdmissionRequest
from tool_engine.config import ConcurrencyConfig
from tool_engine.model.call import ToolExecutionContext
from tool_engine.shared_timer import SharedTimer

TURNS = 6
"""More steps of the loop than any hand-over takes."""


def controller_of(**limits: Any) -> ToolConcurrencyController:
    """A controller on the clock of the running loop."""
    clock = asyncio.get_running_loop().time
    return ToolConcurrencyController(ConcurrencyConfig(**limits), clock=clock)


def context(caller_type: str = "conversation_agent", **fields: Any) -> ToolExecutionContext:
    """A caller of the given type."""
    return ToolExecutionContext(caller_id="ann", caller_type=caller_type, **fields)


def check(controller: ToolConcurrencyController, *, has_shrunk: bool = False) -> None:
    """C26: what was given is accounted for, in all and per bucket, and no limit is passed.

    After limits have shrunk, more may be held than they would allow now.
    """
    m = controller.get_metrics()
    assert m.total_acquired == m.total_released + m.active + m.zombies, m
    assert m.total_dequeued == (
        m.total_granted + m.total_queue_timeout + m.total_cancelled + m.total_rejected_in_queue
    ), m
    assert m.total_enqueued == m.total_dequeued + m.queue_length, m
    assert min(v for v in m.to_dict().values() if v is not None) >= 0, m
    assert m.current_concurrent <= m.max_concurrent_observed
    assert has_shrunk or m.max_concurrent_observed <= controller.config.max_concurrent
    buckets = controller.get_bucket_metrics().values()
    assert sum(bucket["current"] for bucket in buckets) == m.current_concurrent, buckets
    assert sum(bucket["queue"] for bucket in buckets) == m.queue_length, buckets
    assert has_shrunk or all(b["limit"] is None or b["current"] <= b["limit"] for b in buckets), (
        buckets
    )


class Crew:
    """Starts calls that hold their slot until they are told to end.

    Args:
        limits: The fields of `ConcurrencyConfig`.
    """

    def __init__(self, **limits: Any) -> None:
        self.controller = controller_of(**limits)
        self.started: list[str] = []
        """Who was given a slot, in this order."""
        self.slots: dict[str, ConcurrencySlot] = {}
        self.errors: dict[str, BaseException] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.has_shrunk = False

    @property
    def deadlines(self) -> SharedTimer[Any] | None:
        """Those of the calls that wait."""
        found: SharedTimer[Any] | None = self.controller._queue._deadlines
        return found

    @property
    def is_timer_set(self) -> bool:
        """Whether a timer is set for a deadline."""
        return self.deadlines is not None and self.deadlines.is_set

    def begin(
        self,
        name: str,
        bucket: str | None = None,
        request: AdmissionRequest | None = None,
        **how: Any,
    ) -> asyncio.Task[None]:
        """Starts a call without letting the loop run."""
        task = asyncio.create_task(self._run(name, bucket, request, how), name=name)
        self.tasks[name] = task
        return task

    async def call(self, *names: str, bucket: str | None = None, **how: Any) -> None:
        """Starts calls one after another, and lets each come as far as it can."""
        for name in names:
            self.begin(name, bucket, **how)
            await self.turn()

    async def end(self, *names: str) -> None:
        """Gives slots back."""
        for name in names:
            self.controller.release(self.slots.pop(name))
            await self.turn()

    async def cancel(self, *names: str) -> None:
        """Cancels calls that wait."""
        for name in names:
            self.tasks[name].cancel()
            await self.turn()

    async def serve(self, count: int) -> list[str]:
        """Gives slots back, the oldest first, and says who was given one instead each time."""
        before = len(self.started)
        for _ in range(count):
            await self.end(next(iter(self.slots)))
        return self.started[before:]

    async def configure(self, **limits: Any) -> None:
        """Applies other limits; the fields that are not named go back to their defaults."""
        self.has_shrunk = True
        self.controller.configure(ConcurrencyConfig(**limits))
        await self.turn()

    async def turn(self) -> None:
        """Lets everybody come as far as they can; no time passes."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
            check(self.controller, has_shrunk=self.has_shrunk)

    async def leave(self) -> None:
        """Ends all calls, and asserts that nothing of them is left."""
        self.controller.resume()
        for task in self.tasks.values():
            task.cancel()
        await self.turn()
        for slot in self.slots.values():
            self.controller.release(slot)
        await self.turn()
        assert all(task.done() for task in self.tasks.values())
        m = self.controller.get_metrics()
        rest = (
            m.current_concurrent,
            m.queue_length,
            m.active,
            m.parked,
            m.zombies,
            m.bypass_active,
        )
        assert rest == (0, 0, 0, 0, 0, 0), m
        layout = self.controller._layout
        assert not layout.keys, layout.keys
        assert not [lane.id for lane in layout.lanes.values() if lane.keys]
        assert not self.is_timer_set

    async def _run(
        self, name: str, bucket: str | None, request: AdmissionRequest | None, how: dict[str, Any]
    ) -> None:
        try:
            if request is not None:
                slot = await self.controller.admit(request)
            else:
                slot = await self.controller.acquire(bucket, **how)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            self.errors[name] = error
        else:
            self.started.append(name)
            self.slots[name] = slot
