"""Is each case of what takes long tried in some run of `make test`, and what is cheap in each?"""

from __future__ import annotations

import math
import re
from collections import Counter

import pytest

from tests import turns
from tests.turns import COSTS, MOST, SHARE, TURN, is_in_turn, list_in_turn, read_costs

ROOT = COSTS.parents[1]


@pytest.mark.parametrize("cases", [1, 2, 5, 40])
@pytest.mark.parametrize("seconds", [0.0, SHARE, 0.3, 1.0, 2.0, 400.0])
def test_each_case_has_its_turn(cases: int, seconds: float) -> None:
    """And each as often as the others, so that it takes its share of time on average."""
    tried = Counter(
        position
        for turn in range(math.lcm(*range(1, MOST + 1)))
        for position in range(cases)
        if is_in_turn("tests/test_a.py::test_b", position, seconds, turn)
    )
    every = min(MOST, max(1, math.ceil(seconds / SHARE)))
    assert len(tried) == cases
    assert set(tried.values()) == {math.lcm(*range(1, MOST + 1)) // every}


@pytest.fixture
def items(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[pytest.Item]:
    """Some tests, which take long if this is measured."""
    found = request.session.items[:20]
    costs = dict.fromkeys(map(turns.name_of, found), 10.0)
    monkeypatch.setattr(turns, "IS_WHOLE", False)
    monkeypatch.setattr(turns, "read_costs", lambda: costs)
    return found


def test_all_are_tried_in_some_run(items: list[pytest.Item]) -> None:
    """The number of the run says which."""
    runs = [list_in_turn(items, {TURN: str(turn)}) for turn in range(MOST)]
    assert all(len(run) < len(items) for run in runs) or len(items) == 1
    assert sum(len(run) for run in runs) == len(items)
    assert {id(item) for run in runs for item in run} == {id(item) for item in items}


def test_without_a_number_all_are_tried(
    items: list[pytest.Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a file is run alone; and so is all at whole effort."""
    assert list_in_turn(items, {}) == items
    assert list_in_turn(items, {TURN: ""}) == items
    monkeypatch.setattr(turns, "IS_WHOLE", True)
    assert list_in_turn(items, {TURN: "7"}) == items


def test_what_was_not_measured_is_tried(
    items: list[pytest.Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test that was just written."""
    monkeypatch.setattr(turns, "read_costs", dict)
    assert list_in_turn(items, {TURN: "7"}) == items


def test_what_was_measured_exists() -> None:
    """A test that was renamed would be tried in each run: `python -m tests --costs` mends it."""
    gone = []
    for name in read_costs():
        file, *parts = name.removesuffix("::runTest").split("::")
        path = ROOT / file
        text = path.read_text("utf-8") if path.is_file() else ""
        if not all(
            re.search(rf"\b(?:def|class) {part}\b|^{part} = ", text, re.M) for part in parts
        ):
            gone.append(name)
    assert gone == []
