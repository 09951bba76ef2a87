"""How do hours pass in a test without waiting? The clock of the loop jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors


class _JumpingSelector(selectors.DefaultSelector):  # type: ignore[misc, valid-type, unused-ignore]
    """Instead of waiting until the next timer is due, lets the clock say that it is."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if not events:
            if timeout is None:
                raise RuntimeError("everybody waits and no timer is set: this would hang for ever")
            self.now += max(timeout, 0.0)
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Starts at 0.0; `await asyncio.sleep(3600)` takes an hour of its time and none of ours."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as asyncio names it
        """Wait in real time: since 3.12 a runner gives the threads some seconds of the loop's."""
        del timeout
        await super().shutdown_default_executor()
