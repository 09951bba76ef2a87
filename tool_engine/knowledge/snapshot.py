"""How is a value kept as it was at one moment, and read back?

A snapshot is MessagePack: as quick to make as JSON, and exact where JSON is not (NaN, bytes, keys
that are no strings). What it cannot hold either is kept in the forms that `take_snapshot` names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

from tool_engine.model.json.free_key import free_key, text_key
from tool_engine.model.json.plain import name_of
from tool_engine.model.json.unpacking import unpack_value
from tool_engine.model.result import MOST_KEPT
from tool_engine.redaction import HIDDEN, redact_text

MAX_SNAPSHOT: Final = 65_536
"""Bytes of one snapshot; a larger value keeps its beginning."""
TRUNCATED: Final = "_truncated"
"""The key that holds the full size of a shortened value."""
TOO_DEEP: Final = "[too deep]"
"""What stands for a value below the last level that is looked at."""

MAX_ERROR: Final = 16_384
"""Characters of an error message that are kept."""
Hide: TypeAlias = Callable[[str], str]
_MAX_DEPTH: Final = 64
_MAX_DECIMAL_BITS: Final = 4_096
_OVERLAP: Final = 32_768
"""Characters behind a cut that are searched; no secret should be longer."""
_FOR_NOTE: Final = 40
"""Bytes of the note at a cut in a text."""
_FOR_NOTES: Final = 4_096
"""Bytes of a snapshot reserved for all notes about what is missing."""
_WIDEST: Final = 6
"""The most bytes that one character takes, when it is escaped."""


def take_snapshot(value: Any) -> bytes:
    r"""Return `value` as it is now, as bytes; never raises.

    What JSON cannot hold reads back in these forms: NaN and the infinities as `"NaN"`, `"Infinity"`
    and `"-Infinity"`, whole numbers beyond 64 bits as their digits, lone surrogates escaped
    (`\ud800`), bytes as their `repr`, times in ISO 8601, a key that is no string as its text, any
    other object as its `repr`, and what contains itself down to 64 levels. Above `MAX_SNAPSHOT`
    bytes the beginning is kept, with `{"_truncated": {"size": bytes in all}}` beside it; `size` is
    None where the whole could not be measured.
    """
    try:
        data = pack(value)
    except Exception:  # noqa: BLE001 - hostile objects raise anything; the copy below holds them
        return _shorten_value(value, None)
    return data if len(data) <= MAX_SNAPSHOT else _shorten_value(value, len(data))


def keep_beginning(value: Any, size: int | None = None, hide: Hide = redact_text) -> bytes:
    """Return the beginning of a value known to be too long, unread beyond it.

    Args:
        value: What is kept.
        size: The bytes that the whole of it takes; None: unknown.
        hide: As for `shorten_snapshot`.
    """
    return _shorten_value(value, size, _Copier(hide=hide))


def copy_whole(value: Any, most: int) -> bytes | None:
    """Return all of `value` as a snapshot, or None above about `most` bytes."""
    try:
        data = pack(value)
    except Exception:  # noqa: BLE001 - as in `take_snapshot`
        copier = _Copier(most, most)
        data = pack(copier.copy(value, 0))
        return None if copier.is_shortened else data
    return data if len(data) <= most else None


def restore_value(data: bytes) -> Any:
    """Return a snapshot's value anew as JSON values, secrets included."""
    try:
        return _json_value(unpack_value(data), 0)
    except (msgspec.DecodeError, RecursionError, TypeError) as error:
        return {TRUNCATED: {"size": len(data), "reason": f"unreadable: {error}"}}


class RestoredItems(Mapping[str, Any]):
    """A snapshot of an object of which each item is restored when it is read.

    Args:
        data: The snapshot.

    Raises:
        TypeError: It is no object with texts as keys.
    """

    def __init__(self, data: bytes) -> None:
        self._read = unpack_value(data)
        if type(self._read) is not dict or not all(type(key) is str for key in self._read):
            raise TypeError("no object with texts as keys")

    def __getitem__(self, key: str) -> Any:
        return _json_value(self._read[key], 1)

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)


def shorten_snapshot(
    data: bytes, hide: Hide = redact_text, names: Collection[str] = (), parts: Collection[str] = ()
) -> bytes:
    """Return a snapshot with the beginning of one that is too long.

    Args:
        data: The snapshot.
        hide: Hides the secrets in the beginning of a text, before the text is cut.
        names: Keys of the value itself of which nothing is kept.
        parts: The same at any depth.
    """
    try:
        # Values that JSON does not know are converted on reading, and most are never read.
        value = unpack_value(data)
    except (msgspec.DecodeError, RecursionError, TypeError):
        value = restore_value(data)
    if names and isinstance(value, dict):
        value = {key: HIDDEN if key in names else item for key, item in value.items()}
        data = pack(value)
        if len(data) <= MAX_SNAPSHOT:
            return data
    return _shorten_value(value, len(data), _Copier(hide=hide, hidden=parts))


def bounded_text(text: str) -> str:
    """Return `text`, or its beginning and full length if it is very long."""
    return text if len(text) <= MAX_ERROR else _cut_text(text, MAX_ERROR)


def _replace_foreign(value: object) -> Any:
    """Return a stand-in for an object that msgspec does not know."""
    return dict(value) if isinstance(value, Mapping) else _safe_repr(value)


pack: Final[Callable[[Any], bytes]] = msgspec.msgpack.Encoder(enc_hook=_replace_foreign).encode
"""Returns the value as MessagePack of any length; raises anything if it has no such form."""
pack_plain: Final[Callable[[Any], bytes]] = msgspec.msgpack.Encoder().encode
"""The same for values that msgspec knows by itself, without stand-ins."""


def _safe_repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a repr is foreign code
        return f"<unprintable {name_of(value)}>"


def _cut_text(text: str, room: int, hide: Hide = redact_text) -> str:
    # A secret that the cut would split is hidden first: half of it would not be recognised.
    window = text[: room + _OVERLAP]
    visible = hide(window)
    if len(window) < len(text):
        visible = visible[:-_OVERLAP]
    return f"{visible[:room]}… [{len(text):,} characters in all]"


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _keep_digits(number: int) -> int | str:
    if -(2**63) <= number < 2**64:
        return number
    bits = number.bit_length()
    return str(number) if bits <= _MAX_DECIMAL_BITS else f"<whole number of {bits:,} bits>"


def _shorten_value(value: Any, size: int | None, copier: _Copier | None = None) -> bytes:
    copier = _Copier() if copier is None else copier
    copy = copier.copy(value, 0)
    if copier.is_shortened or size is not None:
        kept = copy if isinstance(copy, dict) else {"value": copy}
        copy = {**kept, TRUNCATED: {"size": size}}
    return pack(copy)


class _Copier:
    def __init__(
        self,
        most: int = MAX_SNAPSHOT - _FOR_NOTES,
        most_text: int = MAX_ERROR,
        *,
        hide: Hide = redact_text,
        hidden: Collection[str] = (),
    ) -> None:
        self._left = most
        self._most_text = most_text
        self._hide = hide
        self._hidden = hidden
        self.is_shortened = False

    def copy(self, value: Any, depth: int) -> Any:
        """Return a copy of `value` as far as the budget reaches."""
        self._left -= 8
        try:
            return self._copy_value(value, depth)
        except Exception:  # noqa: BLE001 - even the class of a foreign object may raise
            return self._copy_text(f"<unreadable {name_of(value)}>")

    def _copy_value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is list or kind is dict:
            # Of thousands of small ones, each costs a fraction of what `Mapping` takes to ask.
            return self._copy_nested(value, depth) if value else value
        if isinstance(value, str):
            return self._copy_text(value)
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            return self._copy_nested(value, depth)
        if isinstance(value, int) and not isinstance(value, bool):
            return _keep_digits(value)
        return self._copy_leaf(value)

    def _copy_nested(self, value: Mapping[Any, Any] | Collection[Any], depth: int) -> Any:
        if depth >= _MAX_DEPTH:
            return TOO_DEEP
        try:
            if type(value) is not list and isinstance(value, Mapping):
                return self._copy_mapping(value, depth + 1)
            return self._copy_items(value, depth + 1)
        except Exception as error:  # noqa: BLE001 - foreign code, or a thread that still changes it
            return self._copy_text(f"[unreadable: {_safe_repr(error)}]")

    def _copy_text(self, text: str) -> str:
        room = max(0, min(self._most_text, self._left))
        if len(text) > room:
            self.is_shortened = True
        data = _encode_text(text if len(text) <= room else _cut_text(text, room, self._hide))
        if len(data) > max(self._left, 0) + _FOR_NOTE:
            self.is_shortened = True
            data = _encode_text(_cut_text(text, room // _WIDEST, self._hide))
        self._left -= len(data)
        return data.decode()

    def _copy_leaf(self, value: Any) -> Any:
        try:
            data = pack(value)
        except Exception:  # noqa: BLE001 - as in `take_snapshot`
            return self._copy_text(_safe_repr(value))
        if len(data) > self._left:
            return self._copy_text(_safe_repr(value))
        self._left -= len(data)
        return msgspec.Raw(data)

    def _copy_mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        for position, (key, item) in enumerate(value.items()):
            if self._left <= 0:
                self.is_shortened = True
                copy[free_key("[more]", copy)] = f"{len(value) - position:,} more keys"
                break
            name = self._copy_text(text_key(key, value, _safe_repr))
            # As in `redact`: a flag or a missing value is no secret.
            is_shown = key not in self._hidden or item is None or isinstance(item, bool)
            copy[free_key(name, copy)] = self.copy(item if is_shown else HIDDEN, depth)
        return copy

    def _copy_items(self, value: Collection[Any], depth: int) -> list[Any]:
        copy: list[Any] = []
        for position, item in enumerate(value):
            if self._left <= 0:
                self.is_shortened = True
                copy.append(f"[{len(value) - position:,} more]")
                break
            copy.append(self.copy(item, depth))
        return copy


def _json_value(value: Any, depth: int) -> Any:
    """Return a decoded value with non-JSON values in their documented forms."""
    if value is None or isinstance(value, str | int):
        return value
    if not isinstance(value, dict | list | tuple):
        return _json_leaf(value)
    if depth >= _MAX_DEPTH:
        return TOO_DEEP
    if isinstance(value, dict):
        return _json_object(value.items(), depth + 1)
    return [_json_value(item, depth + 1) for item in value]


def _json_leaf(value: float | bytes | datetime) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else _name_nonfinite(value)
    return value.isoformat() if isinstance(value, datetime) else repr(value)


def _json_object(items: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
    named = list(items)
    plain: dict[str, Any] = {
        key: _json_value(item, depth) for key, item in named if isinstance(key, str)
    }
    for key, item in named:
        if not isinstance(key, str):
            plain[free_key(str(_json_value(key, depth)), plain)] = _json_value(item, depth)
    return plain


def _name_nonfinite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


class KeptOutput(msgspec.Struct, frozen=True):
    """What is kept of an output, shown whole or not: up to `MOST_KEPT` bytes."""

    result: bytes
    """A snapshot of what the tool returned."""
    whole: bytes | None
    """A snapshot of the output before its limits, if `result` does not have all of it."""
    is_whole: bool
    """Whether nothing of the output was lost."""


def keep_output(
    returned: dict[str, Any], output: dict[str, Any], fits: Callable[[Any], bool]
) -> KeptOutput:
    """Keep what a tool returned and, if it differs or is too long, its output.

    Args:
        returned: What the tool returned.
        output: What its limits picked from that: the same object where they pick nothing.
        fits: Whether a value is small enough to be copied whole.
    """
    is_same = output is returned
    whole = copy_whole(output, MOST_KEPT) if fits(output) else None
    if is_same and whole is not None and len(whole) <= MAX_SNAPSHOT:
        return KeptOutput(whole, None, True)
    is_huge = whole is None if is_same else not fits(returned)
    result = keep_beginning(returned) if is_huge else take_snapshot(returned)
    if whole is None and not is_same:
        # What the limits left out is not to be read in the place of what they picked.
        return KeptOutput(result, keep_beginning(output), False)
    return KeptOutput(result, whole, whole is not None)
