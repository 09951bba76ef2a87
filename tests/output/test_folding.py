"""Is a value that holds the same parts again and again told from one that is only large?"""

from __future__ import annotations

from sys import getsizeof
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tool_engine.output.plain import is_folded, may_unfold

MOST = 20_000
LEAVES: tuple[Any, ...] = (1, "text", "x" * 12_000, "y" * 15_000)


@st.composite
def shared_values(draw: st.DrawFn) -> list[Any]:
    """A list whose parts hold earlier parts, some of them many times, beside small ones."""
    made: list[Any] = [[leaf] for leaf in LEAVES]
    for _ in range(draw(st.integers(1, 7))):
        held = draw(st.lists(st.sampled_from(range(len(made))), max_size=6))
        own = draw(st.lists(st.sampled_from(LEAVES), max_size=2))
        part: Any = [
            *(made[at] for at in held),
            *own,
            *([at] for at in range(draw(st.integers(0, 9)))),
        ]
        if draw(st.booleans()):
            part = {f"key_{at}": each for at, each in enumerate(part)}
        made.append(part * draw(st.sampled_from([1, 1, 30])) if isinstance(part, list) else part)
    return [made[-1]]


def count_written(value: Any) -> int:
    """Oracle: what is written of a value, by writing all of it."""
    if not isinstance(value, list | dict):
        return getsizeof(value)
    items = value.values() if isinstance(value, dict) else value
    return sum(count_written(each) + 8 * isinstance(each, list | dict) for each in items)


def count_kept(value: Any, known: set[int]) -> int:
    """Oracle: the same, with each part and each long text once."""
    if not isinstance(value, list | dict):
        is_long = getsizeof(value) > 10_000
        if is_long and id(value) in known:
            return 0
        known.add(id(value))
        return getsizeof(value)
    if id(value) in known:
        return 0
    known.add(id(value))
    items = value.values() if isinstance(value, dict) else value
    return sum(count_kept(each, known) + 8 * isinstance(each, list | dict) for each in items)


@given(shared_values())
def test_what_is_written_again_is_counted(value: list[Any]) -> None:
    """Wherever it hides: what is refused is ten times as large as what the value keeps."""
    size = count_written(value)
    assert is_folded(value, MOST) == (size > MOST and size > 10 * count_kept(value, set()))


@given(st.integers(0, 999), st.integers(19, 40))
def test_no_place_hides_what_unfolds(place: int, levels: int) -> None:
    """One part among a thousand small ones is enough not to be written on the event loop."""
    part: Any = [1]
    for _ in range(levels):
        part = [part, part]
    value: list[Any] = [[number] for number in range(1_000)]
    assert not may_unfold(value)
    value[place] = part
    assert may_unfold(value)


def test_what_holds_itself_has_an_end() -> None:
    """A value that holds itself is counted up to a bound, and holds up nothing."""
    once: list[Any] = [1]
    once.append(once)
    assert may_unfold(once)
    assert not is_folded(once, 10**8)
    twice: list[Any] = []
    twice += [twice, twice]
    assert is_folded(twice, 10**8)
