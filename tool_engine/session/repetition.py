"""Does a model make the same calls with the same results again and again?

Values that differ in every call (times, random ids, durations) do not count as progress.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from tool_engine.model.checks.bounds import check_count
from tool_engine.model.checks.field_types import convert_value
from tool_engine.model.json.returned_value import to_text

_VOLATILE: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"|(?<![0-9a-fA-F])[0-9a-fA-F]{12}[47][0-9a-fA-F]{3}[89abAB][0-9a-fA-F]{15}(?![0-9a-fA-F])"
    r"|(?<!\d)\d{8}T\d{6}(?:[.,]\d{1,9})?(?!\d)Z?"
    r"|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|(?<!\d)\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?!\d)"
    r"|(?<![\d.])1\d{9}(?:\d{3}|\d{6}|\d{9}|\.\d{1,9})?(?![\d.])"
    r"|(?<![\d.])\d{1,15}(?:\.\d{1,18})? ?(?:ms|\u00b5s|\u03bcs|ns)(?!\w)"
    r"|(?<![\d.])\d{1,15}\.\d{1,18} ?(?:s|secs?|seconds)(?!\w)"
    r'|(?<=")\w{0,32}(?:[Dd]uration|[Ee]lapsed|[Ll]atency|took)\w{0,32}": ?\d{1,15}(?:\.\d{1,18})?'
)
"""UUIDs, dates with or without a time, times of day, Unix times from 2001 to 2033, and durations:
with a unit too fine for a question, or under a name that says so."""
_REMEMBERED: Final = 64
_LOOKED_AT: Final = 32_768
"""Characters at either end of a result that are searched for such values."""


class Advice(Enum):
    """What the loop should do about repetition."""

    GO_ON = "go_on"
    HINT = "hint"
    """Show the model a hint that it repeats itself."""
    STOP = "stop"
    """End the turn: the model does not notice by itself."""


class RepetitionGuard:
    """Count how often turns had the same calls and results. U47.

    Order within a turn does not matter. A turn counts as repeated when it was seen among the last
    64, so that a model that goes back and forth between two calls is found, too.

    Args:
        hint_at: The occurrence of a turn at which the model gets a hint.
        stop_at: The occurrence at which the turn ends.

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
        """The count of the turn that occurred most often."""
        return max(Counter(self._turns).values(), default=0)

    def see(self, turn: Iterable[tuple[str, Mapping[str, Any], Any]]) -> Advice:
        """Note one turn: tool, arguments and result of each call.

        A turn without calls never counts as repetition.
        """
        return self.note(fingerprint_of(turn))

    def note(self, fingerprint: str | None) -> Advice:
        """Note the fingerprint of one turn; None: it had no calls."""
        if fingerprint is None:
            return Advice.GO_ON
        self._turns.append(fingerprint)
        seen = self._turns.count(fingerprint)
        if seen >= self.stop_at:
            return Advice.STOP
        return Advice.HINT if seen >= self.hint_at else Advice.GO_ON

    def to_dict(self) -> dict[str, Any]:
        return {"turns": list(self._turns)}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Restore what `to_dict` wrote.

        Raises:
            msgspec.ValidationError: It is something else.
        """
        kept = convert_value(data, _Kept)
        self._turns.clear()
        self._turns.extend(kept.turns)


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    turns: list[str]


def fingerprint_of(turn: Iterable[tuple[str, Mapping[str, Any], Any]]) -> str | None:
    """Return the same text for turns with the same calls; None: there are none."""
    calls = sorted(_make_fingerprint(*each) for each in turn)
    return hashlib.sha256("".join(calls).encode()).hexdigest() if calls else None


def _make_fingerprint(tool_name: str, params: Mapping[str, Any], result: Any) -> str:
    # Arguments count as they are: another day is another question.
    said = result if isinstance(result, str) else to_text(result)
    # Only a part of a very long result is searched, lest it hold up the loop.
    end = max(_LOOKED_AT, len(said) - _LOOKED_AT)
    head, tail = (_VOLATILE.sub("~", each) for each in (said[:_LOOKED_AT], said[end:]))
    found = hashlib.sha256()
    asked = f"{tool_name}\0{to_text(dict(sorted(params.items())))}\0"
    for part in (asked, head, said[_LOOKED_AT:end], tail):
        found.update(part.encode("utf-8", "replace"))
    return found.hexdigest()
