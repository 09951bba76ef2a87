"""What would a fleet of more machines, further away, do? Computed from costs that were measured.

`python -m tests.benchmarks.fleet_sizes` prints the table of the docs. It simulates the processes on
the way of a call, each of which does one thing at a time: the engine and its driver, and on every
machine an actor with its guest. What waits in front of one travels on together, as it really does.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

__all__ = ["Simulation"]


class Cost(NamedTuple):
    """Seconds of a processor that one process takes."""

    message: float
    call: float


ENGINE, DRIVER = Cost(68e-6, 14e-6), Cost(600e-6, 0.0)
WORKER = Cost(1408e-6, 10e-6)
"""Measured by `python -m tests.benchmarks.fleet_costs`, on a busy machine of two cores; the worker
is the actor and its guest, and those of the other two are for each direction."""
MOST = 100
"""Calls of a worker at a time."""


class Stage:
    """A process on the way: it takes all that waits, up to a number, at a time.

    Args:
        cost: What it takes.
        pass_on: Takes the calls that it has dealt with.
        most: The most calls at a time.
        messages: The most messages that these may be: one for each worker, in the driver.
    """

    def __init__(
        self, cost: Cost, pass_on: Callable[[list[int]], None], most: int = 10**9, messages: int = 1
    ) -> None:
        self.cost = cost
        self.pass_on = pass_on
        self.most = most
        self.messages = messages
        self.waiting: deque[int] = deque()
        self.is_busy = False


class Simulation:
    """Calls of one engine on a fleet.

    Args:
        nodes: Machines with one worker each.
        delay: Seconds from the driver to a machine, one way.
        work: Seconds of a processor that the tool itself takes for a call.
    """

    def __init__(self, nodes: int, delay: float, work: float) -> None:
        self.delay = delay
        self.engine_out = Stage(ENGINE, lambda group: self._put(self.driver_out, group))
        self.driver_out = Stage(DRIVER, self._spread, messages=nodes)
        cost = Cost(WORKER.message, WORKER.call + work)
        self.workers = deque(Stage(cost, self._answer, MOST) for _ in range(nodes))
        self.driver_back = Stage(
            DRIVER, lambda group: self._put(self.engine_back, group), messages=nodes
        )
        self.engine_back = Stage(ENGINE, self._end)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._now, self._count, self._left = 0.0, 0, 0
        self._began: dict[int, float] = {}
        self._taken: list[float] = []

    def run(self, callers: int, calls: int) -> tuple[float, float]:
        """Return calls a second, and the median of their seconds."""
        self._left = calls
        self._begin(callers)
        while self._events:
            self._now, _, do = heapq.heappop(self._events)
            do()
        return len(self._taken) / self._now, sorted(self._taken)[len(self._taken) // 2]

    def _plan(self, after: float, do: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self._now + after, self._count, do))

    def _put(self, stage: Stage, group: list[int]) -> None:
        stage.waiting.extend(group)
        if not stage.is_busy:
            self._serve(stage)

    def _serve(self, stage: Stage) -> None:
        stage.is_busy = bool(stage.waiting)
        if not stage.is_busy:
            return
        size = min(stage.most, len(stage.waiting))
        group = [stage.waiting.popleft() for _ in range(size)]

        def go_on() -> None:
            stage.pass_on(group)
            self._serve(stage)

        messages = min(size, stage.messages)
        self._plan(messages * stage.cost.message + size * stage.cost.call, go_on)

    def _begin(self, number: int) -> None:
        for _ in range(min(number, self._left)):
            self._began[self._left] = self._now
            self._put(self.engine_out, [self._left])
            self._left -= 1

    def _spread(self, group: list[int]) -> None:
        for place, worker in enumerate(self.workers):
            if part := group[place :: len(self.workers)]:
                self._plan(self.delay, partial(self._put, worker, part))
        self.workers.rotate()

    def _answer(self, group: list[int]) -> None:
        self._plan(self.delay, partial(self._put, self.driver_back, group))

    def _end(self, group: list[int]) -> None:
        self._taken.extend(self._now - self._began.pop(each) for each in group)
        self._begin(len(group))


def main() -> None:
    """Prints the table."""
    print("| machines | delay | tool | calls on their way | calls a second | median |")
    print("|---|---|---|---|---|---|")
    for callers in (1, MOST):
        rate, wait = Simulation(1, 0.0, 0.0).run(callers, 20 * MOST)
        print(f"| 1 | 0 ms | 0 ms | {callers} | {rate:,.0f} | {wait * 1000:.1f} ms |")
    for work in (0.0, 0.01):
        for nodes in (1, 4, 16, 64):
            for delay in (0.0005, 0.02):
                callers = 100 * nodes
                rate, wait = Simulation(nodes, delay, work).run(callers, 20 * callers)
                print(
                    f"| {nodes} | {delay * 1000:g} ms | {work * 1000:g} ms | {callers:,} "
                    f"| {rate:,.0f} | {wait * 1000:.0f} ms |"
                )


if __name__ == "__main__":
    main()
