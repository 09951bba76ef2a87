"""Do real members and controllers keep all that they share, whatever happens at random?

The members, their controllers and the rules of the coordinator are real; the database is in
memory, on a clock that jumps.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter, defaultdict
from collections.abc import Collection
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from tests.admission.cluster.memory_database import MemoryDatabase, use_memory
from tests.admission.crew import check
from tests.effort import share_of
from tool_engine.admission import ConcurrencySlot
from tool_engine.admission import request as requests
from tool_engine.admission.cluster import member as members
from tool_engine.admission.cluster import process_holder, shared_row
from tool_engine.admission.cluster.cluster_limits import limits_of
from tool_engine.admission.cluster.controller import ClusterController
from tool_engine.admission.cluster.effects import Effect
from tool_engine.admission.cluster.member import ClusterMember
from tool_engine.admission.cluster.saved_state import load_state
from tool_engine.admission.request import AdmissionRequest, tool_key_of
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import AdmissionError, CircuitOpenError
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.settings.cluster import ClusterConfig
from tool_engine.model.settings.concurrency import BreakerPolicy, ToolConcurrency, ToolRate
from tool_engine.model.tool import Tool, ToolCategory

BUCKETS = {"ai": 3, "web": 2}
KEYS = {"conversation_id": 1, "caller_id": 2}
MAIL, FETCH = ToolRate(5, 1.0), ToolRate(3, 0.8)
POLICY = BreakerPolicy(failures=2, reset_after=1.0)
CLUSTER = ClusterConfig(
    url="postgresql://memory/db",
    revision=1,
    bucket_limits=BUCKETS,
    key_limits=KEYS,
    bucket_rates={"mail": MAIL},
    breakers={"web": POLICY},
    lease_ttl=3.0,
    session_grace=1.0,
    idle_time=1.0,
)
IDLE = 5.0


def make_tool(
    name: str, rate: ToolRate | None = None, scope: str = "cluster", **concurrency: Any
) -> Tool:
    wants = ToolConcurrency(scope=scope, **concurrency)
    return Tool(
        name, name, "1.0.0", "x", ToolCategory.CUSTOM, [], [], {}, concurrency=wants, rate=rate
    )


TOOLS = {
    tool.name: tool
    for tool in (
        make_tool("change", bucket="ai", key="params.order", key_limit=1),
        make_tool("fetch", FETCH, bucket="web"),
        make_tool("risky", bucket="mail", breaker=POLICY),
        make_tool("whole", bucket="own", key="tool", key_limit=2),
        make_tool("heavy", bucket="ai", weight=2),
        make_tool("slow", ToolRate(1, 0.5), "process", bucket="web"),
    )
}


class Running:
    """What uses something of all processes just now, and when starts were."""

    def __init__(self) -> None:
        self.slots: dict[ConcurrencySlot, Counter[str]] = {}
        self.owners: dict[ConcurrencySlot, ClusterController] = {}
        self.gone: set[ClusterController] = set()
        self.starts: dict[str, list[float]] = defaultdict(list)
        self.ended = 0

    def start(
        self,
        controller: ClusterController,
        slot: ConcurrencySlot,
        uses: Counter[str],
        rate: str | None = None,
    ) -> None:
        if controller not in self.gone:
            self.slots[slot], self.owners[slot] = uses, controller
        if rate is not None:
            self.starts[rate].append(slot.acquired_at)

    def lose(self, slots: Collection[Any]) -> None:
        for slot in slots:
            self.slots.pop(slot, None)

    def check(self) -> None:
        used: Counter[str] = Counter()
        for uses in self.slots.values():
            used.update(uses)
        for name, units in used.items():
            kind = name.partition(" ")[0]
            limit = {**BUCKETS, **KEYS, "change": 1, "whole": 2}[kind]
            assert units <= limit, (name, used)
        for name, rate in (("mail", MAIL), ("fetch", FETCH)):
            times = sorted(self.starts[name])
            spans = [b - a for a, b in zip(times, times[rate.calls :], strict=False)]
            assert min(spans, default=9.0) >= rate.period - 1e-6, (name, times)


class Fleet:
    """Processes of one cluster that do anything at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a test repeats its choices
        self.database = MemoryDatabase(self.random)
        self.running = Running()
        strategy = self.random.choice(["fifo", "priority", "fair"])
        self.config = ConcurrencyConfig(
            max_concurrent=6, queue_timeout=None, cluster=CLUSTER, strategy=strategy
        )
        self.controllers: list[ClusterController] = []
        self.calls: dict[asyncio.Task[None], tuple[ClusterController, asyncio.Event]] = {}
        self.dead: list[asyncio.Task[None]] = []
        """Calls of processes that are gone."""
        for _ in range(3):
            self.add()

    def add(self) -> None:
        limits = limits_of(self.config, CLUSTER)
        member = ClusterMember(
            str(CLUSTER.url), "tests", f"p{self.random.random()}", limits, grace=1.0, ttl=3.0,
            idle_time=1.0,
        )  # fmt: skip
        use_memory(member, self.database)
        clock = asyncio.get_running_loop().time
        controller = ClusterController(self.config, member, clock=clock)
        member.on_lost = self.running.lose
        self.controllers.append(controller)

    def make_request(self, config: ConcurrencyConfig) -> tuple[AdmissionRequest, Counter[str]]:
        """What a random call asks for, and what it then uses of all processes."""
        choose = self.random
        context = ToolExecutionContext(
            conversation_id=choose.choice([None, "a", "b", "c"]),
            caller_id=choose.choice(["ann", "bob", "cyd"]),
        )
        name = choose.choice([*TOOLS, "ai", "web", "mail"])
        if name in TOOLS:
            tool = TOOLS[name]
            order = {"order": choose.randrange(3)}
            key = tool_key_of(tool, context, order, is_shared=name != "slow")
            request = AdmissionRequest.for_tool(tool, config).for_caller(config, context, key)
            uses = Counter({f"{name} {order if name == 'change' else ''}": request.weight})
            if name not in ("change", "whole"):
                uses.clear()
        else:
            request = AdmissionRequest.of(config, name, context)
            uses = Counter()
        if request.bucket in BUCKETS:
            uses[request.bucket] = request.weight
        for field in KEYS:
            if (value := getattr(context, field)) is not None:
                uses[f"{field} {value}"] = request.weight
        if max(uses.values()) > 1 and context.conversation_id is not None:
            return self.make_request(config)  # heavier than the limit of its key
        return request, uses

    async def call(self, controller: ClusterController, end: asyncio.Event) -> None:
        request, uses = self.make_request(controller.config)
        request.timeout = self.random.choice([None, None, 5.0])
        is_nested = self.random.random() < 0.2
        rate = "mail" if request.bucket == "mail" else request.tool_name
        with contextlib.suppress(AdmissionError):
            slot = await controller.admit(request)
            self.running.start(controller, slot, uses, rate if rate in ("mail", "fetch") else None)
            self.running.check()
            try:
                if is_nested:
                    await self.call_inside(controller, slot, uses)
                await end.wait()
            finally:
                self.running.lose([slot])
                self.running.ended += 1
                outcome = True if self.is_ending else self.random.choice([True, True, False, None])
                controller.release(slot, outcome=outcome)

    is_ending = False

    async def call_inside(
        self, controller: ClusterController, slot: ConcurrencySlot, uses: Counter[str]
    ) -> None:
        """A call of its own, which may use what it lends meanwhile."""
        if slot in controller.member.lost_slots:
            return
        controller.park(slot)
        self.running.lose([slot])
        try:
            request = AdmissionRequest.of(controller.config, self.random.choice(["ai", "web"]))
            request.parent = slot
            inner = await controller.admit(request)
            self.running.start(controller, inner, Counter({request.bucket: 1}))
            self.running.check()
            try:
                await asyncio.sleep(0.3)
            finally:
                self.running.lose([inner])
                controller.release(inner)
        finally:
            await controller.unpark(slot)
            if slot not in controller.member.lost_slots:
                self.running.start(controller, slot, uses)
                self.running.check()

    def step(self) -> None:  # noqa: C901 - one case for each thing that can happen
        choose = self.random
        controller = choose.choice(self.controllers)
        ends = [end for who, end in self.calls.values() if who in self.controllers]
        match choose.randrange(20):
            case 0 | 1 | 2 | 3 | 4 | 5:
                end = asyncio.Event()
                task = asyncio.create_task(self.call(controller, end))
                self.calls[task] = (controller, end)
            case 6 | 7 | 8 | 9 if ends:
                choose.choice(ends).set()
            case 10 | 11 if self.calls:
                choose.choice(list(self.calls)).cancel()
            case 12:
                controller.pause_bucket(choose.choice(["ai", "web"]), choose.choice([0, 0.3, 2]))
            case 13:
                controller.pause() if choose.random() < 0.3 else controller.resume()
            case 14:
                self.configure(controller)
            case 15 if choose.random() < 0.5:
                each = choose.choice(self.database.connections or [None])
                if each is not None:
                    each.end()
            case 16 if choose.random() < 0.2:
                self.database.crash()
                asyncio.get_running_loop().call_later(choose.choice([0.1, 1.0]), self.start)
            case 17 if choose.random() < 0.3:
                self.kill(controller)

    def start(self) -> None:
        self.database.start()

    def kill(self, controller: ClusterController) -> None:
        """Its process is gone, with all its calls; another one comes."""
        member = controller.member
        member._apply_effects = _do_nothing  # type: ignore[method-assign]
        member._turn._apply_effects = _do_nothing
        member._start_running = lambda: None  # type: ignore[method-assign]
        for task in (*member._sending, *([member._running] if member._running else [])):
            task.cancel()
        member._connection.abort()
        self.running.lose([s for s, who in self.running.owners.items() if who is controller])
        self.running.gone.add(controller)
        for task, (who, _) in list(self.calls.items()):
            if who is controller:
                self.dead.append(task)
                del self.calls[task]
        self.controllers.remove(controller)
        self.add()

    def configure(self, controller: ClusterController) -> None:
        """Other limits of the process itself: those of the cluster are checked as they are."""
        choose = self.random
        limit = choose.choice([None, 2, 3])
        changes = {
            "max_concurrent": choose.randrange(3, 8),
            "bucket_limits": {} if limit is None else {"ai": limit},
        }
        controller.configure(replace(controller.config, **changes))

    async def end(self) -> None:
        """Nothing holds anything up any more: all calls end, and nothing stays held."""
        self.is_ending = True
        self.start()
        for controller in self.controllers:
            controller.resume()
        for _, end in self.calls.values():
            end.set()
        for task in self.dead:
            while not task.done():  # one that takes its slot back waits for ever
                task.cancel()
                await asyncio.sleep(0)
        async with asyncio.timeout(1000):
            await asyncio.gather(*self.calls, return_exceptions=True)
        for controller in self.controllers:
            controller.configure(self.config)
            assert controller.get_metrics().queue_length == 0
            assert controller.get_metrics().current_concurrent == 0
            await self.use_all(controller)
        await asyncio.sleep(IDLE)
        state = load_state(self.database.state)
        assert not state.books.holders, state.books
        left = [life for life in state.lives.values() if life.entries]
        assert not left, left
        for controller in self.controllers:
            await controller.leave()

    async def use_all(self, controller: ClusterController) -> None:
        """All that there is may be used again."""
        async with asyncio.timeout(60):
            for bucket, units in BUCKETS.items():
                slots: list[ConcurrencySlot] = []
                while len(slots) < units:
                    try:
                        slots.append(await controller.acquire(bucket))
                    except AdmissionError:  # its breaker was open: one call shows that all is well
                        for slot in slots:
                            controller.release(slot)
                        slots.clear()
                        await asyncio.sleep(POLICY.reset_after)
                    if bucket == "web" and len(slots) == 1 and self.is_open(controller):
                        controller.release(slots.pop())
                for slot in slots:
                    controller.release(slot)

    def is_open(self, controller: ClusterController) -> bool:
        return bool(controller.snapshot().buckets["web"]["breaker"] != "closed")


def use_loop_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (members, process_holder, shared_row):
        monkeypatch.setattr(module, "read_uptime", asyncio.get_running_loop().time)


def _do_nothing(effects: list[Effect]) -> None:
    """Take the place of `_apply_effects` in a process that is gone."""


@pytest.mark.parametrize("seed", range(share_of(400)))
async def test_at_random(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No limit is passed, each wait has an end, and what was held comes free again."""
    monkeypatch.setattr(requests, "_SECRET", b"the same in each run")
    use_loop_clock(monkeypatch)
    names = count(1)
    monkeypatch.setattr(process_holder, "new_life", lambda: f"{next(names):016x}")
    fleet = Fleet(seed)
    for _ in range(fleet.random.randrange(50, 300)):
        fleet.step()
        await asyncio.sleep(fleet.random.choice([0, 0.001, 0.02, 0.3]))
        fleet.running.check()
        for each in fleet.controllers:
            check(each, has_shrunk=True)
    await fleet.end()


async def test_first_call_of_a_process_needs_the_name_of_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has no place in line before the secret of the cluster is known, which it asks for."""
    use_loop_clock(monkeypatch)
    fleet = Fleet(0)
    controller = fleet.controllers[0]
    context = ToolExecutionContext()
    key = tool_key_of(TOOLS["change"], context, {"order": 1}, is_shared=True)
    request = AdmissionRequest.for_tool(TOOLS["change"], fleet.config)
    async with asyncio.timeout(IDLE):
        slot = await controller.admit(request.for_caller(fleet.config, context, key))
    assert (slot.lane.keys[0].used, controller.get_metrics().active) == (1, 1)
    controller.release(slot)
    await fleet.end()


@pytest.mark.parametrize("seed", range(8))
async def test_a_call_that_may_not_try_a_breaker_leaves_its_line(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the breaker closes, it is not given a slot that it would never give back."""
    use_loop_clock(monkeypatch)
    fleet = Fleet(seed)
    trying, other, _ = fleet.controllers
    for _ in range(POLICY.failures):
        trying.release(await trying.acquire("web"), outcome=False)
    await asyncio.sleep(POLICY.reset_after + 0.5)
    slot = await trying.acquire("web")
    with pytest.raises(CircuitOpenError):
        await other.acquire("web")
    trying.release(slot, outcome=True)
    await asyncio.sleep(IDLE)
    assert other.get_metrics().current_concurrent == 0
    await fleet.end()


async def test_a_process_listens_while_it_has_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each notification wakes all who listen: one that neither holds nor waits does not."""
    use_loop_clock(monkeypatch)
    fleet = Fleet(0)
    for controller in fleet.controllers:
        shared = replace(CLUSTER, breakers={})
        controller.configure(
            replace(controller.config, cluster=replace(shared, revision=2)),
        )
    one, other, _ = fleet.controllers
    slot = await one.acquire("ai")
    second = await other.acquire("ai")
    await asyncio.sleep(2 * IDLE)

    def listening() -> list[bool]:
        return [each.member._connection.is_listening for each in fleet.controllers]

    assert listening() == [True, True, False]
    one.release(slot)
    await asyncio.sleep(2 * IDLE)
    assert listening() == [False, True, False]
    slots = [await one.acquire("ai") for _ in range(2)]
    waiting = asyncio.create_task(one.acquire("ai"))
    await asyncio.sleep(IDLE)
    assert listening() == [True, True, False]
    asked = asyncio.get_running_loop().time()
    other.release(second)
    await waiting
    assert asyncio.get_running_loop().time() - asked < 0.1
    for held in (*slots, waiting.result()):
        one.release(held)
    for each in fleet.controllers:
        await each.leave()
