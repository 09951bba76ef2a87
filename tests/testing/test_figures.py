"""The figures add up, and mean what their names say."""

from tool_engine.testing import Figures, RunFigures, TraceCall
from tool_engine.testing.figures import make_curve, most_at_once


def call(
    asked: float, started: float | None, ended: float, *, weight: int = 1, bucket: str | None = "a"
) -> TraceCall:
    return TraceCall(
        call_id="c",
        tool_name="t",
        enqueued_at=asked,
        started_at=started,
        ended_at=ended,
        weight=weight,
        bucket=bucket,
        error_type=None if started is not None else "queue_full",
    )


def test_nothing_at_all() -> None:
    """No calls: zeros, no division by zero."""
    figures = Figures.of([])
    assert (figures.calls, figures.utilisation, figures.wait_p99, figures.makespan) == (0, 0, 0, 0)


def test_waits_are_those_of_calls_that_ran() -> None:
    """Percentiles are real waits (nearest rank); refused calls are counted by their error type."""
    calls = [call(0.0, wait, 10.0) for wait in (0.0, 1.0, 2.0, 3.0)] + [call(0.0, None, 9.0)]
    figures = Figures.of(calls, 8)
    assert (figures.calls, figures.ran, figures.rejected) == (5, 4, {"queue_full": 1})
    assert (figures.wait_mean, figures.wait_p50) == (1.5, 1.0)
    assert (figures.wait_p90, figures.wait_p99, figures.wait_max) == (3.0, 3.0, 3.0)
    assert figures.longest_queue == 4


def test_use_counts_weight_and_leaves_out_who_needs_no_slot() -> None:
    """Slot-seconds over slots times makespan; a bypassing caller takes no slot."""
    calls = [call(0.0, 0.0, 5.0, weight=2), call(0.0, 5.0, 10.0)]
    figures = Figures.of(calls, 3)
    assert (figures.slot_seconds, figures.makespan, figures.utilisation) == (15.0, 10.0, 0.5)
    assert (figures.slots, figures.peak) == (3, 2)
    other = TraceCall(
        call_id="w",
        tool_name="t",
        enqueued_at=0.0,
        started_at=0.0,
        ended_at=10.0,
        caller_type="workflow_node",
    )
    with_bypass = Figures.of([*calls, other], 3, frozenset({"workflow_node"}))
    assert (with_bypass.utilisation, with_bypass.peak, with_bypass.calls) == (0.5, 2, 3)


def test_recorded_calls_are_known_to_the_millisecond() -> None:
    """What overlaps by less than that in records did not overlap; a simulation is exact."""
    calls = [call(0.0, 0.0, 1.0), call(0.0, 0.9995, 2.0)]
    assert (Figures.of(calls).peak, Figures.of(calls).slots) == (1, 1)
    assert Figures.of(calls, 5).peak == 2
    assert Figures.of([call(0.0, 0.0, 0.0001), call(0.0, 0.0, 0.0001)]).peak == 2


def test_a_slot_that_is_handed_over_is_one_slot() -> None:
    """What ends at an instant makes room for what begins at it."""
    assert most_at_once([(0.0, 1.0, 1), (1.0, 2.0, 1)]) == 1
    assert most_at_once([]) == 0
    assert make_curve([(0.0, 2.0, 1), (1.0, 3.0, 2)]) == [(0.0, 1), (1.0, 3), (2.0, 2), (3.0, 0)]


def test_figures_by_bucket() -> None:
    """Each bucket has its own; a call without one is under `__default__`."""
    calls = [call(0.0, 0.0, 1.0), call(0.0, 1.0, 3.0, bucket="b"), call(0.0, 0.0, 4.0, bucket=None)]
    figures = RunFigures.of(calls, lambda bucket: {None: 9, "a": 1}.get(bucket, 2))
    assert list(figures.buckets) == ["__default__", "a", "b"]
    assert figures.total.slots == 9
    assert (figures.buckets["a"].slots, figures.buckets["a"].utilisation) == (1, 1.0)
    assert figures.buckets["b"].wait_mean == 1.0
    assert RunFigures.of(calls).total.slots == 2
    assert figures.to_dict()["buckets"]["a"]["calls"] == 1
