"""How is a plain request read and answered without a machine of states?

Nearly all requests are plain: they come alone and whole, with one length, in the characters that
all readers take for the same. What h11 does to be sure of the others takes two thirds of the time
of a call. Whatever is not plain, or only nearly so, is left to h11.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from h11 import LocalProtocolError
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, RequestResponseCycle

_HEAD: Final = re.compile(
    rb"(GET|POST|PUT|PATCH|DELETE) (/[!-~]*) HTTP/1\.1\r\n"
    rb"((?:[-0-9A-Za-z_]++: ?[!-~][ -~]*+\r\n)+)\r\n"
)
_LONGEST_HEAD: Final = 1 << 14
_DECIDING: Final = frozenset((b"expect", b"transfer-encoding", b"upgrade"))
"""With these a request is no plain one."""
_STAYS: Final = b"keep-alive"
_CLOSES: Final = b"close"
_SENT: Final = re.compile(rb"(?:[-0-9A-Za-z_]++: [\t -~\x80-\xff]*+\r\n)*")
"""Headers that end where their lines end."""
_STATUS_LINES: Final = {
    status: b"HTTP/1.1 %d %b\r\n" % (status, phrase) for status, phrase in STATUS_PHRASES.items()
}
_BODILESS: Final = (204, 304)


class PlainRequest(NamedTuple):
    """A request that can be read in one way only."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    """By their names in small letters; each stands once."""
    body: bytes
    is_followed: bool
    """Whether the connection stays open for another one."""


def read_plain(data: bytes) -> PlainRequest | None:
    """Return what is sent as a request; None: it is not plain.

    Args:
        data: All that has come since the last request.
    """
    found = _HEAD.match(data)
    if found is None or found.end() > _LONGEST_HEAD:
        return None
    headers = []
    for line in found[3][:-2].split(b"\r\n"):
        name, _, value = line.partition(b":")
        headers.append((name.lower(), value.strip(b" ")))
    sent = dict(headers)
    if len(sent) != len(headers) or b"host" not in sent or not _DECIDING.isdisjoint(sent):
        return None
    wish = sent.get(b"connection", _STAYS).lower()
    if wish not in (_STAYS, _CLOSES):
        return None
    length, body = sent.get(b"content-length", b"0"), data[found.end() :]
    if len(length) > len(str(len(data))) or not length.isdigit() or int(length) != len(body):
        return None
    return PlainRequest(found[1].decode(), found[2], headers, body, wish == _STAYS)


class PlainCycle(RequestResponseCycle):
    """A plain request and its answer, of which h11 hears nothing."""

    _left: int | None = None
    """How many bytes of the body are still to come; None: it is sent in chunks."""

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        kind = message["type"]
        expected = "http.response.body" if self.response_started else "http.response.start"
        if kind != expected or self.response_complete:
            ended = ", and the answer is complete" if self.response_complete else ""
            raise RuntimeError(f"an app has sent {kind!r} instead of {expected!r}{ended}")
        if not self.response_started:
            self.response_started = True
            headers = [*self.default_headers, *message.get("headers", ())]
            self.transport.write(self._write_head(message["status"], headers))
            return
        is_last = not message.get("more_body", False)
        self._send_part(message.get("body", b""), is_last)
        if is_last:
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()

    def _write_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the head of the answer.

        Raises:
            LocalProtocolError: A header would be more than one line, or the length stands twice.
        """
        parts, length = [], None
        for name, value in headers:
            known = name.lower()
            if known == b"transfer-encoding":
                continue  # it is decided here
            if known == b"content-length":
                if length is not None or not value.isdigit():
                    raise LocalProtocolError("an answer has one length, in digits")
                length = int(value)
            elif known == b"connection":
                self.keep_alive = self.keep_alive and value.lower() != _CLOSES
                continue
            parts.append(b"%b: %b\r\n" % (name, value))
        if status in _BODILESS:
            length = 0
        elif length is None:
            parts.append(b"transfer-encoding: chunked\r\n")
        if not self.keep_alive:
            parts.append(b"connection: close\r\n")
        self._left = length
        lines = b"".join(parts)
        if _SENT.fullmatch(lines) is None or lines.count(b"\n") != len(parts):
            raise LocalProtocolError(f"a header of the answer is no line: {lines!r:.200}")
        return b"%b%b\r\n" % (_STATUS_LINES[status], lines)

    def _send_part(self, data: bytes, is_last: bool) -> None:
        """Send a part of the body.

        Raises:
            LocalProtocolError: The body is longer or shorter than its head says.
        """
        write = self.transport.write
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0 or (is_last and self._left > 0):
                raise LocalProtocolError("the body of the answer is not as long as its head says")
            write(data)
            return
        if data:
            write(b"%x\r\n" % len(data))
            write(data)
            write(b"\r\n")
        if is_last:
            write(b"0\r\n\r\n")
