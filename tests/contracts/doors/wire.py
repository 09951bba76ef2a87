"""What is between two that can only send each other messages? A bad line."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

__all__ = ["PATIENCE", "Wire"]

PATIENCE = 0.4
"""Seconds until a message that was not answered is sent again."""


class Wire:
    """Carries messages late, twice, in another order, or never; dice with a seed decide.

    Args:
        seed: Of the dice.
        loss: How many messages of one are lost.
        twice: How many arrive once more.
        delay: Seconds that a message takes at most.
    """

    def __init__(
        self, seed: int = 1, loss: float = 0.3, twice: float = 0.3, delay: float = 0.5
    ) -> None:
        self._dice = random.Random(seed)  # noqa: S311 - the same line each time
        self.loss = loss
        self.twice = twice
        self.delay = delay
        self.sent = self.lost = 0

    def send(self, deliver: Callable[..., object], *message: Any) -> None:
        """Has `deliver(*message)` be called later, perhaps."""
        loop, dice = asyncio.get_running_loop(), self._dice
        self.sent += 1
        if dice.random() < self.loss:
            self.lost += 1
            return
        for _ in range(1 + (dice.random() < self.twice)):
            loop.call_later(dice.random() * self.delay, deliver, *message)
