"""An address that takes no connection, as a machine that is off."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def deaf_socket() -> Iterator[socket.socket]:
    """A socket that listens, and whose queue of connections is full."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting: list[socket.socket] = []
        try:
            while not waiting or is_connected(waiting[-1]):
                waiting.append(socket.socket())
                waiting[-1].setblocking(False)
                waiting[-1].connect_ex(listening.getsockname())
            yield listening
        finally:
            for each in waiting:
                each.close()


def is_connected(each: socket.socket) -> bool:
    """Whether the other end took it; on the loopback that is known at once."""
    with suppress(OSError):
        each.getpeername()
        return True
    return False
