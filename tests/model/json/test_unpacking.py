"""Does the collector do what it should before, while and after many values are made?"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tool_engine.model.json.unpacking import making_old_values


class Knot:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.unfreeze()  # what the suite has frozen
    gc.enable()
    yield
    gc.unfreeze()
    if not was_on:
        gc.disable()


def is_old(value: object) -> bool:
    return any(each is value for each in gc.get_objects(generation=2))


def test_what_is_made_is_old() -> None:
    """The next small collection visits none of it; the collector goes on as before."""
    with making_old_values():
        assert not gc.isenabled()
        made: list[list[int]] = [[] for _ in range(100)]
    assert gc.isenabled()
    assert is_old(made)
    assert gc.get_freeze_count() == 0


def test_garbage_does_not_grow_old() -> None:
    """What became garbage before is collected first: old garbage may stay for very long."""
    knot = weakref.ref(Knot())
    with making_old_values():
        assert knot() is None


def test_a_program_without_the_collector_stays_without() -> None:
    """A program that has turned it off, or has frozen its values, is left as it is."""
    frozen: list[list[int]] = [[]]
    gc.freeze()
    before = gc.get_freeze_count()
    with making_old_values():
        pass
    # Some of them may have ended meanwhile.
    assert gc.get_freeze_count() > before // 2
    assert not is_old(frozen)
    gc.disable()
    with making_old_values():
        made: list[list[int]] = [[]]
    assert not gc.isenabled()
    assert not is_old(made)


def test_a_fault_turns_it_on_again() -> None:
    """However the making ends, the collector is on."""
    with pytest.raises(ValueError, match="x"), making_old_values():
        raise ValueError("x")
    assert gc.isenabled()
