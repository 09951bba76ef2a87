"""What runs on the fleet of the demo? Its workers import this, and the engine does not."""

from __future__ import annotations

import math
import os
from typing import Any

from tool_engine.model.call import ToolExecutionContext

_PARTS = 10


def count_primes(below: int, context: ToolExecutionContext) -> dict[str, Any]:
    """Return how many primes there are, and the number of the process that has counted them."""
    found = 0
    for part in range(_PARTS):
        context.report_progress(part, _PARTS, f"process {os.getpid()}")
        first, last = (below * edge // _PARTS for edge in (part, part + 1))
        found += sum(map(_is_prime, range(max(2, first), last)))
    return {"primes": found, "process": os.getpid()}


def _is_prime(number: int) -> bool:
    return all(number % factor for factor in range(2, math.isqrt(number) + 1))
