"""How are only the newest entries kept?"""

from __future__ import annotations

from collections import OrderedDict

from tests.growth import growth_of
from tool_engine.model.newest import keep_newest


def test_the_first_goes() -> None:
    """What was put in again is the newest, and of too many the oldest goes."""
    kept: OrderedDict[str, int] = OrderedDict()
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        keep_newest(kept, key, value, 2)
    assert list(kept.items()) == [("a", 3), ("c", 4)]


def test_the_time_of_many() -> None:
    """B5: to find the oldest of many takes no longer than of few."""

    def put_in(many: int) -> None:
        kept: OrderedDict[int, None] = OrderedDict()
        for key in range(4 * many):
            keep_newest(kept, key, None, many)

    growth = growth_of(put_in, int, start=16_000, most=64_000)
    assert growth.exponent < 1.4, growth
