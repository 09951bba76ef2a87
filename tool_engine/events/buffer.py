"""What waits for one subscriber, and what is dropped when too much does?"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.bounds import check_choice

DROP_OLDEST: Final = "drop_oldest"
"""The oldest waiting item is dropped."""
DROP_NEWEST: Final = "drop_newest"
"""The new item is dropped."""
BLOCK_NONE: Final = "block_none"
"""Publishers never block and no loss is silent: a subscriber that is too slow is cut off."""
POLICIES: Final = (DROP_OLDEST, DROP_NEWEST, BLOCK_NONE)

_Item = TypeVar("_Item")


class Buffer(Generic[_Item]):
    """Waiting items; one side puts, from any thread, the other side takes.

    Args:
        limit: The most that wait.
        policy: What is dropped when the buffer is full.
    """

    __slots__ = ("_items", "_limit", "_policy", "is_cut")

    def __init__(self, limit: int, policy: str) -> None:
        self.is_cut = False
        """True after an item found no room under `block_none`; no more are taken."""
        self._limit = limit
        self._policy = policy
        self._items: deque[_Item] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: _Item) -> _Item | None:
        """Add an item; return the one that was dropped for it, if any."""
        items = self._items
        if self.is_cut:
            return item
        if len(items) < self._limit:
            items.append(item)
            return None
        if self._policy == DROP_OLDEST:
            items.append(item)
            return items.popleft()
        self.is_cut = self._policy == BLOCK_NONE
        return item

    def take(self) -> _Item:
        """Remove and return the oldest item.

        Raises:
            IndexError: Nothing waits.
        """
        return self._items.popleft()


def check_buffer(buffer: object, policy: object = DROP_OLDEST) -> None:
    """Raise unless a buffer can have this size and policy.

    Raises:
        ConfigurationError: The size is no whole number >= 1, or the policy is unknown.
    """
    if isinstance(buffer, bool) or not isinstance(buffer, int) or buffer < 1:
        raise ConfigurationError(f"buffer must be a whole number >= 1, got {buffer!r}")
    check_choice("policy", policy, POLICIES)
