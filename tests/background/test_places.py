"""How many tasks may ask for a slot, and what is said of how soon the next one will?"""

from __future__ import annotations

import pytest

from tool_engine.background import places as places_module
from tool_engine.background.places import MOST, Places


def test_a_few_of_each_tool() -> None:
    """A tool with many tasks leaves room to others, and a place that was left is free again."""
    places = Places()
    for _ in range(4):
        assert "report" not in places.full
        places.join_line("report")
    assert (places.full, places.room) == ({"report"}, MOST - 4)
    places.leave_line("report")
    assert (places.full, places.room) == (set(), MOST - 3)


def test_those_who_ask_for_consent_are_bounded() -> None:
    """A thousand questions are enough: no more tasks of that tool are taken, and others are."""
    places = Places()
    places.note_asking("pay", 1_000)
    assert not places.has_room("pay")
    assert places.has_room("report")
    assert (places.full, places.share) == ({"pay"}, 4)
    places.join_line("pay")
    places.leave_line("pay")
    assert places.full == {"pay"}
    places.note_asking("pay", -1)
    assert places.has_room("pay")


def test_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is as long as that many took of late, and longer once none begins any more."""
    clock = [100.0]
    monkeypatch.setattr(places_module, "monotonic", lambda: clock[0])
    places = Places()
    places.join_line("report")
    assert places.estimate_wait(3) is None
    for clock[0] in (100.0, 102.0, 104.0, 106.0):
        places.note_begun()
    assert places.estimate_wait(3) == pytest.approx(10.0)
    clock[0] = 107.0
    assert places.estimate_wait(3) == pytest.approx(9.0)
    clock[0] = 206.0
    assert places.estimate_wait(3) == pytest.approx(4 * 106 / 4)
