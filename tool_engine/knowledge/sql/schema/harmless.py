"""Which values can be written unchanged, as they can hold no secret?

Most of what tools take and return is small and plain. Checking that costs a tenth of copying it
with its secrets hidden.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

from tool_engine.redaction import is_secret_key, redact_text
from tool_engine.redaction.known import known_secrets
from tool_engine.redaction.packed import may_hold_secret

_NAMING: Final = frozenset({"name", "key", "Name", "Key"})
"""Keys that name the value beside them."""
_MOST_SHAPES: Final = 10_000
_MOST_TEXTS: Final = 10_000
_MOST_PACKED: Final = 10_000
_PAIR: Final = 2
_LONGEST_TEXT: Final = 100
_DEEPEST: Final = 16


class Harmless:
    """Checks decoded values; in one thread at a time."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[Any, ...], bool] = {}
        # Short texts in which nothing is hidden: most recur again and again.
        self._texts: set[str] = set()
        self._packed: set[bytes] = set()
        """Digests of values in which nothing is hidden."""
        self._known = 0

    def refresh(self) -> None:
        """Discard results from before more secrets were known."""
        known = len(known_secrets)
        is_full = len(self._shapes) > _MOST_SHAPES or len(self._texts) > _MOST_TEXTS
        is_full = is_full or len(self._packed) > _MOST_PACKED
        if known != self._known or is_full:
            self._known = known
            self._shapes.clear()
            self._texts.clear()
            self._packed.clear()

    def is_packed(self, data: bytes, digest: bytes) -> bool:
        """Return True if a MessagePack plainly holds nothing to hide; False: look at its values.

        Args:
            data: The MessagePack.
            digest: Stands for it: what was searched before is not searched again.
        """
        is_plain = digest in self._packed or not may_hold_secret(data)
        if is_plain:
            self._packed.add(digest)
        return is_plain

    def is_so(self, value: Any, depth: int = 0) -> bool:
        """Return True if `value` is only JSON values with nothing to hide."""
        kind = type(value)
        if kind is str:
            return value in self._texts or self._is_text(value)
        if kind is int or kind is float:
            return self._is_number(value)
        if kind is dict:
            return depth < _DEEPEST and self._is_mapping(value, depth + 1)
        if kind is list:
            return depth < _DEEPEST and self._is_list(value, depth + 1)
        return value is None or kind is bool

    def _is_text(self, value: str) -> bool:
        # The very same text: nothing in it was hidden.
        is_plain = redact_text(value) is value
        if is_plain and len(value) <= _LONGEST_TEXT and len(self._texts) <= _MOST_TEXTS:
            self._texts.add(value)
        return is_plain

    def _is_number(self, value: float) -> bool:
        if self._known and known_secrets.holds_number(value):
            return False
        return type(value) is int or isfinite(value)

    def _is_mapping(self, value: dict[Any, Any], depth: int) -> bool:
        keys = tuple(value)
        is_plain = self._shapes.get(keys)
        if is_plain is None:
            is_plain = self._shapes[keys] = all(map(_is_plain_key, keys))
        if not is_plain:
            return False
        is_unknown = not self._known
        for item in value.values():
            if not ((is_unknown and type(item) is int) or self.is_so(item, depth)):
                return False
        return True

    def _is_list(self, value: list[Any], depth: int) -> bool:
        for item in value:
            # A command line as a list: the value of an option follows it.
            if not self.is_so(item, depth) or (type(item) is str and item[:1] == "-"):
                return False
        # A pair, as a header may be: the value of a name follows it.
        return len(value) != _PAIR or type(value[0]) is not str or _is_plain_key(value[0])


def _is_plain_key(key: Any) -> bool:
    if type(key) is not str or key in _NAMING or is_secret_key(key):
        return False
    return redact_text(key) is key
