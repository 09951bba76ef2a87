"""What of a nested value may be shown?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from tool_engine.model.json.free_key import free_key, text_key
from tool_engine.redaction.known import known_secrets
from tool_engine.redaction.secret_names import is_secret_key
from tool_engine.redaction.text import HIDDEN, redact_text

_MAX_DEPTH: Final = 64
_NAMING: Final = ("name", "key", "Name", "Key")
_NAMED: Final = ("value", "Value")
_LONGEST_OPTION: Final = 64
_MOST_KEYS: Final = 256
"""The most keys of a value that are remembered."""
_PRIVATE: Final = "PRIVATE KEY-----"
_PAIRS: Final = (list, tuple)
_PLAIN: Final = (str, int, float)
_KEY_END: Final = "-----END "
_PLACE: Final = re.compile(r"(?:Bearer |Basic |Token )?\$\{(?:env|file):[\w./-]{1,200}\}", re.ASCII)
"""A definition's reference to the place of a secret."""


def redact(
    value: Any,
    secret_names: frozenset[str] = frozenset(),
    secret_parts: frozenset[str] = frozenset(),
    hide_text: Callable[[str], str] = redact_text,
) -> Any:
    """A copy of `value` made of JSON values, with secrets replaced by `[hidden]`.

    Args:
        value: Anything; what JSON cannot hold is replaced by its `repr`.
        secret_names: Top-level keys whose value is hidden whatever it looks like.
        secret_parts: The same for keys at any depth.
        hide_text: What may be shown of a text, such as `OwnSecrets.text`.
    """
    if secret_names and isinstance(value, Mapping):
        value = {key: HIDDEN if key in secret_names else item for key, item in value.items()}
    return _Redaction(secret_parts, hide_text).of(value, 0)


class _Redaction:
    def __init__(self, secret_parts: frozenset[str], hide_text: Callable[[str], str]) -> None:
        self._parts = secret_parts
        self._text = hide_text
        self._knows_some = len(known_secrets) > 0
        self._keys: dict[str, tuple[str, bool]] = {}
        """Key -> how it is shown, and whether what it names is secret: rows have the same keys."""

    def of(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, _PLAIN):
            return self._redact_plain(value)
        if depth >= _MAX_DEPTH:
            return "[too deep]"
        if type(value) is dict or isinstance(value, Mapping):
            return self._redact_mapping(value, depth + 1)
        if isinstance(value, _PAIRS):
            return self._redact_list(value, depth + 1)
        if isinstance(value, set | frozenset):
            return [self.of(item, depth + 1) for item in value]
        return self._text(repr(value))

    def _redact_plain(self, value: Any) -> Any:
        kind = type(value)
        if kind is int or kind is float:
            return HIDDEN if self._knows_some and known_secrets.holds_number(value) else value
        if value is None or kind is bool:
            return value
        if isinstance(value, str):
            return self._text(value)
        return self._text(repr(value))

    def _redact_mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        named = _named_secrets(value)
        copy: dict[str, Any] = {}
        keys, hide_text = self._keys, self._text
        for key, item in value.items():
            known = keys.get(key) if type(key) is str else None
            name, is_secret = known or self._read_key(key, value)
            name = free_key(name, copy) if name in copy else name
            # A flag, a missing value and the place of a secret are not secret.
            if isinstance(item, str) and "${" in item and _PLACE.fullmatch(item):
                copy[name] = item
            elif (is_secret or key in named) and not (item is None or isinstance(item, bool)):
                copy[name] = HIDDEN
            else:
                copy[name] = hide_text(item) if type(item) is str else self.of(item, depth)
        return copy

    def _read_key(self, key: Any, value: Mapping[Any, Any]) -> tuple[str, bool]:
        """Return how a key is shown, and whether what it names is secret."""
        text = str(key)
        read = self._text(text_key(key, value)), is_secret_key(text) or text in self._parts
        if type(key) is str and len(self._keys) < _MOST_KEYS:
            self._keys[key] = read
        return read

    def _redact_list(self, values: Iterable[Any], depth: int) -> list[Any]:
        copy: list[Any] = []
        option, is_in_key = "", False
        for item in values:
            if not isinstance(item, str):
                option = ""
                is_pair = type(item) in _PAIRS and len(item) == 2 and self._is_secret_pair(item)
                shown = [self.of(_name_of(item[0]), depth), HIDDEN] if is_pair else None
                copy.append(shown or self.of(item, depth))
            elif is_in_key or _PRIVATE in item:
                # A private key as a list of its lines.
                is_in_key, option = _KEY_END not in item, ""
                copy.append(HIDDEN)
            else:
                # A command line as a list: the value follows its option.
                is_secret = option[:1] == "-" and item[:1] != "-" and is_secret_key(option)
                copy.append(HIDDEN if is_secret else self._text(item))
                option = item if len(item) <= _LONGEST_OPTION and "=" not in item else ""
        return copy

    def _is_secret_pair(self, pair: Sequence[Any]) -> bool:
        """Return True for a (name, value) pair, such as a header, with a secret."""
        name, value = pair
        if value is None or isinstance(value, bool) or not isinstance(name, str | bytes):
            return False
        text = _name_of(name)
        return text in self._parts or is_secret_key(text)


def _name_of(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode("latin-1")


def _named_secrets(value: Mapping[Any, Any]) -> Sequence[str]:
    """Return the secret keys of an entry `{"name": ..., "value": ...}`."""
    if "value" not in value and "Value" not in value:
        return ()
    names = [value.get(naming) for naming in _NAMING if naming in value]
    return _NAMED if any(isinstance(name, str) and is_secret_key(name) for name in names) else ()
