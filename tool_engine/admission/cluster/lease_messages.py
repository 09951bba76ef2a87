"""What do a process and the coordinator of its cluster say to each other?

Each is a value that JSON can hold: `encode_message` writes it and `decode_message` reads it. No
message holds a reading of a clock but for `asked_at`, which only meets the clock it comes from.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.model.settings.concurrency import BreakerPolicy

RETURNS: Final = 0
"""The standing of a call that takes back the units that it lent; it goes before all others."""
AHEAD: Final = 1
"""That of a call which a running call makes, where the place of that one is not known."""
IN_LINE: Final = 2
"""That of all others."""


class Ticket(msgspec.Struct, frozen=True):
    """What one call waits for.

    Args:
        number: Of the call, in its process; no two calls of a process ever have the same.
        units: How many units of which resource it takes, all of them at once.
        standing: `RETURNS`, `AHEAD` or `IN_LINE`.
        priority: Under `priority`; smaller is more urgent.
        share: Under `fair`: which key it belongs to.
        pace: Under `fair`: how large the share of that key is.
        breaker: The name of the breaker that it must pass; None: there is none.
        place: Where it stands in line; None: at the end.
        asked_at: When it came there, on the coordinator's clock.
        attempt: How often the process could not use what it was granted.
        is_held: The process could not use its units now: it keeps its place, and is passed over.
        asks: It is refused if it has to wait: those that hold units are asked first.
        limits: Of resources that its tool defines: how many units there are, by
            `name_definition`. Of several definitions the one that came last holds.
        policy: Of a breaker that its tool defines.
    """

    number: int
    units: dict[str, int]
    standing: int = IN_LINE
    priority: int = 5
    share: str = ""
    pace: float = 1.0
    breaker: str | None = None
    place: int | None = None
    asked_at: float | None = None
    attempt: int = 0
    is_held: bool = False
    asks: bool = False
    limits: dict[str, int] = {}
    policy: BreakerPolicy | None = None


class BreakerView(msgspec.Struct, frozen=True):
    """How a breaker stands: which change of it this is, and for how many seconds it is open.

    `left` is None when it is closed, and 0.0 when calls may be tried.
    """

    generation: int
    left: float | None = None


class Report(msgspec.Struct, frozen=True):
    """What a call says of a breaker: a probe ended, or so many failed in a row that it must open.

    Args:
        breaker: Its name.
        generation: Under which change of it the call ran.
        number: The probe; None: it is closed, and must open.
        outcome: Whether the probe succeeded; None: it says nothing.
        policy: Of a breaker that a tool defines, which must open.
    """

    breaker: str
    generation: int
    number: int | None = None
    outcome: bool | None = None
    policy: BreakerPolicy | None = None


class Sync(msgspec.Struct, frozen=True, tag="sync"):
    """What has changed in a process since what it last knows to have been heard.

    Args:
        life: Who says it: one life of one process.
        op: Its number; of two, the later one has the larger.
        returned: Of what has been given back: how many units in the whole life.
        spent: Of rates: how many starts in the whole life.
        tickets: Those that are new or have changed.
        gone: Numbers of tickets that wait no more.
        former: Lives of this process that have ended, with all their calls.
        pauses: Seconds for which no call of a resource may start.
        reports: What calls have shown of breakers.
        revision: The limits that the process knows.
        limits: Those that it brings; None: none.
        looks: It looks after others: which lives have ended, what must be said again.
        leaves: It is the last message of this life.
        seen: The `State.at` that it has taken in: what that says is wanted, it has given back.
        answered: The number of its last message with news that was answered in this life.
    """

    life: str
    op: int
    returned: dict[str, int] = {}
    spent: dict[str, int] = {}
    tickets: tuple[Ticket, ...] = ()
    gone: tuple[int, ...] = ()
    former: tuple[str, ...] = ()
    pauses: dict[str, float] = {}
    reports: tuple[Report, ...] = ()
    revision: int = -1
    limits: ClusterLimits | None = None
    looks: bool = False
    leaves: bool = False
    seen: tuple[int, int] = (-1, 0)
    answered: int = 0

    @property
    def has_news(self) -> bool:
        """Whether it says more than that its process goes on, and what that has heard."""
        units = self.returned or self.spent or self.tickets or self.gone
        others = self.former or self.pauses or self.reports or self.limits is not None
        return bool(units or others or self.leaves)


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first message on a connection: all that a process has, and all that it waits for.

    Args:
        life: Who says it.
        process: The process, whose lives follow one another.
        op: Its number, as that of `Sync`.
        is_new: No message of this life was ever answered.
        units: Of each resource: granted, returned and spent in the whole life.
        tickets: All that wait.
        former: Lives of this process that have ended, with all their calls.
        pauses: Seconds for which no call of a resource may start, as far as it knows.
        breakers: How the breakers that it knows stand.
        probes: Its calls that run as probes: of which breaker, and in which generation.
        reports: As in `Sync`.
        limits: Those of its configuration.
        seen: As in `Sync`.
        times: Its grace and its ttl, by which it goes itself; None: as the coordinator's.
    """

    life: str
    process: str
    op: int
    is_new: bool
    limits: ClusterLimits
    units: dict[str, tuple[int, int, int]] = {}
    tickets: tuple[Ticket, ...] = ()
    former: tuple[str, ...] = ()
    pauses: dict[str, float] = {}
    breakers: dict[str, BreakerView] = {}
    probes: dict[int, tuple[str, int]] = {}
    reports: tuple[Report, ...] = ()
    seen: tuple[int, int] = (-1, 0)
    times: tuple[float, float] | None = None


class State(msgspec.Struct, frozen=True):
    """All that concerns one life, at one moment; of two, the one with the larger `at` holds.

    Args:
        at: The epoch of the coordinator, and how many messages it had heard then.
        units: Of each resource in which it has an account: granted and returned.
        grants: Which of its tickets have their units, each with the attempt that has them.
        probes: Which of these run as probes.
        wanted: Resources for which another process waits.
        short: Resources of which its own tickets wait for more.
        pauses: Seconds for which no call of a resource may start.
        breakers: How breakers stand, unless closed since ever.
        revision: That of the cluster's limits.
        waits: Which of its tickets that ask have to wait.
        confirm: Others wait to hear that it has nothing idle of what is wanted.
        rates: Rates that hold up its own tickets: seconds until one more call may start.
    """

    at: tuple[int, int]
    units: dict[str, tuple[int, int]]
    grants: dict[int, int]
    probes: tuple[int, ...]
    wanted: frozenset[str]
    short: frozenset[str]
    pauses: dict[str, float]
    breakers: dict[str, BreakerView]
    revision: int
    waits: tuple[int, ...] = ()
    confirm: bool = False
    rates: dict[str, float] = {}


class Reply(msgspec.Struct, frozen=True, tag="reply"):
    """The answer to one message.

    Args:
        op: Which one.
        state: How it is for the one that asked.
        places: Where its new tickets stand: place, and when they came there.
        limits: Those of the cluster, where the asker knows others.
        look_after: Seconds until it shall look again, while it waits.
    """

    op: int
    state: State
    places: dict[int, tuple[int, float]]
    limits: ClusterLimits | None
    look_after: float


class GivenUp(msgspec.Struct, frozen=True, tag="given_up"):
    """The answer to a life that has ended for the coordinator: it holds nothing any more."""

    op: int


class Conflict(msgspec.Struct, frozen=True, tag="conflict"):
    """The answer to limits that contradict those of the cluster under one revision.

    Nothing of the message was taken in.
    """

    op: int
    reason: str
    limits: ClusterLimits


class Note(msgspec.Struct, frozen=True, tag="note"):
    """What the coordinator says unasked: the whole state of its reader, never one grant alone."""

    life: str
    state: State


Answer = Reply | GivenUp | Conflict
Message = Hello | Sync
_decoder: Final[msgspec.json.Decoder[Message | Answer | Note]] = msgspec.json.Decoder(
    Hello | Sync | Reply | GivenUp | Conflict | Note
)


def encode_message(message: Message | Answer | Note) -> bytes:
    """Return the JSON of a message."""
    return msgspec.json.encode(message)


def decode_message(text: bytes | str) -> Message | Answer | Note:
    """Return the message of a JSON text.

    Raises:
        msgspec.ValidationError: It is none.
    """
    return _decoder.decode(text)
