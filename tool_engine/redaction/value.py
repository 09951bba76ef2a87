"""What of a value, with all that is in it, may be shown?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tool_engine.redaction.known import known_secrets
from tool_engine.redaction.names import is_secret_key
from tool_engine.redaction.text import HIDDEN, redact_text

__all__ = ["redact"]

_MAX_DEPTH: Final = 64
_NAMING: Final = ("name", "key", "Name", "Key")
_NAMED: Final = ("value", "Value")
_LONGEST_OPTION: Final = 64


def redact(
    value: Any,
    secret_names: frozenset[str] = frozenset(),
    secret_parts: frozenset[str] = frozenset(),
) -> Any:
    """A copy of `value` made of JSON values, with secrets replaced by `[hidden]`.

    Args:
        value: Anything; what JSON cannot hold is replaced by its `repr`.
        secret_names: Top-level keys whose value is hidden whatever it looks like.
        secret_parts: The same for keys at any depth.
    """
    if secret_names and isinstance(value, Mapping):
        value = {key: HIDDEN if key in secret_names else item for key, item in value.items()}
    return _Redaction(secret_parts).of(value, 0)


class _Redaction:
    """Makes the copy of one value."""

    def __init__(self, secret_parts: frozenset[str]) -> None:
        self._parts = secret_parts

    def of(self, value: Any, depth: int) -> Any:
        """What may be shown of `value`, which stands `depth` levels deep."""
        if value is None or isinstance(value, str | int | float):
            return _plain(value)
        if depth >= _MAX_DEPTH:
            return "[too deep]"
        if isinstance(value, Mapping):
            return self._mapping(value, depth + 1)
        if isinstance(value, list | tuple):
            return self._list(value, depth + 1)
        if isinstance(value, set | frozenset):
            return [self.of(item, depth + 1) for item in value]
        return redact_text(repr(value))

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        named = _named_secrets(value)
        copy: dict[str, Any] = {}
        for key, item in value.items():
            text = str(key)
            name = redact_text(text)
            while name in copy:
                name += "'"
            is_secret = is_secret_key(text) or key in named or text in self._parts
            # A flag is no secret, and nor is a value that is missing.
            is_shown = item is None or isinstance(item, bool) or not is_secret
            copy[name] = self.of(item, depth) if is_shown else HIDDEN
        return copy

    def _list(self, values: Iterable[Any], depth: int) -> list[Any]:
        copy = []
        option = ""
        for item in values:
            # A command line as a list: the value follows its option.
            is_value = isinstance(item, str) and option[:1] == "-" and item[:1] != "-"
            is_secret = is_value and is_secret_key(option)
            copy.append(HIDDEN if is_secret else self.of(item, depth))
            is_option = isinstance(item, str) and len(item) <= _LONGEST_OPTION and "=" not in item
            option = item if is_option else ""
        return copy


def _plain(value: str | float | None) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return redact_text(value)
    if type(value) in (int, float):
        return HIDDEN if known_secrets.holds_number(value) else value
    return redact_text(repr(value))


def _named_secrets(value: Mapping[Any, Any]) -> Sequence[str]:
    """Headers and variables also come as a list of `{"name": ..., "value": ...}`."""
    names = [value.get(naming) for naming in _NAMING if naming in value]
    return _NAMED if any(isinstance(name, str) and is_secret_key(name) for name in names) else ()
