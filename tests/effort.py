"""How many random cases does a run of the tests try? The one place that decides it.

`make quick` tries a few of each, `make test` as many as find what a change of a day breaks, and
`make coverage`, which `make proof` includes, all. What is listed by hand, and each moment at which
a call can be cancelled, is tried in every run.
"""

from __future__ import annotations

import os
from typing import Final

__all__ = ["IS_WHOLE", "VARIABLE", "share_of"]

VARIABLE = "TESTS_EFFORT"
EFFORTS: Final = {"quick": (0.05, 10), "usual": (0.1, 15), "whole": (1.0, 0)}
"""Which share of the cases that a test names, and how many of them at least."""

_EFFORT: Final = os.environ.get(VARIABLE, "usual")
_SHARE, _LEAST = EFFORTS[_EFFORT]
IS_WHOLE: Final = _EFFORT == "whole"
"""Everything is tried, and measured with inputs as large as it takes to be sure."""


def share_of(cases: int) -> int:
    """How many of so many random cases this run tries."""
    return max(min(cases, _LEAST), round(cases * _SHARE))
