"""Where in a text does a resolved secret of this process stand?

In whatever form it was written. A few secrets are searched one after the other; of many, each form
is filed under four of its bytes, so that one pass over a text finds them all.
"""

from __future__ import annotations

import json
import sys
from binascii import b2a_base64, hexlify
from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from threading import Lock
from typing import Final

from tool_engine.redaction.spelling import find_spelled, spans_of

_SHORTEST: Final = 4
"""Characters; shorter values stand in every second text."""
_SHORTEST_CODED: Final = 6
"""Characters; a shorter encoded form is not recognisable as the secret."""
_SHORTEST_LINE: Final = 16
_MOST_LINES: Final = 200
LONGEST_CODED: Final = 16_384
_MOST: Final = 10_000
"""Secrets that are remembered: tokens renewed each hour take more than a year to fill it."""
_MOST_LISTED: Final = 16
"""Secrets whose forms are listed for an automaton."""
FEW: Final = 64
"""Most forms that are quicker to search one by one."""
GRAM: Final = 4
_MOST_GRAMS: Final = 64
_NEVER: Final = "[hidden]"


def secret_forms(value: str) -> tuple[str, ...]:
    """Return `value` first, then the other forms in which it may appear.

    Without the blanks around it, percent-encoded, escaped as in JSON, HTML and Python, in base64
    (also inside something longer, such as `user:secret`) and in hexadecimal, once and twice, and
    its long lines. See `find_spelled` for texts that are escaped in part.
    """
    bare = value.strip()
    forms = [value, bare, *_split_lines(bare)]
    if len(value) <= LONGEST_CODED:
        forms += _escape_forms(bare)
        forms += (form for form in _code_forms(bare) if len(form) >= _SHORTEST_CODED)
    return tuple(dict.fromkeys(form for form in forms if len(form) >= _SHORTEST))


def _split_lines(value: str) -> list[str]:
    lines = [line.strip() for line in value.splitlines()[:_MOST_LINES]]
    return [line for line in lines if len(line) >= _SHORTEST_LINE and "-----" not in line]


def _escape_forms(value: str) -> Iterator[str]:
    # Loaded late: the imports take longer than the rest of this package.
    from html import escape
    from urllib.parse import quote, quote_plus

    for safe in ("", "/"):
        quoted = quote(value, safe=safe, errors="surrogatepass")
        yield quoted
        yield _with_small_digits(quoted)
    yield quote_plus(value, errors="surrogatepass")
    # For forms in which more is escaped; `find_spelled` reads the rest.
    yield value.replace(" ", "+")
    as_json = json.dumps(value)[1:-1]
    yield from (as_json, as_json.replace("/", "\\/"), json.dumps(value, ensure_ascii=False)[1:-1])
    yield json.dumps(as_json)[1:-1]
    yield from (repr(value)[1:-1], repr(value.encode("utf-8", "surrogatepass"))[2:-1])
    yield escape(value)


def _with_small_digits(quoted: str) -> str:
    first, *others = quoted.split("%")
    return "%".join((first, *(part[:2].lower() + part[2:] for part in others)))


def _code_forms(value: str) -> Iterator[str]:
    data = value.encode("utf-8", "surrogatepass")
    in_digits, whole, *inner = hexlify(data), *_base64_forms(data)
    for digits in (in_digits, hexlify(in_digits)):
        yield digits.decode()
        yield digits.decode().upper()
    # Base64 is often encoded in base64 once more.
    once = [*_both_alphabets((whole, *inner))]
    yield from once
    yield from _both_alphabets(
        form for text in once for form in _base64_forms(text.rstrip("=").encode())
    )


def _both_alphabets(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield text
        yield text.replace("+", "-").replace("/", "_")


def _base64_forms(data: bytes) -> list[str]:
    """Return base64 of the bytes, and of them inside longer data."""
    whole = b2a_base64(data, newline=False).decode()
    # Bytes before it shift it by one or two; the letters that they share are left out.
    inner = [
        b2a_base64(b"\0" * shift + data, newline=False).decode()[-(-shift * 8 // 6) :][
            : (len(data) + shift) * 8 // 6 - -(-shift * 8 // 6)
        ]
        for shift in range(3)
    ]
    return [whole, *inner]


class KnownSecrets:
    """The resolved secrets, the newest last.

    Args:
        most: How many are remembered; the least recently resolved is dropped first.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = Lock()
        # In a plain dict, finding the first entry takes longer and longer.
        self._grams: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        """The index keys of each secret."""
        self._index: dict[int, tuple[str, ...]] = {}
        self._few: tuple[str, ...] | None = ()
        """All forms while there are few, else None."""

    def __len__(self) -> int:
        return len(self._grams)

    def add(self, value: str) -> None:
        """Hide `value` from now on; may be called from any thread."""
        grams = self._grams.get(value)
        if grams is not None and len(self._grams) <= self._most // 2:
            return  # the order only matters near the limit
        if len(value.strip()) < _SHORTEST or value in _NEVER:
            return
        with self._lock:
            grams = self._grams.pop(value, None)
            self._grams[value] = self._file_secret(value) if grams is None else grams
            while len(self._grams) > self._most:
                self._forget_secret(next(iter(self._grams)))

    def holds_number(self, number: float) -> bool:
        """Return True if `number`, as written, is a secret."""
        return bool(self._grams) and str(number) in self._grams

    def list_forms(self) -> tuple[str, ...] | None:
        """Return all forms of the secrets; None: they are many, or a number may be one."""
        with self._lock:
            secrets = (*self._grams,) if len(self._grams) <= _MOST_LISTED else None
        return None if secrets is None else _list_forms(secrets)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of secrets in `text`, overlapping ones included."""
        if not self._grams:
            return []
        return find_spelled(text, self._spans_in)

    def _spans_in(self, text: str) -> list[tuple[int, int]]:
        few = self._few
        if few is not None:
            return spans_of(text, few) if few else []
        values = {
            value for gram in grams_in(text, self._index) for value in self._index.get(gram, ())
        }
        return [span for value in values for span in spans_of(text, secret_forms(value))]

    def _file_secret(self, value: str) -> tuple[int, ...]:
        forms = secret_forms(value)
        grams = tuple(dict.fromkeys(self._free_gram(form) for form in forms))
        for gram in grams:
            self._index[gram] = (*self._index.get(gram, ()), value)
        if self._few is not None:
            few = tuple(dict.fromkeys((*self._few, *forms)))
            self._few = few if len(few) <= FEW else None
        return grams

    def _free_gram(self, form: str) -> int:
        """Return the least used four bytes of `form`: many tokens begin alike."""
        data = form.encode("utf-8", "surrogatepass")[: _MOST_GRAMS + GRAM - 1]
        grams = [
            int.from_bytes(data[at : at + GRAM], sys.byteorder)
            for at in range(len(data) - GRAM + 1)
        ]
        return min(grams, key=lambda gram: len(self._index.get(gram, ())))

    def _forget_secret(self, value: str) -> None:
        for gram in self._grams.pop(value):
            left = tuple(other for other in self._index[gram] if other != value)
            if left:
                self._index[gram] = left
            else:
                del self._index[gram]


@lru_cache(maxsize=1)
def _list_forms(secrets: tuple[str, ...]) -> tuple[str, ...] | None:
    for each in secrets:
        with suppress(ValueError):
            float(each)
            return None
    return tuple(dict.fromkeys(form for each in secrets for form in secret_forms(each)))


def grams_in(text: str, index: Container[int]) -> set[int]:
    """Return the keys of `index` that are four successive bytes of a text."""
    data = text.encode("utf-8", "surrogatepass")
    found: set[int] = set()
    for start in range(GRAM):
        whole = (len(data) - start) // GRAM * GRAM
        if whole > 0:
            found.update(memoryview(data)[start : start + whole].cast("I"))
    return {gram for gram in found if gram in index}


known_secrets: Final = KnownSecrets()
"""The secrets of this process."""


def remember_secret(value: str) -> None:
    """Hide `value` from now on wherever it appears, if it has at least 4 characters."""
    known_secrets.add(value)
