"""Who shares units between controllers of one process, as a database does between processes?"""

from __future__ import annotations

import asyncio
from typing import Any

from tool_engine.admission.cluster.cluster_limits import ClusterLimits
from tool_engine.errors import AdmissionError
from tool_engine.interfaces.lease_source import LeaseHolder, Needs

MANY = 1_000_000


class SharedUnits:
    """Gives the units of some buckets to several controllers, in the order in which calls ask.

    It answers a moment later, as what is elsewhere does.

    Args:
        limits: Units per bucket.
    """

    def __init__(self, **limits: int) -> None:
        self.limits = limits
        self.members: list[Member] = []
        self.asked: list[tuple[bool, int, Member, Any]] = []
        """Those that wait: calls that have run before go first."""
        self.count = 0
        self._is_due = False

    def join(self) -> Member:
        member = Member(self)
        self.members.append(member)
        return member

    def set_limit(self, bucket: str, limit: int) -> None:
        self.limits[bucket] = limit
        self.look_later()

    def lose(self, member: Member) -> None:
        """Give the units of a member to others, as if its process had ended."""
        member.units = dict.fromkeys(self.limits, 0)
        member.holder.lose_all()
        self.look_later()

    def look_later(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._is_due = False
        for bucket in self.limits:
            self._give_out(bucket)
        for bucket in self.limits:
            for member in self.members:
                wanted = self._is_wanted(bucket, member)
                units = member.units[bucket]
                member.holder.set_units(f"bucket:{bucket}", units, is_wanted=wanted)
        asyncio.get_running_loop().call_soon(self._let_wait, [each[3] for each in self.asked])

    def _let_wait(self, waiters: list[Any]) -> None:
        """Say of those that have nothing, now that what is idle has gone back, that they wait."""
        for *_, member, waiter in list(self.asked):
            if waiter in waiters and not self._is_due:
                member.holder.keep_waiting(waiter)

    def _give_out(self, bucket: str) -> None:
        for entry in sorted(self.asked, key=lambda each: each[:2]):
            *_, member, waiter = entry
            if waiter.lane.bucket.name != bucket:
                continue
            used = sum(each.units[bucket] for each in self.members)
            if used + waiter.weight > self.limits[bucket]:
                return
            self.asked.remove(entry)
            member.units[bucket] += waiter.weight
            member.holder.start(waiter, {f"bucket:{bucket}": member.units[bucket]})

    def _is_wanted(self, bucket: str, member: Member) -> bool:
        asked = [each for each in self.asked if each[3].lane.bucket.name == bucket]
        others = any(each[2] is not member for each in asked)
        over = sum(each.units[bucket] for each in self.members) > self.limits[bucket]
        return others or over or any(each[3].weight > 1 for each in asked)


class Member:
    """The source of one controller's units."""

    holder: LeaseHolder

    def __init__(self, shared: SharedUnits) -> None:
        self._shared = shared
        self.units = dict.fromkeys(shared.limits, 0)
        self.asked = 0
        self.refusal: AdmissionError | None = None

    @property
    def limits(self) -> ClusterLimits:
        return ClusterLimits(0, buckets=dict.fromkeys(self._shared.limits, MANY))

    def attach(self, holder: LeaseHolder) -> None:
        self.holder = holder

    def refuse(self, bucket: str) -> AdmissionError | None:
        return self.refusal

    def find_secret(self) -> bytes | None:
        return None

    def ask(self, waiter: Any, needs: Needs, *, is_strict: bool) -> None:
        self._shared.count += 1
        self.asked += 1
        self._shared.asked.append((waiter.resumes is None, self._shared.count, self, waiter))
        self._shared.look_later()

    def withdraw(self, waiter: Any) -> None:
        self._shared.asked = [each for each in self._shared.asked if each[3] is not waiter]
        self._shared.look_later()

    def find_delay(self, waiter: Any) -> float:
        return 0.0

    def give_back(self, resource: str, units: int) -> None:
        self.units[resource.removeprefix("bucket:")] -= units
        self._shared.look_later()

    def trip(self, breaker: str, policy: Any) -> None:
        raise AssertionError(breaker, policy)

    def end_probe(self, probe: int, outcome: bool | None) -> None:
        raise AssertionError(probe, outcome)
