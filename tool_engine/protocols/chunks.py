"""How do chunks of any kind become the mappings that a decoder reads?

A chunk is an SDK's object, a mapping, or raw bytes or text of a stream of server-sent events, cut
anywhere. A whole reply may be an SDK's object, a mapping, a JSON document, a whole stream as text,
or a list of chunks.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tool_engine.model.json.plain import read_plain

DONE: Final = "[DONE]"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
# Invalid UTF-8 is decoded to these, which valid UTF-8 never gives.
_NO_TEXT: Final = re.compile("[\udc80-\udcff]")
# Arguments that are sent as an object; in a text they have their quotes escaped.
_ARGUMENTS: Final = re.compile(r'"(?:input|arguments|parameters)"\s*:\s*\{\s*"')
_AFTER_DONE: Final = "something came after the end of the stream: it was left out"


_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class AmbiguousObject(dict[str, Any]):
    """A JSON object with a repeated key, whose meant value is unknown."""


def read_field(value: Any, name: str, default: Any = None) -> Any:
    """Return a field of a mapping or SDK object, else `default`."""
    if type(value) is dict or isinstance(value, Mapping):
        found = value.get(name)
    else:
        found = getattr(value, name, None)
    return default if found is None else found


def join_surrogates(text: str) -> str:
    """Join surrogate pairs whose halves came one by one."""
    if text.isascii():
        return text
    return _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)


def dump_object(value: Any) -> Any:
    """Convert an SDK's object to plain values; return others unchanged."""
    if isinstance(value, Mapping):
        return {key: dump_object(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [dump_object(item) for item in value]
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        # As it was sent: a field that is null may have to go back, one that was not sent must not.
        # Without the warnings for fields that the SDK knows in another type: it keeps them, too.
        return dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    return value


def has_bad_bytes(text: str) -> bool:
    """Return True if text stands for bytes that were no UTF-8."""
    return not text.isascii() and _NO_TEXT.search(text) is not None


def show_start(text: str) -> str:
    """Return the beginning of text for a message."""
    return repr(_NO_TEXT.sub("\ufffd", text[:80]))


class EventStream:
    """A reader of server-sent events, cut anywhere, from bytes or text.

    A server that was asked for a stream may answer with a JSON document, such as an error: what
    begins with `{` or `[` is kept, and is one event at the end.

    https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._rest: list[str] = []
        self._data: list[str] = []
        self._name = ""
        self._ends_in_return = False
        self._is_begun = False
        self._is_document = False

    def feed(self, chunk: bytes | bytearray | memoryview | str) -> list[str]:
        text = chunk if isinstance(chunk, str) else self._decoder.decode(bytes(chunk))
        if not self._is_begun:
            text = text.lstrip().lstrip("\ufeff")
            self._is_begun = bool(text)
            self._is_document = text[:1] in ("{", "[")
        if self._is_document:
            self._rest.append(text)
            return []
        return self._take_text(text) if text else []

    def close(self) -> list[str]:
        """Return an unterminated event: servers forget the last empty line."""
        last = self._decoder.decode(b"", True)
        if self._is_document:
            document, self._rest = "".join((*self._rest, last)), []
            return [document] if document else []
        return self._take_text(last + "\n") + self._flush_event()

    def _take_text(self, text: str) -> list[str]:
        if self._ends_in_return and text[0] == "\n":
            text = text[1:]
        self._ends_in_return = text.endswith("\r")
        lines = _LINE_END.split(text)
        if len(lines) == 1:
            self._rest.append(lines[0])
            return []
        lines[0] = "".join(self._rest) + lines[0]
        self._rest = [lines.pop()]
        return [data for line in lines for data in self._take_line(line)]

    def _take_line(self, line: str) -> list[str]:
        if not line:
            return self._flush_event()
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
        elif name == "event":
            self._name = value
        return []

    def _flush_event(self) -> list[str]:
        data, self._data = self._data, []
        # A delta without data lost them; a sign of life needs none.
        is_lost, self._name = not data and "delta" in self._name, ""
        return ["\n".join(data)] if data or is_lost else []


class ChunkReader:
    """A converter of all kinds of chunks to mappings or SDK objects.

    Unreadable data becomes an entry of `problems`, each a sentence; nothing is raised.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.is_done = False
        """True after `[DONE]`; everything after it is ignored."""
        self._events: EventStream | None = None

    def feed(self, chunk: Any) -> Iterable[Any]:
        if not isinstance(chunk, bytes | bytearray | memoryview | str):
            return (read_plain(chunk),)
        if self._events is None:
            self._events = EventStream()
        return self._parse_texts(self._events.feed(chunk))

    def close(self) -> Iterable[Any]:
        return () if self._events is None else self._parse_texts(self._events.close())

    def _parse_texts(self, texts: list[str]) -> Iterator[Any]:
        # One by one, so that a problem is reported in its place among the others.
        for text in texts:
            if self.is_done:
                self.problems.append(_AFTER_DONE)
                return
            if text.strip() == DONE:
                self.is_done = True
                continue
            if has_bad_bytes(text):
                self.problems.append(f"an event of the stream is no UTF-8: {show_start(text)}")
                continue
            yield from self._read_values(text)

    def _read_values(self, text: str) -> list[Any]:
        try:
            if _ARGUMENTS.search(text) is None:
                return [json.loads(text)]
            return [json.loads(text, object_pairs_hook=_make_object)]
        except (ValueError, RecursionError) as error:
            first, *others = [line for line in _LINE_END.split(text) if line.strip()] or [""]
            found = self._read_values(first) if others else []
            if found:
                # One document per line, which some servers send as a stream.
                return found + [value for line in others for value in self._read_values(line)]
            if not others:
                self.problems.append(f"a part of the reply is no JSON ({error}): {text[:80]!r}")
            return []


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    return value if len(value) == len(pairs) else AmbiguousObject(value)


def split_chunks(reply: Any) -> Iterable[Any]:
    """Return the chunks of a whole reply.

    Text, a mapping and an SDK's object are one chunk; a list or another iterable holds chunks.
    """
    is_one = isinstance(reply, str | bytes | bytearray | memoryview | Mapping)
    if is_one or hasattr(reply, "model_dump") or not isinstance(reply, Iterable):
        return (reply,)
    return reply
