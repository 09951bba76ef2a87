"""A call of which nothing special holds takes a shorter way: no one can see a difference."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine import (
    ConcurrencyConfig,
    ToolConcurrencyController,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolExecutionContext,
    ToolExecutionResult,
)
from tool_engine.calls import plain_calls
from tool_engine.knowledge.memory import PlainEntry

LIMITS = ConcurrencyConfig(max_concurrent=3, bucket_limits={"small": 1}, queue_timeout=5)


class OwnController(ToolConcurrencyController):
    """A controller whose methods may be its own: each of its calls goes step by step."""


def make_engine(  # noqa: C901 - one small tool after the other
    folder: Any, controller: ToolConcurrencyController
) -> ToolEngine:
    config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False)
    engine = ToolEngine(config, controller=controller)

    async def add(a: int, b: int = 2) -> int:
        return a + b

    async def give(what: str) -> Any:
        many = {"rows": [{"n": n, "text": "x" * 50} for n in range(300)]}
        return {"text": "ä" * 50, "none": None, "many": many, "huge": 2**70}.get(what, {"is": what})

    async def fail(what: str) -> None:
        raise RuntimeError(f"no {what}")

    async def wait(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    async def nest(depth: int) -> Any:
        if not depth:
            return 0
        inner = await engine.execute("nest", {"depth": depth - 1})
        return {"inner": inner.output, "current": engine.controller.snapshot().metrics.parked}

    async def report(context: ToolExecutionContext) -> str:
        context.report_progress(1, 2, "half")
        return context.call_id or ""

    async def look() -> dict[str, Any]:
        held = engine.controller.snapshot().metrics
        return {"active": held.active, "peak": held.max_concurrent_observed}

    for tool in (add, give, fail, wait, nest, report, look):
        engine.tool(name=tool.__name__, description="Does it.")(tool)

    async def narrow(number: int) -> int:
        return number

    engine.tool(name="narrow", description="Has a bucket.", concurrency={"bucket": "small"})(narrow)
    return engine


CALLS = st.one_of(
    st.tuples(st.just("add"), st.fixed_dictionaries({"a": st.integers()})),
    st.tuples(st.just("add"), st.just({"a": "1"})),
    st.tuples(st.just("add"), st.just({"a": 1.0, "b": True})),
    st.tuples(st.just("give"), st.sampled_from([{"what": w} for w in ("text", "many", "huge")])),
    st.tuples(st.just("give"), st.sampled_from([{"what": w} for w in ("none", "other")])),
    st.tuples(st.just("fail"), st.just({"what": "luck"})),
    st.tuples(st.just("wait"), st.fixed_dictionaries({"turns": st.integers(0, 2)})),
    st.tuples(st.just("nest"), st.fixed_dictionaries({"depth": st.integers(0, 2)})),
    st.tuples(st.just("narrow"), st.just({"number": 4})),
    st.tuples(st.sampled_from(["report", "look", "nobody"]), st.none()),
)


def shown(result: ToolExecutionResult) -> dict[str, Any]:
    """A result without what differs between any two calls."""
    facts = {**result.to_dict(), "execution_time": 0, "executed_at": ""}
    facts["metadata"] = {**facts["metadata"], "call_id": "", "queue_wait": 0}
    if result.tool_name == "report":
        facts["output"] = {"result": result.output.get("result") == result.call_id}
    return facts


def facts_of(event: ToolEngineEvent) -> dict[str, Any]:
    """An event without what differs between any two calls."""
    assert abs(datetime.now(UTC) - event.timestamp) < timedelta(minutes=5)
    assert event == pickle.loads(pickle.dumps(event))  # noqa: S301 - what was made here
    result, data = event.execution_result, {**event.data, "queue_wait": 0, "parent_call_id": None}
    facts = {**event.to_dict(), "timestamp": "", "call_id": "", "data": data}
    return facts | {"execution_result": None if result is None else shown(result)}


async def trace(engine: ToolEngine, turns: list[list[tuple[str, Any]]]) -> list[Any]:
    """All that can be seen of these calls, of which those of a turn begin at once."""
    seen: list[Any] = []
    heard: list[tuple[ToolEngineEvent, list[str | None]]] = []

    def hear(event: ToolEngineEvent) -> None:
        # Who holds a slot may be looked up at the same moment.
        heard.append((event, [row.tool_name for row in engine.controller.snapshot().held]))

    async with engine:
        for number, turn in enumerate(turns):
            if number == 1:
                engine.subscribe(hear)
            work = (engine.execute(name, params) for name, params in turn)
            results = await asyncio.gather(*work)
            seen += [shown(each) for each in results]
            records = await engine.store.query_call_records(limit=100)
            kept = {record.call_id: record for record in records}
            assert all(each.call_id in kept for each in results)
        for record in await engine.store.query_call_records(limit=100):
            facts = msgspec.to_builtins(record)
            changing = ("record_id", "created_at", "execution_time", "call_id", "queue_wait")
            facts |= dict.fromkeys((*changing, "parent_call_id", "process"))
            facts["result"] = None if record.tool_name == "report" else facts["result"]
            seen.append(facts)
        seen += [(facts_of(event), sorted(map(str, held))) for event, held in heard]
        metrics = msgspec.to_builtins(engine.controller.get_metrics())
        seen.append({k: v for k, v in metrics.items() if "execution_time" not in k})
    return seen


@settings(
    max_examples=share_of(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(turns=st.lists(st.lists(CALLS, min_size=1, max_size=5), min_size=1, max_size=4))
def test_both_ways_look_alike(turns: list[list[tuple[str, Any]]], tmp_path: Any) -> None:
    """Results, records and counts of the short way are those of the steps."""
    short = asyncio.run(trace(make_engine(tmp_path, ToolConcurrencyController(LIMITS)), turns))
    steps = asyncio.run(trace(make_engine(tmp_path, OwnController(LIMITS)), turns))
    assert short == steps


async def test_most_calls_take_the_short_way(tmp_path: Any, monkeypatch: Any) -> None:
    """Without this the other tests would compare a way with itself."""
    taken: list[bool] = []
    take = plain_calls.take_plain

    def watch(*args: Any) -> Any:
        done = take(*args)
        taken.append(isinstance(done, ToolExecutionResult))
        return done

    monkeypatch.setattr(plain_calls, "take_plain", watch)
    async with make_engine(tmp_path, ToolConcurrencyController(LIMITS)) as engine:
        for _ in range(3):
            assert (await engine.execute("add", {"a": 1})).output == {"result": 3}
        assert taken == [False, True, True]  # the first one of a tool makes its plan
    async with make_engine(tmp_path, OwnController(LIMITS)) as engine:
        for _ in range(3):
            await engine.execute("add", {"a": 1})
        assert True not in taken[3:]


async def ready(engine: ToolEngine, tool: Callable[..., Any]) -> None:
    """Register a tool without parameters, and let its plan be made."""
    engine.tool(name="sample", description="Does it.")(tool)
    await engine.execute("sample")


async def test_a_subscriber_that_the_tool_adds_hears_of_its_end(tmp_path: Any) -> None:
    """Whoever listens when a call ends hears of that."""
    heard: list[str] = []
    async with make_engine(tmp_path, ToolConcurrencyController(LIMITS)) as engine:
        is_wanted = False

        async def sample() -> None:
            if is_wanted:
                engine.subscribe(lambda event: heard.append(event.event_type))

        await ready(engine, sample)
        is_wanted = True
        await engine.execute("sample")
    assert heard == ["execution_completed"]


async def test_limits_that_the_tool_changes(tmp_path: Any) -> None:
    """A slot is given back as it was taken, whatever bounds its calls by then."""
    changes = iter((None, {"small": 1}, {"small": 2}, {}))
    async with make_engine(tmp_path, ToolConcurrencyController(LIMITS)) as engine:

        async def sample() -> None:
            if (change := next(changes)) is not None:
                rates: Any = {"__default__": "1000/s", "small": "1000/s"}
                config = ConcurrencyConfig(bucket_limits=change, bucket_rates=rates)
                engine.controller.configure(config)

        await ready(engine, sample)
        for _ in range(3):
            assert (await engine.execute("sample")).is_success
        metrics = engine.controller.get_metrics()
        assert (metrics.active, metrics.total_acquired, metrics.total_released) == (0, 4, 4)


async def test_one_who_begins_to_watch_the_slots_sees_one_given_back(tmp_path: Any) -> None:
    """Whoever subscribes to the controller while a tool runs hears of the end of its slot."""
    seen: list[str] = []
    async with make_engine(tmp_path, ToolConcurrencyController(LIMITS)) as engine:

        async def sample() -> None:
            if engine.controller.get_metrics().total_acquired > 1:
                engine.controller.subscribe(lambda event: seen.append(event.event_type))

        await ready(engine, sample)
        await engine.execute("sample")
    assert seen == ["slot_released"]


async def test_a_slot_that_was_looked_at_is_given_back(tmp_path: Any) -> None:
    """The tool may look at its slot, which is made then: it is the same one until the end."""
    seen: list[Any] = []
    async with make_engine(tmp_path, ToolConcurrencyController(LIMITS)) as engine:

        async def sample() -> None:
            own: Any = engine._pipeline.current_slot()
            seen.append((own, own is engine._pipeline.current_slot(), own.state))

        await ready(engine, sample)
        await engine.execute("sample")
        (_, _, _), (slot, is_same, state) = seen
        assert (is_same, state, slot.is_released) == (True, "active", True)
        assert engine.controller.get_metrics().active == 0


async def test_work_that_is_left_behind_sees_that_its_call_has_ended(tmp_path: Any) -> None:
    """A task of a tool that has ended makes calls of its own accord: none lends it a slot."""
    results: list[ToolExecutionResult] = []
    async with make_engine(tmp_path, ToolConcurrencyController(ConcurrencyConfig(1))) as engine:
        tasks: list[asyncio.Task[None]] = []

        async def call_later() -> None:
            await asyncio.sleep(0)
            results.append(await engine.execute("add", {"a": 1}))

        async def sample() -> None:
            tasks.append(asyncio.get_running_loop().create_task(call_later()))

        await ready(engine, sample)
        await engine.execute("sample")
        await asyncio.gather(*tasks)
        metrics = engine.controller.get_metrics()
        assert [each.output for each in results] == [{"result": 3}] * 2
        assert (metrics.active, metrics.parked, metrics.total_acquired) == (0, 0, 4)


async def test_those_who_wait_for_quiet_are_woken(tmp_path: Any) -> None:
    """The end of a plain call ends a drain that began while it ran."""
    async with make_engine(tmp_path, ToolConcurrencyController(LIMITS)) as engine:
        drains: list[asyncio.Task[bool]] = []

        async def sample() -> None:
            if engine.controller.get_metrics().total_acquired > 1:
                drain = engine.controller.drain(timeout=5)
                drains.append(asyncio.get_running_loop().create_task(drain))

        await ready(engine, sample)
        await engine.execute("sample")
        assert await drains[0]
        refused = await engine.execute("sample")
        assert refused.error_type == "engine_closed"


def test_what_ends_the_program_gives_the_slot_back(tmp_path: Any) -> None:
    """The slot of a tool that ends the program is not lost."""
    engine = make_engine(tmp_path, ToolConcurrencyController(LIMITS))
    is_wanted = False

    async def sample() -> None:
        if is_wanted:
            raise KeyboardInterrupt

    async def run() -> None:
        nonlocal is_wanted
        await ready(engine, sample)
        is_wanted = True
        await engine.execute("sample")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run())
    assert engine.controller.get_metrics().active == 0


async def test_a_wait_is_the_same_everywhere(tmp_path: Any) -> None:
    """Result, record and event of a call that waited for its slot name the same seconds."""
    heard: list[ToolEngineEvent] = []
    clock = asyncio.get_running_loop().time
    async with make_engine(tmp_path, ToolConcurrencyController(LIMITS, clock=clock)) as engine:

        async def sample() -> None:
            await asyncio.sleep(0.25)

        await ready(engine, sample)
        engine.subscribe(heard.append, event_types=["execution_completed"])
        results = await asyncio.gather(*[engine.execute("sample") for _ in range(7)])
        storage: Any = engine.store.storage
        assert [type(each) for each in storage._kept][1:] == [PlainEntry] * 7
        records = await engine.store.query_call_records(limit=7)
        waits = {each.call_id: each.metadata["queue_wait"] for each in results}
        assert sorted(waits.values()) == [0.0] * 3 + [0.25] * 3 + [0.5]
        assert waits == {each.call_id: each.queue_wait for each in records}
        assert waits == {each.call_id: each.data["queue_wait"] for each in heard}
        shown = [each.execution_result for each in heard]
        assert waits == {each.call_id: each.metadata["queue_wait"] for each in shown if each}


async def test_a_call_whose_tool_waits_is_seen_in_its_slot(tmp_path: Any) -> None:
    """No slot is made for views before one looks: then it is the slot of that call to its end."""
    async with make_engine(tmp_path, ToolConcurrencyController(LIMITS)) as engine:
        go_on = asyncio.Event()
        await ready(engine, go_on.wait)
        go_on.clear()
        call = asyncio.create_task(engine.execute("sample"))
        await asyncio.sleep(0)
        for _ in range(2):
            (row,) = engine.controller.snapshot().held
            assert (row.tool_name, row.state) == ("sample", "active")
        rates: Any = {"__default__": "1000/s"}
        engine.controller.configure(ConcurrencyConfig(1, bucket_rates=rates))
        go_on.set()
        assert (await call).is_success
        metrics = engine.controller.get_metrics()
        assert (metrics.active, metrics.total_released, engine.controller.snapshot().held) == (
            0,
            metrics.total_acquired,
            [],
        )


async def test_work_that_goes_on_is_seen_in_its_slot(tmp_path: Any) -> None:
    """The slot of a call that none looked at is listed once its work outlives it."""
    async with make_engine(tmp_path, ToolConcurrencyController(LIMITS)) as engine:
        go_on, is_wanted = asyncio.Event(), False

        async def sample() -> None:
            while is_wanted and not go_on.is_set():
                try:
                    await go_on.wait()
                except asyncio.CancelledError:
                    continue

        engine.tool(name="sample", description="Does it.", timeout=0.05)(sample)
        await engine.execute("sample")
        is_wanted = True
        late = await engine.execute("sample")
        assert late.error_type == "timeout"
        (row,) = engine.controller.snapshot().held
        assert (row.call_id, row.state) == (late.call_id, "zombie")
        go_on.set()


async def nap() -> None:
    await asyncio.sleep(0.25)


async def test_a_call_that_is_to_be_woken_is_seen_in_its_slot(tmp_path: Any) -> None:
    """A call that was given its slot holds it before its task runs, and waited until then."""
    seen: list[Any] = []
    controller = ToolConcurrencyController(ConcurrencyConfig(max_concurrent=1))
    async with make_engine(tmp_path, controller) as engine:

        def look(event: ToolEngineEvent) -> None:
            snapshot = controller.snapshot()
            seen.append((event.call_id, [each.call_id for each in snapshot.held]))
            assert snapshot.metrics.active == len(snapshot.held)

        await ready(engine, nap)
        unsubscribe = engine.subscribe(look, "execution_completed")
        results = await asyncio.gather(*[engine.execute("sample") for _ in range(3)])
        unsubscribe()
        records = await engine.store.query_call_records(limit=3)
        unseen = await asyncio.gather(*[engine.execute("sample") for _ in range(3)])
    first, second, third = [result.metadata["call_id"] for result in results]
    assert seen == [(first, [second]), (second, [third]), (third, [])]
    waits = [result.metadata["queue_wait"] for result in results]
    assert waits == [each.queue_wait for each in reversed(records)]
    assert waits[0] == 0 < 0.24 < waits[1] < waits[1] + 0.24 < waits[2]
    assert [result.metadata["attempts"] for result in unseen] == [1, 1, 1]
    waits = [result.metadata["queue_wait"] for result in unseen]
    assert waits[0] == 0 < 0.24 < waits[1] < waits[1] + 0.24 < waits[2]


async def test_a_call_that_is_broken_off_before_it_wakes_passes_its_slot_on(tmp_path: Any) -> None:
    """What was given to a call whose task is cancelled in that moment goes to the next one."""
    controller = ToolConcurrencyController(ConcurrencyConfig(max_concurrent=1))
    async with make_engine(tmp_path, controller) as engine:
        tasks: list[asyncio.Task[Any]] = []
        await ready(engine, nap)

        def break_off(_: ToolEngineEvent) -> None:
            tasks[1].cancel()

        engine.subscribe(break_off, "execution_completed")
        tasks += [asyncio.ensure_future(engine.execute("sample")) for _ in range(3)]
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        left = controller.snapshot()
    assert isinstance(ends[1], asyncio.CancelledError)
    for end in ends[::2]:
        assert isinstance(end, ToolExecutionResult)
        assert end.is_success
    assert (left.held, left.waiting, left.metrics.active) == ([], [], 0)
