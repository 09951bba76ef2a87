"""How does a server take its address, and how many connections may it have?"""

from __future__ import annotations

import socket
from typing import Final

from tool_engine.errors import ConfigurationError

try:
    import resource
except ImportError:  # not on every system
    resource = None  # type: ignore[assignment]

MOST_WAITING: Final = 1_024
"""Connections that the system takes before this process does."""
_MOST_UNSENT: Final = 16 << 10
"""Bytes that wait in the system for a client to read."""
_MOST_CONNECTIONS: Final = 20_000
_OTHER_FILES: Final = 256
"""Open files that a process needs beside its connections, if it may have many."""


def open_listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address.

    Raises:
        ConfigurationError: It cannot be listened at.
    """
    name = "127.0.0.1" if host == "localhost" else host
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    # The protocol is named so that asyncio sends small answers at once (TCP_NODELAY).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            # Else the system takes megabytes for each client that does not read.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _MOST_UNSENT)
        listener.bind((name, port))
        listener.listen(MOST_WAITING)
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"cannot serve at {host}:{port}: {error.strerror or error}; name an address of this "
            "machine and a free port, or 0 for any"
        ) from error
    listener.setblocking(False)
    return listener


def count_room() -> int:
    """Return how many connections there may be: files are left for all else that is opened."""
    if resource is None:
        return _MOST_CONNECTIONS
    files: int = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return min(_MOST_CONNECTIONS, files - min(_OTHER_FILES, files // 2))
