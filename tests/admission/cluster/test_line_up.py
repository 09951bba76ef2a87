"""In which order are those served that wait for several things?"""

from __future__ import annotations

import pytest

from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.admission.cluster.line_up import Entry, LineUp


@pytest.mark.parametrize("strategy", ["fifo", "priority", "fair"])
def test_the_last_probe_of_a_breaker_is_taken(strategy: str) -> None:
    """One that waited for more units waits for the breaker now, and lets those behind it pass."""
    line_up = LineUp(ClusterLimits(1, strategy=strategy))
    waiting: list[tuple[dict[str, int], str | None]] = [
        ({"bucket:ai": 2}, "web"),
        ({"bucket:ai": 1}, None),
        ({"bucket:web": 1}, "web"),
        ({"bucket:mail": 1}, None),
    ]
    for number, (units, breaker) in enumerate(waiting):
        line_up.join(Entry("a", "a", number, units, number, float(number), breaker=breaker))
    taken: list[int] = []

    def may_go(entry: Entry) -> bool:
        return entry.breaker is None or 2 not in taken

    def take(entry: Entry) -> None:
        taken.append(entry.number)

    line_up.serve(lambda entry, resource: entry.units[resource] == 1, may_go, take)
    assert taken == [2, 1, 3]
    assert [each.number for each in line_up.entries()] == [0]
