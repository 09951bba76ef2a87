"""Which buckets, lanes and keys are there just now?

They are made when a call first needs them. Lanes and keys of single conversations, say, go as soon
as nothing holds or wants a slot in them, so that idle keys cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tool_engine.admission.breaker import CLOSED, STATES
from tool_engine.admission.counts import ToolCounts
from tool_engine.admission.key import SHARED, Key
from tool_engine.admission.lines import Bucket, Lane, Line, ToolLine
from tool_engine.admission.load.adaptive import AdaptiveLimit
from tool_engine.admission.request import AdmissionRequest, OwnKey
from tool_engine.admission.slot import ConcurrencySlot
from tool_engine.config import ConcurrencyConfig
from tool_engine.model.settings.concurrency import CollisionPolicy

_MOST_OWNED: Final = 1_000
"""Tools that single conversations have; those that have no call any more go first."""


class Layout:
    """The tree of lines below the controller's own, and the limits in it."""

    __slots__ = (
        "_config",
        "_is_observed",
        "_tool_counts",
        "_tool_lines",
        "buckets",
        "keys",
        "lanes",
        "leases",
        "on_limit_adapted",
        "root",
    )

    def __init__(self, config: ConcurrencyConfig) -> None:
        self.root = Line(None)
        self.buckets: dict[str, Bucket] = {}
        self.lanes: dict[Any, Lane] = {}
        self.keys: dict[Any, Key] = {}
        self._tool_lines: dict[str, ToolLine] = {}
        self._tool_counts: dict[tuple[str, int | None], ToolCounts] = {}
        self._config = config
        self._is_observed = False
        self.leases: Any = None
        """The `LeaseDesk`, where units are had that processes share; None: none are."""
        self.on_limit_adapted: Callable[[dict[str, Any]], object] = dict
        """Called as adaptive limits change; see `AdmissionUser.note_limit`."""
        self.configure(config)

    def configure(self, config: ConcurrencyConfig) -> None:
        """Applies limits, rates, breakers and shares to what is there."""
        self._config = config
        named: list[str] = [*config.bucket_limits, *config.bucket_rates, *config.breakers]
        for name in (*named, *config.adaptive, *config.overload):
            self.bucket(name)
        for bucket in self.buckets.values():
            self._set_up(bucket)
        for key in self.keys.values():
            self._limit_key(key)
        for lane in self.lanes.values():
            lane.update(is_observed=self._is_observed)

    def observe(self, is_observed: bool) -> None:
        """Whether a callback hears of each slot: then none is given on the short way."""
        self._is_observed = is_observed
        for lane in self.lanes.values():
            lane.update(is_observed=is_observed)

    def gate(self, bucket: Bucket) -> None:
        """Look again whether more is to be done for the calls of a bucket than to count them."""
        for lane in self.lanes.values():
            if lane.bucket is bucket:
                lane.update(is_observed=self._is_observed)

    def lines(self) -> list[Line]:
        """All lines, those below before those above."""
        return [*self.lanes.values(), *self._tool_lines.values(), *self.buckets.values()]

    def breaker_states(self, now: float) -> dict[str, str]:
        """Of the tools that have a breaker of their own; of several with one name, the worst."""
        states: dict[str, str] = {}
        for tool in self._tool_counts.values():
            if tool.breaker is not None:
                seen = (states.get(tool.name, CLOSED), tool.breaker.state(now))
                states[tool.name] = max(seen, key=STATES.index)
        return states

    def bucket(self, name: str) -> Bucket:
        """The bucket with this name; a new one where there was none."""
        bucket = self.buckets.get(name)
        if bucket is None:
            bucket = self.buckets[name] = Bucket(name, self.root)
            self._set_up(bucket)
        if bucket.lease is None and self.leases is not None:
            self.leases.set_up(bucket)
        return bucket

    def open(self, request: AdmissionRequest) -> Lane:
        """The lane that a call waits in; a new one where there was none."""
        lane_id = request.lane
        lane = self.lanes.get(lane_id)
        if lane is None:
            bucket = self.bucket(request.bucket)
            if request.is_shared and self.leases is not None:
                self.leases.need_lease(bucket)
            above: Line = bucket
            if request.rate is not None or request.breaker is not None:
                above = self._tool_line(request, bucket)
            keys, share = self._keys_of(request)
            lane = self.lanes[lane_id] = Lane(lane_id, above, bucket, keys, share)
            lane.update(is_observed=self._is_observed)
            for key in keys:
                key.lanes[lane] = None
        return lane

    def let_go(self, lane: Lane) -> None:
        """Forgets a lane that nothing holds or wants a slot in, if it may not be needed again."""
        if not lane.refs and lane.keys and self.lanes.get(lane.id) is lane:
            self._remove_lane(lane)

    def uncount(self, slot: ConcurrencySlot) -> None:
        """Take a slot from its lane, which may be bounded by other things than at its start."""
        if slot.is_gated:
            slot.is_gated = False
            slot.lane.refs -= 1
            self.let_go(slot.lane)

    def adopt(self, request: AdmissionRequest) -> bool:
        """Goes on counting a tool under what its newest definition says of its limits.

        Returns:
            Whether it says anything else than the last one that was seen.
        """
        tool = self._tool_counts.get(_tool_of(request))
        if tool is None:
            if request.limits != (None, None, None):
                self._new_counts(request)
            return False
        if request.edition <= tool.edition:
            return False
        tool.edition = request.edition
        if tool.limits == request.limits and tool.is_shared is request.is_shared:
            return False
        self._apply_tool_limits(tool, request)
        return True

    def tools_in_line(self) -> set[str]:
        """The tools of the catalog with limits of their own for which calls wait."""
        names: set[str] = set()
        for lane in self.lanes.values():
            if lane.waiting:
                names.update(
                    scope
                    for scope, _ in (key.name for key in lane.keys)
                    if scope and not scope.startswith(SHARED)
                )
                if isinstance(lane.above, ToolLine) and lane.above.counts.owner is None:
                    names.add(lane.above.counts.name)
        return names

    def _remove_lane(self, lane: Lane) -> None:
        del self.lanes[lane.id]
        lane.is_gone = True
        lane.withdraw()
        for key in lane.keys:
            key.unblock(lane)
            del key.lanes[lane]
            if not key.lanes:
                del self.keys[key.name]

    def _set_up(self, bucket: Bucket) -> None:
        config, name = self._config, bucket.name
        self._limit_bucket(bucket)
        bucket.watch_waits(config.overload.get(name))
        bucket.queue_size = config.bucket_queue_sizes.get(name)
        bucket.counts.bound(config.bucket_rates.get(name), config.breakers.get(name))
        bucket.throttle = bucket.counts.throttle

    def _limit_bucket(self, bucket: Bucket) -> None:
        limit = self._config.bucket_limits.get(bucket.name)
        policy, adaptive = self._config.adaptive.get(bucket.name), bucket.adaptive
        if policy is None:
            adaptive = None
        elif adaptive is None:

            def use(limit: int) -> None:
                # What is still in flight when it is taken away says nothing of the limit then.
                if bucket.adaptive is adaptive:
                    bucket.set_limit(limit)

            def report(before: int, now: int, reason: str) -> None:
                if bucket.adaptive is adaptive:
                    facts = {"bucket": bucket.name, "previous": before}
                    self.on_limit_adapted({**facts, "limit": now, "reason": reason})

            adaptive = AdaptiveLimit(policy, limit, use, report)
        else:
            adaptive.configure(policy, limit)
        bucket.adaptive = adaptive
        bucket.set_limit(limit if adaptive is None else adaptive.limit)

    def _tool_line(self, request: AdmissionRequest, bucket: Bucket) -> ToolLine:
        line = self._tool_lines.get(request.line)
        if line is None:
            tool = self._tool_counts.get(_tool_of(request)) or self._new_counts(request)
            line = self._tool_lines[request.line] = ToolLine(bucket, tool)
        return line

    def _new_counts(self, request: AdmissionRequest) -> ToolCounts:
        if request.owner is not None:
            self._forget_owned()
        name, owner = _tool_of(request)
        tool = self._tool_counts[name, owner] = ToolCounts(name, owner)
        tool.edition = request.edition
        self._apply_tool_limits(tool, request)
        return tool

    def _apply_tool_limits(self, tool: ToolCounts, request: AdmissionRequest) -> None:
        """Applies what a definition says of the limits of its tool."""
        tool.limits = request.limits
        tool.bound(request.rate, request.breaker)
        if self.leases is not None:
            self.leases.share_tool(tool, is_shared=request.is_shared)
        for line in tool.lines:
            line.throttle = tool.throttle
        for lane in self.lanes.values():
            if lane.above in tool.lines:
                lane.update(is_observed=self._is_observed)
        for key in self.keys.values():
            scope, value = key.name
            owner = value.owner if isinstance(value, OwnKey) else None
            if scope and (scope, owner) == (tool.name, tool.owner):
                self._limit_own(key, request, request.tool_key_limit)

    def _forget_owned(self) -> None:
        """Makes room: conversations come and go, and the engine does not learn when one is over."""
        owned = [each for each in self._tool_counts.values() if each.owner is not None]
        if len(owned) < _MOST_OWNED:
            return
        busy = {lane.above for lane in self.lanes.values() if lane.refs}
        # Many at once, for each time all lanes are looked at.
        idle = [each for each in owned if busy.isdisjoint(each.lines)][: _MOST_OWNED // 2]
        gone = {line for tool in idle for line in tool.lines}
        for lane in [each for each in self.lanes.values() if each.above in gone]:
            self._remove_lane(lane)
        self._tool_lines = {
            name: line for name, line in self._tool_lines.items() if line not in gone
        }
        for tool in idle:
            del self._tool_counts[tool.name, tool.owner]

    def _keys_of(self, request: AdmissionRequest) -> tuple[tuple[Key, ...], Key | None]:
        config, keys, share = self._config, [], None
        is_fair = config.strategy == "fair"
        if is_fair or (config.has_keys and request.key is not None):
            keys.append(self._find_key(("", request.key)))
            share = keys[0] if is_fair else None
        keys += [self._find_key((f"{SHARED}{kind}", value)) for kind, value in request.shared]
        if request.tool_key is not None:
            own = self._find_key((request.tool_name, request.tool_key))
            tool = self._tool_counts.get(_tool_of(request))
            self._limit_own(own, request, (request if tool is None else tool).limits[-1])
            keys.append(own)
        return tuple(keys), share

    def _limit_own(self, key: Key, request: AdmissionRequest, limit: int | None) -> None:
        key.set_limit(limit)
        if self.leases is not None:
            key.is_of_cluster = request.is_shared and request.collision is CollisionPolicy.QUEUE
            self.leases.limit_key(key)

    def _find_key(self, name: Any) -> Key:
        key = self.keys.get(name)
        if key is None:
            key = self.keys[name] = Key(name)
            self._limit_key(key)
        return key

    def _limit_key(self, key: Key) -> None:
        scope, value = key.name
        limits = self._config.key_limits
        if scope == "" and value is not None:
            key.set_limit(None if limits is None else limits.limit_of(value))
            key.weight = 1.0 if limits is None else float(limits.weights.get(value, 1.0))
        elif self.leases is not None:
            self.leases.limit_key(key)


def _tool_of(request: AdmissionRequest) -> tuple[str, int | None]:
    return request.tool_name or request.line, request.owner
