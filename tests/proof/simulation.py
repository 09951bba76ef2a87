"""Does the controller keep its promises through a million random operations?

Calls of all kinds come, run, fail, time out, make calls of their own and are cancelled, while
limits, strategies and pauses change, on a virtual clock and with the callbacks of the event loop
shuffled. A ledger checks every single step. The run is a row of episodes, each with a controller
and a seed of its own; one seed always gives the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
import traceback
import zlib
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, Final

from tests.proof.operations import Call, CallBag, random_call, random_config
from tests.properties.admission_ledger import WatchedController
from tool_engine.errors import AdmissionError
from tool_engine.testing import VirtualLoop

__all__ = ["main", "prove"]

OPERATIONS: Final = 1_000_000
EPISODE: Final = 5_000
"""Operations with one controller."""
BRUTE_FORCE: Final = 100
"""Operations between two looks at everybody who waits."""
SHOWN: Final = 30
"""The last operations, shown when a promise is broken."""


class Episode:
    """Some thousand operations on one controller, until all calls have ended.

    Args:
        seed: Of what happens, and of the order of the event loop.
        operations: How many.
    """

    def __init__(self, seed: int, operations: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a test, no secret
        self.operations = operations
        self.done = 0
        self.calls = self.number = 0
        self.counts: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.last: deque[str] = deque(maxlen=SHOWN)
        self.digest = 0
        self.waiting, self.running, self.parked = CallBag(), CallBag(), CallBag()
        self.tasks: set[asyncio.Task[None]] = set()
        self.is_draining = self.is_paused = False
        self.kinds = {
            self.submit: 36,
            self.release: 36,
            self.cancel: 3,
            self.nest: 5,
            self.time_out: 2,
            self.pass_time: 4,
            self.let_others: 10,
            self.release_again: 0.5,
            self.cancel_resuming: 1,
            self.supersede: 1,
            self.configure: 0.4,
            self.pause: 0.2,
            self.pause_bucket: 0.5,
            self.drain: 0.1,
            self.flood: 0.05,
        }

    async def run(self) -> None:
        """Does everything, and then lets everybody end."""
        loop = asyncio.get_running_loop()
        config = random_config(self.random)
        self.controller = WatchedController(config, clock=loop.time)
        kinds, weights = list(self.kinds), list(self.kinds.values())
        for kind in self.random.choices(kinds, weights, k=self.operations):
            await self.step(kind)
        await self.leave()

    async def step(self, kind: Any) -> None:
        self.done += 1
        name = kind.__name__
        self.counts[name] += 1
        waits = kind()
        if waits is not None:
            await waits
        self.controller.check()
        if not self.done % BRUTE_FORCE:
            self.controller.ledger.check_waiting(is_paused=self.is_paused)

    def note(self, what: str, call: Call | None = None) -> None:
        text = what if call is None else f"{what} {call}"
        self.last.append(f"{self.done}: {text}")
        self.digest = zlib.crc32(text.encode(), self.digest)

    # What may happen

    def submit(self, parent: Call | None = None) -> None:
        self.number += 1
        call = random_call(self.random, self.number, parent)
        self.note("submit", call)
        self.waiting.add(call)
        self.start(self.live(call))

    def release(self) -> None:
        call = self.running.any(self.random)
        if call is not None:
            outcome = self.random.choices([True, False, None], [80, 15, 5])[0]
            self.note(f"release {outcome}", call)
            self.end(call, "succeeded" if outcome else "failed", outcome)

    def cancel(self) -> None:
        call = self.waiting.any(self.random)
        if call is not None and call.task is not None:
            self.note("cancel", call)
            call.task.cancel()

    def nest(self) -> None:
        parent = self.running.any(self.random) if self.random.random() < 0.7 else None
        parent = parent or self.parked.any(self.random)
        # The work of a zombie keeps its slot, and what that calls could wait for it.
        if parent is not None and parent.depth < 5 and parent.slot.state != "zombie":
            self.note("park", parent)
            self.controller.park(parent.slot)
            self.running.discard(parent)
            self.parked.add(parent)
            self.submit(parent)

    def time_out(self) -> None:
        call = self.running.any(self.random)
        if call is not None:
            self.note("time out", call)
            self.controller.mark_overdue(call.slot, self.random.choice([False, False, None]))

    async def pass_time(self) -> None:
        if self.is_paused and self.random.random() < 0.3:
            self.pause()
        seconds = self.random.choice([0.01, 0.01, 0.1, 0.1, 0.5, 3.0])
        self.note(f"pass {seconds} s")
        await asyncio.sleep(seconds)

    async def let_others(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            await asyncio.sleep(0)

    def release_again(self) -> None:
        call = self.running.any(self.random)
        if call is not None:
            self.note("release twice", call)
            self.end(call, "succeeded", True)
            self.controller.release(call.slot)

    def cancel_resuming(self) -> None:
        call = self.parked.any(self.random)
        if call is not None and call.resuming is not None:
            self.note("cancel resuming", call)
            call.resuming.cancel()

    def supersede(self) -> None:
        """A call that gives up while it has lent its slot."""
        call = self.parked.any(self.random)
        if call is not None:
            self.note("release parked", call)
            self.end(call, "failed", None)

    def configure(self) -> None:
        config = random_config(self.random)
        self.note(f"configure {config}")
        self.controller.configure(config)

    def pause(self) -> None:
        self.is_paused = not self.is_paused
        self.note("pause" if self.is_paused else "resume")
        if self.is_paused:
            self.controller.pause()
        else:
            self.controller.resume()

    def pause_bucket(self) -> None:
        bucket, seconds = self.random.choice("abc"), self.random.choice([0, 0.5, 2.0, 100.0])
        self.note(f"pause {bucket} {seconds}")
        self.controller.pause_bucket(bucket, seconds)

    async def drain(self) -> None:
        self.note("drain")
        await self.controller.drain(timeout=0.5)
        self.is_paused = False
        self.controller.resume()

    def flood(self) -> None:
        for _ in range(self.random.randint(20, 200)):
            self.submit()

    # What becomes of a call

    def start(self, coroutine: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def live(self, call: Call) -> None:
        call.task = asyncio.current_task()
        parent = None if call.parent is None else call.parent.slot
        request = call.request(self.controller.config, parent)
        try:
            call.slot = await self.controller.admit(request)
        except AdmissionError as error:
            self.ended(call, type(error).__name__)
        except asyncio.CancelledError:
            self.ended(call, "cancelled")
        else:
            self.note("granted", call)
            call.slot.on_superseded = lambda: self.note("superseded", call)
            self.waiting.discard(call)
            self.running.add(call)

    def end(self, call: Call, outcome: str, reported: bool | None) -> None:
        self.controller.release(call.slot, outcome=reported)
        self.ended(call, outcome)

    def ended(self, call: Call, outcome: str) -> None:
        self.note(outcome, call)
        for bag in (self.waiting, self.running, self.parked):
            bag.discard(call)
        self.outcomes[outcome] += 1
        parent = call.parent
        if parent is not None:
            self.start(self.unpark(parent))

    async def unpark(self, call: Call) -> None:
        call.resuming = this = asyncio.current_task()
        try:
            await self.controller.unpark(call.slot)
        except asyncio.CancelledError:
            # Nobody will take it again: its call ends.
            if call in self.parked:
                self.end(call, "cancelled", None)
        else:
            if call in self.parked and call.slot.state != "parked":
                self.note("goes on", call)
                self.parked.discard(call)
                self.running.add(call)
        finally:
            if call.resuming is this:
                call.resuming = None

    async def leave(self) -> None:
        """Everybody ends, nobody is forgotten, and nothing is left."""
        self.controller.resume()
        for _ in range(10_000):
            while (call := self.running.any(self.random)) is not None:
                self.end(call, "succeeded", True)
            if not self.tasks and not self.parked:
                break
            self.controller.check()
            await asyncio.sleep(self.random.choice([0, 0, 0.5, 5.0]))
        assert sum(self.outcomes.values()) == self.number, (self.outcomes, self.number)
        self.controller.check_idle()


def play(seed: int, operations: int) -> Episode:
    """One episode; a broken promise is an `AssertionError` that carries the last operations."""
    episode = Episode(seed, operations)
    loop = VirtualLoop(seed=seed)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            runner.run(episode.run())
        except BaseException as error:
            episode.controller.ledger.stop()
            loop.set_exception_handler(lambda *_: None)
            error.add_note("\n".join(["the last operations:", *episode.last]))
            raise
    return episode


def simulate(operations: int, seed: int) -> bool:
    """Plays all episodes and prints what happened in them; whether every promise was kept."""
    counts: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    began, done, digest, grants = time.perf_counter(), 0, 0, 0
    while done < operations:
        size = min(EPISODE, operations - done)
        try:
            episode = play(seed, size)
        except Exception:  # noqa: BLE001 - whatever it is, it is shown with its seed
            traceback.print_exc(limit=-8, file=sys.stdout)
            print(
                f"FAILED after {done} operations; again: "
                f"python -m tests.proof simulation --seed {seed} --operations {size}"
            )
            return False
        counts += episode.counts
        outcomes += episode.outcomes
        digest = zlib.crc32(episode.digest.to_bytes(4), digest)
        grants += episode.controller.ledger.grants
        done, seed = done + size, seed + 1
    seconds = time.perf_counter() - began
    print(f"{done} operations in {seconds:.1f} s: {done / seconds:.0f} a second")
    print(f"seeds up to {seed - 1}; what happened, as a number: {digest:08x}")
    print("operations: " + ", ".join(f"{n} {name}" for name, n in counts.most_common()))
    print("outcomes: " + ", ".join(f"{n} {name}" for name, n in outcomes.most_common()))
    print(f"{grants} calls waited and were given a slot; every promise was kept")
    return True


async def prove(operations: int = OPERATIONS, seed: int = 1) -> bool:
    """The same beside a running event loop."""
    return await asyncio.to_thread(simulate, operations, seed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the command line; 0 when all went well."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof simulation", description=__doc__)
    parser.add_argument("--operations", type=int, default=OPERATIONS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    return 0 if simulate(options.operations, options.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
