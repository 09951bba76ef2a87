"""Do calls of a `single_flight` tool share one run, and end each by itself?"""

from __future__ import annotations

import asyncio
import dataclasses
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from tests.calls.audit import Audit, make_engine, turns
from tests.calls.samples import Stubborn, bare, forever
from tool_engine import (
    ToolConfigLoader,
    ToolEngine,
    ToolExecutionContext,
    ToolExecutionError,
    ToolExecutionResult,
)

BOUND = 10_000.0
YAML = """
name: report
version: 1.0.0
description: A report
category: custom
effect: read
timeout: 30
parameters:
  - {name: customer, type: string, required: true, description: Whose}
  - {name: page, type: integer, default: 1, description: Which}
concurrency: {collision: single_flight}
entry: {type: custom, handler: report}
"""
NUMBER = [{"name": "depth", "type": "integer", "required": True, "description": "How deep"}]


class Report:
    """A tool that takes ten seconds and counts its runs."""

    def __init__(self, seconds: float = 10.0) -> None:
        self.seconds = seconds
        self.runs = 0

    async def __call__(self, **params: Any) -> dict[str, Any]:
        self.runs += 1
        run = self.runs
        await asyncio.sleep(self.seconds)
        return {"run": run, "rows": [params]}


def single(name: str = "report", **keys: Any) -> dict[str, Any]:
    concurrency = {"collision": "single_flight", **keys.pop("concurrency", {})}
    return bare(name, effect="read", concurrency=concurrency, **keys)


def start(
    engine: ToolEngine, name: str = "report", params: Any = None, **context: Any
) -> asyncio.Task[ToolExecutionResult]:
    return asyncio.create_task(engine.execute(name, params, ToolExecutionContext(**context)))


async def results(*calls: asyncio.Task[ToolExecutionResult]) -> list[ToolExecutionResult]:
    async with asyncio.timeout(BOUND):
        return [await call for call in calls]


async def kinds_of_end(*calls: asyncio.Task[ToolExecutionResult]) -> list[str | None]:
    return [result.error_type for result in await results(*calls)]


async def test_equal_calls_run_once(engine: ToolEngine, audit: Audit) -> None:
    """C22: of a hundred equal calls one runs; each has its own id, record and final event."""
    report = Report()
    engine.register_tool(ToolConfigLoader().load_text(YAML), report)
    calls = [
        start(engine, params={"customer": "c"}, caller_id=f"caller {number}")
        for number in range(100)
    ]
    found = await results(*calls)
    assert report.runs == 1
    assert len({result.call_id for result in found}) == 100
    leader, *followers = found
    assert "shared_with" not in leader.metadata
    assert leader.metadata["attempts"] == 1
    for result in followers:
        assert result.is_success
        assert result.output == leader.output
        assert result.metadata["shared_with"] == leader.call_id
        assert result.metadata["attempts"] == 0
        assert result.metadata["queue_wait"] == 10.0
        assert audit.kinds(result.call_id) == ["execution_completed"]
    records = await audit.records()
    assert {record.caller_id for record in records} == {f"caller {n}" for n in range(100)}
    assert [record.reached_executor for record in records].count(True) == 1
    assert engine.controller.get_metrics().total_acquired == 1
    await audit.check(found)


async def test_each_end_is_told_in_the_context_of_its_caller(engine: ToolEngine) -> None:
    """C22: whoever hears that a call ended, a tracer for one, finds the caller's variables."""
    who: ContextVar[str] = ContextVar("who")
    heard: dict[str, str] = {}
    engine.subscribe(lambda event: heard.update({event.data["caller_id"]: who.get()}))
    engine.register_tool(single(), Report())

    async def ask(name: str) -> ToolExecutionResult:
        who.set(name)
        return await engine.execute("report", {}, ToolExecutionContext(caller_id=name))

    await results(*(asyncio.create_task(ask(name)) for name in ("first", "second", "third")))
    assert heard == {"first": "first", "second": "second", "third": "third"}


async def test_each_has_its_own_copy(engine: ToolEngine, audit: Audit) -> None:
    """C22: what one caller does with its result, even at once, no other sees."""
    engine.register_tool(single(), Report())

    async def spoil() -> ToolExecutionResult:
        result = await engine.execute("report")
        result.output["rows"].append("spoiled")
        result.metadata["bucket"] = "spoiled"
        return result

    tasks = [asyncio.create_task(spoil()) for _ in range(4)]
    for result in await results(*tasks):
        assert result.output["rows"] == [{}, "spoiled"]
    for record in await audit.records():
        assert record.result["rows"] == [{}]
    await audit.check()


async def test_details_of_a_failure_are_copied(engine: ToolEngine, audit: Audit) -> None:
    """C22: failures are shared, and their details are each caller's own."""

    async def failing() -> None:
        await asyncio.sleep(1)
        raise ToolExecutionError("no such customer", details={"codes": [404]})

    engine.register_tool(single(), failing)

    async def spoil() -> ToolExecutionResult:
        result = await engine.execute("report")
        result.metadata["error_details"]["codes"].append("spoiled")
        return result

    found = await results(*(asyncio.create_task(spoil()) for _ in range(3)))
    assert [result.error for result in found] == ["no such customer"] * 3
    assert {result.error_type for result in found} == {"execution_error"}
    for result in found:
        assert result.metadata["error_details"]["codes"] == [404, "spoiled"]
    await audit.check()


async def test_an_output_that_cannot_be_copied(engine: ToolEngine, audit: Audit) -> None:
    """C22: an object that refuses to be copied is given to all as it is."""

    @dataclasses.dataclass
    class Unique:
        number: int = 1

        def __deepcopy__(self, memo: object) -> None:
            raise TypeError("there is only one")

    unique = Unique()

    async def tool() -> Any:
        await asyncio.sleep(1)
        return {"object": unique}

    engine.register_tool(single(), tool)
    found = await results(start(engine), start(engine))
    assert [result.output["object"] for result in found] == [unique, unique]
    await audit.check(found)


@pytest.mark.parametrize("key", ["params", "tool", "conversation_id", "params.customer"])
async def test_other_arguments_run_by_themselves(
    engine: ToolEngine, audit: Audit, key: str
) -> None:
    """C22: whatever the key is, nobody gets the result of other arguments than its own."""
    report = Report()
    text = YAML.replace("{collision: single_flight}", f"{{collision: single_flight, key: {key}}}")
    engine.register_tool(ToolConfigLoader().load_text(text), report)
    wanted = [("a", 1), ("a", 2), ("b", 1), ("a", 1)]
    calls = [
        start(engine, params={"customer": customer, "page": page}, conversation_id="c")
        for customer, page in wanted
    ]
    found = await results(*calls)
    assert report.runs == 3
    for result, (customer, page) in zip(found, wanted, strict=True):
        assert result.output["rows"] == [{"customer": customer, "page": page}]
    assert found[3].metadata["shared_with"] == found[0].call_id
    await audit.check(found)


async def test_defaults_count_as_arguments(engine: ToolEngine) -> None:
    """C22: an argument that is left out equals its default."""
    report = Report()
    engine.register_tool(ToolConfigLoader().load_text(YAML), report)
    calls = [start(engine, params={"customer": "c", **more}) for more in ({}, {"page": 1})]
    await results(*calls)
    assert report.runs == 1


async def test_a_key_of_the_caller_parts_callers(engine: ToolEngine, audit: Audit) -> None:
    """C22: with a key of the context, only calls of one conversation share; without one, nobody."""
    report = Report()
    engine.register_tool(single(concurrency={"key": "conversation_id"}), report)
    await results(*(start(engine, conversation_id=each) for each in ("a", "a", "b", None, None)))
    assert report.runs == 4
    await audit.check()


async def test_numbers_beyond_64_bits(engine: ToolEngine, audit: Audit) -> None:
    """Arguments that MessagePack cannot hold are compared too."""
    report = Report()
    engine.register_tool(single(parameters=NUMBER), report)
    calls = [start(engine, params={"depth": depth}) for depth in (2**70, 2**70 + 1, 2**70)]
    await results(*calls)
    assert report.runs == 2
    await audit.check()


async def test_a_later_call_runs_anew(engine: ToolEngine) -> None:
    """C22: a result is shared while the call runs, never kept."""
    report = Report()
    engine.register_tool(single(), report)
    await results(start(engine))
    await results(start(engine))
    assert report.runs == 2


async def test_a_result_without_a_wait_is_shared_with_nobody(
    engine: ToolEngine, audit: Audit
) -> None:
    """C22: a tool that never waits has nobody beside it."""
    runs = []

    async def quick() -> None:
        runs.append(1)

    engine.register_tool(single(), quick)
    await results(start(engine), start(engine))
    assert len(runs) == 2
    await audit.check()


async def test_a_cancelled_leader_is_replaced(engine: ToolEngine, audit: Audit) -> None:
    """C22: whoever cancels its call cancels nobody else's: a follower runs in its place."""
    report = Report()
    engine.register_tool(single(), report)
    leader, *followers = [start(engine) for _ in range(4)]
    await asyncio.sleep(5)
    leader.cancel()
    found = await results(*followers)
    assert leader.cancelled()
    assert report.runs == 2
    assert [result.output["run"] for result in found] == [2, 2, 2]
    assert {result.metadata.get("shared_with") for result in found[1:]} == {found[0].call_id}
    assert len(await audit.records()) == 4
    await audit.check(found)


async def test_leaders_that_are_cancelled_one_by_one(engine: ToolEngine, audit: Audit) -> None:
    """C8: each next one leads, and the last one gets its result."""
    report = Report()
    engine.register_tool(single(), report)
    calls = [start(engine) for _ in range(10)]
    for call in calls[:9]:
        await turns()
        call.cancel()
    assert await kinds_of_end(calls[9]) == [None]
    assert report.runs == 10
    assert all(call.cancelled() for call in calls[:9])
    await audit.check()


async def test_a_leader_that_is_cancelled_in_the_queue(audit: Audit) -> None:
    """C22: a leader that never ran is replaced as well."""
    engine = make_engine(1)
    heard = Audit(engine)
    report = Report()
    engine.register_tool(single(), report)
    engine.register_tool(bare("other"), Report())
    other = start(engine, "other")
    await turns()
    leader, follower = start(engine), start(engine)
    await turns()
    leader.cancel()
    assert await kinds_of_end(other, follower) == [None, None]
    assert report.runs == 1
    await heard.check()
    await engine.close()


async def test_a_leader_that_swallows_its_cancellation(engine: ToolEngine, audit: Audit) -> None:
    """C22: the others wait until the cancelled call has ended, and then one of them runs."""
    stubborn = Stubborn(5.0)
    engine.register_tool(single(timeout=50), stubborn)
    leader, follower = start(engine), start(engine)
    await turns()
    leader.cancel()
    await turns()
    assert not follower.done()
    follower.cancel()
    await asyncio.wait([leader, follower])
    await asyncio.sleep(100)
    assert len(await audit.records()) == 2
    await audit.check()


async def test_a_cancelled_follower(engine: ToolEngine, audit: Audit) -> None:
    """C8: a follower that is cancelled ends at once as cancelled; the others go on."""
    report = Report()
    engine.register_tool(single(), report)
    leader, cancelled, follower = [start(engine) for _ in range(3)]
    await turns()
    cancelled.cancel()
    await turns(3)
    assert cancelled.cancelled()
    assert audit.kinds()[-1] == "execution_cancelled"
    assert await kinds_of_end(leader, follower) == [None, None]
    assert report.runs == 1
    await audit.check()


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
async def test_a_follower_that_is_cancelled_in_the_same_step(
    engine: ToolEngine, audit: Audit, is_before: bool
) -> None:
    """Promise 3: a follower cancelled in the step in which its leader ends has one record."""
    gate = asyncio.Event()
    follower: asyncio.Task[ToolExecutionResult] | None = None

    async def tool() -> None:
        await gate.wait()
        if is_before and follower is not None:
            follower.cancel()

    async def lead() -> None:
        await engine.execute("report")
        if not is_before and follower is not None:
            follower.cancel()

    engine.register_tool(single(), tool)
    leader = asyncio.create_task(lead())
    await turns()
    follower = start(engine)
    await turns()
    gate.set()
    await asyncio.wait([leader, follower], timeout=BOUND)
    assert follower.cancelled()
    assert len(await audit.records()) == 2
    await audit.check()


async def test_a_leader_and_a_follower_cancelled_in_the_same_step(
    engine: ToolEngine, audit: Audit
) -> None:
    """Promise 3: both end as cancelled, with one record each."""
    engine.register_tool(single(), forever)
    calls = [start(engine) for _ in range(2)]
    await turns()
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    assert [record.error_type for record in await audit.records()] == ["cancelled"] * 2
    await audit.check()


async def test_a_follower_cancelled_right_after_its_leader(
    engine: ToolEngine, audit: Audit
) -> None:
    """Promise 3: a follower that has lost its leader and is cancelled before it knows."""

    async def lead() -> None:
        try:
            await engine.execute("report")
        finally:
            follower.cancel()

    engine.register_tool(single(), forever)
    leader = asyncio.create_task(lead())
    await turns()
    follower = start(engine)
    await turns()
    leader.cancel()
    await asyncio.wait([leader, follower])
    assert follower.cancelled()
    assert [record.error_type for record in await audit.records()] == ["cancelled"] * 2
    await audit.check()


# Deadlines


async def test_a_follower_keeps_its_own_deadline(engine: ToolEngine, audit: Audit) -> None:
    """DESIGN 2.4: a follower with a shorter timeout ends then, and its leader goes on."""
    engine.register_tool(single(), Report())
    leader, follower = start(engine), start(engine, timeout=4)
    assert await kinds_of_end(follower) == ["timeout"]
    assert asyncio.get_running_loop().time() == 1004.0
    assert "within 4 s" in (follower.result().error or "")
    assert await kinds_of_end(leader) == [None]
    await audit.check()


async def test_the_time_of_a_follower_runs_while_its_leader_does(audit: Audit) -> None:
    """C7: what a leader waits in the queue is not taken from its followers' time."""
    engine = make_engine(1)
    heard = Audit(engine)
    report = Report(3.0)
    engine.register_tool(single(timeout=5), report)
    engine.register_tool(bare("other"), Report(18.0))
    other = start(engine, "other")
    await turns()
    calls = [start(engine), start(engine), start(engine, timeout=2)]
    assert await kinds_of_end(other, *calls) == [None, None, None, "timeout"]
    assert report.runs == 1
    assert calls[2].result().executed_at is not None
    await heard.check()
    await engine.close()


async def test_the_deadline_of_a_nested_follower(engine: ToolEngine, audit: Audit) -> None:
    """DESIGN 2.4: a follower never outlives the call that it is part of."""

    async def outer(context: ToolExecutionContext) -> str | None:
        return (await context.call("report")).error_type

    engine.register_tool(single(), Report())
    engine.register_tool(bare("outer"), outer)
    leader = start(engine)
    await turns()
    assert await kinds_of_end(start(engine, "outer", timeout=2)) == ["timeout"]
    assert asyncio.get_running_loop().time() == 1002.0
    assert await kinds_of_end(leader) == [None]
    await audit.check()


async def test_a_follower_in_a_queue_ends_with_the_call_that_it_is_part_of() -> None:
    """DESIGN 2.4: also while the leader has no slot and the follower's time has not begun."""
    engine = make_engine(5, bucket_limits={"reports": 1})
    audit = Audit(engine)

    async def outer(context: ToolExecutionContext) -> None:
        try:
            await context.call("report")
        except asyncio.CancelledError:
            await asyncio.sleep(1)

    engine.register_tool(single(concurrency={"bucket": "reports"}), Report())
    engine.register_tool(bare("other", concurrency={"bucket": "reports"}), Report(20.0))
    engine.register_tool(bare("outer"), outer)
    other = start(engine, "other")
    await turns()
    leader = start(engine)
    await turns()
    outer_call = start(engine, "outer", timeout=3)
    assert await kinds_of_end(outer_call) == ["timeout"]
    assert asyncio.get_running_loop().time() == 1003.0
    assert await kinds_of_end(other, leader) == [None, None]
    await audit.check()
    await engine.close()


async def test_a_leader_with_less_time_than_its_followers(engine: ToolEngine, audit: Audit) -> None:
    """C22: the timeout that one caller chose is not the end of those who gave more time."""
    report = Report()
    engine.register_tool(single(), report)
    leader, *followers = start(engine, timeout=2), start(engine), start(engine, timeout=2)
    assert await kinds_of_end(leader, *followers) == ["timeout", None, "timeout"]
    assert report.runs == 2
    await audit.check()


async def test_the_timeout_of_the_tool_is_shared(engine: ToolEngine, audit: Audit) -> None:
    """C22: a tool that is too slow for one is too slow for all: it does not run once for each."""
    report = Report(100.0)
    engine.register_tool(single(timeout=5), report)
    calls = [start(engine) for _ in range(5)]
    assert await kinds_of_end(*calls) == ["timeout"] * 5
    assert report.runs == 1
    assert asyncio.get_running_loop().time() == 1005.0
    await audit.check([call.result() for call in calls])


# Failures, limits, the end of the engine


@pytest.mark.parametrize(
    ("limits", "error_type"),
    [({"queue_size": 0}, "queue_full"), ({"queue_timeout": 1.0}, "queue_timeout")],
)
async def test_a_refusal_is_shared(limits: dict[str, Any], error_type: str) -> None:
    """C22: when the leader gets no slot, its followers get none either, for the same reason."""
    engine = make_engine(1, **limits)
    audit = Audit(engine)
    engine.register_tool(single(), Report())
    engine.register_tool(bare("other"), Report())
    other = start(engine, "other")
    await turns()
    calls = [start(engine) for _ in range(3)]
    assert await kinds_of_end(*calls) == [error_type] * 3
    assert await kinds_of_end(other) == [None]
    await audit.check([call.result() for call in calls])
    await engine.close()


async def make_full_engine(seconds: float) -> tuple[ToolEngine, Audit, asyncio.Task[Any]]:
    """An engine whose one slot a call of another tool has for so long, and that call."""
    engine = make_engine(1, queue_timeout=1.0)
    audit = Audit(engine)
    engine.register_tool(single(), Report())
    engine.register_tool(bare("other"), partial(asyncio.sleep, seconds))
    other = start(engine, "other")
    await turns()
    return engine, audit, other


async def test_a_task_waits_on_where_its_leader_was_refused() -> None:
    """C22, K28: the queue refuses calls that wait too long, and no task that shares their run."""
    engine, audit, other = await make_full_engine(5.0)
    leader = start(engine)
    await turns()
    task = await engine.start("report")
    assert await kinds_of_end(leader, other) == ["queue_timeout", None]
    assert (await task.wait()).is_success
    await audit.check()
    await engine.close()


async def test_a_call_waits_for_a_task_in_line_no_longer_than_it_may() -> None:
    """C7, C22: a task may stand in line for hours, and who shared its run stood there likewise."""
    engine, audit, other = await make_full_engine(20.0)
    task = await engine.start("report")
    await turns()
    began = asyncio.get_running_loop().time()
    call = start(engine)
    assert await kinds_of_end(call) == ["queue_timeout"]
    assert asyncio.get_running_loop().time() - began == pytest.approx(1.0)
    assert call.result().metadata["queue_wait"] == pytest.approx(1.0)
    assert "a task that waits for a slot itself" in str(call.result().error)
    assert await kinds_of_end(other) == [None]
    assert (await task.wait()).is_success
    await audit.check()
    await engine.close()


async def test_a_call_of_a_running_call_is_refused_nothing_that_its_leader_is() -> None:
    """C21, C22: what has been begun is not given up for what has not."""
    engine = make_engine(1, overload={"custom": {"target": 0.1, "interval": 0.2}})
    audit = Audit(engine)

    async def outer(context: ToolExecutionContext) -> Any:
        await asyncio.sleep(0.5)
        return (await context.call("report")).error_type

    engine.register_tool(single(), Report())
    engine.register_tool(bare("outer", concurrency={"bucket": "others"}), outer)
    engine.register_tool(bare("other"), partial(asyncio.sleep, 0.4))
    others = [start(engine, "other") for _ in range(3)]
    await turns()
    leader = start(engine)
    controller = engine.controller
    controller.configure(replace(controller.config, max_concurrent=2, bucket_limits={"custom": 1}))
    nesting = start(engine, "outer")
    await asyncio.sleep(0.6)
    assert engine.controller.snapshot().metrics.parked == 1
    await kinds_of_end(*others)
    assert await kinds_of_end(leader) == ["rejected"]
    assert (await nesting).output == {"result": None}
    await audit.check()
    await engine.close()


async def test_an_invalid_call_follows_nobody(engine: ToolEngine, audit: Audit) -> None:
    """C22: what is not valid is refused before anything is shared."""
    engine.register_tool(ToolConfigLoader().load_text(YAML), Report())
    calls = [start(engine, params={}), start(engine, params={"customer": "c"}), start(engine)]
    expected = ["validation_error", None, "validation_error"]
    assert await kinds_of_end(*calls) == expected
    await audit.check()


async def test_findings_are_each_callers_own(engine: ToolEngine, audit: Audit) -> None:
    """C22: a warning about the arguments of one call does not show at another."""
    engine.register_tool(ToolConfigLoader().load_text(YAML), Report())
    plain = start(engine, params={"customer": "c"})
    warned = start(engine, params={"customer": "c", "cutsomer": "d"})
    found = await results(plain, warned)
    assert found[1].metadata["shared_with"] == found[0].call_id
    assert found[0].validation_errors == []
    assert [each["type"] for each in found[1].validation_errors] == ["extra_parameter"]
    await audit.check(found)


async def test_warnings_of_the_output_show_at_each(engine: ToolEngine, audit: Audit) -> None:
    """C22: all get the same output, so each is warned where it is not as declared."""
    output = {"type": "object", "properties": {"run": {"type": "string", "description": "Which"}}}
    tool = replace(ToolConfigLoader().load_text(YAML), output=output, output_mode="warn")
    engine.register_tool(tool, Report())
    plain = start(engine, params={"customer": "c"})
    warned = start(engine, params={"customer": "c", "cutsomer": "d"})
    found = await results(plain, warned)
    assert found[1].metadata["shared_with"] == found[0].call_id
    (about_output,) = found[0].validation_errors
    assert about_output["level"] == "warning"
    assert [each["type"] for each in found[1].validation_errors] == [
        "extra_parameter",
        about_output["type"],
    ]
    await audit.check(found)


async def test_retries_are_the_leaders(engine: ToolEngine, audit: Audit) -> None:
    """C22: the attempts of the leader are made once for all."""
    runs: list[int] = []

    async def flaky() -> int:
        await asyncio.sleep(1)
        runs.append(1)
        if len(runs) < 3:
            raise ValueError("not yet")
        return len(runs)

    engine.register_tool(single(retry={"attempts": 3, "backoff": 1}), flaky)
    found = await results(*(start(engine) for _ in range(3)))
    assert [result.metadata["attempts"] for result in found] == [3, 0, 0]
    assert len(runs) == 3
    await audit.check(found)


async def test_closing() -> None:
    """C24: followers end with their leader, before the engine's last event."""
    engine = make_engine(close_timeout=1.0)
    audit = Audit(engine)
    engine.register_tool(single(), forever)
    calls = [start(engine) for _ in range(4)]
    await turns()
    async with asyncio.timeout(BOUND):
        await engine.close()
    assert all(audit.kinds(call.result().call_id) for call in calls if call.done())
    assert await kinds_of_end(*calls) == ["engine_closed"] * 4
    await audit.check([call.result() for call in calls])


async def test_closing_while_the_leader_waits() -> None:
    """C24: the same where nobody runs yet."""
    engine = make_engine(1, close_timeout=1.0)
    audit = Audit(engine)
    engine.register_tool(single(), forever)
    engine.register_tool(bare("other"), forever)
    calls = [start(engine, "other"), *(start(engine) for _ in range(3))]
    await turns()
    async with asyncio.timeout(BOUND):
        await engine.close()
    assert await kinds_of_end(*calls) == ["engine_closed"] * 4
    await audit.check([call.result() for call in calls])


async def test_a_changed_definition(engine: ToolEngine, audit: Audit) -> None:
    """C22: a call of a new definition does not get the result of the old one."""
    report = Report()
    engine.register_tool(single(), report)
    old = start(engine)
    await turns()
    engine.unregister_tool("report")
    engine.register_tool(single(version="1.1.0"), report)
    new, other = start(engine), start(engine)
    found = await results(old, new, other)
    assert [result.output["run"] for result in found] == [1, 2, 2]
    assert [result.metadata["tool_version"] for result in found] == ["1.0.0", "1.1.0", "1.1.0"]
    await audit.check(found)


async def test_a_follower_that_leads_under_a_new_definition(
    engine: ToolEngine, audit: Audit
) -> None:
    """C22: a tool that is gone, or shares no more, when the leader is lost."""
    report = Report()
    engine.register_tool(single(), report)
    leader, *followers = [start(engine) for _ in range(3)]
    await turns()
    engine.unregister_tool("report")
    leader.cancel()
    assert await kinds_of_end(*followers) == ["tool_not_found"] * 2
    engine.register_tool(single(), report)
    leader, *followers = [start(engine) for _ in range(3)]
    await turns()
    engine.unregister_tool("report")
    engine.register_tool(bare("report"), report)
    leader.cancel()
    assert await kinds_of_end(*followers) == [None] * 2
    await audit.check()


# Nested calls


async def test_a_leader_that_calls_itself(audit: Audit) -> None:
    """C22, C23: a call inside its own run, with equal arguments, runs by itself."""
    engine = make_engine(1, queue_timeout=None)
    heard = Audit(engine)
    depth = 0

    async def deep(context: ToolExecutionContext) -> int:
        nonlocal depth
        await asyncio.sleep(1)
        depth += 1
        if depth < 4:
            assert (await context.call("report")).is_success
        return depth

    engine.register_tool(single(), deep)
    calls = [start(engine) for _ in range(3)]
    found = await results(*calls)
    assert [result.output for result in found] == [{"result": 4}] * 3
    assert depth == 4
    await heard.check(found)
    await engine.close()


@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("length", [2, 3])
async def test_a_cycle_of_tools(length: int, most: int) -> None:
    """C22, C23: tools that call one another in a circle, begun at every point: no deadlock."""
    engine = make_engine(most, queue_timeout=None)
    audit = Audit(engine)

    def member(number: int) -> Any:
        async def tool(context: ToolExecutionContext, depth: int) -> Any:
            await asyncio.sleep(1)
            if depth == 0:
                return "bottom"
            # Everybody calls with equal arguments, so that each may wait for each.
            left[0] -= 1
            if left[0] < 0:
                return "enough"
            result = await context.call(f"t{(number + 1) % length}", {"depth": depth})
            return result.error_type or result.output["result"]

        return tool

    left = [12]
    for number in range(length):
        definition = single(f"t{number}", parameters=NUMBER, timeout=9000)
        engine.register_tool(definition, member(number))
    calls = [
        start(engine, f"t{number}", {"depth": 1}, timeout=9000)
        for number in range(length)
        for _ in range(2)
    ]
    assert set(await kinds_of_end(*calls)) == {None}
    assert asyncio.get_running_loop().time() < 1200.0
    await audit.check([call.result() for call in calls])
    await engine.close()


async def test_a_cycle_through_a_tool_that_does_not_share(audit: Audit) -> None:
    """C23: the wait for one another is found over plain nested calls as well."""
    engine = make_engine(2, queue_timeout=None)
    heard = Audit(engine)
    gate = asyncio.Event()

    async def left(context: ToolExecutionContext) -> Any:
        await gate.wait()
        return (await context.call("middle", {"depth": 1})).output

    async def right(context: ToolExecutionContext) -> Any:
        await gate.wait()
        return (await context.call("middle", {"depth": 0})).output

    async def middle(depth: int, context: ToolExecutionContext) -> Any:
        await asyncio.sleep(0.5)
        called.append(depth)
        if len(called) > 4:
            return "enough"
        return (await context.call("right" if depth else "left")).output

    called: list[int] = []
    engine.register_tool(single("left", timeout=9000), left)
    engine.register_tool(single("right", timeout=9000), right)
    engine.register_tool(bare("middle", parameters=NUMBER, timeout=9000), middle)
    calls = [start(engine, name, timeout=9000) for name in ("left", "right")]
    await turns()
    gate.set()
    assert await kinds_of_end(*calls) == [None, None]
    assert asyncio.get_running_loop().time() < 1100.0
    await heard.check()
    await engine.close()


async def test_siblings_share(audit: Audit) -> None:
    """C22, C23: equal calls that one tool makes at once run once, with one slot for all of them."""
    engine = make_engine(1)
    heard = Audit(engine)
    report = Report()

    async def outer(context: ToolExecutionContext) -> list[Any]:
        calls = [context.call("report") for _ in range(5)]
        return [result.output["run"] for result in await asyncio.gather(*calls)]

    engine.register_tool(single(), report)
    engine.register_tool(bare("outer"), outer)
    found = await results(start(engine, "outer"))
    assert found[0].output == {"result": [1] * 5}
    assert report.runs == 1
    await heard.check()
    await engine.close()


async def test_a_follower_lends_its_makers_slot(audit: Audit) -> None:
    """C23: a tool that follows another call gives its own slot to whoever needs it."""
    engine = make_engine(2)
    heard = Audit(engine)

    async def outer(context: ToolExecutionContext) -> Any:
        return (await context.call("report")).output["run"]

    report = Report()
    engine.register_tool(single(), report)
    engine.register_tool(bare("outer"), outer)
    engine.register_tool(bare("other"), Report(1.0))
    calls = [start(engine, "outer") for _ in range(5)]
    await turns()
    other = start(engine, "other")
    assert await kinds_of_end(other) == [None]
    assert asyncio.get_running_loop().time() == 1001.0
    assert await kinds_of_end(*calls) == [None] * 5
    assert report.runs == 1
    await heard.check()
    await engine.close()


async def test_many_followers(engine: ToolEngine, audit: Audit) -> None:
    """C22: two thousand followers, some nested, none lost."""
    report = Report()
    engine.register_tool(single(), report)
    calls = [start(engine) for _ in range(2000)]
    await turns()
    for call in calls[1::7]:
        call.cancel()
    await asyncio.wait(calls, timeout=BOUND)
    ended = [call.result().error_type for call in calls if not call.cancelled()]
    assert set(ended) == {None}
    assert report.runs == 1
    await audit.check()


async def test_explained_while_it_shares_a_run() -> None:
    """C22, C25: a call that waits for no slot is told of all the same: whose run it shares."""
    async with make_engine(max_concurrent=1, queue_timeout=None) as engine:
        engine.register_tool(ToolConfigLoader().load_text(YAML), Report())
        engine.register_tool(bare("other"), forever)
        holder = start(engine, "other", timeout=50.0)
        await turns()
        leader, follower = (start(engine, params={"customer": "ann"}) for _ in range(2))
        await turns()
        leads = engine.controller.snapshot().waiting[0].call_id
        assert leads is not None
        follows = next(iter(engine._pipeline._flights._followed))
        told = engine.controller.explain(follows)
        assert (told.call_id, told.state, told.holders) == (follows, "sharing", [leads])
        assert (told.bucket, told.position) == ("custom", 1)
        assert str(told) == (
            f"{follows} shares the run of another call: {engine.controller.explain(leads)}"
        )
        assert await kinds_of_end(holder, leader, follower) == ["timeout", None, None]
        assert engine.controller.explain(follows).state == "unknown"
        assert not engine._pipeline._flights._followed
