"""Has a process said that it has nothing idle of what others wait for?

Units that were given back stay where they are until another process wants them. So the coordinator
does not know that a call has to wait before each process that holds what it needs has heard so, and
has answered.
"""

from __future__ import annotations

import msgspec

_OWN = "own "


class Confirmed(msgspec.Struct, array_like=True):
    """What one life has heard of resources that are wanted, and what it has answered to.

    From then on it gives back what comes free at once, as long as it is wanted.

    Args:
        wanted_since: Of each resource: since which of the coordinator's messages it is wanted.
        seen: The newest of them that the life had taken in when it spoke last.
        pressed: Resources for which it has been asked to answer at once.
    """

    wanted_since: dict[str, int] = {}
    seen: int = -1
    pressed: frozenset[str] = frozenset()

    def note_state(self, wanted: frozenset[str], short: frozenset[str], heard: int) -> None:
        """Note that the life is about to hear what others wait for, and what its own calls do."""
        names = {*wanted, *(f"{_OWN}{resource}" for resource in short)}
        self.wanted_since = {name: self.wanted_since.get(name, heard) for name in names}

    def has(self, resource: str, *, is_own: bool = False) -> bool:
        """Return whether it has nothing idle of a resource, and will not.

        For a call of its own (`is_own`) that holds as long as the call waits.
        """
        others = self.wanted_since.get(resource)
        own = self.wanted_since.get(f"{_OWN}{resource}") if is_own else None
        return any(since is not None and since <= self.seen for since in (others, own))

    def find_open(self, resources: set[str]) -> frozenset[str]:
        """Return of which of these it is wanted to answer."""
        unheard = {
            name.removeprefix(_OWN)
            for name, since in self.wanted_since.items()
            if since > self.seen
        }
        return frozenset(resources & unheard)
