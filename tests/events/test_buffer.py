"""What waits for one subscriber, and what goes when there is no room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_engine.errors import ConfigurationError
from tool_engine.events.buffer import POLICIES, Buffer, check_buffer


def drained(buffer: Buffer[int]) -> list[int]:
    return [buffer.take() for _ in range(len(buffer))]


@pytest.mark.parametrize(
    ("policy", "kept"), [("drop_oldest", [2, 3]), ("drop_newest", [0, 1]), ("block_none", [0, 1])]
)
def test_which_goes(policy: str, kept: list[int]) -> None:
    """The policy says whether the oldest or the newest goes."""
    buffer: Buffer[int] = Buffer(2, policy)
    gone = [buffer.put(number) for number in range(4)]
    assert drained(buffer) == kept
    assert sorted([*kept, *(each for each in gone if each is not None)]) == [0, 1, 2, 3]


def test_block_none_takes_no_more_after_the_first_that_had_no_room() -> None:
    """What follows something that was left out is left out too: no gap goes unnoticed."""
    buffer: Buffer[int] = Buffer(1, "block_none")
    buffer.put(0)
    buffer.put(1)
    assert buffer.is_cut
    buffer.take()
    assert buffer.put(2) == 2
    assert len(buffer) == 0


@given(st.sampled_from(POLICIES), st.integers(1, 5), st.lists(st.booleans(), max_size=60))
def test_nothing_is_lost_unnoticed_and_order_is_kept(
    policy: str, limit: int, steps: list[bool]
) -> None:
    """Each item is taken, refused or let go exactly once; those taken keep their order."""
    buffer: Buffer[int] = Buffer(limit, policy)
    taken, gone = [], []
    for number, is_put in enumerate(steps):
        if is_put:
            item = buffer.put(number)
            if item is not None:
                gone.append(item)
        elif len(buffer):
            taken.append(buffer.take())
        assert len(buffer) <= limit
    taken += drained(buffer)
    assert taken == sorted(taken)
    assert sorted(taken + gone) == [number for number, is_put in enumerate(steps) if is_put]


def test_a_policy_that_is_none() -> None:
    """A slip of the pen is told with the nearest name."""
    with pytest.raises(ConfigurationError, match=r"policy must be one of .* 'drop_oldest'"):
        check_buffer(1, "drop_olest")
    with pytest.raises(ConfigurationError, match="policy"):
        check_buffer(1, None)
