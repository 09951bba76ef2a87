"""How do Gemini's chunks of any kind become mappings in camel case?"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from tool_engine.model.json.plain import read_plain
from tool_engine.protocols.arguments.json_tokens import MAX_DEPTH
from tool_engine.protocols.chunks import DONE, EventStream, has_bad_bytes, plain, show_start
from tool_engine.protocols.gemini.json_documents import JSONDocuments
from tool_engine.protocols.schemas.fitting import is_deeper

_SNAKE: Final = re.compile(r"(?<=[a-z0-9])_([a-z])")
_MAX_DEPTH: Final = MAX_DEPTH + 20
"""Arguments stand eight levels deep in a reply, and have a depth limit of their own."""
_TOO_DEEP: Final = "it nests too deep; write it flatter"
_CAPITAL: Final = re.compile("[A-Z]")


class Payload:
    __slots__ = ("has_repeated_keys", "value")

    def __init__(self, value: Any, *, has_repeated_keys: bool = False) -> None:
        self.value = value
        self.has_repeated_keys = has_repeated_keys


class GeminiReader:
    """A converter of SDK objects, mappings, and streams to payloads.

    The text may be server-sent events (`alt=sse`), one JSON array, or one document. Unreadable data
    becomes an entry of `problems`, each a sentence.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._head: list[bytes | str] = []
        """White space that came before the kind of the text was known."""
        self._stream: EventStream | JSONDocuments | None = None

    def feed(self, chunk: Any) -> Iterable[Payload]:
        if not isinstance(chunk, bytes | bytearray | memoryview | str):
            return self._read_value(chunk)
        text = chunk if isinstance(chunk, str) else bytes(chunk)
        if self._stream is not None:
            return self._parse_texts(self._stream.feed(text))
        self._head.append(text)
        first = _find_first(text)
        if not first:
            return ()
        self._stream = JSONDocuments() if first in "[{," else EventStream()
        head, self._head = self._head, []
        return self._parse_texts([found for each in head for found in self._stream.feed(each)])

    def close(self) -> Iterable[Payload]:
        return () if self._stream is None else self._parse_texts(self._stream.close())

    def _read_value(self, chunk: Any) -> Iterator[Payload]:
        try:
            value = plain(read_plain(chunk))
        except RecursionError:
            self.problems.append(f"a part of the reply cannot be read: {_TOO_DEEP}")
            return
        except Exception as error:  # noqa: BLE001 - an SDK's object may refuse to be dumped
            self.problems.append(f"a part of the reply cannot be read: {error!r:.200}")
            return
        yield from self._check_depth(Payload(value))

    def _parse_texts(self, texts: list[str]) -> Iterator[Payload]:
        for text in texts:
            if text.strip() == DONE:
                continue
            if has_bad_bytes(text):
                self.problems.append(f"a part of the reply is no UTF-8: {show_start(text)}")
                continue
            pairs = _Pairs()
            try:
                value = json.loads(text, object_pairs_hook=pairs.make_object)
            except RecursionError:
                self.problems.append(
                    f"a part of the reply is no JSON that can be read: {_TOO_DEEP}"
                )
                continue
            except ValueError as error:
                self.problems.append(f"a part of the reply is no JSON ({error}): {text[:80]!r}")
                continue
            yield from self._check_depth(Payload(value, has_repeated_keys=pairs.has_repeated))

    def _check_depth(self, payload: Payload) -> Iterator[Payload]:
        if is_deeper(payload.value, _MAX_DEPTH):
            self.problems.append(f"a part of the reply cannot be read: {_TOO_DEEP}")
        else:
            yield payload


class _Pairs:
    def __init__(self) -> None:
        self.has_repeated = False

    def make_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        self.has_repeated = self.has_repeated or len(value) != len(pairs)
        return value


def _find_first(text: bytes | str) -> str:
    if isinstance(text, str):
        return text.lstrip("\ufeff \t\r\n")[:1]
    return text.lstrip(b"\xef\xbb\xbf \t\r\n")[:1].decode("ascii", "replace")


def get(value: Any, name: str, default: Any = None) -> Any:
    """Return a field by its camel or snake case name, else `default`."""
    if type(value) is not dict and not isinstance(value, Mapping):
        return default
    found = value.get(name)
    if found is None:
        found = value.get(_to_snake(name))
    return default if found is None else found


@cache
def _to_snake(name: str) -> str:
    return _CAPITAL.sub(lambda letter: f"_{letter[0].lower()}", name)


def _to_camel(key: str) -> str:
    return _SNAKE.sub(lambda letter: letter[1].upper(), key) if "_" in key else key


def camel_keys(value: Mapping[Any, Any], *, keeps_none: bool = False) -> dict[str, Any]:
    """Copy a mapping for the API: camel case keys, base64, no None."""
    return {
        _to_camel(str(key)): (base64.b64encode(item).decode() if isinstance(item, bytes) else item)
        for key, item in value.items()
        if keeps_none or item is not None
    }
