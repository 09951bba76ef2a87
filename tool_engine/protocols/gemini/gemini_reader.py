"""How do Gemini's chunks of any kind become mappings in camel case?"""

from __future__ import annotations

import base64
import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from tool_engine.model.json.plain import read_plain
from tool_engine.protocols.arguments.json_tokens import MAX_DEPTH
from tool_engine.protocols.chunks import DONE, EventStream, dump_object, has_bad_bytes, show_start
from tool_engine.protocols.schemas.fitting import is_deeper

_OUTSIDE: Final = re.compile(r'["{}\[\]]')
_INSIDE: Final = re.compile(r'["\\]')
_BETWEEN: Final = re.compile(r"[\s,\[\]]*")
_SNAKE: Final = re.compile(r"(?<=[a-z0-9])_([a-z])")
_MAX_DEPTH: Final = MAX_DEPTH + 20
"""Arguments stand eight levels deep in a reply, and have a depth limit of their own."""
_TOO_DEEP: Final = "it nests too deep; write it flatter"
_CAPITAL: Final = re.compile("[A-Z]")


class JSONDocuments:
    """A splitter of text into its JSON objects, in linear time.

    `generateContent` streams an array unless it is asked for server-sent events. It may be cut
    anywhere: each object is returned as soon as it is whole.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._parts: list[str] = []
        self._depth = 0
        self._is_in_text = False
        self._is_escaped = False

    def feed(self, chunk: bytes | bytearray | memoryview | str) -> list[str]:
        """Return the completed objects, and stray text between them."""
        text = chunk if isinstance(chunk, str) else self._decoder.decode(bytes(chunk))
        found: list[str] = []
        place = 0
        while place < len(text):
            if self._depth == 0:
                place = self._read_between(text, place, found)
            if self._depth:
                place = self._read_object(text, place, found)
        return found

    def close(self) -> list[str]:
        """Return the rest: an unclosed object, or stray text."""
        rest = "".join((*self._parts, self._decoder.decode(b"", final=True)))
        self._parts, self._depth = [], 0
        return [rest] if rest.strip() else []

    def _read_between(self, text: str, place: int, found: list[str]) -> int:
        if not self._parts:
            separators = _BETWEEN.match(text, place)
            place = separators.end() if separators else place
        begin = text.find("{", place)
        other = text[place:] if begin < 0 else text[place:begin]
        if other:
            self._parts.append(other)
        if begin < 0:
            return len(text)
        if self._parts:
            found.append("".join(self._parts))
            self._parts = []
        self._depth = 1
        self._parts.append("{")
        return begin + 1

    def _read_object(self, text: str, place: int, found: list[str]) -> int:
        start = place
        while place < len(text):
            if self._is_escaped:
                self._is_escaped = False
                place += 1
                continue
            mark = (_INSIDE if self._is_in_text else _OUTSIDE).search(text, place)
            if mark is None:
                break
            place = mark.end()
            self._pass_mark(mark.group())
            if self._depth == 0:
                found.append("".join((*self._parts, text[start:place])))
                self._parts = []
                return place
        self._parts.append(text[start:])
        return len(text)

    def _pass_mark(self, mark: str) -> None:
        if mark == "\\":
            self._is_escaped = True
        elif mark == '"':
            self._is_in_text = not self._is_in_text
        else:
            self._depth += 1 if mark in "{[" else -1


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
            value = dump_object(read_plain(chunk))
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


def get_field(value: Any, name: str, default: Any = None) -> Any:
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
