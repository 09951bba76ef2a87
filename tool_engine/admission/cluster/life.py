"""What does the coordinator know of one stretch of a process, and what does a message lead to?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from tool_engine.admission.cluster.accounts import Account
from tool_engine.admission.cluster.confirming import Confirmed
from tool_engine.admission.cluster.lease_messages import Answer, Note
from tool_engine.admission.cluster.line_up import Entry


class Life(msgspec.Struct, array_like=True):
    """One life of a process: from its first hello until it leaves or is given up.

    Args:
        name: Its own, which no other life ever has.
        process: Whose life it is.
        expires: When it ends without a message.
        epoch: In which one it has said last what it holds.
    """

    name: str
    process: str
    expires: float
    epoch: int
    op: int = 0
    lost_at: float | None = None
    """When its session was first missed; None: it has one."""
    mark: int = 0
    """The most that any account had granted that was closed, where the next one begins."""
    accounts: dict[str, Account] = {}
    entries: dict[int, Entry] = {}
    informed: frozenset[str] = frozenset()
    """The resources of which it knows that others wait for them."""
    confirmed: Confirmed = msgspec.field(default_factory=Confirmed)
    times: tuple[float, float] | None = None
    """Its own grace and ttl, where they are others than those of the coordinator."""

    def set_back(self, seconds: float) -> None:
        """Go by a clock that was set back."""
        self.expires -= seconds
        self.lost_at = None if self.lost_at is None else self.lost_at - seconds
        for entry in self.entries.values():
            entry.asked_at -= seconds

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing, and waits for nothing."""
        has_some = self.accounts and any(each.out for each in self.accounts.values())
        return not self.entries and not has_some


class Kept(NamedTuple):
    """What a process goes on with whose event loop stands still.

    Args:
        life: Its life.
        op: The number of its last message.
        in_use: Units of each resource that its calls use.
        spent: Of rates: all the starts of its life.
    """

    life: str
    op: int
    in_use: Mapping[str, int]
    spent: Mapping[str, int]


@dataclass(slots=True, frozen=True)
class Outcome:
    """What one message leads to.

    Args:
        answer: To the one that sent it.
        notes: To others, in no order.
        is_durable: It must be on disk before anything of it is sent: a crash may forget units, for
            those that hold them say so again, but not who might hold some, and who does no more.
    """

    answer: Answer
    notes: tuple[Note, ...] = ()
    is_durable: bool = False


class Silent:
    """Which lives have not said yet that all is in use of what a call needs that asks?

    Args:
        lives: All that are known.
        holders: Which of them have some of a resource.
        blocked: Resources of which some ticket needs more.
    """

    def __init__(
        self, lives: Mapping[str, Life], holders: Mapping[str, Iterable[str]], blocked: set[str]
    ) -> None:
        self._lives, self._holders, self._blocked = lives, holders, blocked
        self._seen: dict[str, list[tuple[int, Life]]] = {}

    def find(self, entry: Entry) -> list[Life]:
        """Return those that have to speak before it is known that a call has to wait."""
        return [
            life
            for resource in entry.units.keys() & self._blocked
            for seen, life in self._find_seen(resource)
            if _is_to_answer(life, seen, entry)
        ]

    def _find_seen(self, resource: str) -> list[tuple[int, Life]]:
        found = self._seen.get(resource)
        if found is None:
            lives = [self._lives[name] for name in self._holders.get(resource, ())]
            found = [(life.confirmed.find_seen(resource), life) for life in lives]
            self._seen[resource] = found
        return found


def is_pressed_by(asking: Iterable[Entry], life: Life, blocked: set[str]) -> bool:
    """Return whether some of those that ask wait for the word of a life."""
    accounts, confirmed = life.accounts, life.confirmed
    held = blocked & accounts.keys()
    seen = {r: confirmed.find_seen(r) for r in held if accounts[r].out}
    return bool(seen) and any(
        _is_to_answer(life, seen[resource], each)
        for each in asking
        if each.told_at is None and each.asks
        for resource in seen.keys() & each.units.keys()
    )


def _is_to_answer(life: Life, seen: int, entry: Entry) -> bool:
    """Return whether a life may have idle, or on its way back, what one that asks needs.

    Args:
        life: It holds some of it.
        seen: `Confirmed.find_seen` of it.
        entry: What asks.
    """
    # The message of its own process says what was given back there before it asked.
    return seen < (0 if life.name == entry.owner else entry.asked_in)
