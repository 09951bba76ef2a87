"""Within which bounds does the limit of a bucket find itself?"""

from __future__ import annotations

from typing import Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.bounds import check_choice, check_count
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.checks.setting_kinds import check_switch
from tool_engine.model.json.data import Data
from tool_engine.model.settings.concurrency import LARGEST

AIMD: Final = "aimd"
GRADIENT2: Final = "gradient2"


class AdaptivePolicy(msgspec.Struct, Data, frozen=True, gc=False, metaclass=KnownFields):
    """How a bucket's limit follows its service: by latency, refusals and timeouts."""

    kind: str = GRADIENT2
    """`gradient2` shrinks as far as calls have become slower; `aimd` by a fixed share, and only
    when they take twice as long, are refused or run out of time."""
    min: int = 1
    """Slots that the bucket keeps in any case."""
    max: int = 100
    """Slots that it never passes."""
    freeze: bool = False
    """Keep the limit as it is, and learn nothing."""

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, (AIMD, GRADIENT2))
        check_count("min", self.min, minimum=1, maximum=LARGEST)
        check_count("max", self.max, minimum=1, maximum=LARGEST)
        check_switch("freeze", self.freeze)
        if self.min > self.max:
            raise ConfigurationError(
                f"min must be at most max, got min {self.min} and max {self.max}; raise max or "
                "lower min"
            )

    def clamp(self, limit: float) -> float:
        """Return the limit nearest to this one that the bounds allow."""
        return max(float(self.min), min(float(self.max), limit))
