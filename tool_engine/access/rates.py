"""How many requests may a principal send?"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from tool_engine.admission.throttle import Throttle
from tool_engine.model.settings.concurrency import ToolRate

_MOST: Final = 10_000
"""Principals that are counted at once; the one that asked longest ago is forgotten."""


class Rates:
    """The requests of each principal, counted apart.

    Args:
        rate: As in a definition: `100/s`.

    Raises:
        ConfigurationError: It is no rate.
    """

    def __init__(self, rate: str) -> None:
        self.text = rate
        self._rate = ToolRate.parse(rate)
        self._known: OrderedDict[str, Throttle] = OrderedDict()

    def count(self, name: str, now: float) -> float:
        """Count a request; return the seconds until it may be sent: 0.0 for now."""
        throttle = self._known.get(name)
        if throttle is None:
            throttle = self._known[name] = Throttle(self._rate)
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        self._known.move_to_end(name)
        if (wait := throttle.delay(now)) > 0:
            return wait
        throttle.count(now)
        return 0.0
