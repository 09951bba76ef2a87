"""Is each value of a list tried in every run, and each combination at whole effort?"""

from __future__ import annotations

import itertools

import pytest

from tests import effort
from tests.effort import IS_WHOLE, is_tried

TRIED: list[tuple[str, int, str]] = []


@pytest.mark.thinned(2)
@pytest.mark.parametrize("letter", ["a", "b"])
@pytest.mark.parametrize(("number", "word"), [(1, "x"), (2, "y"), (3, "z")])
def test_a_combination(letter: str, number: int, word: str) -> None:
    """What the next test counts."""
    TRIED.append((letter, number, word))


def test_the_combinations_of_this_run(request: pytest.FixtureRequest) -> None:
    """A row of several parameters has one position; by name, each is run."""
    if any("::" in each for each in request.config.args):
        pytest.skip("not all tests of this file were asked for")
    assert len(TRIED) == (6 if IS_WHOLE else 3)
    assert {each[0] for each in TRIED} == {"a", "b"}
    assert {each[1:] for each in TRIED} == {(1, "x"), (2, "y"), (3, "z")}


@pytest.mark.parametrize("sizes", [(2, 2), (3, 3), (4, 22), (16, 2), (2, 3, 4), (9, 1, 5)])
@pytest.mark.parametrize("every", [2, 3])
@pytest.mark.parametrize("is_whole", [True, False])
def test_each_value_is_tried(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], every: int, is_whole: bool
) -> None:
    """As long as another list has as many values; at whole effort, each combination is."""
    monkeypatch.setattr(effort, "IS_WHOLE", is_whole)
    found = [each for each in itertools.product(*map(range, sizes)) if is_tried(each, every)]
    if is_whole:
        assert found == list(itertools.product(*map(range, sizes)))
    for place, size in enumerate(sizes):
        if max(sizes[:place] + sizes[place + 1 :]) >= every:
            assert {each[place] for each in found} == set(range(size))


def test_a_single_list_is_not_thinned() -> None:
    """A value that no other run had would be tried by none."""
    with pytest.raises(AssertionError, match="of a single list, each is tried"):
        is_tried([0], 2)
