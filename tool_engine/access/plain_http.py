"""How is a plain request read and answered without a machine of states?

Nearly all requests are plain: they come alone and whole, with one length, in the characters that
all readers take for the same. What h11 does to be sure of the others takes two thirds of the time
of a call. Whatever is not plain, or only nearly so, is left to h11.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from http.client import responses
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from h11 import LocalProtocolError

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

    def make_scope(
        self, server: Any, client: Any, scheme: str | None, state: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the request as ASGI has it."""
        path, _, query = self.target.partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "server": server,
            "client": client,
            "scheme": scheme,
            "method": self.method,
            "root_path": "",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "headers": self.headers,
            "state": dict(state),
        }


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


class PlainAnswer:
    """The answer to a plain request, as bytes.

    Args:
        write: Takes them.
        is_followed: Whether the connection may stay open for another request.
    """

    def __init__(self, write: Callable[[bytes], object], is_followed: bool) -> None:
        self._write = write
        self.is_followed = is_followed
        """Whether it stays open."""
        self._left: int | None = None
        """How many bytes of the body are still to come; None: it is sent in chunks."""

    def send_head(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Send the head.

        Raises:
            LocalProtocolError: A header would be more than one line, or there are two lengths.
        """
        parts, length = [], None
        for name, value in headers:
            known = name.lower()
            if known == b"transfer-encoding":
                continue  # it is decided here
            if known == b"content-length":
                if not value.isdigit() or length not in (None, int(value)):
                    raise LocalProtocolError("an answer has one length, in digits")
                length = int(value)
                continue
            if known == b"connection":
                self.is_followed = self.is_followed and value.lower() != _CLOSES
                continue
            parts.append(b"%b: %b\r\n" % (name, value))
        if length is not None:
            parts.append(b"content-length: %d\r\n" % length)
        elif status not in _BODILESS:
            parts.append(b"transfer-encoding: chunked\r\n")
        if not self.is_followed:
            parts.append(b"connection: close\r\n")
        self._left = 0 if status in _BODILESS else length
        lines = b"".join(parts)
        if _SENT.fullmatch(lines) is None or lines.count(b"\n") != len(parts):
            raise LocalProtocolError(f"a header of the answer is no line: {lines!r:.200}")
        phrase = responses.get(status, "").encode()
        self._write(b"HTTP/1.1 %d %b\r\n%b\r\n" % (status, phrase, lines))

    def send_part(self, data: bytes, is_last: bool) -> None:
        """Send a part of the body.

        Raises:
            LocalProtocolError: The body is longer or shorter than its head says.
        """
        write = self._write
        if self._left is not None:
            self._left -= len(data)
            if self._left >= 0:
                write(data)
            if self._left < 0 or (is_last and self._left > 0):
                raise LocalProtocolError("the body of the answer is not as long as its head says")
            return
        if data:
            write(b"%x\r\n" % len(data))
            write(data)
            write(b"\r\n")
        if is_last:
            write(b"0\r\n\r\n")
