"""Does what listens at an address of a fleet answer at all?"""

from __future__ import annotations

import socket
from typing import Final

SECONDS_TO_REACH: Final = 5.0
SECONDS_TO_ANSWER: Final = 10.0
"""A server whose process runs greets in milliseconds, on a busy machine in a second or two."""
_GREETING: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""What a client of HTTP/2 says first, which both of Ray's servers speak: each says its settings."""


def check_answering(place: str, seconds: float = SECONDS_TO_ANSWER) -> None:
    """Raise `OSError` if nothing listens at `HOST:PORT`, or never says a word. Blocks.

    Ray takes two minutes to say the former. The latter it never says: for a process that was
    stopped, its system goes on to take connections.
    """
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdigit():
        return  # Ray says what is wrong with it
    with socket.create_connection((host, int(port)), SECONDS_TO_REACH) as connection:
        connection.settimeout(seconds)
        try:
            connection.sendall(_GREETING)
            connection.recv(1)
        except TimeoutError:
            raise TimeoutError(
                f"{place} takes connections, and has said nothing for {seconds:g} s: its process "
                "stands still, or is none of Ray's"
            ) from None
        except ConnectionError:
            return  # one that wants TLS refuses the greeting, and has answered by it
