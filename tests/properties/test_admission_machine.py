"""Does the controller do what a few plain lists say, whatever happens to it in whatever order?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.admission.crew import check
from tests.admission.virtual_time import VirtualTimeLoop
from tests.properties.admission_model import RATE, Call, Model
from tool_engine.admission import ConcurrencySlot, ToolConcurrencyController
from tool_engine.admission.request import AdmissionRequest
from tool_engine.config import ConcurrencyConfig

TURNS = 5
"""More steps of the loop than any hand-over takes."""

LIMITS = st.fixed_dictionaries(
    {
        "max_concurrent": st.sampled_from([3, 2, 4, 1]),
        "queue_size": st.sampled_from([100, 10, 3, 0]),
        "strategy": st.sampled_from(["fifo", "priority", "fifo", "priority", "fifo", "reject"]),
        "bucket_limits": st.dictionaries(st.sampled_from("ab"), st.integers(1, 3)),
        "max_zombies": st.sampled_from([None, None, None, 1, 2]),
        "queue_timeout": st.none(),
    }
)


class AdmissionMachine(RuleBasedStateMachine):
    """Does the same to a controller, on virtual time, and to the model, and compares them."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.slots: dict[int, ConcurrencySlot] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.resuming: dict[int, asyncio.Task[None]] = {}
        self.drains: list[asyncio.Task[bool]] = []
        self.started: list[int] = []
        self.errors: dict[int, str] = {}

    @initialize(limits=LIMITS)
    def begin(self, limits: dict[str, Any]) -> None:
        config = ConcurrencyConfig(**limits)
        self.controller = ToolConcurrencyController(config, clock=self.loop.time)
        self.model = Model(config)

    def do(self, action: Callable[[], object] = lambda: None, seconds: float = 0.0) -> None:
        """Runs `action` inside the loop, then lets everybody come as far as they can."""

        async def act() -> None:
            action()
            await asyncio.sleep(seconds)
            for _ in range(TURNS):
                await asyncio.sleep(0)

        self.loop.run_until_complete(act())

    def some(self, data: st.DataObject, *states: str) -> Call:
        calls = [call for call in self.model.calls if call.state in states]
        return data.draw(st.sampled_from(calls), label="call")

    def has(self, *states: str) -> bool:
        return any(call.state in states for call in self.model.calls)

    def is_rare(self) -> bool:
        """Keeps down how often all come to a stop."""
        return len(self.model.calls) % 5 == 4

    async def run(self, call: Call, request: AdmissionRequest) -> None:
        try:
            self.slots[call.number] = await self.controller.admit(request)
        except Exception as error:  # noqa: BLE001 - the model says what it must be
            self.errors[call.number] = type(error).__name__
        else:
            self.started.append(call.number)

    def submit(self, call: Call) -> None:
        parent = None if call.parent is None else self.slots[call.parent.number]
        rate = RATE if call.is_rated else None
        request = AdmissionRequest(
            call.bucket, call.priority, call.weight, call.lane, rate, call.is_bypass
        ).for_caller(None, call.is_bypass, parent)
        request.timeout = call.timeout
        self.do(lambda: self.tasks.update({call.number: self.create(self.run(call, request))}))
        self.model.submit(call)

    def create(self, coroutine: Any) -> asyncio.Task[Any]:
        return self.loop.create_task(coroutine)

    @precondition(lambda self: not self.model.closed or self.is_rare())
    @rule(
        bucket=st.sampled_from("abc"),
        weight=st.sampled_from([1, 1, 1, 1, 2, 3]),
        priority=st.integers(3, 7),
        is_rated=st.sampled_from([False, False, True]),
        timeout=st.sampled_from([None, 1, 5, 20]),
        is_bypass=st.sampled_from([False] * 7 + [True]),
        times=st.integers(1, 4),
    )
    def ask(self, times: int, weight: int, **fields: Any) -> None:
        weight = min(weight, self.model.config.max_concurrent)
        for _ in range(times):
            self.submit(self.model.call(parent=None, weight=weight, **fields))

    @precondition(lambda self: self.has("active", "parked"))
    @rule(data=st.data(), timeout=st.sampled_from([None, 5]))
    def ask_from_within(self, data: st.DataObject, timeout: int | None) -> None:
        parent = self.some(data, "active", "parked")
        self.submit(
            self.model.call(
                bucket=parent.bucket,
                weight=1,
                priority=5,
                is_rated=False,
                timeout=timeout,
                is_bypass=parent.is_bypass,
                parent=parent,
            )
        )

    @precondition(lambda self: self.has("active", "parked", "resuming", "zombie"))
    @rule(data=st.data(), again=st.booleans())
    def release(self, data: st.DataObject, again: bool) -> None:
        call = self.some(data, "active", "active", "parked", "resuming", "zombie")
        for _ in range(1 + again):
            self.do(lambda: self.controller.release(self.slots[call.number]))
        self.model.release(call)

    @precondition(lambda self: self.has("zombie") or len(self.model.live()) > 2)
    @rule(data=st.data(), times=st.integers(1, 3))
    def release_some(self, data: st.DataObject, times: int) -> None:
        for _ in range(times):
            if self.has("active", "zombie"):
                call = self.some(data, "active", "zombie")
                self.do(lambda call=call: self.controller.release(self.slots[call.number]))  # type: ignore[misc]
                self.model.release(call)

    @precondition(lambda self: self.has("waiting"))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        call = self.some(data, "waiting")
        self.do(self.tasks[call.number].cancel)
        self.model.cancel(call)

    @precondition(lambda self: self.has("resuming"))
    @rule(data=st.data())
    def cancel_unpark(self, data: st.DataObject) -> None:
        call = self.some(data, "resuming")
        self.do(self.resuming[call.number].cancel)
        self.model.cancel(call)

    @precondition(lambda self: self.has("waiting") and self.has("active", "zombie"))
    @rule(data=st.data(), cancel_first=st.booleans())
    def release_and_cancel_at_once(self, data: st.DataObject, cancel_first: bool) -> None:
        held, call = self.some(data, "active", "zombie"), self.some(data, "waiting")
        actions: list[Callable[[], object]] = [
            lambda: self.controller.release(self.slots[held.number]),
            self.tasks[call.number].cancel,
        ]
        if cancel_first:
            actions.reverse()
        self.do(lambda: [action() for action in actions])
        self.model.release(held)
        self.model.cancel(call)

    @precondition(lambda self: self.has("active", "parked", "resuming", "zombie"))
    @rule(data=st.data())
    def park(self, data: st.DataObject) -> None:
        call = self.some(data, "active", "parked", "resuming", "zombie")
        self.do(lambda: self.controller.park(self.slots[call.number]))
        self.model.park(call)

    @precondition(lambda self: any(call.nested for call in self.model.live()))
    @rule(data=st.data())
    def unpark(self, data: st.DataObject) -> None:
        nesting = [call for call in self.model.live() if call.nested]
        call = data.draw(st.sampled_from(nesting), label="call")
        unparking = self.controller.unpark(self.slots[call.number])
        self.do(lambda: self.resuming.update({call.number: self.create(unparking)}))
        self.model.unpark(call)

    @precondition(lambda self: self.has("active", "parked", "resuming"))
    @rule(data=st.data())
    def mark_overdue(self, data: st.DataObject) -> None:
        call = self.some(data, "active", "parked", "resuming")
        self.do(lambda: self.controller.mark_overdue(self.slots[call.number]))
        self.model.mark_overdue(call)

    @rule(seconds=st.sampled_from([1, 2, 4, 8, 16]))
    def pass_time(self, seconds: int) -> None:
        self.do(seconds=seconds)
        self.model.pass_time(seconds)

    @precondition(lambda self: not self.model.is_paused and self.is_rare())
    @rule()
    def pause(self) -> None:
        self.do(self.controller.pause)
        self.model.is_paused = True

    @precondition(lambda self: self.model.is_paused or self.model.closed)
    @rule()
    def resume(self) -> None:
        self.do(self.controller.resume)
        self.model.resume()

    @precondition(lambda self: self.model.live() and not self.model.closed and self.is_rare())
    @rule()
    def drain(self) -> None:
        self.do(lambda: self.drains.append(self.create(self.controller.drain())))
        self.model.drain()

    @precondition(lambda self: len(self.model.calls) > 30 and self.is_rare())
    @rule()
    def close(self) -> None:
        self.do(self.controller.close)
        self.model.close()

    @invariant()
    def same_as_the_model(self) -> None:
        """C26, C2-C5: the sums, the limits, the order, and every counter."""
        model = self.model
        check(self.controller)
        assert self.started == model.started
        assert self.errors.keys() == model.errors.keys()
        for number, names in model.errors.items():
            assert self.errors[number] in names, (number, self.errors[number], names)
        metrics = self.controller.get_metrics().to_dict()
        expected = model.metrics()
        assert {name: metrics[name] for name in expected} == expected
        for name, bucket in self.controller.get_bucket_metrics().items():
            assert bucket["current"] == model.used(name)
            assert bucket["queue"] == len([w for w in model.waiting() if w.bucket == name])
        assert [task.done() for task in self.drains] == model.drains

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """C4: while all calls are light, a waiter has a full limit, a rate or a pause before it."""
        model = self.model
        if not model.is_paused and all(call.weight == 1 for call in model.waiting()):
            for call in model.waiting():
                assert not model.has_room(call) or model.is_throttled(call), call

    def teardown(self) -> None:
        """Nothing is held, nobody waits, and no task is left, when all have ended."""
        if hasattr(self, "controller"):
            self.do(self.controller.resume)
            for task in (*self.tasks.values(), *self.resuming.values()):
                self.do(task.cancel)
            for slot in self.slots.values():
                self.do(lambda slot=slot: self.controller.release(slot))  # type: ignore[misc]
            assert self.controller.get_metrics().current_concurrent == 0
            assert self.controller.get_metrics().queue_length == 0
            assert self.controller.get_metrics().bypass_active == 0
            assert all(task.done() for task in self.drains)
            assert not asyncio.all_tasks(self.loop)
        self.loop.close()


# A failure is made small before it is shown, which takes longer than other tests may.
TestAdmission = pytest.mark.timeout(300)(AdmissionMachine.TestCase)
TestAdmission.settings = settings(
    max_examples=220,
    stateful_step_count=50,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
