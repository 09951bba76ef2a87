"""Which port can a server of a test have, that starts later or again and again?

A port that the system chose and that was given back belongs to whoever asks next, be it for the
near end of a connection. This is one that the system gives to none.
"""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST = 24_001
"""Ray takes those from 10,002 on for its workers, and those up to 24,000 for its clients."""
TRIES = 100


def free_port() -> int:
    """A port of the loopback on which nothing listens, and which nobody gets by chance."""
    highest = 0
    with contextlib.suppress(OSError):
        highest = int(RANGE.read_text("ascii").split()[0]) - 1
    for _ in range(TRIES if highest > LOWEST + TRIES else 0):
        # Not of a seed: tests run side by side with the same one.
        port = random.SystemRandom().randint(LOWEST, highest)
        with contextlib.suppress(OSError), socket.socket() as found:
            found.bind(("127.0.0.1", port))
            return port
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
