"""Which buckets, lanes and keys are there just now?

They are made when a call first needs them. Lanes and keys of single conversations, say, go as soon
as nothing holds or wants a slot in them, so that idle keys cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tool_engine.admission.breaker import CLOSED, HALF_OPEN, OPEN, CircuitBreaker
from tool_engine.admission.key import Key
from tool_engine.admission.lines import Bucket, Lane, Line, ToolLine
from tool_engine.admission.request import AdmissionRequest
from tool_engine.admission.throttle import Throttle
from tool_engine.config import ConcurrencyConfig
from tool_engine.model.concurrency import BreakerPolicy

__all__ = ["Layout"]

_STATES: Final = (CLOSED, HALF_OPEN, OPEN)
_MOST_OWNED: Final = 1_000
"""Lines for tools that single conversations have; those that nobody uses any more go first."""


class Layout:
    """The tree of lines below the controller's own, and the limits in it."""

    __slots__ = (
        "_config",
        "_is_observed",
        "_tool_breakers",
        "_tool_lines",
        "buckets",
        "keys",
        "lanes",
        "root",
    )

    def __init__(self, config: ConcurrencyConfig) -> None:
        self.root = Line(None)
        self.buckets: dict[str, Bucket] = {}
        self.lanes: dict[Any, Lane] = {}
        self.keys: dict[Any, Key] = {}
        self._tool_lines: dict[str, ToolLine] = {}
        self._tool_breakers: dict[tuple[str, int | None], CircuitBreaker] = {}
        self._config = config
        self._is_observed = False
        self.configure(config)

    def configure(self, config: ConcurrencyConfig) -> None:
        """Applies limits, rates, breakers and shares to what is there."""
        self._config = config
        for name in (*config.bucket_limits, *config.bucket_rates, *config.breakers):
            self.bucket(name)
        for bucket in self.buckets.values():
            self._set_up(bucket)
        for key in self.keys.values():
            self._limit(key)
        for lane in self.lanes.values():
            lane.update(is_observed=self._is_observed)

    def observe(self, is_observed: bool) -> None:
        """Whether anybody is to be told of each slot: then none is given on the short way."""
        self._is_observed = is_observed
        for lane in self.lanes.values():
            lane.update(is_observed=is_observed)

    def lines(self) -> list[Line]:
        """All lines, those below before those above."""
        return [*self.lanes.values(), *self._tool_lines.values(), *self.buckets.values()]

    def breaker_states(self, now: float) -> dict[str, str]:
        """Of the tools that have a breaker of their own; of several with one name, the worst."""
        states: dict[str, str] = {}
        for line in self._tool_lines.values():
            if line.breaker is not None:
                seen = (states.get(line.tool_name, CLOSED), line.breaker.state(now))
                states[line.tool_name] = max(seen, key=_STATES.index)
        return states

    def bucket(self, name: str) -> Bucket:
        """The bucket with this name; a new one where there was none."""
        bucket = self.buckets.get(name)
        if bucket is None:
            bucket = self.buckets[name] = Bucket(name, self.root)
            self._set_up(bucket)
        return bucket

    def open(self, request: AdmissionRequest) -> Lane:
        """The lane that a call waits in; a new one where there was none."""
        lane_id = request.lane
        lane = self.lanes.get(lane_id)
        if lane is None:
            bucket = self.bucket(request.bucket)
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
        is_replaced = isinstance(lane.above, ToolLine) and lane.above.is_replaced
        if lane.refs or not (lane.keys or is_replaced) or self.lanes.get(lane.id) is not lane:
            return
        del self.lanes[lane.id]
        lane.is_gone = True
        lane.withdraw()
        for key in lane.keys:
            key.drop(lane)
            del key.lanes[lane]
            if not key.lanes:
                del self.keys[key.name]

    def _set_up(self, bucket: Bucket) -> None:
        config, name = self._config, bucket.name
        bucket.set_limit(config.bucket_limits.get(name))
        bucket.queue_size = config.bucket_queue_sizes.get(name)
        rate = config.bucket_rates.get(name)
        if rate is None:
            bucket.throttle = None
        elif bucket.throttle is None:
            bucket.throttle = Throttle(rate)
        elif bucket.throttle.rate != rate:
            bucket.throttle = bucket.throttle.copy(rate)
        bucket.breaker = _breaker(bucket.breaker, config.breakers.get(name))

    def _tool_line(self, request: AdmissionRequest, bucket: Bucket) -> ToolLine:
        line = self._tool_lines.get(request.line)
        if line is None:
            tool = request.tool_name or request.line, request.owner
            self._drop_lines(
                name
                for name, each in self._tool_lines.items()
                if (each.tool_name, each.owner) == tool
            )
            if request.owner is not None:
                self._forget_owned()
            breaker = _breaker(self._tool_breakers.get(tool), request.breaker)
            if breaker is not None:
                self._tool_breakers[tool] = breaker
            throttle = None if request.rate is None else Throttle(request.rate)
            line = ToolLine(bucket, tool[0], throttle, breaker, request.owner)
            self._tool_lines[request.line] = line
        return line

    def _drop_lines(self, names: Iterable[str]) -> set[ToolLine]:
        """Drops what tools waited in before their limits changed, so that they can change back."""
        lines = {self._tool_lines.pop(name) for name in list(names)}
        for line in lines:
            line.is_replaced = True
        waiting = [each for each in self.lanes.values() if each.above in lines] if lines else []
        for lane in waiting:
            self.let_go(lane)
        return lines

    def _forget_owned(self) -> None:
        """Makes room: conversations come and go, and nobody says when one is over."""
        owned = [name for name, each in self._tool_lines.items() if each.owner is not None]
        if len(owned) < _MOST_OWNED:
            return
        busy = {lane.above for lane in self.lanes.values() if lane.refs}
        idle = [name for name in owned if self._tool_lines[name] not in busy]
        # Many at once, for each time all lanes are looked at.
        for line in self._drop_lines(idle[: _MOST_OWNED // 2]):
            self._tool_breakers.pop((line.tool_name, line.owner), None)

    def _keys_of(self, request: AdmissionRequest) -> tuple[tuple[Key, ...], Key | None]:
        config, keys, share = self._config, [], None
        is_fair = config.strategy == "fair"
        if is_fair or (config.has_keys and request.key is not None):
            keys.append(self._key(("", request.key)))
            share = keys[0] if is_fair else None
        if request.tool_key is not None:
            own = self._key((request.tool_name, request.tool_key))
            own.set_limit(request.tool_key_limit)
            keys.append(own)
        return tuple(keys), share

    def _key(self, name: Any) -> Key:
        key = self.keys.get(name)
        if key is None:
            key = self.keys[name] = Key(name)
            self._limit(key)
        return key

    def _limit(self, key: Key) -> None:
        scope, value = key.name
        limits = self._config.key_limits
        if scope == "" and value is not None:
            key.set_limit(None if limits is None else limits.limit_of(value))
            key.weight = 1.0 if limits is None else float(limits.weights.get(value, 1.0))


def _breaker(now: CircuitBreaker | None, policy: BreakerPolicy | None) -> CircuitBreaker | None:
    """The breaker under its present policy; one that is there keeps its state."""
    if policy is None:
        return None
    if now is None:
        return CircuitBreaker(policy)
    now.configure(policy)
    return now
