"""Which limits would have served recorded calls better, and how sure is that?"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.testing.test_services import NO_BOUND, between, make_calls, record_under
from tool_engine import ConcurrencyConfig, ConfigurationError
from tool_engine.testing import LimitProposal, Service, TraceCall, propose_limits


def limit(most: int, **others: Any) -> ConcurrencyConfig:
    fields: dict[str, Any] = {"max_concurrent": 100, "bucket_limits": {"http": most}, **NO_BOUND}
    return ConcurrencyConfig(**{**fields, **others})


def propose(calls: list[TraceCall], config: ConcurrencyConfig | None = None) -> LimitProposal:
    (found,) = propose_limits(calls, config).proposals
    return found


def busy_calls(service: Service, most: int, gap: float = 0.1) -> list[TraceCall]:
    """Calls of half a second, recorded under a limit: five at once would do."""
    return record_under(make_calls(400, gap, between(0.4, 0.6)), service, most)


def test_more_slots_where_calls_wait_for_them() -> None:
    """M3: by how much waits fall, in one line; and as far as the records reach, it is likely."""
    found = propose(busy_calls(Service(), 4), limit(4))
    assert 5 <= found.limit <= 8
    assert found.now.wait_p95 > 5 > 1 > found.then.wait_p95
    waits = f"p95 wait {found.now.wait_p95:.1f} -> {found.then.wait_p95:.1f} s"
    assert str(found) == f"http 4 -> {found.limit}: {waits}, provider refusals +0"
    assert "the records show" in " ".join(found.unknown)
    assert "calls wait" in found.reason
    limits = [point.limit for point in found.curve]
    assert limits == sorted({*limits, 1, 4, found.limit})
    served = [point.throughput for point in found.curve]
    assert served == sorted(served)


def test_one_step_at_a_time() -> None:
    """No limit beyond twice that of now: nothing is known of what the service does there."""
    found = propose(busy_calls(Service(), 2), limit(2))
    assert found.limit == 4
    assert found.certainty == "low"
    assert "further than this the records say nothing" in found.reason


def test_enough_slots_stay() -> None:
    """Where nobody waits, nothing is changed: fewer slots serve nobody sooner."""
    found = propose(busy_calls(Service(), 40, gap=0.3), limit(40))
    assert found.limit == 40
    assert str(found).startswith("http 40 stays: p95 wait 0.0 -> 0.0 s")
    assert (found.then, found.certainty) == (found.now, "high")


def test_no_more_than_the_service_takes() -> None:
    """M3: refusals that a smaller limit avoids, together with the pauses that they bring."""
    service = Service(places=5, refusal_time=0.01, pause=2.0)
    found = propose(busy_calls(service, 9), limit(9))
    assert found.limit == 5
    assert found.now.refused_by_service > 0 == found.then.refused_by_service
    assert f"provider refusals -{found.now.refused_by_service}" in str(found)
    assert found.reason.startswith("the service takes 5 at once")
    assert found.certainty == "high"


def test_a_queue_is_not_moved_to_the_service() -> None:
    """Calls that wait less and run longer are served no sooner, so that the limit stays."""
    found = propose(busy_calls(Service(speed_limit=3), 6), limit(6))
    assert found.limit == 6
    wider = {point.limit: point for point in found.curve}[12]
    assert wider.wait_p95 < found.now.wait_p95
    assert wider.time_p95 == pytest.approx(found.now.time_p95, rel=0.1)


def test_limits_that_are_not_known() -> None:
    """They are taken for the most calls at once, and it is said."""
    found = propose_limits(busy_calls(Service(), 4))
    assert found.proposals[0].now.limit == 4
    assert any("taken for 4" in each for each in found.proposals[0].unknown)
    assert any("limit of all buckets" in each for each in found.notes)


def test_what_else_held_calls_up() -> None:
    """Records that the limits do not explain are no ground for a proposal that is sure."""
    calls = busy_calls(Service(), 2)
    found = propose(calls, limit(8))
    assert any("what else held calls up" in each for each in found.unknown)
    assert found.certainty != "high"


def test_adaptive_limits() -> None:
    """The present one is simulated as it is, and compared with limits that stay."""
    adaptive = {"http": {"kind": "aimd", "min": 2, "max": 6}}
    found = propose(busy_calls(Service(), 4), limit(4, adaptive=adaptive))
    assert found.now.limit == 6
    assert any("adaptive limit (2 to 6)" in each for each in found.unknown)
    assert found.then.wait_p95 <= found.now.wait_p95


def test_each_bucket() -> None:
    """One is proposed for at a time, and the others are as they are now."""
    calls = busy_calls(Service(), 3)
    others = [msgspec.structs.replace(each, bucket="ai") for each in calls[:60]]
    few = [msgspec.structs.replace(each, bucket="db") for each in calls[:49]]
    found = propose_limits([*calls, *others, *few])
    assert [each.bucket for each in found.proposals] == ["ai", "http"]
    assert any("too few calls of db ran for a proposal: 49" in each for each in found.notes)
    assert [each.bucket for each in propose_limits(calls + others, buckets=["ai"]).proposals] == [
        "ai"
    ]
    assert found.to_dict()["proposals"][0]["bucket"] == "ai"


def test_too_few_calls() -> None:
    """Fewer than fifty say nothing, and a bucket that is not there is misspelt."""
    calls = busy_calls(Service(), 4)
    with pytest.raises(ConfigurationError, match=r"too few calls ran .* \(http 49\)"):
        propose_limits(calls[:49])
    with pytest.raises(ConfigurationError, match="49 recorded calls of the bucket 'http' ran"):
        propose_limits(calls[:49], buckets=["http"])
    with pytest.raises(ConfigurationError, match="did you mean 'http'"):
        propose_limits(calls, buckets=["htp"])
    with pytest.raises(ConfigurationError, match="none of a bucket"):
        propose_limits([])


def test_the_same_calls_give_the_same_proposal() -> None:
    """In any order, with the same seed."""
    calls = busy_calls(Service(), 4)
    assert propose_limits(calls) == propose_limits(calls[::-1])
