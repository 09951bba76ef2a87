"""The controller as its callers see it: the door, the limits, the strategies, the metrics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.admission.conftest import MakeCrew
from tests.admission.crew import check, context, controller_of
from tool_engine import ConcurrencyConfig, ConcurrencyMetrics, ToolConcurrencyController
from tool_engine.admission.request import AdmissionRequest
from tool_engine.errors import (
    AdmissionError,
    ConfigurationError,
    QueueFullError,
    SlotRejectedError,
    ToolEngineError,
)


def test_defaults() -> None:
    """K33: ten slots, a hundred waiters, thirty seconds, fifo, no bucket limits."""
    config = ConcurrencyConfig()
    assert (config.max_concurrent, config.queue_size, config.default_timeout) == (10, 100, 30.0)
    assert (config.strategy, config.bucket_limits) == ("fifo", {})
    assert ConcurrencyConfig(1, 2, 3.0, "reject", {"a": 1}).bucket_limits == {"a": 1}
    assert ToolConcurrencyController().config == config


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_concurrent": 0}, "max_concurrent"),
        ({"queue_size": -1}, "queue_size"),
        ({"strategy": "fifi"}, "did you mean 'fifo'"),
        ({"bucket_limits": {"http": -3}}, "http"),
        ({"bucket_limits": {"http": 0}}, "http"),
        ({"queue_timeout": 0}, "queue_timeout"),
        ({"aging_interval": -1.0}, "aging_interval"),
        ({"max_zombies": 0}, "max_zombies"),
    ],
)
def test_limits_are_checked(fields: dict[str, Any], message: str) -> None:
    """U4, C13: a limit that cannot be meant is refused when it is given, by name."""
    with pytest.raises(ConfigurationError, match=message):
        ConcurrencyConfig(**fields)


async def test_slot() -> None:
    """C1: `async with controller.slot(...)` holds a slot for exactly the body."""
    controller = controller_of(bucket_limits={"http": 5})
    async with controller.slot("http") as slot:
        assert slot.bucket == "http"
        assert slot.queue_wait == 0.0
        assert controller.get_bucket_metrics()["http"]["current"] == 1
    assert controller.get_bucket_metrics()["http"]["current"] == 0
    assert controller.get_metrics().current_concurrent == 0


async def test_slot_is_released_on_errors() -> None:
    """C1: whatever the body raises passes, and the slot is back."""
    controller = controller_of(max_concurrent=1)
    for error in (ValueError, asyncio.CancelledError, GeneratorExit):
        with pytest.raises(error):
            async with controller.slot():
                raise error
    assert controller.get_metrics().current_concurrent == 0
    assert controller.try_acquire() is not None


async def test_slot_knows_its_wait(crew_of: MakeCrew) -> None:
    """C29: the slot carries the seconds between asking and having."""
    crew = crew_of(max_concurrent=1)
    await crew.call("a", "b")
    await asyncio.sleep(12.5)
    await crew.end("a")
    assert crew.slots["b"].queue_wait == 12.5
    assert repr(crew.slots["b"]) == "<ConcurrencySlot active bucket='__default__' weight=1>"


def test_try_acquire_never_waits() -> None:
    """C1: without a loop even: a slot, or None; and a None changes nothing."""
    controller = ToolConcurrencyController(
        ConcurrencyConfig(max_concurrent=2, bucket_limits={"http": 1})
    )
    first = controller.try_acquire("http")
    assert first is not None
    before = controller.get_metrics()
    assert controller.try_acquire("http") is None
    assert controller.try_acquire(weight=2) is None
    assert controller.get_metrics() == before
    second = controller.try_acquire()
    assert second is not None
    assert controller.try_acquire() is None
    for slot in (first, second):
        controller.release(slot)
    check(controller)
    assert controller.get_metrics().current_concurrent == 0


async def test_reject_strategy(crew_of: MakeCrew) -> None:
    """K36, U4, C1: over the limit a call is refused at once and typed, and nobody waits."""
    crew = crew_of(max_concurrent=2, strategy="reject", bucket_limits={"http": 1})
    await crew.call("a", "b", bucket="http")
    error = crew.errors["b"]
    assert isinstance(error, SlotRejectedError)
    assert error.error_type == "rejected"
    assert "bucket 'http' (1 of 1 in use, 1 of 2 in all)" in str(error)
    assert "use the strategy 'fifo' to wait" in str(error)
    await crew.call("c", "d")
    assert "bucket '__default__' (1 of 2 in use, 2 of 2 in all)" in str(crew.errors["d"])
    metrics = crew.controller.get_metrics()
    assert (metrics.total_rejected, metrics.total_enqueued) == (2, 0)
    await crew.end("a")
    await crew.call("e", bucket="http")
    assert crew.started == ["a", "c", "e"]


async def test_global_limit_is_never_passed(crew_of: MakeCrew) -> None:
    """C2, K33: of fifty calls exactly max_concurrent run, until one ends."""
    crew = crew_of(max_concurrent=7)
    await crew.call(*(f"c{n}" for n in range(50)))
    assert len(crew.started) == 7
    for done in range(43):
        await crew.end(crew.started[done])
        assert len(crew.started) == 8 + done
    assert crew.controller.get_metrics().max_concurrent_observed == 7


async def test_bucket_limits(crew_of: MakeCrew) -> None:
    """K37: each bucket has its own limit inside the global one."""
    crew = crew_of(max_concurrent=10, bucket_limits={"http": 5, "ai": 2, "database": 3})
    for bucket in ("http", "ai", "database", "other"):
        await crew.call(*(f"{bucket}{n}" for n in range(6)), bucket=bucket)
    current = {k: v["current"] for k, v in crew.controller.get_bucket_metrics().items()}
    assert current == {"http": 5, "ai": 2, "database": 3, "other": 0}
    await crew.end("ai0")
    current = {k: v["current"] for k, v in crew.controller.get_bucket_metrics().items()}
    assert current == {"http": 5, "ai": 2, "database": 3, "other": 0}
    await crew.end("http0")
    assert "http5" in crew.started
    assert not [name for name in crew.started if name.startswith("other")]


async def test_workflow_nodes_bypass(crew_of: MakeCrew) -> None:
    """K38, C12, U3: workflow nodes are not limited, not counted, and take no room in a bucket."""
    crew = crew_of(max_concurrent=1, bucket_limits={"http": 1})
    await crew.call(*(f"w{n}" for n in range(5)), bucket="http", context=context("workflow_node"))
    assert len(crew.started) == 5
    metrics = crew.controller.get_metrics()
    assert (metrics.current_concurrent, metrics.total_acquired, metrics.active) == (0, 0, 0)
    assert metrics.bypass_active == 5
    assert crew.controller.get_bucket_metrics()["http"]["current"] == 0
    await crew.call("agent", bucket="http", context=context())
    assert crew.started[-1] == "agent"
    await crew.call("w5", bucket="http", context=context("workflow_node"))
    assert crew.started[-1] == "w5"
    for number in range(6):
        slot = crew.slots[f"w{number}"]
        await crew.end(f"w{number}")
        crew.controller.release(slot)
    metrics = crew.controller.get_metrics()
    assert (metrics.bypass_active, metrics.total_released) == (0, 0)


@pytest.mark.parametrize("caller_type", ["conversation_agent", "tool_sub_agent", "anything"])
async def test_other_callers_count(crew_of: MakeCrew, caller_type: str) -> None:
    """X11, U2: every type but workflow_node is counted, and given back as it was counted."""
    crew = crew_of(max_concurrent=2, queue_size=0)
    for number in range(4):
        name = f"c{number}"
        await crew.call(name, context=context(caller_type))
        assert crew.controller.get_metrics().current_concurrent == 1
        await crew.end(name)
    assert crew.errors == {}


async def test_bypass_is_configurable(crew_of: MakeCrew) -> None:
    """X11: who bypasses is a set in the configuration, and may be nobody."""
    crew = crew_of(max_concurrent=1, bypass_caller_types=["cron", "health"])
    await crew.call("a", "b", context=context("cron"))
    await crew.call("w", "x", context=context("workflow_node"))
    assert crew.started == ["a", "b", "w"]
    nobody = crew_of(max_concurrent=1, bypass_caller_types=())
    await nobody.call("w", "x", context=context("workflow_node"))
    assert nobody.started == ["w"]


async def test_priority_of_the_context(crew_of: MakeCrew) -> None:
    """K35, U6: an argument, else the context's priority, else 5."""
    crew = crew_of(max_concurrent=1, strategy="priority")
    await crew.call("holder")
    await crew.call("default")
    await crew.call("context 4", context=context(priority=4))
    await crew.call("argument 3", context=context(priority=9), priority=3)
    await crew.call("context 6", context=context(priority=6))
    for name in ("holder", "argument 3", "context 4", "default", "context 6"):
        assert crew.started[-1] == name
        await crew.end(name)


async def test_metrics(crew_of: MakeCrew) -> None:
    """K39, U8: the six fields of the document first, and what else is counted."""
    crew = crew_of(max_concurrent=2, queue_size=2, queue_timeout=100.0)
    assert crew.controller.get_metrics() == ConcurrencyMetrics(0, 0, 0, 0, 0, 0.0)
    await crew.call("a", "b", "c", "d", "refused")
    await asyncio.sleep(2.0)
    await crew.end("a")
    await asyncio.sleep(4.0)
    await crew.end("b")
    metrics = crew.controller.get_metrics()
    assert list(metrics.to_dict())[:6] == [
        "current_concurrent",
        "queue_length",
        "total_acquired",
        "total_rejected",
        "total_timeout",
        "avg_execution_time",
    ]
    assert metrics == ConcurrencyMetrics(
        current_concurrent=2,
        queue_length=0,
        total_acquired=4,
        total_rejected=1,
        total_timeout=0,
        avg_execution_time=4.0,
        active=2,
        total_released=2,
        total_enqueued=2,
        total_dequeued=2,
        total_granted=2,
        total_execution_time=8.0,
        max_concurrent_observed=2,
        max_queue_length_observed=2,
    )


async def test_timeouts_are_counted(crew_of: MakeCrew) -> None:
    """K39: total_timeout counts calls whose time ran out, waiting or running."""
    crew = crew_of(max_concurrent=1, queue_timeout=1.0)
    await crew.call("a", "b")
    await asyncio.sleep(1.5)
    crew.controller.count_timeout()
    metrics = crew.controller.get_metrics()
    assert (metrics.total_timeout, metrics.total_queue_timeout) == (2, 1)


async def test_metrics_are_a_snapshot() -> None:
    """K39: a metrics object does not change after it was taken, and cannot be changed."""
    controller = controller_of()
    before = controller.get_metrics()
    async with controller.slot():
        assert before.current_concurrent == 0
    with pytest.raises(AttributeError):
        before.active = 3  # type: ignore[misc]


async def test_bucket_metrics(crew_of: MakeCrew) -> None:
    """K40, X7: current, limit, queue and utilization; every bucket with a limit is listed."""
    crew = crew_of(bucket_limits={"http": 4, "ai": 2})
    await crew.call("a", "b", "c", bucket="http")
    await crew.call("d", bucket="ai", weight=2)
    await crew.call("e", bucket="ai")
    assert crew.controller.get_bucket_metrics() == {
        "http": {"current": 3, "limit": 4, "queue": 0, "utilization": 0.75},
        "ai": {"current": 2, "limit": 2, "queue": 1, "utilization": 1.0},
    }


async def test_default_bucket(crew_of: MakeCrew) -> None:
    """U6: a call that names no bucket is in `__default__`, which has no limit of its own."""
    crew = crew_of(max_concurrent=3, bucket_limits={"http": 1})
    await crew.call("a", "b", "c")
    assert len(crew.started) == 3
    assert crew.controller.get_bucket_metrics()["__default__"]["limit"] is None


async def test_release_is_idempotent(crew_of: MakeCrew) -> None:
    """C9: a slot that is given back twice gives back once."""
    crew = crew_of(max_concurrent=2)
    await crew.call("a", "b", "c", "d")
    slot = crew.slots["a"]
    await crew.end("a")
    after = crew.controller.get_metrics()
    for _ in range(3):
        crew.controller.release(slot)
    assert crew.controller.get_metrics() == after
    assert crew.started == ["a", "b", "c"]


async def test_release_undoes_what_was_counted(crew_of: MakeCrew) -> None:
    """C9, U2: bucket and weight come from the slot, so that they are what was counted."""
    crew = crew_of(max_concurrent=10, bucket_limits={"ai": 6})
    await crew.call("heavy", bucket="ai", weight=5)
    await crew.call("light", bucket="ai")
    await crew.end("heavy")
    assert crew.controller.get_metrics().current_concurrent == 1
    assert crew.controller.get_bucket_metrics()["ai"]["current"] == 1


@pytest.mark.parametrize("bucket", [None, "http"])
async def test_negative_counters_raise(bucket: str | None) -> None:
    """C9 (kestra PR17759): a counter is never clamped at 0, because that would hide a leak."""
    for others in (0, 1):
        for method in ("release", "park"):
            controller = controller_of(bucket_limits={"http": 2})
            slot = await controller.acquire(bucket)
            controller.release(slot)
            for _ in range(others):
                await controller.acquire("other")
            slot.state = "active"
            with pytest.raises(ToolEngineError, match="given back twice: the accounting is broken"):
                getattr(controller, method)(slot)
            assert controller.get_metrics().current_concurrent == others - 1


async def test_woken_without_a_slot() -> None:
    """C9: a waiter that was woken and given nothing says so, and does not run."""
    controller = controller_of(max_concurrent=1)
    held = await controller.acquire()
    task = asyncio.create_task(controller.acquire())
    await asyncio.sleep(0)
    _, waiter = next(iter(next(iter(controller._layout.lanes.values())).waiters))
    waiter.future.set_result(None)
    with pytest.raises(ToolEngineError, match="woken without a slot"):
        await task
    controller.release(held)


async def test_caller_that_knows_the_time() -> None:
    """C28: the time may be given, so that one look at the clock serves a whole call."""
    controller = controller_of()
    slot = controller.admit_nowait(AdmissionRequest(), 100.0)
    assert slot is not None
    controller.release(slot, 107.5)
    assert controller.get_metrics().avg_execution_time == 7.5


@pytest.mark.parametrize("priority", [float("nan"), 1.5, "2", True, 2**53])
async def test_priority_is_checked(priority: Any) -> None:
    """C8: a priority without an order is refused: beside NaN others were given slots out of theirs.

    Looked at: every value that a controller is given for a call.
    """
    controller = ToolConcurrencyController(ConcurrencyConfig(1, strategy="priority"))
    with pytest.raises(ConfigurationError, match="priority must be a whole number from"):
        await controller.acquire(priority=priority)
    assert controller.get_metrics().current_concurrent == 0


@pytest.mark.parametrize("weight", [0, -1, 1.0, True, "1"])
async def test_weight_is_checked(weight: Any) -> None:
    """C16: a weight is a whole number of at least 1."""
    with pytest.raises(ConfigurationError, match="weight must be a whole number >= 1, got"):
        await controller_of().acquire(weight=weight)


async def test_timeout_is_checked() -> None:
    """C7: a wait is a positive, finite number of seconds."""
    for timeout in (0, -1.0, float("inf"), float("nan"), True):
        with pytest.raises(ConfigurationError, match="timeout must be a positive"):
            await controller_of().acquire(timeout=timeout)


async def test_refusals_are_one_family(crew_of: MakeCrew) -> None:
    """C7: whoever handles AdmissionError handles every refusal."""
    crew = crew_of(max_concurrent=1, queue_size=0)
    await crew.call("a", "b")
    with pytest.raises(AdmissionError) as caught:
        async with crew.controller.slot(weight=2):
            raise AssertionError("the body must not run")
    assert type(caught.value) is SlotRejectedError
    assert type(crew.errors["b"]) is QueueFullError


async def test_repr(crew_of: MakeCrew) -> None:
    """C25: the repr shows the live state."""
    crew = crew_of(max_concurrent=3)
    await crew.call("a", "b", "c", "d")
    crew.controller.mark_overdue(crew.slots["a"])
    shown = "<ToolConcurrencyController 3/3 in use, 1 wait, 1 zombies, "
    assert repr(crew.controller) == f"{shown}open>"
    crew.controller.close()
    assert repr(crew.controller).endswith("closed>")
