"""Where do units of limits come from that several processes share?

A process keeps its own controller. Of a *resource* that is shared, such as `bucket:ai`, it may use
as many units as it has on lease: within them calls start and end as in any other bucket, and
nothing is asked. Only a call that waits for nothing else has a place in the line of all processes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from tool_engine.errors import AdmissionError


class SharedLimits(Protocol):
    """What processes share: of buckets by their names, of keys by the field that calls share."""

    @property
    @abstractmethod
    def buckets(self) -> Mapping[str, int]:
        """How many units of a bucket may be in use."""

    @property
    @abstractmethod
    def keys(self) -> Mapping[str, int]:
        """How many units may be in use of calls with one value of a field."""

    @property
    @abstractmethod
    def rates(self) -> Mapping[str, Any]:
        """The `ToolRate` of a bucket."""

    @property
    @abstractmethod
    def breakers(self) -> Mapping[str, Any]:
        """The `BreakerPolicy` of a bucket."""


class Needs(NamedTuple):
    """What a call needs of other processes, all of it at once.

    Args:
        units: How many of which resource; of `rate:NAME`, starts.
        breaker: The shared breaker that it must pass; None: there is none.
        limits: Of the resources that its tool defines: how many units there are.
        policy: Of a breaker that its tool defines; None: the source knows it.
    """

    units: dict[str, int]
    breaker: str | None
    limits: dict[str, int]
    policy: Any = None


class LeaseHolder(Protocol):
    """What a controller offers to the source of its units; called on its event loop."""

    @abstractmethod
    def share_limits(self, limits: SharedLimits) -> None:
        """Note that the processes share other limits than before.

        What runs in a bucket that was not shared counts for none of the units.
        """

    @property
    @abstractmethod
    def shares_breakers(self) -> bool:
        """Whether calls start without asking as long as no process says that a breaker is open."""

    @abstractmethod
    def count_used(self, resource: str) -> int:
        """Return how many units of a resource are in use."""

    @abstractmethod
    def start(
        self, waiter: Any, units: Mapping[str, int], probe: tuple[str, int] | None = None
    ) -> bool:
        """Start a call whose turn has come among all processes.

        Args:
            waiter: What `LeaseSource.ask` was given.
            units: How many units of its resources are on lease by now, with those for it.
            probe: It tries whether a breaker may close: which one, and what
                `LeaseSource.end_probe` is to be given at its end. None: it does not.

        Returns:
            False: it cannot start just now, or waits no more. The source takes its place back; if
            it still waits, it asks anew once it could start.
        """

    @abstractmethod
    def ask_anew(self, waiter: Any) -> None:
        """Let a call ask anew whose units were lost before it could start."""

    @abstractmethod
    def keep_waiting(self, waiter: Any) -> None:
        """Note that a call has to wait: until then it asks, and neither waits nor is refused.

        Args:
            waiter: What `LeaseSource.ask` was given.
        """

    @abstractmethod
    def refuse_all(self) -> None:
        """End the wait of all calls that `LeaseSource.refuse` has a reason for now."""

    @abstractmethod
    def set_local(self, is_local: bool) -> None:
        """Note whether the source cannot be reached, and the process has the limits to itself."""

    @abstractmethod
    def pause(self, bucket: str, seconds: float) -> None:
        """Give no slots of a bucket for some time: its service asks all processes for that."""

    @abstractmethod
    def turn_breaker(self, breaker: str, left: float | None) -> None:
        """Note that a shared breaker has opened or closed.

        Args:
            breaker: The name of its bucket, or as `Needs.breaker` says.
            left: Seconds until calls may be tried; None: it is closed.
        """

    @abstractmethod
    def lose_all(self) -> list[Any]:
        """Take note that other processes may have all units by now.

        Returns:
            The slots that use some. Their work goes on until it is ended; no unit of a later lease
            is counted for it.
        """

    @abstractmethod
    def set_units(self, resource: str, units: int, *, is_wanted: bool) -> None:
        """Take note of how many units are on lease; those that wait may start.

        Args:
            resource: The resource.
            units: How many.
            is_wanted: Whether another process waits for them, or a call for more at once than are
                idle: what is idle, or comes free, is given back until the next call of this method.
        """


class LeaseSource(Protocol):
    """Gives units of shared limits to one process, and takes them back; never waits, never raises.

    A source that waits for its answers gives them later, by the methods of its `LeaseHolder`.
    """

    @property
    @abstractmethod
    def limits(self) -> SharedLimits:
        """What the processes share."""

    @abstractmethod
    def attach(self, holder: LeaseHolder) -> None:
        """Take note of the controller, before anything is asked."""

    @abstractmethod
    def refuse(self, bucket: str) -> AdmissionError | None:
        """Return why a call of a bucket can be given no units now, nor soon; None: it can."""

    @abstractmethod
    def find_secret(self) -> bytes | None:
        """Return what all processes hash values of keys with.

        None: it is not known yet; it is asked for, and then `LeaseHolder.share_limits` is called.
        """

    @abstractmethod
    def ask(self, waiter: Any, needs: Needs, *, is_strict: bool) -> None:
        """Note that a call waits for what it needs of others, and for nothing else.

        Args:
            needs: That.
            is_strict: It is refused if it has to wait. So `keep_waiting` is to be called only when
                no process has units idle.
            waiter: The call: its `order` and `request`; `resumes` is set for one that has run
                before, which goes first.
        """

    @abstractmethod
    def withdraw(self, waiter: Any) -> None:
        """Note that a call that has asked waits no more."""

    @abstractmethod
    def find_delay(self, waiter: Any) -> float:
        """Return for how many seconds shared rates let a call not start; 0.0: none holds it up."""

    @abstractmethod
    def give_back(self, resource: str, units: int) -> None:
        """Take units back that were on lease, and are wanted elsewhere."""

    @abstractmethod
    def trip(self, breaker: str, policy: Any) -> None:
        """Open a shared breaker everywhere: too many calls of this process failed in a row.

        Args:
            breaker: Its name.
            policy: That of a breaker that a tool defines; None: the source knows it.
        """

    @abstractmethod
    def end_probe(self, probe: int, outcome: bool | None) -> None:
        """Note what became of a call that tried a breaker; None: it says nothing."""
