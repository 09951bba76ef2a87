"""How many random cases does a run of the tests try? The one place that decides it.

`make quick` tries a few of each, `make test` as many as find what a change of a day breaks, and
`make coverage`, which `make proof` includes, all. What is listed by hand, and each moment at which
a call can be cancelled, is tried at every effort (`make test` takes turns: `tests/turns.py`); of a
list times a list, each of both, but where the test is marked as `thinned`, not each with each.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

__all__ = ["IS_WHOLE", "VARIABLE", "is_tried", "share_of"]

VARIABLE = "TESTS_EFFORT"
EFFORTS: Final = {"quick": (0.02, 4), "usual": (0.05, 8), "whole": (1.0, 0)}
"""Which share of the cases that a test names, and how many of them at least."""

_EFFORT: Final = os.environ.get(VARIABLE, "usual")
_SHARE, _LEAST = EFFORTS[_EFFORT]
IS_WHOLE: Final = _EFFORT == "whole"
"""Everything is tried, and measured with inputs as large as it takes to be sure."""


def share_of(cases: int) -> int:
    """How many of so many random cases this run tries."""
    return max(min(cases, _LEAST), round(cases * _SHARE))


def is_tried(positions: Sequence[int], every: int) -> bool:
    """Whether this run tries a combination of a test that is marked as `thinned(every)`.

    Each value of each list is, as long as another list has `every` values.

    Args:
        positions: Which value of each list of parameters it has.
        every: One in how many combinations is tried.
    """
    assert len(positions) > 1, "of a single list, each is tried"
    return IS_WHOLE or sum(positions) % every == 0
