"""Where do units of limits come from that several processes share?

A process keeps its own controller. Of a bucket that is shared, it may use as many units as it has
on lease: within them calls start and end as in any other bucket, and nothing is asked. Only a call
that waits for nothing but units has a place in the line of all processes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import Any, Protocol

from tool_engine.errors import AdmissionError


class LeaseHolder(Protocol):
    """What a controller offers to the source of its units; called on its event loop."""

    @abstractmethod
    def count_used(self, bucket: str) -> int:
        """Return how many units of a bucket are in use."""

    @abstractmethod
    def start(self, waiter: Any, units: int) -> bool:
        """Start a call whose turn has come among all processes.

        Args:
            waiter: What `LeaseSource.ask` was given.
            units: How many units of its bucket are on lease by now, with those for it.

        Returns:
            False: it cannot start just now, or waits no more. The source takes its place back; if
            it still waits, it asks anew once it could start.
        """

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
    def lose_all(self) -> list[Any]:
        """Take note that other processes may have all units by now.

        Returns:
            The slots that use some. Their work goes on until it is ended; no unit of a later lease
            is counted for it.
        """

    @abstractmethod
    def set_units(self, bucket: str, units: int, *, is_wanted: bool) -> None:
        """Take note of how many units are on lease; those that wait may start.

        Args:
            bucket: The bucket.
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
    def buckets(self) -> Collection[str]:
        """The names of the buckets that are shared."""

    @abstractmethod
    def limit_of(self, bucket: str) -> int | None:
        """Return how many units of a bucket there are in all processes; None: any number."""

    @abstractmethod
    def attach(self, holder: LeaseHolder) -> None:
        """Take note of the controller, before anything is asked."""

    @abstractmethod
    def refuse(self, bucket: str) -> AdmissionError | None:
        """Return why no call of a bucket can be given units now, nor soon; None: one can."""

    @abstractmethod
    def ask(self, waiter: Any, *, is_strict: bool) -> None:
        """Note that a call waits for units, and for nothing else.

        Args:
            is_strict: It is refused if it has to wait. So `keep_waiting` is to be called only when
                no process has units idle.
            waiter: The call: its `weight`, `order`, `request` and `lane.bucket.name`; `resumes` is
                set for one that has run before, which goes first.
        """

    @abstractmethod
    def withdraw(self, waiter: Any) -> None:
        """Note that a call that has asked waits no more."""

    @abstractmethod
    def give_back(self, bucket: str, units: int) -> None:
        """Take units back that were on lease, and are wanted elsewhere."""
