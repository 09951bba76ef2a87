"""How is program output bounded when there is too much of it?

The start and the end are kept: the start often says what the program does, the end what came of
it. The middle is counted and dropped as it arrives.
"""

from __future__ import annotations

from typing import Final

from tool_engine.redaction.text import place_to_cut

_LONGEST_CHARACTER: Final = 4
_BEYOND: Final = 4_096
"""Bytes kept beyond each cut, to see if it splits a secret."""


class Captured:
    """The start and the end of one stream, at most `limit` bytes."""

    __slots__ = ("_head", "_head_limit", "_tail", "_tail_limit", "size")

    def __init__(self, limit: int) -> None:
        self._head_limit = limit - limit // 2
        self._tail_limit = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0
        """All bytes of the stream, dropped ones included."""

    @property
    def is_cut(self) -> bool:
        return self.size > self._head_limit + self._tail_limit

    @property
    def kept(self) -> int:
        return len(self._head) + len(self._tail)

    def feed(self, data: bytes) -> None:
        room = self._head_limit + _BEYOND - len(self._head)
        if room > 0:
            self._head += data[:room]
        self._tail += data[max(0, self._head_limit - self.size) :]
        self.size += len(data)
        # Trimmed rarely, so that a flood of small pieces is not copied for each of them.
        if len(self._tail) > 2 * self._tail_limit + 64 * 1024:
            del self._tail[: len(self._tail) - self._tail_limit - _BEYOND]

    def text(self) -> str:
        """Return what was kept as UTF-8, with U+FFFD for other bytes.

        The cut drops whole lines, if there are lines, and leaves no half of a secret; a line in
        square brackets gives the number of bytes left out.
        """
        if not self.is_cut:
            return (self._head[: self._head_limit] + self._tail).decode("utf-8", "replace")
        head, tail = self._read_beginning(), self._read_end()
        left_out = self.size - len(head) - len(tail)
        separator = "" if head.endswith(b"\n") or not head else "\n"
        return (
            f"{head.decode('utf-8', 'replace')}{separator}[... {left_out} bytes left out ...]\n"
            f"{tail.decode('utf-8', 'replace')}"
        )

    def _read_beginning(self) -> bytes:
        kept = _decode_bytes(_without_last_part(bytes(self._head[: self._head_limit])))
        known = _decode_bytes(self._head)
        return _encode_text(known[: place_to_cut(known, len(kept), -1)])

    def _read_end(self) -> bytes:
        if not self._tail_limit:
            return b""
        kept = _decode_bytes(_without_first_part(bytes(self._tail[-self._tail_limit :])))
        known = _decode_bytes(self._tail[-self._tail_limit - _BEYOND :])
        return _encode_text(known[place_to_cut(known, len(known) - len(kept), 1) :])


def _decode_bytes(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _without_last_part(head: bytes) -> bytes:
    """Cut after the last whole line; without lines, after the last whole character."""
    end = head.rfind(b"\n") + 1
    if end:
        return head[:end]
    for back in range(1, min(_LONGEST_CHARACTER, len(head)) + 1):
        byte = head[-back]
        if byte & 0xC0 != 0x80:
            is_whole = back >= _length_of_character(byte)
            return head if is_whole else head[:-back]
    return head


def _without_first_part(tail: bytes) -> bytes:
    """Cut before the first whole line; without lines, before the first whole character."""
    start = tail.find(b"\n") + 1
    if 0 < start < len(tail):
        return tail[start:]
    for number, byte in enumerate(tail[:_LONGEST_CHARACTER]):
        if byte & 0xC0 != 0x80:
            return tail[number:]
    return tail


def _length_of_character(first_byte: int) -> int:
    if first_byte < 0xC0:
        return 1
    if first_byte < 0xE0:
        return 2
    return 3 if first_byte < 0xF0 else 4
