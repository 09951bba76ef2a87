"""What if a call is cancelled at any moment? It is, at one moment after another.

A *scene* sets a stage and returns the call to be cancelled. A sweep plays it again and
again, each time on a new loop of virtual time and with another *strike*: a cancellation before
callback number k of the loop, or a `CancelledError` thrown in at await number k, until the scene
ends before k.

Whoever cancels a task does so in some callback of the loop. So "before callback number k, for
every k" is every moment there is: also between a grant, a timeout, a deadline or a close and the
resumption of the call that they concern.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias
from unittest.mock import patch

from tests.calls.virtual_loop import VirtualLoop
from tool_engine.backends.runs import Runs
from tool_engine.shared_timer import SharedTimer

__all__ = [
    "SWEEPS",
    "Scene",
    "Stage",
    "SteppingLoop",
    "Strikes",
    "perform_scene",
    "stop_at_callbacks",
]

BOUND = 10_000.0
MOST_STEPS = 2_000
AFTER = 12
"""Callbacks in a row without anything to stop, after which a call has ended."""
TURNS = 4
"""Steps of the loop in which the bystanders take their places."""

Scene: TypeAlias = Callable[["Stage"], Awaitable[Coroutine[Any, Any, Any]]]


def is_of_runs(callback: Any) -> bool:
    timer = getattr(callback, "__self__", None)
    return isinstance(timer, SharedTimer) and isinstance(timer._expire.__self__, Runs)  # type: ignore[attr-defined] # a method


class SteppingLoop(VirtualLoop):
    """Counts the callbacks that it runs, and strikes before some of them."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.tasks: list[asyncio.Task[Any]] = []
        """All that were made, so that a task has the same number in each performance."""
        self.failures: list[dict[str, Any]] = []
        self._strikes: dict[int, Callable[[], object]] | None = None
        self._watch: Callable[[], object] | None = None
        self._threads = 0
        self._own_thread = threading.get_ident()
        self.set_exception_handler(lambda _, context: self.failures.append(context))

    def arm(
        self, strikes: dict[int, Callable[[], object]], watch: Callable[[], object] | None = None
    ) -> None:
        """Counts from here, and calls `watch` before each callback."""
        self.steps = 0
        self._strikes = strikes
        self._watch = watch

    def disarm(self) -> None:
        """Counts no more."""
        self._strikes = None

    def expect_a_thread(self) -> None:
        """Lets the clock stand still until another thread has something to say."""
        self._threads += 1
        self.busy += 1

    def timers(self) -> list[float]:
        """Seconds until each timer that is still set, but for that of runs, which holds none."""
        handles: list[Any] = self._scheduled  # type: ignore[attr-defined]
        timers = [
            each for each in handles if not each.cancelled() and not is_of_runs(each._args[0])
        ]
        return [each.when() - self.time() for each in timers]

    def call_soon(  # type: ignore[override] # the same, counted
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(self._count, callback, *args, context=context)

    def call_at(  # type: ignore[override] # the same, counted
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return super().call_at(when, self._count, callback, *args, context=context)

    def call_soon_threadsafe(  # type: ignore[override] # the same, counted
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self._threads and threading.get_ident() != self._own_thread:
            return super().call_soon_threadsafe(self._hear_a_thread, callback, *args)
        return super().call_soon_threadsafe(self._count, callback, *args, context=context)

    def create_task(self, *args: Any, **how: Any) -> asyncio.Task[Any]:
        task = super().create_task(*args, **how)
        self.tasks.append(task)
        return task

    def _hear_a_thread(self, callback: Callable[..., object], *args: Any) -> None:
        self._threads -= 1
        self.busy -= 1
        self._count(callback, *args)

    def _count(self, callback: Callable[..., object], *args: Any) -> None:
        if self._strikes is not None:
            self.steps += 1
            if self._watch is not None:
                self._watch()
            strike = self._strikes.pop(self.steps, None)
            if strike is not None:
                strike()
        callback(*args)


class ThrowAt:
    """Awaits a coroutine by hand, and throws `CancelledError` in at its await number `number`.

    What it waited for at that moment is left alone, as by a framework that is not asyncio.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], number: int) -> None:
        self._coroutine = coroutine
        self._left = number
        self.has_struck = False

    def __await__(self) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        while True:
            try:
                if error is None:
                    waits_for = self._coroutine.send(None)
                else:
                    waits_for = self._coroutine.throw(error)
            except StopIteration as stop:
                return stop.value
            error = None
            self._left -= 1
            if self._left == 0:
                self.has_struck = True
                error = asyncio.CancelledError("thrown")
                if waits_for is not None:
                    waits_for._asyncio_future_blocking = False
                continue
            try:
                yield waits_for
            except BaseException as raised:  # noqa: BLE001 - the coroutine is to see it
                error = raised


class Guest(Protocol):
    """What a stage checks after each performance: a controller or an engine."""

    async def check(self, *, was_shut: bool) -> None:
        """Asserts that nothing is left and that all goes on, unless somebody closed it."""
        ...


@dataclass(frozen=True)
class Strikes:
    """When and how a performance is disturbed; numbers count from 1.

    Args:
        throw_at: The await of the call at which `CancelledError` is thrown in.
        cancel_at: The callbacks of the loop before which the call is cancelled.
        task: The number of a task that is cancelled in place of the call.
        all_at: The callback before which every task is cancelled, as `asyncio.run` does at its end.
        stop_at: The callback before which the engine is asked to end the call.
    """

    throw_at: int = 0
    cancel_at: tuple[int, ...] = ()
    task: int | None = None
    all_at: int = 0
    stop_at: int = 0

    @property
    def hits_bystanders(self) -> bool:
        """Whether it is not only the call that is struck."""
        return bool(self.all_at) or self.task is not None

    def __str__(self) -> str:
        if self.throw_at:
            return f"thrown in at await {self.throw_at}"
        if self.stop_at:
            return f"stopped before callback {self.stop_at}"
        if self.all_at:
            return f"every task cancelled before callback {self.all_at}"
        who = "the call" if self.task is None else f"task {self.task}"
        return f"{who} cancelled before callback {' and '.join(map(str, self.cancel_at)) or '-'}"


@dataclass
class Stage:
    """What a scene is made of, and what came of it."""

    loop: SteppingLoop
    guests: list[Guest] = field(default_factory=list)
    """The controllers and engines that are checked at the end."""
    bystanders: list[asyncio.Task[Any]] = field(default_factory=list)
    """The other callers; each must end as if nothing had happened."""
    slack: float = 0.0
    """Seconds for which timers may stay set when all is over, such as that of a rate."""
    was_shut: bool = False
    """Whether the scene closes its guests."""
    is_throw_absorbed: bool = False
    """Whether the call takes a `CancelledError` that is thrown in for one of a tool's own."""
    stop: Callable[[], bool] = lambda: False
    """Asks the engine to end the call; says whether it will."""
    after: Callable[[], object] = lambda: None
    """Lets the bystanders end, once the call has."""
    at_last: Callable[[], object] = lambda: None
    """Makes the ends of all performances alike, once nobody is left."""
    hits: int = 0
    """How many strikes met something that was still going on."""
    alive: list[list[int]] = field(default_factory=list)
    """Per callback, the numbers of the tasks that the call made and that had not ended."""

    def beside(
        self, action: Callable[..., object], *args: Any, at: float = 0.0, **how: Any
    ) -> None:
        """Adds a bystander, who does something, waiting or not, after `at` seconds."""

        async def bystand() -> None:
            if at:
                await asyncio.sleep(at)
            returned = action(*args, **how)
            if inspect.isawaitable(returned):
                await returned

        self.bystanders.append(self.loop.create_task(bystand()))

    async def settle(self) -> None:
        """Lets the bystanders so far take their places."""
        for _ in range(TURNS):
            await asyncio.sleep(0)


def perform_scene(scene: Scene, strikes: Strikes) -> Stage:
    """One performance on a loop of its own; asserts what must hold after it."""
    try:
        # How long a step takes on a busy machine must not decide how many steps there are.
        with (
            patch("tool_engine.model.pace.monotonic", float),
            asyncio.Runner(loop_factory=SteppingLoop) as runner,
        ):
            return runner.run(_Performance(scene, strikes).play())
    except BaseException as error:
        error.add_note(f"scene {name_of(scene)!r}, {strikes}")
        raise


def name_of(scene: Scene) -> str:
    """What to call a scene."""
    return str(getattr(scene, "__name__", scene))


class _Performance:
    def __init__(self, scene: Scene, strikes: Strikes) -> None:
        self.scene = scene
        self.strikes = strikes

    async def play(self) -> Stage:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SteppingLoop)
        self.main = asyncio.current_task()
        self.stage = stage = Stage(loop)
        call = await self.scene(stage)
        await stage.settle()
        driver = ThrowAt(call, self.strikes.throw_at) if self.strikes.throw_at else None
        self.victim = loop.create_task(call if driver is None else _await(driver))
        loop.arm(self._planned(), None if self.strikes != Strikes() else self._note_alive)
        await asyncio.wait([self.victim], timeout=BOUND)
        loop.disarm()
        assert self.victim.done(), "the call never ends"
        if driver is not None:
            stage.hits += driver.has_struck
        self._check_victim()
        await self._settle()
        return stage

    def _planned(self) -> dict[int, Callable[[], object]]:
        strikes = self.strikes
        planned: dict[int, Callable[[], object]] = dict.fromkeys(strikes.cancel_at, self._cancel)
        if strikes.all_at:
            planned[strikes.all_at] = self._cancel_all
        if strikes.stop_at:
            planned[strikes.stop_at] = self._stop
        return planned

    def _cancel(self) -> None:
        number = self.strikes.task
        target = self.victim if number is None else self.stage.loop.tasks[number]
        self.stage.hits += target.cancel("struck")

    def _stop(self) -> None:
        self.stage.hits += self.stage.stop()

    def _cancel_all(self) -> None:
        self.stage.hits += not self.victim.done()
        for task in self.stage.loop.tasks:
            if task is not self.main:
                task.cancel("struck")

    def _note_alive(self) -> None:
        tasks = self.stage.loop.tasks
        first = tasks.index(self.victim) + 1
        self.stage.alive.append([n for n in range(first, len(tasks)) if not tasks[n].done()])

    def _check_victim(self) -> None:
        """A cancellation reaches the canceller; without one, the scene ends as it is written."""
        victim, stage = self.victim, self.stage
        if not stage.hits or self.strikes.stop_at:
            victim.result()
        elif self.strikes.task is None and not (self.strikes.throw_at and stage.is_throw_absorbed):
            assert victim.cancelled(), f"the cancellation was swallowed: {victim}"

    async def _settle(self) -> None:
        stage, loop = self.stage, self.stage.loop
        stage.after()
        async with asyncio.timeout(BOUND):
            while left := asyncio.all_tasks() - {self.main}:
                await asyncio.wait(left)
        if not self.strikes.hits_bystanders:
            for bystander in stage.bystanders:
                bystander.result()
        stage.at_last()
        await stage.settle()
        late = [seconds for seconds in loop.timers() if seconds > stage.slack]
        assert not late, f"timers are left, in seconds: {late}"
        await asyncio.sleep(stage.slack)
        for guest in stage.guests:
            await guest.check(was_shut=stage.was_shut)
        assert not loop.failures, loop.failures


async def _await(driver: ThrowAt) -> Any:
    return await driver


def throw_at_awaits(scene: Scene) -> Iterator[Strikes]:
    """`CancelledError` at await number k, for every k."""
    return _until_over(scene, lambda k: Strikes(throw_at=k))


def cancel_at_callbacks(scene: Scene) -> Iterator[Strikes]:
    """The call cancelled before callback number k, for every k."""
    return _until_over(scene, lambda k: Strikes(cancel_at=(k,)))


def double_cancels(scene: Scene) -> Iterator[Strikes]:
    """The call cancelled before callback k, and once more before each later one until it ends."""
    for first in cancel_at_callbacks(scene):
        (k,) = first.cancel_at
        for m in range(k + 1, MOST_STEPS):
            again = Strikes(cancel_at=(k, m))
            if perform_scene(scene, again).hits < 2:
                break
            yield again


def inner_cancels(scene: Scene) -> Iterator[Strikes]:
    """Before callback number k, one task cancelled of those that the call has made."""
    for k, numbers in enumerate(perform_scene(scene, Strikes()).alive, start=1):
        for number in numbers:
            strikes = Strikes(cancel_at=(k,), task=number)
            perform_scene(scene, strikes)
            yield strikes


def general_cancels(scene: Scene) -> Iterator[Strikes]:
    """All tasks cancelled before callback number k, for every k."""
    return _until_over(scene, lambda k: Strikes(all_at=k))


SWEEPS: dict[str, Callable[[Scene], Iterator[Strikes]]] = {
    "thrown": throw_at_awaits,
    "cancelled": cancel_at_callbacks,
    "twice": double_cancels,
    "inside": inner_cancels,
    "all": general_cancels,
}
"""How a scene is swept, by name; each plays it and yields the strikes that met something."""


def stop_at_callbacks(scene: Scene) -> int:
    """Plays a scene with the call stopped before callback number k, for every k.

    Returns:
        How often there was something to stop: not before a call waits, nor after its last wait.
    """
    hits, since = 0, 0
    for k in range(1, MOST_STEPS):
        is_hit = bool(perform_scene(scene, Strikes(stop_at=k)).hits)
        hits, since = hits + is_hit, 0 if is_hit else since + 1
        if since > AFTER:
            return hits
    raise AssertionError(f"scene {name_of(scene)!r} does not end in {MOST_STEPS} steps")


def _until_over(scene: Scene, strikes_at: Callable[[int], Strikes]) -> Iterator[Strikes]:
    for k in range(1, MOST_STEPS):
        strikes = strikes_at(k)
        if not perform_scene(scene, strikes).hits:
            return
        yield strikes
    raise AssertionError(f"scene {name_of(scene)!r} does not end in {MOST_STEPS} steps")
