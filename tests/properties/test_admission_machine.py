"""Does the controller do what a few plain lists say, whatever happens to it in whatever order?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.effort import share_of
from tests.properties.admission_audit import audit
from tests.properties.admission_calls import TOOLS, Call
from tests.properties.admission_model import Model
from tool_engine.admission import ConcurrencySlot, ToolConcurrencyController
from tool_engine.config import ConcurrencyConfig, KeyLimits
from tool_engine.model.settings.concurrency import BreakerPolicy, ToolRate
from tool_engine.testing import VirtualLoop

TURNS = 5
"""More steps of the loop than any hand-over takes."""

BUCKETS = st.sampled_from("abc")
KEYS = st.sampled_from([None, "k", "k", "m"])
OUTCOMES = st.sampled_from([True, False, None])


def per_bucket(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Nothing for most buckets."""
    return st.one_of(st.just({}), st.dictionaries(st.sampled_from("ab"), values))


RATES = {
    bucket: st.sampled_from([None, *(ToolRate(calls, 6 + i / 32) for calls in (2, 1, 3))])
    for i, bucket in enumerate("ab")
}

BREAKERS = (("a", BreakerPolicy(1, 4.0)), ("b", BreakerPolicy(2, 4.0)))

LIMITS = st.fixed_dictionaries(
    {
        "max_concurrent": st.sampled_from([3, 2, 4, 1]),
        "queue_size": st.sampled_from([100, 100, 10, 3, 0]),
        "strategy": st.sampled_from(["fifo", "fair", "priority", "fair", "fifo", "reject"]),
        "bucket_limits": st.dictionaries(st.sampled_from("ab"), st.integers(1, 3)),
        "bucket_queue_sizes": per_bucket(st.sampled_from([6, 1, 0])),
        "bucket_rates": st.one_of(st.just({}), st.fixed_dictionaries(RATES)),
        "breakers": per_bucket(st.builds(BreakerPolicy, st.integers(1, 2), st.just(4.0))),
        "max_zombies": st.sampled_from([None, None, None, 1, 2]),
        "max_bucket_pause": st.just(30.0),
        "queue_timeout": st.none(),
        "key_limits": st.one_of(
            st.none(),
            st.builds(
                KeyLimits,
                limit=st.sampled_from([None, 1, 2, 3]),
                overrides=st.dictionaries(st.just("k"), st.integers(1, 4)),
                weights=st.dictionaries(st.just("k"), st.sampled_from([0.5, 2.0, 3.0])),
                queue_size=st.sampled_from([None, None, 4]),
            ),
        ),
    }
)


def config_of(limits: dict[str, Any]) -> ConcurrencyConfig:
    rates = {name: rate for name, rate in limits["bucket_rates"].items() if rate is not None}
    return ConcurrencyConfig(**{**limits, "bucket_rates": rates})


class AdmissionMachine(RuleBasedStateMachine):
    """Does the same to a controller, on virtual time, and to the model, and compares them."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.slots: dict[int, ConcurrencySlot] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.resuming: dict[int, asyncio.Task[None]] = {}
        self.drains: list[asyncio.Task[bool]] = []
        self.started: list[int] = []
        self.superseded: list[int] = []
        self.errors: dict[int, str] = {}
        self.used: dict[Any, int] | None = None

    @initialize(limits=LIMITS)
    def begin(self, limits: dict[str, Any]) -> None:
        config = config_of(limits)
        self.controller = ToolConcurrencyController(config, clock=self.loop.time)
        self.model = Model(config)
        self.model.configure(config)

    def do(self, action: Callable[[], object] = lambda: None, seconds: float = 0.0) -> None:
        """Runs `action` inside the loop, then lets everybody come as far as they can."""

        async def act() -> None:
            action()
            if seconds:
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

    async def run(self, call: Call, parent: ConcurrencySlot | None) -> None:
        request = call.request(self.controller.config, parent)
        try:
            slot = await self.controller.admit(request, None, f"call-{call.number}")
        except Exception as error:  # noqa: BLE001 - the model says what it must be
            self.errors[call.number] = type(error).__name__
            return
        self.controller.watch(slot)
        slot.on_superseded = lambda: self.superseded.append(call.number)
        self.slots[call.number] = slot
        self.started.append(call.number)

    def submit(self, call: Call) -> None:
        parent = None if call.parent is None else self.slots[call.parent.number]
        running = self.run(call, parent)
        self.do(lambda: self.tasks.update({call.number: self.create(running)}))
        self.model.submit(call)

    def create(self, coroutine: Any) -> asyncio.Task[Any]:
        return self.loop.create_task(coroutine)

    @precondition(lambda self: not self.model.closed or self.is_rare())
    @rule(
        bucket=BUCKETS,
        key=KEYS,
        weight=st.sampled_from([1, 1, 1, 1, 2, 3]),
        priority=st.integers(3, 7),
        timeout=st.sampled_from([None, 1, 5, 20]),
        is_bypass=st.sampled_from([False] * 7 + [True]),
        times=st.integers(1, 4),
    )
    def ask(self, times: int, weight: int, **fields: Any) -> None:
        weight = min(weight, self.model.config.max_concurrent)
        if weight > 1 and fields["key"] is not None:
            # Room is kept in its key for a heavy call that nothing else holds up. When something
            # else does, it depends on which came first: nothing in `c` does.
            fields["bucket"] = "c"
        for _ in range(times):
            self.submit(self.model.call(weight=weight, **fields))

    @precondition(lambda self: not self.model.closed or self.is_rare())
    @rule(
        bucket=BUCKETS,
        key=KEYS,
        tool=st.sampled_from(sorted(TOOLS)),
        tool_key=st.sampled_from("xxy"),
        timeout=st.sampled_from([None, 5]),
        times=st.integers(1, 3),
    )
    def ask_for_a_tool(self, times: int, **fields: Any) -> None:
        for _ in range(times):
            self.submit(self.model.call(**fields))

    @precondition(lambda self: self.has("active", "parked"))
    @rule(data=st.data(), tool=st.sampled_from(sorted(TOOLS)), timeout=st.sampled_from([None, 5]))
    def ask_from_within(self, data: st.DataObject, tool: str, timeout: int | None) -> None:
        parent = self.some(data, "active", "parked")
        call = self.model.call(
            bucket=parent.bucket,
            tool=tool,
            key=parent.key,
            timeout=timeout,
            is_bypass=parent.is_bypass,
            parent=parent,
        )
        self.submit(call)

    @precondition(lambda self: self.has("active", "parked", "resuming", "zombie"))
    @rule(data=st.data(), outcome=OUTCOMES, again=st.booleans())
    def release(self, data: st.DataObject, outcome: bool | None, again: bool) -> None:
        call = self.some(data, "active", "active", "parked", "resuming", "zombie")
        for _ in range(1 + again):
            self.do(lambda: self.controller.release(self.slots[call.number], outcome=outcome))
        self.model.release(call, outcome)

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
    @rule(data=st.data(), outcome=OUTCOMES)
    def mark_overdue(self, data: st.DataObject, outcome: bool | None) -> None:
        call = self.some(data, "active", "parked", "resuming")
        self.do(lambda: self.controller.mark_overdue(self.slots[call.number], outcome))
        self.model.mark_overdue(call, outcome)

    @rule(seconds=st.sampled_from([1, 2, 4, 8, 16]))
    def pass_time(self, seconds: int) -> None:
        self.do(seconds=seconds)
        self.model.pass_time(seconds)

    @precondition(lambda self: self.model.live())
    @rule(limits=LIMITS)
    def configure(self, limits: dict[str, Any]) -> None:
        config = config_of(limits)
        self.do(lambda: self.controller.configure(config))
        self.model.configure(config)
        self.used = None

    @rule()
    def configure_breakers(self) -> None:
        """Only these: whatever else bounds the calls goes on to."""
        self.set_breakers(dict(BREAKERS))

    @precondition(lambda self: any(call.probes for call in self.model.live()))
    @rule(data=st.data(), outcome=OUTCOMES)
    def release_without_breakers(self, data: st.DataObject, outcome: bool | None) -> None:
        """A call ends in the moment in which the breaker is away that it started under."""
        probing = [call for call in self.model.live() if call.probes]
        call = data.draw(st.sampled_from(probing), label="call")
        breakers = self.model.config.breakers
        self.set_breakers({})
        self.do(lambda: self.controller.release(self.slots[call.number], outcome=outcome))
        self.model.release(call, outcome)
        self.set_breakers(breakers)

    def set_breakers(self, breakers: dict[str, BreakerPolicy]) -> None:
        config = msgspec.structs.replace(self.model.config, breakers=breakers)
        self.do(lambda: self.controller.configure(config))
        self.model.configure(config)
        self.used = None

    @rule(bucket=st.sampled_from("ab"), seconds=st.sampled_from([3, 0, 7, 40]))
    def pause_bucket(self, bucket: str, seconds: float) -> None:
        seconds += seconds and (1 + "ab".index(bucket)) / 256
        self.do(lambda: self.controller.pause_bucket(bucket, seconds))
        self.model.pause_bucket(bucket, seconds)

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
        assert self.started == model.started
        assert self.errors == model.errors
        assert sorted(self.superseded) == sorted(model.superseded)
        metrics = self.controller.get_metrics().to_dict()
        expected = model.metrics()
        assert {name: metrics[name] for name in expected} == expected
        assert [task.done() for task in self.drains] == model.drains

    @invariant()
    def nothing_is_above_its_limit(self) -> None:
        """C2, C14, C18: in all, per bucket and per key; what was above a limit never grows."""
        self.used = audit(self.controller, self.used)

    @invariant()
    def the_snapshot_fits(self) -> None:
        """C25: it lists exactly those who hold and who wait, each with a place and a reason."""
        model, view = self.model, self.controller.snapshot()
        assert view.metrics == self.controller.get_metrics()
        held = {(slot.call_id, slot.state) for slot in view.held}
        states = {"resuming": "parked"}
        assert held == {
            (
                f"call-{call.number}",
                "bypass" if call.is_bypass else states.get(call.state, call.state),
            )
            for call in model.live()
        }
        for name, bucket in view.buckets.items():
            assert bucket["rejected"] == model.rejected[name]
            assert (bucket["paused_for"] > 0) == model.is_pausing(name)
            line = [each for each in view.waiting if each.bucket == name]
            assert [each.position for each in line] == list(range(1, len(line) + 1))
            assert all(each.reason for each in line)
            numbers = [f"call-{call.number}" for call in model.waiting() if call.bucket == name]
            assert sorted(str(each.call_id) for each in line) == sorted(numbers)

    @invariant()
    def breakers_have_counted_the_same(self) -> None:
        """C20, C18: those too that are taken away just now: they may come back."""
        layout, now = self.controller._layout, self.model.now
        for (scope, name), expected in self.model.breakers.items():
            is_bucket = scope == "bucket"
            counts = layout.buckets[name].counts if is_bucket else layout._tool_counts[name, None]
            breaker = counts._breaker
            assert breaker is not None
            seen = (breaker.state(now), breaker.failures, breaker.probes)
            assert seen == (expected.state(now), expected.failures, expected.running), name

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """C4: while all calls are light, a waiter has a full limit, a rate or a pause before it."""
        model = self.model
        if not model.is_paused and all(call.weight == 1 for call in model.waiting()):
            for call in model.waiting():
                assert not model.fits_in_all(call) or model.held_up_by(call, {}), call

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
            # C14: what is idle costs nothing.
            layout = self.controller._layout
            assert not layout.keys
            assert not [lane for lane in layout.lanes.values() if lane.keys]
        self.loop.close()


# A failure is made small before it is shown, which takes longer than other tests may.
TestAdmission = pytest.mark.timeout(900)(AdmissionMachine.TestCase)
TestAdmission.settings = settings(
    max_examples=share_of(220),
    stateful_step_count=50,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
