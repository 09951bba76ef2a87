"""Those who wait in a lane are served in order, whatever the order in which they come and leave."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import share_of
from tool_engine.admission.waiting import Arrivals

COMING = [("come", order) for order in (9, 0, 4, 1, 5, 6, 2, 3)]


class Waiting:
    def __init__(self, order: tuple[float, int, int]) -> None:
        self.order = order
        self.is_waiting = True


@settings(max_examples=share_of(300), deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("come"), st.integers(0, 9)),
            st.tuples(st.just("come"), st.integers(0, 9)),
            st.tuples(st.just("leave"), st.integers(0, 50)),
            st.tuples(st.sampled_from(("serve", "compact")), st.just(0)),
        ),
        max_size=60,
    )
)
@example(COMING + [("leave", 1), ("compact", 0)] + [("serve", 0)] * 8)
def test_the_first_is_always_the_smallest_that_waits(steps: list[tuple[str, int]]) -> None:
    """D5: the oracle is a list that is sorted each time."""
    arrivals, waiting = Arrivals(), list[Any]()
    for number, (step, value) in enumerate(steps):
        if step == "come":
            waiter: Any = Waiting((float(value), number, 0))
            waiting.append(waiter)
            arrivals.add(waiter)
        elif step == "leave" and waiting:
            waiting.pop(value % len(waiting)).is_waiting = False
        elif step == "compact":
            arrivals.compact()
            assert len(arrivals) == len(waiting)
        waiting.sort(key=lambda each: each.order)
        first = arrivals.first()
        assert (None if first is None else first[1]) is (waiting[0] if waiting else None)
        if step == "serve" and waiting:
            arrivals.drop(waiting[0])
            waiting.pop(0).is_waiting = False
        assert {each for _, each in arrivals if each.is_waiting} == set(waiting)
