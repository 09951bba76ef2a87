"""Does a conversation go on, or does it make the same calls with the same results again and again?

What changes by itself from call to call (times, random ids, durations) does not count as progress.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from tool_engine.model.bounds import check_count
from tool_engine.model.output import to_text

__all__ = ["Advice", "RepetitionGuard"]

_VOLATILE: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|(?<!\d)\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?!\d)"
    r"|(?<![\d.])1\d{9}(?:\d{3}|\d{6}|\d{9}|\.\d{1,9})?(?![\d.])"
)
"""UUIDs, dates with or without a time, times of day, and Unix times from 2001 to 2033."""
_REMEMBERED: Final = 64


class Advice(Enum):
    """What a turn should lead to."""

    GO_ON = "go_on"
    HINT = "hint"
    """Tell the model that it repeats itself."""
    STOP = "stop"
    """End the turns: the model will not find out by itself."""


class RepetitionGuard:
    """Counts how often the same calls had the same results, one turn after another. U47.

    Order within a turn does not matter. A turn counts as repeated when it was seen among the last
    64, so that a model that goes back and forth between two calls is found, too.

    Args:
        hint_at: The occurrence of a turn at which the model is told.
        stop_at: The occurrence at which it is over.

    Raises:
        ConfigurationError: A number of less than 2, or a stop before the hint.
    """

    def __init__(self, hint_at: int = 2, stop_at: int = 4) -> None:
        check_count("hint_at", hint_at, minimum=2)
        check_count("stop_at", stop_at, minimum=hint_at)
        self.hint_at = hint_at
        self.stop_at = stop_at
        self._turns: deque[str] = deque(maxlen=_REMEMBERED)

    def __repr__(self) -> str:
        return f"RepetitionGuard({len(self._turns)} turns, the most often {self.most} times)"

    @property
    def most(self) -> int:
        """How often the turn was seen that was seen most."""
        return max(Counter(self._turns).values(), default=0)

    def see(self, turn: Iterable[tuple[str, Mapping[str, Any], Any]]) -> Advice:
        """Takes up one turn: the tool, the arguments and the result of each of its calls.

        A turn without calls is no repetition of anything.
        """
        calls = sorted(_fingerprint(*each) for each in turn)
        if not calls:
            return Advice.GO_ON
        fingerprint = hashlib.sha256("".join(calls).encode()).hexdigest()
        self._turns.append(fingerprint)
        seen = self._turns.count(fingerprint)
        if seen >= self.stop_at:
            return Advice.STOP
        return Advice.HINT if seen >= self.hint_at else Advice.GO_ON

    def to_dict(self) -> dict[str, Any]:
        """What was seen, as JSON values."""
        return {"turns": list(self._turns)}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Goes on from what `to_dict` wrote.

        Raises:
            msgspec.ValidationError: It is something else.
        """
        kept = msgspec.convert(data, _Kept)
        self._turns.clear()
        self._turns.extend(kept.turns)


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    """What `to_dict` writes."""

    turns: list[str]


def _fingerprint(tool_name: str, params: Mapping[str, Any], result: Any) -> str:
    # The arguments count as they are: to ask for another day is another question.
    said = _VOLATILE.sub("~", to_text(result))
    parts = (tool_name, to_text(dict(sorted(params.items()))), said)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()
