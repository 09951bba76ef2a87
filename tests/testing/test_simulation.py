"""A replay gives what the real controller would have done, the same each time."""

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tool_engine import BreakerPolicy, ConcurrencyConfig, ConfigurationError, KeyLimits
from tool_engine.testing import SimulationReport, TraceCall, simulate
from tool_engine.testing.trace import Trace


def call(number: int, asked: float, service: float | None = 1.0, **changes: Any) -> TraceCall:
    fields: dict[str, Any] = {
        "call_id": f"c{number}",
        "tool_name": "t",
        "bucket": "http",
        "enqueued_at": asked,
        "started_at": None if service is None else asked,
        "ended_at": asked + (service or 0.0),
        "error_type": "queue_full" if service is None else None,
    }
    return TraceCall(**{**fields, **changes})


def random_calls(count: int) -> list[TraceCall]:
    rng = random.Random(5)  # noqa: S311 - the same calls each time
    asked = 0.0
    calls = []
    for number in range(count):
        asked += rng.expovariate(6.0)
        bucket = rng.choice(["http", "ai", "db"])
        priority = rng.randint(1, 9)
        calls.append(call(number, asked, rng.random(), bucket=bucket, priority=priority))
    return calls


def waits(report: SimulationReport) -> list[float]:
    return [each.wait for each in report.simulated_calls]


def test_calls_wait_as_they_would_have() -> None:
    """Arrivals and service times are the recorded ones; waits are those of the new limit."""
    begin = 1_767_225_600.0
    report = simulate(
        [call(0, begin), call(1, begin + 0.25), call(2, begin + 0.5), call(3, begin + 7.0)],
        ConcurrencyConfig(max_concurrent=1),
    )
    assert waits(report) == [0.0, 0.75, 1.5, 0.0]
    assert [each.started_at for each in report.simulated_calls] == [0.0, 1.0, 2.0, 7.0]
    assert (report.simulated.total.makespan, report.simulated.total.utilisation) == (8.0, 0.5)
    assert (report.simulated.total.peak, report.original.total.peak) == (1, 3)
    assert report.original.total.wait_max == 0.0
    assert [each.enqueued_at for each in report.original_calls] == [0.0, 0.25, 0.5, 7.0]
    assert report.notes == ()


def test_buckets_weights_and_priorities_count() -> None:
    """The recorded bucket, weight and priority are what the controller is asked with."""
    full_bucket = simulate(
        [call(0, 0.0), call(1, 0.0), call(2, 0.0, bucket="ai")],
        ConcurrencyConfig(bucket_limits={"http": 1}),
    )
    assert waits(full_bucket) == [0.0, 1.0, 0.0]
    slots = {name: each.slots for name, each in full_bucket.simulated.buckets.items()}
    assert slots == {"http": 1, "ai": 10}
    heavy = simulate([call(0, 0.0, weight=2), call(1, 0.0)], ConcurrencyConfig(max_concurrent=2))
    assert waits(heavy) == [0.0, 1.0]
    urgent = [call(0, 0.0), call(1, 0.0, priority=9), call(2, 0.0, priority=1)]
    one = ConcurrencyConfig(max_concurrent=1, strategy="priority")
    assert waits(simulate(urgent, one)) == [0.0, 2.0, 1.0]
    assert waits(simulate(urgent, ConcurrencyConfig(max_concurrent=1))) == [0.0, 1.0, 2.0]


def test_keys_count() -> None:
    """A key limit holds per key, and `fair` lets keys take turns."""
    many = [call(number, 0.0, key="many") for number in range(4)]
    config = ConcurrencyConfig(key_limits=KeyLimits(limit=1))
    assert waits(simulate([*many, call(4, 0.0, key="one")], config)) == [0.0, 1.0, 2.0, 3.0, 0.0]
    fair = ConcurrencyConfig(max_concurrent=1, strategy="fair")
    assert waits(simulate([*many, call(4, 0.0, key="one")], fair))[4] <= 2.0


def test_refusals_are_told_by_kind() -> None:
    """queue_full, queue_timeout and rejected calls are counted, at the time of their refusal."""
    calls = [call(number, 0.0, 5.0) for number in range(4)]
    report = simulate(calls, ConcurrencyConfig(max_concurrent=1, queue_size=1, queue_timeout=2.0))
    assert report.simulated.total.rejected == {"queue_full": 2, "queue_timeout": 1}
    timed_out = report.simulated_calls[1]
    assert (timed_out.error_type, timed_out.started_at, timed_out.wait) == (
        *("queue_timeout", None),
        2.0,
    )
    report = simulate(calls, ConcurrencyConfig(max_concurrent=3, strategy="reject"))
    assert report.simulated.total.rejected == {"rejected": 1}
    assert report.simulated.buckets["http"].ran == 3


def test_callers_without_limits_stay_without() -> None:
    """A recorded workflow node takes no slot in the replay either."""
    calls = [call(0, 0.0), call(1, 0.0, caller_type="workflow_node"), call(2, 0.0)]
    report = simulate(calls, ConcurrencyConfig(max_concurrent=1))
    assert waits(report) == [0.0, 0.0, 1.0]
    assert report.simulated.total.utilisation == 1.0


def test_failures_open_the_breaker_of_a_bucket() -> None:
    """What ended as an execution error counts as a failure; a failure stays one in the report."""
    failed = [call(number, float(2 * number), error_type="execution_error") for number in range(3)]
    breaker = BreakerPolicy(failures=2, reset_after=60.0)
    limits = ConcurrencyConfig(breakers={"http": breaker})
    report = simulate([*failed, call(3, 70.0)], limits)
    assert report.simulated.total.rejected == {"circuit_open": 1}
    assert report.simulated_calls[0].error_type == "execution_error"
    assert report.simulated_calls[3].error_type is None


def test_calls_that_never_ran_take_as_long_as_others_of_their_bucket() -> None:
    """The median of the bucket, else of all; and the report says so."""
    calls = [
        *(call(number, 0.0, service) for number, service in enumerate((1.0, 2.0, 9.0))),
        call(3, 20.0, None),
        call(4, 20.0, None, bucket="ai"),
        *(call(number, 40.0, 30.0, bucket="db") for number in range(5, 9)),
    ]
    report = simulate(calls, ConcurrencyConfig())
    assert [each.service for each in report.simulated_calls[3:5]] == [2.0, 30.0]
    assert report.simulated_calls[3].error_type is None
    assert report.original.total.rejected == {"queue_full": 2}
    assert "never ran: 2" in report.notes[0]
    assert "http 2 s, ai 30 s" in report.notes[0]
    with pytest.raises(ConfigurationError, match="no call of the trace ever ran"):
        simulate([call(0, 0.0, None)])


def test_the_same_seed_gives_the_same_report() -> None:
    """Same trace, limits and seed: same report, to the last digit. Seed 0 keeps the order."""
    calls = random_calls(300)
    config = ConcurrencyConfig(max_concurrent=3, bucket_limits={"ai": 1}, strategy="priority")
    assert simulate(calls, config, seed=3) == simulate(calls, config, seed=3)
    assert simulate(calls, config) == simulate(list(reversed(calls)), config)
    at_once = [call(number, 0.0) for number in range(6)]
    one = ConcurrencyConfig(max_concurrent=1)
    assert waits(simulate(at_once, one)) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    orders = {tuple(waits(simulate(at_once, one, seed=seed))) for seed in range(1, 9)}
    assert len(orders) > 4
    assert all(sorted(order) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] for order in orders)


def test_more_slots_never_make_it_longer() -> None:
    """Every call runs once, at most `max_concurrent` at a time, whatever the limits."""
    calls = random_calls(200)
    makespans = []
    for slots in (1, 2, 4, 8):
        config = ConcurrencyConfig(max_concurrent=slots, queue_size=1000, queue_timeout=None)
        report = simulate(calls, config)
        total = report.simulated.total
        assert (total.ran, total.peak <= slots) == (200, True)
        assert [each.call_id for each in report.simulated_calls] == [each.call_id for each in calls]
        assert total.slot_seconds == pytest.approx(report.original.total.slot_seconds, abs=1e-3)
        makespans.append(total.makespan)
    assert makespans == sorted(makespans, reverse=True)


def notes(calls: Sequence[TraceCall], config: ConcurrencyConfig | None = None) -> str:
    return "\n".join(simulate(calls, config).notes)


def test_the_notes_say_what_the_figures_hide() -> None:
    """Unknown waits, nested calls, limits that nothing counts against, keys that nobody has."""
    gave_up = call(1, 0.0, None, error_type="queue_timeout")
    assert "they ask when they gave up" in notes([call(0, 0.0), gave_up])
    assert "made by other calls: 1" in notes([call(0, 0.0), call(1, 0.0, parent_call_id="c0")])
    typo = ConcurrencyConfig(bucket_limits={"htpt": 2, "ai": 1})
    assert "the bucket 'htpt'; did you mean 'http'?" in notes([call(0, 0.0)], typo)
    assert "the bucket 'ai'; it has http" in notes([call(0, 0.0)], typo)
    assert "'ai'; it has none" in notes([call(0, 0.0, bucket=None)], typo)
    fair = ConcurrencyConfig(strategy="fair")
    assert "has a key" in notes([call(0, 0.0)], fair)
    assert notes([call(0, 0.0, key="k")], fair) == ""
    left_out = simulate(Trace((call(0, 0.0),), 3)).notes
    assert left_out == ("recorded calls that never asked for a slot and are left out: 3",)


def test_the_report_is_json_values() -> None:
    """`to_dict` has limits, figures and notes, and nothing that JSON cannot hold."""
    report = simulate([call(0, 0.0)], ConcurrencyConfig(key_limits=KeyLimits(limit=2)))
    values = report.to_dict()
    assert values["config"]["key_limits"]["limit"] == 2
    assert values["config"]["bypass_caller_types"] == ["workflow_node"]
    assert values["simulated"]["total"]["calls"] == 1
    assert (values["seed"], len(values["notes"])) == (0, 1)


def test_an_empty_trace_is_refused() -> None:
    """There is nothing to simulate."""
    with pytest.raises(ConfigurationError, match="holds no calls"):
        simulate([])


async def test_in_a_coroutine_it_runs_in_a_thread() -> None:
    """It would block the loop, so it says how to run it there."""
    with pytest.raises(RuntimeError, match="to_thread"):
        simulate([call(0, 0.0)])
    report = await asyncio.to_thread(simulate, [call(0, datetime.now(UTC).timestamp())])
    assert waits(report) == [0.0]
