"""Has a process said that it has nothing idle of what others wait for?

Units that were given back stay where they are until another process wants them, and what goes back
is under way for a while. So the coordinator does not know that a call has to wait before each
process that holds what it needs has heard of the call, and has answered.
"""

from __future__ import annotations

import msgspec


class Confirmed(msgspec.Struct, array_like=True):
    """What one life has heard, and what it has answered to.

    Args:
        known_since: Of each resource that others want, or its own calls lack: since which of the
            coordinator's messages the life is to give back what it has idle of it.
        seen: The newest of them that the life had taken in when it spoke last.
        pressed: The newest of them by which it was asked to answer at once.
    """

    known_since: dict[str, int] = {}
    seen: int = -1
    pressed: int = -1

    def note_state(self, known: frozenset[str], heard: int) -> None:
        """Note that the life is about to hear what others wait for, and what its own calls do."""
        self.known_since = {name: self.known_since.get(name, heard) for name in known}

    def find_seen(self, resource: str) -> int:
        """Return which message it had heard when it had nothing idle of a resource; -1: none.

        From then on it gives back what comes free.
        """
        since = self.known_since.get(resource)
        return self.seen if since is not None and since <= self.seen else -1
