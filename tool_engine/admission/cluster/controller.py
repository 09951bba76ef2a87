"""What does a controller do that shares limits with other processes?

The same as alone, but for one look at the clock: what it has on lease is worth nothing after a
time, and a process that was frozen must not use it before it has seen that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from tool_engine.admission.cluster.cluster_limits import ClusterLimits, limits_of, read_limits
from tool_engine.admission.cluster.member import ClusterMember
from tool_engine.admission.controller import ToolConcurrencyController
from tool_engine.admission.pool import SlotPool
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import ClusterUnavailableError, ConfigurationError
from tool_engine.interfaces import AdmissionUser
from tool_engine.model.settings.cluster import LOCAL, ClusterConfig

_PATIENCE: Final = 5.0
"""Seconds that a database gets to answer before an engine starts."""
_MOVABLE: Final = ("revision", "bucket_limits", "key_limits", "bucket_rates", "breakers")
"""The fields of a cluster that may change while the engine runs."""
# By name, since every call comes this way.
_admit_nowait: Final = ToolConcurrencyController.admit_nowait
_release: Final = ToolConcurrencyController.release
_OFTEN: Final = 0.001
"""Seconds of the machine's own time between two looks."""


class ClusterController(ToolConcurrencyController):
    """Gives slots to the calls of one process of a cluster.

    Args:
        config: The limits of this process.
        member: Its part in the cluster.
        clock: Seconds, monotonic.
    """

    __slots__ = ("_lost_slots", "lost", "member")

    def __init__(
        self,
        config: ConcurrencyConfig | None,
        member: ClusterMember,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(config, clock=clock, leases=member)
        self.member, self._lost_slots = member, member.lost_slots
        self._pool.look_at = 0.0
        member.on_adopt = self._adopt_limits
        self.lost = 0
        """How many calls have ended whose units others may have had by then."""

    def share_pool(self) -> SlotPool | None:
        """Return what plain calls change as the methods below do, until the next look."""
        return self._pool if type(self) is ClusterController else None

    def admit_nowait(
        self, request: AdmissionRequest, now: float | None = None, call_id: str | None = None
    ) -> ConcurrencySlot | None:
        """Give a slot if the call may run at once, else None; never waits and never raises."""
        if now is None:
            now = self._clock()
        if now >= self._pool.look_at:
            self._look_at_clock(now)
        return _admit_nowait(self, request, now, call_id)

    def release(
        self, slot: ConcurrencySlot, now: float | None = None, *, outcome: bool | None = True
    ) -> bool | None:
        """Give the slot back; return True if its units were lost before."""
        if now is None:
            now = self._clock()
        if now >= self._pool.look_at:
            self._look_at_clock(now, slot)
        _release(self, slot, now, outcome=outcome)
        if self._lost_slots and self.member.end_lost(slot):
            self.lost += 1
            return True
        return None

    def park(self, slot: ConcurrencySlot) -> None:
        """Lend a slot out, if it is not lost by then."""
        now = self._clock()
        if now >= self._pool.look_at:
            self._look_at_clock(now, slot)
        super().park(slot)

    def attach(self, user: AdmissionUser) -> None:
        """Take note of the engine, which ends calls whose units were lost."""
        super().attach(user)
        self.member.on_lost = user.end_lost

    def close(self) -> None:
        """Give no more slots, and end the wait for the cluster."""
        super().close()
        self.member.end()

    async def open(self) -> None:
        """Join the cluster.

        Raises:
            EngineClosedError: It was closed meanwhile.
            ConfigurationError: It does not take this process.
            ClusterUnavailableError: Its database has not answered, and calls cannot do without.
        """
        cluster = self.config.cluster
        if await self.member.join(_PATIENCE) or cluster is None or cluster.on_unavailable == LOCAL:
            return
        raise ClusterUnavailableError(
            f"the database of the cluster {cluster.name!r} did not answer within {_PATIENCE:g} s "
            f"({self.member.describe_trouble()}); start it, correct cluster.url, or let calls go "
            "on without it with on_unavailable='local'"
        )

    async def leave(self) -> None:
        """Give everything back, and leave the cluster."""
        await self.member.close()

    def configure(self, config: ConcurrencyConfig) -> None:
        """Apply another configuration; limits of the cluster with a higher revision, everywhere.

        Those with a lower revision change nothing: `config` has what holds in the cluster.

        Raises:
            ConfigurationError: It is another cluster, or its limits contradict those that it has.
        """
        now, then = self.config.cluster, config.cluster
        if now is not None:
            fixed = None if then is None else msgspec.structs.replace(now, **_read_movable(then))
            if then is None or fixed != then:
                raise ConfigurationError(
                    "a cluster is joined for good: only its revision and limits can be changed "
                    "while the engine runs; make a new engine for another one"
                )
            limits = limits_of(config, then)
            if limits != limits_of(self.config, now):  # its order may be another one, too
                self.member.configure(limits)
        super().configure(config)
        self._adopt_limits(self.member.limits)  # those with a higher revision hold here, too

    def _adopt_limits(self, limits: ClusterLimits) -> None:
        """Go by limits that another process has brought."""
        cluster = self.config.cluster
        fields = dict(zip(_MOVABLE, read_limits(limits), strict=True))
        # Those of its own revision, too, where another process was first with them.
        changed = None if cluster is None else msgspec.structs.replace(cluster, **fields)
        if changed != cluster:
            super().configure(msgspec.structs.replace(self.config, cluster=changed))

    def pause_bucket(self, name: str, seconds: float) -> None:
        """Give no slots of a bucket for some time: of one that is shared, in all processes.

        0 ends the pause in this process alone: the others have heard of a service that has no room.
        """
        super().pause_bucket(name, seconds)
        limits = self.member.limits
        is_shared = any(name in each for each in (limits.buckets, limits.rates, limits.breakers))
        if seconds > 0 and is_shared:
            self.member.pause(name, min(seconds, self.config.max_bucket_pause))

    def pause(self) -> None:
        """Give no more slots; what no call uses, other processes may have."""
        super().pause()
        self.member.let_idle_go()

    async def drain(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as there
        """Refuse new calls and wait until nothing runs; what comes free, others may have."""
        done = await super().drain(timeout)
        self.member.let_idle_go()
        return done

    def _look_at_clock(self, now: float, slot: ConcurrencySlot | None = None) -> None:
        # Not at each call: a clock that goes on while the machine sleeps may take a microsecond.
        self._pool.look_at = now + _OFTEN
        if slot is not None:
            # A call that never waited is not listed, and may be what this process stood still in.
            self._pool.held.show(slot)
        self.member.look_at_clock()


def _read_movable(cluster: ClusterConfig) -> dict[str, Any]:
    return {name: getattr(cluster, name) for name in _MOVABLE}
