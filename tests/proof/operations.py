"""Which calls and which limits may there be in a simulation?"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from tests.properties.admission_calls import TOOLS
from tests.properties.admission_calls import Call as Asked
from tool_engine.config import ConcurrencyConfig, KeyLimits
from tool_engine.model.settings.concurrency import BreakerPolicy, ToolRate

__all__ = ["Call", "CallBag", "random_call", "random_config"]

TOOL_NAMES: Final = sorted(TOOLS)
KEYS: Final = (None, None, "k", "l", "m", "n", "o")


class Call(Asked):
    """One call, and who acts for it."""

    task: Any = None
    """What asks for its slot, once it has begun to."""
    resuming: Any = None
    """What takes its slot again, once it has begun to."""
    slot: Any = None
    depth = 0


class CallBag:
    """Calls of which one is picked at random, each step at a constant cost."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._places: dict[Call, int] = {}

    def __contains__(self, call: Call) -> bool:
        return call in self._places

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: Call) -> None:
        if call not in self._places:
            self._places[call] = len(self._calls)
            self._calls.append(call)

    def discard(self, call: Call) -> None:
        place = self._places.pop(call, None)
        if place is None:
            return
        last = self._calls.pop()
        if last is not call:
            self._calls[place] = last
            self._places[last] = place

    def any(self, chance: random.Random) -> Call | None:
        return chance.choice(self._calls) if self._calls else None


def random_call(chance: random.Random, number: int, parent: Call | None) -> Call:
    """Most are plain; the key of a call is that of the call that makes it."""
    tool = "plain" if chance.random() < 0.5 else chance.choice(TOOL_NAMES)
    call = Call(
        number,
        bucket=chance.choice("abc"),
        tool=tool,
        tool_key=chance.choice("xyz"),
        key=chance.choice(KEYS) if parent is None else parent.key,
        priority=chance.randint(1, 9),
        timeout=chance.choice([None, None, None, 0.5, 10.0, 60.0]),
        is_bypass=chance.random() < 0.02,
        parent=parent,
    )
    if call.tool_key is None and parent is None and chance.random() < 0.2:
        call.weight = chance.randint(2, 4)
    if parent is not None:
        call.depth = parent.depth + 1
    return call


def random_config(chance: random.Random) -> ConcurrencyConfig:
    """Any limits under which something may run and something must wait."""

    def some(value: Callable[[], Any], share: float = 0.2) -> dict[str, Any]:
        return {bucket: value() for bucket in "abc" if chance.random() < share}

    has_keys = chance.random() < 0.6
    return ConcurrencyConfig(
        max_concurrent=chance.choice([1, 2, 3, 5, 8, 20, 20]),
        queue_size=chance.choice([0, 10, 50, 100, 200]),
        strategy=chance.choices(["fifo", "priority", "fair", "reject"], [30, 30, 35, 5])[0],
        bucket_limits=some(lambda: chance.randint(1, 6), 0.5),
        queue_timeout=chance.choice([None, 60.0]),
        aging_interval=chance.choice([0.1, 1.0, 10.0]),
        max_zombies=chance.choice([None, None, 3]),
        bucket_queue_sizes=some(lambda: chance.randint(0, 20), 0.15),
        bucket_rates=some(lambda: ToolRate(chance.randint(1, 9), 0.5)),
        breakers=some(lambda: BreakerPolicy(chance.randint(1, 4), 2.0, chance.randint(1, 2))),
        max_bucket_pause=5.0,
        key_limits=random_keys(chance) if has_keys else None,
    )


def random_keys(chance: random.Random) -> KeyLimits:
    return KeyLimits(
        limit=chance.choice([None, 1, 2, 4]),
        overrides={"k": chance.randint(1, 6)} if chance.random() < 0.5 else {},
        weights={"l": chance.choice([0.25, 2.0, 5.0])},
        queue_size=chance.choice([None, None, 5]),
    )
