"""Where else do one call's secret values stand, and how are they hidden?

A model may write a password into another argument, and a tool may repeat it in its output.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from binascii import a2b_base64
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from math import isfinite
from typing import Any, Final
from uuid import UUID

import msgspec

from tool_engine.model.json.free_key import free_key
from tool_engine.model.json.returned_value import stand_in, to_text
from tool_engine.model.tool import values_under
from tool_engine.redaction.known import FEW, GRAM, LONGEST_CODED, grams_in, secret_forms
from tool_engine.redaction.spelling import Span, find_spelled, spans_of
from tool_engine.redaction.text import HIDDEN, hide_spans, secret_spans, splits_secret
from tool_engine.redaction.value import redact

SHORTEST: Final = 4
"""Characters; shorter values stand in every second text."""
_HEAD: Final = 128
"""Characters by which a secret that goes on past the end of the text is recognised."""
_DEEPEST: Final = 64
_FEW_LETTERS: Final = 64
"""Most characters of a text whose parts are looked at before any form is looked for."""
_HEAD_LETTERS: Final = 4
_MOST_SECRETS: Final = 400
"""Texts that are looked for elsewhere; of more, all of the call's texts are hidden unread."""
_MOST_CODED: Final = 131_072
"""Characters of all values that are looked for in other forms; the same."""
_KEYS_SHOWN: Final = frozenset(
    (
        "path",
        "message",
        "code",
        "suggestion",
        "value",
        "result",
        "error",
        "status",
        "_truncated",
        "size",
    )
)
"""Keys that are the engine's own, whatever a call was sent."""
_CUT: Final = re.compile(r"… \[[\d,]+ characters in all\]\Z")
"""The end of a text that was shortened to be kept."""
_SHORTEST: Final = 4
"""Characters of a converted form; shorter ones stand in every second text."""
_LONGEST: Final = 64
"""Longest text of a date, a duration, a decimal number or an id."""
_LONGEST_CODED: Final = 16_384
_KINDS: Final = (dt.datetime, dt.date, dt.time, dt.timedelta, Decimal, UUID)
_LARGEST: Final = 2**1023
"""No float is larger."""


class OwnSecrets:
    """The secrets of one call, hidden wherever their values stand.

    Args:
        params: The arguments.
        names: The arguments that are secret.
        parts: Names that are secret at any depth.
        filled: Secret defaults, filled in where nothing is sent.
        declared: The keys of objects that are not secret; None: any key may be.
        shortest: The fewest characters of a value that is looked for elsewhere.
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        names: Collection[str] = (),
        parts: Collection[str] = (),
        *,
        filled: Iterable[Any] = (),
        declared: Collection[str] | None = None,
        shortest: int = SHORTEST,
    ) -> None:
        self.names = frozenset(names)
        self.parts = frozenset(parts)
        secrets = [*(params.get(name) for name in self.names), *filled]
        if self.parts:
            secrets += values_under(params, self.parts)
        self._said = _few_of(list_readings(secrets, declared), shortest)
        self._keys = _KEYS_SHOWN.union(declared or ())

    @cached_property
    def _secret_texts(self) -> tuple[str, ...]:
        """All forms, the longest first: a secret may be part of another one."""
        return tuple(sorted(self._all_forms, key=len, reverse=True))

    @cached_property
    def _all_forms(self) -> frozenset[str]:
        said = self._said or ()
        return frozenset(said).union(*map(secret_forms, said))

    @cached_property
    def _by_end(self) -> dict[int, list[str]]:
        """The forms by their last four bytes; what is shorter is under -1."""
        filed: dict[int, list[str]] = {}
        for form in self._secret_texts:
            data = form.encode("utf-8", "surrogatepass")[-GRAM:]
            gram = int.from_bytes(data, sys.byteorder) if len(data) == GRAM else -1
            filed.setdefault(gram, []).append(form)
        return filed

    @property
    def hides_all(self) -> bool:
        """Whether there are too many secrets to look for, so that no text of the call is shown."""
        return self._said is None

    def params(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of arguments without any secret, by name or by value."""
        copy: dict[str, Any] = self.value(params, self.names)
        return copy

    def value(self, value: Any, names: frozenset[str] = frozenset()) -> Any:
        """Return a copy of any value of the call; `names` are hidden entirely."""
        if self.hides_all:
            if names and isinstance(value, Mapping):
                value = {key: HIDDEN if key in names else each for key, each in value.items()}
                return self._shape_only(value, self._keys.union(names))
            return self._shape_only(value, self._keys)
        if not self._said:
            return redact(value, names, self.parts)
        # Texts are redacted in one pass: what looks like a secret may be a part of one.
        return self._hide_values(redact(value, names, self.parts, self.text), None)

    def text(self, text: str) -> str:
        """Return a text without these secrets and all that look like secrets."""
        if self.hides_all:
            return text and HIDDEN
        return self._cut_spans(text, secret_spans(text))

    def hide(self, value: Any) -> Any:
        """Return a value without these secrets; all else is unchanged."""
        if self.hides_all:
            return self._shape_only(value, self._keys)
        return self._hide_values(value, self.hide_text)

    def _hide_values(
        self, value: Any, hide_text: Callable[[str], str] | None, depth: int = 0
    ) -> Any:
        """Hide secret values; `hide_text` None: texts are already redacted."""
        if not self._said or value is None or isinstance(value, bool) or depth > _DEEPEST:
            return value
        if isinstance(value, str):
            return value if hide_text is None else hide_text(value)
        if isinstance(value, dict):
            copy: dict[Any, Any] = {}
            for key, item in value.items():
                name = key if hide_text is None or not isinstance(key, str) else hide_text(key)
                name = name if name == key else free_key(name, copy)
                copy[name] = self._hide_values(item, hide_text, depth + 1)
            return copy
        if isinstance(value, list):
            return [self._hide_values(item, hide_text, depth + 1) for item in value]
        is_number = isinstance(value, int | float)
        texts = read_number(value) if is_number else (to_text(value),)
        return value if self._all_forms.isdisjoint(texts) else HIDDEN

    def hide_text(self, text: str) -> str:
        """Return a text without the values of these secrets."""
        if self.hides_all:
            return text and HIDDEN
        return self._cut_spans(text, []) if self._said else text

    def splits(self, text: str, place: int) -> bool:
        """Return True if a cut before `place` leaves a half of something that is hidden."""
        return not self.hides_all and splits_secret(text, place, self.text)

    def _shape_only(self, value: Any, keys: frozenset[str], depth: int = 0) -> Any:
        """Return the shape of a value: all of its texts, numbers and other keys are hidden."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str) or depth > _DEEPEST:
            return value and HIDDEN
        if isinstance(value, Mapping):
            copy: dict[Any, Any] = {}
            for key, item in value.items():
                name = key if key in keys else free_key(HIDDEN, copy)
                copy[name] = self._shape_only(item, keys, depth + 1)
            return copy
        if isinstance(value, list | tuple):
            return [self._shape_only(item, keys, depth + 1) for item in value]
        return HIDDEN

    def _cut_spans(self, text: str, spans: list[Span]) -> str:
        """Return a text without these spans and without the secrets' values."""
        if self._said:
            # What looks like a secret may be a part of one: both are searched in the original
            # text, or else the rest would be left.
            spans += find_spelled(text, self._find_spans)
        text = hide_spans(text, spans)
        if not self._said:
            return text
        cut = _CUT.search(text)
        return text if cut is None else self._without_half(text, cut.start())

    def beginning(self, text: str) -> str:
        """Return the redacted beginning of a text that goes on after it.

        A secret longer than 128 characters is recognised by its first 128; a part of a shorter one
        may be left at the end.
        """
        if self.hides_all:
            return text and HIDDEN
        spans = secret_spans(text)
        return hide_spans(text, [*spans, *find_spelled(text, self._spans_of_beginning)])

    def hides_the_same(self, other: OwnSecrets) -> bool:
        """Return True if both calls were sent the same secrets."""
        return (self._said, self.names, self.parts) == (other._said, other.names, other.parts)

    @property
    def size(self) -> int:
        """Characters of all secrets that are searched."""
        return sum(map(len, self._secret_texts))

    @cached_property
    def _first_letters(self) -> frozenset[str] | None:
        """The first letters of all forms; None: some have fewer."""
        heads = frozenset(form[:_HEAD_LETTERS] for form in self._secret_texts)
        return None if min(map(len, heads), default=0) < _HEAD_LETTERS else heads

    def _find_spans(self, text: str) -> list[Span]:
        forms: Collection[str] = self._secret_texts
        if len(text) <= _FEW_LETTERS and self._first_letters is not None:
            # Many outputs are many short texts: to look for each form in each takes long.
            starts = range(len(text) - _HEAD_LETTERS + 1)
            if self._first_letters.isdisjoint([text[at : at + _HEAD_LETTERS] for at in starts]):
                return []
        if len(forms) > FEW:
            grams = grams_in(text, self._by_end)
            found = [form for gram in (*grams, -1) for form in self._by_end.get(gram, ())]
            forms = sorted(found, key=len, reverse=True)
        return spans_of(text, forms, overlap=False)

    def _spans_of_beginning(self, text: str) -> list[Span]:
        spans = self._find_spans(text)
        for form in self._secret_texts:
            if len(form) > _HEAD:
                at = text.find(form[:_HEAD], max(0, len(text) - len(form) + 1))
                if at >= 0:
                    spans.append((at, len(text)))
        return spans

    def _without_half(self, text: str, end: int) -> str:
        """Hide the beginning of a secret at the end of a shortened text."""
        for secret in self._secret_texts:
            for length in range(min(len(secret) - 1, end), SHORTEST - 1, -1):
                if text.startswith(secret[:length], end - length):
                    return f"{text[: end - length]}{HIDDEN}{text[end:]}"
        return text


def _few_of(read: Iterable[str], shortest: int) -> frozenset[str] | None:
    """Return the texts that are looked for, or None if there are too many of them."""
    said, coded = set[str](), 0
    for text in read:
        if len(text) >= shortest and text != HIDDEN and text not in said:
            said.add(text)
            coded += len(text) if len(text) <= LONGEST_CODED else 0
            if len(said) > _MOST_SECRETS or coded > _MOST_CODED:
                return None
    return frozenset(said)


def list_readings(value: Any, declared: Collection[str] | None = None) -> Iterator[str]:
    """Return all texts in a value, as sent and as a tool may receive them.

    Validation passes 7.0 on as 7 for an integer, and a hint such as `datetime` converts a text:
    what a tool repeats is not always what was sent.

    Args:
        value: What was sent, or is filled in.
        declared: The keys of objects that are not secret; None: any key may be.
    """
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            if declared is not None:
                keys = (key for key in item if isinstance(key, str) and key not in declared)
                waiting.extend(key for key in keys if len(key) >= _SHORTEST)
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
        elif isinstance(item, str):
            yield to_text(item)
            yield from (text for text in _read_converted(item) if len(text) >= _SHORTEST)
        elif item is not None and not isinstance(item, bool):
            yield from read_number(item)


def read_number(value: Any) -> Iterator[str]:
    """Return a number's text, and those of the equal integer and float."""
    yield to_text(value)
    if isinstance(value, float) and isfinite(value) and value.is_integer():
        yield str(int(value))
    elif isinstance(value, int) and -_LARGEST < value < _LARGEST:
        yield str(float(value))


def _read_converted(text: str) -> Iterator[str]:
    """Yield the texts of what a function with such a hint receives."""
    if len(text) <= _LONGEST:
        for kind in _KINDS:
            try:
                made = msgspec.convert(text, kind)
            except (msgspec.ValidationError, ArithmeticError, ValueError):
                continue
            yield from (str(made), repr(made), str(stand_in(made)), msgspec.to_builtins(made))
    if len(text) > _LONGEST_CODED:
        return
    try:
        data = a2b_base64(text, strict_mode=True)
        yield repr(data)[2:-1]
        yield data.decode()
    except ValueError:
        return


NO_SECRETS: Final = OwnSecrets({})
"""The secrets of a call that was sent none."""
