"""C27: one controller, used from several event loops and from plain threads.

Real loops and real threads; every wait is bounded.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import product
from types import FrameType, SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from tool_engine.admission import ConcurrencySlot, ToolConcurrencyController, bridge
from tool_engine.admission.bridge import ControllerBridge
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import (
    ConfigurationError,
    ControllerClosedError,
    QueueFullError,
    QueueTimeoutError,
    SlotRejectedError,
    ToolEngineError,
)
from tool_engine.interfaces.metrics import ConcurrencyMetrics
from tool_engine.model.call import ToolExecutionContext

BOUND = 20.0
"""Seconds after which a wait of a test has failed."""

T = TypeVar("T")


class LoopThread:
    """An event loop that runs in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._work, name="loop")
        self.thread.start()

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop, to its end."""
        return self.begin(coroutine).result(BOUND)

    def do(self, action: Callable[[], T]) -> T:
        """Calls a function on the loop, after all that was sent there before."""

        async def call() -> T:
            return action()

        return self.run(call())

    def stop(self) -> None:
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(BOUND)
        assert not self.thread.is_alive()

    def close(self) -> None:
        """Ends what runs on the loop, then the loop, as `asyncio.run` does."""
        if not self.loop.is_closed():
            if self.thread.is_alive():
                self.run(cancel_all())
            self.stop()
            self.loop.close()


async def cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Home(LoopThread):
    """The loop that a controller lives on."""

    def __init__(self, patience: float = 5.0, **limits: Any) -> None:
        super().__init__()
        self.controller = ToolConcurrencyController(ConcurrencyConfig(**limits))
        self.bridge = ControllerBridge(self.controller, self.loop, patience=patience)

    def metrics(self) -> ConcurrencyMetrics:
        return self.do(self.controller.get_metrics)

    def take(self) -> ConcurrencySlot:
        return self.run(self.controller.acquire())

    def give(self, slot: ConcurrencySlot) -> None:
        self.do(lambda: self.controller.release(slot))

    def wait_until(self, condition: Callable[[ConcurrencyMetrics], bool]) -> None:
        """Looks again with each turn of the home loop, until it is so."""

        async def look() -> None:
            async with asyncio.timeout(BOUND):
                while not condition(self.controller.get_metrics()):  # noqa: ASYNC110 - each turn
                    await asyncio.sleep(0)

        self.run(look())

    def wait_for_queue(self, length: int) -> None:
        self.wait_until(lambda metrics: metrics.queue_length == length)

    def check_empty(self) -> None:
        """C26: nothing is held, nothing waits, no task is left, and everybody can have a slot."""
        metrics = self.metrics()
        held = metrics.active + metrics.zombies + metrics.parked + metrics.bypass_active
        assert metrics.total_acquired == metrics.total_released + metrics.active + metrics.zombies
        assert (metrics.current_concurrent, metrics.queue_length, held) == (0, 0, 0), metrics

        async def others() -> list[asyncio.Task[Any]]:
            for _ in range(20):
                await asyncio.sleep(0)
            return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

        assert self.run(others()) == []
        if "closed" in repr(self.controller):
            return
        for _ in range(self.controller.config.max_concurrent):
            assert self.do(self.controller.try_acquire) is not None


HomeOf = Callable[..., Home]


@pytest.fixture
def home_of() -> Iterator[HomeOf]:
    homes: list[Home] = []

    def make(**limits: Any) -> Home:
        homes.append(Home(**limits))
        return homes[-1]

    yield make
    for home in homes:
        home.close()


@pytest.fixture
def elsewhere() -> Iterator[LoopThread]:
    """Another event loop."""
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as pool:
        yield pool


class Inside:
    """Counts who is inside at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now = self.most = self.total = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        with self.lock:
            self.now += 1
            self.total += 1
            self.most = max(self.most, self.now)
        yield
        with self.lock:
            self.now -= 1


async def hold(home: Home, **terms: Any) -> None:
    async with home.bridge.slot(**terms):
        pass


def hold_in_thread(home: Home, **terms: Any) -> None:
    with home.bridge.slot(**terms):
        pass


Ask = Callable[..., "Future[None]"]


@pytest.fixture(params=["thread", "loop"])
def ask(request: pytest.FixtureRequest, threads: ThreadPoolExecutor, elsewhere: LoopThread) -> Ask:
    """Asks for a slot from elsewhere, holds it for a moment."""
    if request.param == "thread":
        return lambda home, **terms: threads.submit(hold_in_thread, home, **terms)
    return lambda home, **terms: elsewhere.begin(hold(home, **terms))


def test_many_threads_and_two_loops(home_of: HomeOf, threads: ThreadPoolExecutor) -> None:
    """C1, C27: whoever asks from wherever, never more are inside than there are slots."""
    home, inside = home_of(max_concurrent=3, queue_size=1000, queue_timeout=None), Inside()
    loops = [LoopThread(), LoopThread()]

    def work() -> None:
        for _ in range(25):
            with home.bridge.slot("http"), inside.one():
                threading.Event().wait(0.0001)

    async def work_on_loop() -> None:
        for _ in range(10):
            async with home.bridge.slot("http"):
                with inside.one():
                    await asyncio.sleep(0)

    async def ten() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(work_on_loop())

    ends: list[Future[None]] = [threads.submit(work) for _ in range(16)]
    ends += [loop.begin(ten()) for loop in (*loops, home)]
    for end in ends:
        end.result(BOUND * 2)
    assert (inside.most, inside.total) == (3, 16 * 25 + 3 * 100)
    assert home.metrics().total_acquired == inside.total
    home.check_empty()
    for loop in loops:
        loop.close()


def test_slot_is_held_inside_the_block(
    home_of: HomeOf, elsewhere: LoopThread, threads: ThreadPoolExecutor
) -> None:
    """C27: the slot is the controller's own, counted until the block ends."""
    home = home_of(max_concurrent=5, bucket_limits={"http": 3})

    def look() -> int:
        return int(home.do(home.controller.get_bucket_metrics)["http"]["current"])

    def in_thread() -> tuple[str, int, int]:
        with home.bridge.slot("http", weight=2) as slot:
            return slot.bucket, slot.weight, look()

    async def on_loop() -> tuple[str, int, int]:
        async with home.bridge.slot("http", weight=2) as slot:
            return slot.bucket, slot.weight, await asyncio.to_thread(look)

    assert threads.submit(in_thread).result(BOUND) == ("http", 2, 2)
    assert look() == 0
    assert elsewhere.run(on_loop()) == ("http", 2, 2)
    assert look() == 0
    home.check_empty()


def test_home_loop_goes_straight_to_the_controller(home_of: HomeOf) -> None:
    """C27: on the home loop itself nothing is sent anywhere: the slot is back with the block."""
    home = home_of(max_concurrent=1)

    async def work() -> list[int]:
        counts = []
        for _ in range(2):
            async with home.bridge.slot():
                counts.append(home.controller.get_metrics().current_concurrent)
            counts.append(home.controller.get_metrics().current_concurrent)
        return counts

    assert home.run(work()) == [1, 0, 1, 0]
    home.check_empty()


def test_release_before_the_next_request(home_of: HomeOf, threads: ThreadPoolExecutor) -> None:
    """C27: the exit does not wait, yet whoever asks next from the same thread finds it free."""
    home = home_of(max_concurrent=1, strategy="reject")
    for _ in range(50):
        threads.submit(hold_in_thread, home).result(BOUND)
    home.check_empty()


def test_terms_reach_the_controller(home_of: HomeOf, ask: Ask) -> None:
    """C27: the keywords of `acquire`; `key` only when there is one."""
    home = home_of()
    seen: list[object] = []

    class Listening:
        config = home.controller.config
        release = home.controller.release

        async def acquire(self, *args: object, **terms: Any) -> ConcurrencySlot:
            seen.append((args, terms))
            return await home.controller.acquire()

    home.bridge = ControllerBridge(Listening(), home.loop)
    context = ToolExecutionContext(caller_id="ann")
    ask(home).result(BOUND)
    ask(home, bucket="http", context=context, priority=1, key="k", weight=2, timeout=3.0).result(
        BOUND
    )
    plain = {"context": None, "priority": None, "weight": 1, "timeout": None}
    given = {"context": context, "priority": 1, "key": "k", "weight": 2, "timeout": 3.0}
    assert seen == [((None,), plain), (("http",), given)]
    home.check_empty()


def test_errors_come_through(home_of: HomeOf, ask: Ask) -> None:
    """C6, C7, C27: refusals keep their type, their message and `retry_after`."""
    home = home_of(max_concurrent=1, queue_size=1)
    home.give(home.take())
    slot = home.take()
    with pytest.raises(QueueTimeoutError, match=r"waited 0\.01 s for a slot"):
        ask(home, timeout=0.01).result(BOUND)
    waiting = ask(home)
    home.wait_for_queue(1)
    with pytest.raises(QueueFullError, match="the queue is full") as caught:
        ask(home).result(BOUND)
    assert caught.value.retry_after is not None
    with pytest.raises(SlotRejectedError, match="can never run"):
        ask(home, weight=2).result(BOUND)
    with pytest.raises(ConfigurationError, match="weight"):
        ask(home, weight=0).result(BOUND)
    home.give(slot)
    waiting.result(BOUND)
    home.check_empty()


def test_error_in_the_block_releases(home_of: HomeOf, elsewhere: LoopThread) -> None:
    """C8: a block that raises gives its slot back, and its error comes out."""
    home = home_of()

    async def fail() -> None:
        async with home.bridge.slot():
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"), home.bridge.slot():
        raise LookupError("mine")
    with pytest.raises(LookupError, match="mine"):
        elsewhere.run(fail())
    home.check_empty()


def test_with_on_a_loop_is_refused(home_of: HomeOf, elsewhere: LoopThread) -> None:
    """C27: blocking the home loop would be a deadlock, blocking another one a standstill."""
    home = home_of()
    with pytest.raises(ToolEngineError, match="a deadlock; use `async with`"):
        home.do(lambda: hold_in_thread(home))
    with pytest.raises(ToolEngineError, match="would stand still meanwhile; use `async with`"):
        elsewhere.do(lambda: hold_in_thread(home))
    home.check_empty()


def test_claim_is_used_once(home_of: HomeOf, elsewhere: LoopThread) -> None:
    """C9: a second use of one claim could give back the slot of the first."""
    home = home_of()
    claim = home.bridge.slot()

    async def use_again() -> None:
        async with claim:
            pass

    with claim, pytest.raises(ToolEngineError, match="used once"), claim:
        pass
    with pytest.raises(ToolEngineError, match="used once"):
        elsewhere.run(use_again())
    home.check_empty()


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan"), "1"])
def test_timeout_is_checked_where_it_is_written(home_of: HomeOf, timeout: Any) -> None:
    """C7: a timeout that is none is refused before anything is sent."""
    with pytest.raises(ConfigurationError, match="timeout must be"):
        home_of().bridge.slot(timeout=timeout)


def test_context_variables(home_of: HomeOf, ask: Ask) -> None:
    """C27: what runs at home for a caller sees that caller's variables, and nobody else's."""
    home = home_of()
    seen: list[str] = []
    name = contextvars.ContextVar("name", default="nobody")

    class Asking(ToolConcurrencyController):
        async def acquire(self, *args: Any, **terms: Any) -> ConcurrencySlot:
            seen.append(name.get())
            await asyncio.sleep(0)
            seen.append(name.get())
            name.set("set at home")
            return await super().acquire(*args, **terms)

    home.controller = Asking(home.controller.config)
    home.bridge = ControllerBridge(home.controller, home.loop)

    async def on_loop(mine: str) -> None:
        name.set(mine)
        await hold(home)
        assert name.get() == mine

    def in_thread(mine: str) -> None:
        name.set(mine)
        hold_in_thread(home)
        assert name.get() == mine

    other = LoopThread()
    other.run(on_loop("ann"))
    other.close()
    contextvars.copy_context().run(in_thread, "bob")
    ask(home).result(BOUND)
    assert seen == ["ann", "ann", "bob", "bob", "nobody", "nobody"]
    home.check_empty()


def test_release_is_idempotent_from_anywhere(home_of: HomeOf, elsewhere: LoopThread) -> None:
    """C9, C27: given back early and often, from everywhere, it counts once."""
    home = home_of(max_concurrent=1)

    async def give_early() -> None:
        async with home.bridge.slot() as slot:
            home.bridge.release(slot)
            home.bridge.release(slot)

    with home.bridge.slot() as slot:
        home.bridge.release(slot)
        home.wait_until(lambda metrics: metrics.current_concurrent == 0)
    home.bridge.release(slot)
    for loop in (home, elsewhere):
        loop.run(give_early())
    assert home.metrics().total_released == 3
    home.check_empty()


def test_cancelled_while_it_waits(home_of: HomeOf, elsewhere: LoopThread) -> None:
    """C8, C27: the waiter on the home loop goes with the caller, and those behind move up."""
    home = home_of(max_concurrent=1)
    held = home.take()
    first = elsewhere.begin(hold(home))
    home.wait_for_queue(1)
    second = elsewhere.begin(hold(home))
    home.wait_for_queue(2)
    first.cancel()
    home.wait_for_queue(1)
    assert home.metrics().total_cancelled == 1
    home.give(held)
    second.result(BOUND)
    home.check_empty()


def test_cancelled_as_it_is_granted(home_of: HomeOf, elsewhere: LoopThread) -> None:
    """C8, C27: granted at home, cancelled before or after the news has come: nothing is kept.

    The caller's loop stands still while the grant happens, so the order is known.
    """
    for turns in range(6):
        home = home_of(max_concurrent=1)
        held = home.take()

        async def cancel_after(turns: int, home: Home, held: ConcurrencySlot) -> None:
            task = asyncio.ensure_future(hold(home))
            await asyncio.sleep(0)
            home.wait_for_queue(1)
            home.give(held)
            home.wait_until(lambda metrics: metrics.total_granted == 1)
            home.do(lambda: None)  # the task at home has told the caller
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        elsewhere.run(cancel_after(turns, home, held))
        assert home.metrics().total_acquired == 2
        home.check_empty()


def test_cancelled_after_any_turn(home_of: HomeOf, elsewhere: LoopThread) -> None:
    """C8: at whichever turn of the two loops cancellation and grant come, nothing is kept."""
    home = home_of(max_concurrent=1)

    async def cancel_after(turns: int) -> None:
        task = asyncio.ensure_future(hold(home))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def release_after(turns: int, slot: ConcurrencySlot) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        home.controller.release(slot)

    for cancelled_at, released_at in product(range(10), range(6)):
        slot = home.take()
        released = home.begin(release_after(released_at, slot))
        elsewhere.run(cancel_after(cancelled_at))
        released.result(BOUND)
    home.check_empty()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_cancel_at_each_await(home_of: HomeOf, elsewhere: LoopThread, number: int) -> None:
    """C8: CancelledError thrown in at await number k keeps nothing: of the wait, of the block."""
    home = home_of(max_concurrent=1, patience=0.05)
    held = home.take()

    async def work() -> None:
        async with home.bridge.slot():
            await asyncio.sleep(0)

    async def drive() -> None:
        coroutine = work().__await__()
        for count in range(number + 1):
            future = next(coroutine)
            if count == number:
                with pytest.raises(asyncio.CancelledError):
                    coroutine.throw(asyncio.CancelledError)
                return
            assert future is not None
            future._asyncio_future_blocking = False
            if count == 1:
                home.give(held)
            # Await number 1 is the second look at whether the home loop is alive.
            await asyncio.wait([future], timeout=BOUND)

    elsewhere.run(drive())
    home.give(held)
    home.check_empty()


def test_cancelled_on_the_home_loop(home_of: HomeOf) -> None:
    """C8: the way without the bridge's errands, too, keeps nothing."""
    home = home_of(max_concurrent=1)
    held = home.take()
    waiting = home.begin(hold(home))
    home.wait_for_queue(1)
    waiting.cancel()
    home.wait_for_queue(0)
    home.give(held)
    home.check_empty()


def test_keyboard_interrupt_while_it_waits(home_of: HomeOf) -> None:
    """C8: Ctrl-C ends the wait in the main thread; its waiter goes with it."""
    home = home_of(max_concurrent=1)
    held = home.take()

    def interrupt() -> None:
        home.wait_for_queue(1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    # Whoever runs the tests in the background may have them ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    claim = home.bridge.slot()
    try:
        with pytest.raises(KeyboardInterrupt), claim:
            pytest.fail("nobody gave the slot")
    finally:
        signal.signal(signal.SIGINT, before)
    interrupter.join(BOUND)
    home.wait_for_queue(0)
    assert home.metrics().total_cancelled == 1
    home.give(held)
    home.check_empty()


class Interrupter:
    """Raises KeyboardInterrupt at the line number `count` that runs in the bridge.

    Not in `__del__`, out of which Python lets nothing come.
    """

    def __init__(self, count: int) -> None:
        self.left = count
        self.place = ""

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if code.co_filename != bridge.__file__ or code.co_name == "__del__":
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                self.place = f"{code.co_qualname}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self.trace


def interrupted_at(count: int, home: Home) -> str:
    """Takes a slot in this thread, and is interrupted; returns where, or ""."""
    interrupter = Interrupter(count)
    before = sys.gettrace()
    try:
        # That it was interrupted is what the caller asks for, by `place`.
        with suppress(KeyboardInterrupt):
            sys.settrace(interrupter.trace)
            hold_in_thread(home)
    finally:
        sys.settrace(before)
    return interrupter.place


def test_interrupted_as_it_sends(home_of: HomeOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """C8: interrupted before anything was sent, there is nothing to take back."""
    home = home_of()
    send, sent = home.loop.call_soon_threadsafe, threading.Event()

    def interrupt(action: Callable[[], object]) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(home.loop, "call_soon_threadsafe", interrupt)
    with pytest.raises(KeyboardInterrupt), home.bridge.slot():
        pytest.fail("nobody was asked for a slot")
    send(sent.set)
    assert sent.wait(BOUND)
    assert home.metrics().total_acquired == 0
    home.check_empty()


def test_forgotten_claim_gives_its_slot_back(home_of: HomeOf) -> None:
    """C8: a claim that nobody can end any more, because it is gone, ends by itself."""
    home = home_of(max_concurrent=1)
    claim = home.bridge.slot()
    claim.__enter__()
    assert home.metrics().current_concurrent == 1
    del claim
    gc.collect()
    home.wait_until(lambda metrics: metrics.current_concurrent == 0)
    home.check_empty()


@pytest.mark.parametrize("is_free", [True, False])
def test_interrupted_at_each_line(
    home_of: HomeOf, threads: ThreadPoolExecutor, is_free: bool
) -> None:
    """C8: KeyboardInterrupt at any line of the bridge, entry and exit, keeps no slot."""
    home = home_of(max_concurrent=1)
    places = []
    for count in range(1, 200):
        held = None if is_free else home.take()
        task = threads.submit(interrupted_at, count, home)
        if held is not None:
            is_over: Callable[[], bool] = task.done
            home.wait_until(lambda metrics, is_over=is_over: is_over() or metrics.queue_length == 1)  # type: ignore[misc]
            home.give(held)
        place = task.result(BOUND)
        if not place:
            break
        places.append(place)
        gc.collect()
        home.wait_until(lambda m: m.current_concurrent == m.queue_length == 0)
    else:
        pytest.fail("it never came to the end")
    functions = {place.partition(":")[0] for place in places}
    assert {
        "SlotClaim.__enter__",
        "SlotClaim.__exit__",
        "_Errand.finish",
        "_post_to_loop",
    } <= functions
    home.check_empty()


def test_home_loop_shuts_down_while_somebody_waits(home_of: HomeOf, ask: Ask) -> None:
    """C24, C27: a home loop that cancels its tasks tells those who wait elsewhere, at once."""
    home = home_of(max_concurrent=1)
    home.take()
    waiting = ask(home)
    home.wait_for_queue(1)
    home.close()
    with pytest.raises(ControllerClosedError, match="it is shutting down"):
        waiting.result(BOUND)


def test_controller_closes_while_somebody_waits(home_of: HomeOf, ask: Ask) -> None:
    """C24: `close` of the controller reaches those who wait elsewhere."""
    home = home_of(max_concurrent=1)
    held = home.take()
    waiting = ask(home)
    home.wait_for_queue(1)
    home.do(home.controller.close)
    with pytest.raises(ControllerClosedError, match="the controller is closed"):
        waiting.result(BOUND)
    home.give(held)


def test_home_loop_is_closed(home_of: HomeOf, ask: Ask) -> None:
    """C27: nobody is kept waiting for a loop that is gone, and giving back to it is no error."""
    home = home_of()
    with home.bridge.slot() as slot:
        home.close()
    home.bridge.release(slot)
    with pytest.raises(ControllerClosedError, match="event loop of the controller is closed"):
        ask(home).result(BOUND)


def test_home_loop_closes_without_a_word(home_of: HomeOf, ask: Ask) -> None:
    """C27: closed without cancelling anything, the loop is found out within half a second."""
    home = home_of()
    home.stop()
    waiting = ask(home)
    # The request is in the loop's line, which is thrown away.
    wait_for_requests(home.loop)
    home.loop.close()
    with pytest.raises(ControllerClosedError, match="was closed while the call waited"):
        waiting.result(BOUND)


def wait_for_requests(loop: asyncio.AbstractEventLoop) -> None:
    """Until something has been sent to a loop that does not run."""
    event = threading.Event()
    for _ in range(int(BOUND / 0.01)):
        if loop._ready:  # type: ignore[attr-defined]
            return
        event.wait(0.01)
    pytest.fail("nothing was sent")


def test_home_loop_does_not_run(home_of: HomeOf, ask: Ask) -> None:
    """C27: a loop that stands still for longer than `patience` counts as closed."""
    home = home_of(patience=0.1, queue_timeout=None)
    home.stop()
    with pytest.raises(ControllerClosedError, match=r"has not run for 0\.1 s"):
        ask(home).result(BOUND)
    home.loop.run_until_complete(asyncio.sleep(0))
    metrics = home.controller.get_metrics()
    assert (metrics.current_concurrent, metrics.queue_length) == (0, 0)


def test_patience_counts_from_the_last_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    """C27: a loop that ran until now has all of `patience` to run again."""
    now, is_running = 0.0, True
    monkeypatch.setattr(bridge, "time", SimpleNamespace(monotonic=lambda: now))
    loop = SimpleNamespace(is_closed=lambda: False, is_running=lambda: is_running)
    there = ControllerBridge(
        ToolConcurrencyController(), cast("asyncio.AbstractEventLoop", loop), patience=5.0
    )
    errand = bridge._Errand(there, None, {"timeout": 1000.0}, list)
    now = 100.0
    errand.check_home()
    is_running, now = False, 104.0
    errand.check_home()
    now = 105.0
    with pytest.raises(ControllerClosedError, match="has not run for 5 s"):
        errand.check_home()


def test_home_loop_starts_late(home_of: HomeOf, ask: Ask) -> None:
    """C27: whoever asks before the home loop runs has a slot as soon as it does."""
    home = home_of()
    home.stop()
    waiting = ask(home)
    wait_for_requests(home.loop)
    home.thread = threading.Thread(target=home.loop.run_forever)
    home.thread.start()
    waiting.result(BOUND)
    home.check_empty()


def test_home_loop_is_blocked(home_of: HomeOf, ask: Ask) -> None:
    """C7: a deadline is a promise: `patience` after it the caller goes on, and keeps nothing."""
    home = home_of(patience=0.1)
    go = threading.Event()
    home.loop.call_soon_threadsafe(go.wait, BOUND)
    with pytest.raises(QueueTimeoutError, match=r"waited 0\.05 s .* what blocks that loop"):
        ask(home, timeout=0.05).result(BOUND)
    go.set()
    home.check_empty()


def test_configured_timeout_bounds_the_wait_too(home_of: HomeOf, ask: Ask) -> None:
    """C7: without a timeout of its own, a call's `queue_timeout` is the promise."""
    home = home_of(patience=0.1, queue_timeout=0.05)
    go = threading.Event()
    home.loop.call_soon_threadsafe(go.wait, BOUND)
    with pytest.raises(QueueTimeoutError, match=r"waited 0\.05 s"):
        ask(home).result(BOUND)
    go.set()
    home.check_empty()


def test_long_wait_outlasts_many_looks(home_of: HomeOf, ask: Ask) -> None:
    """C27: a home loop that is alive is waited for, however often the caller has to look."""
    home = home_of(patience=0.02, max_concurrent=1, queue_timeout=None)
    held = home.take()
    waiting = ask(home)
    home.wait_for_queue(1)
    with pytest.raises(TimeoutError):
        waiting.result(0.2)
    home.give(held)
    waiting.result(BOUND)
    home.check_empty()


def test_caller_loop_closes_while_it_waits(home_of: HomeOf) -> None:
    """C27: a slot that is granted to a loop that is gone passes on."""
    home = home_of(max_concurrent=1)
    held = home.take()
    loop = asyncio.new_event_loop()
    task = loop.create_task(hold(home))
    loop.run_until_complete(asyncio.sleep(0))
    home.wait_for_queue(1)
    loop.close()
    home.give(held)
    home.wait_until(lambda metrics: metrics.total_acquired == metrics.total_released == 2)
    home.check_empty()
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_caller_loop_closes_before_a_refusal(home_of: HomeOf) -> None:
    """C27: a refusal that nobody is left to hear is no error at home."""
    home = home_of(max_concurrent=1)
    held = home.take()
    loop = asyncio.new_event_loop()
    task = loop.create_task(hold(home))
    loop.run_until_complete(asyncio.sleep(0))
    home.wait_for_queue(1)
    loop.close()
    home.do(home.controller.close)
    home.wait_for_queue(0)
    home.give(held)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    home.check_empty()


def test_dropped_coroutine_gives_its_slot_back(home_of: HomeOf) -> None:
    """C8: a coroutine that is thrown away inside its block, or while it waits, keeps nothing."""
    home = home_of(max_concurrent=1)

    async def stay() -> None:
        async with home.bridge.slot():
            await asyncio.sleep(BOUND)

    async def step(coroutine: Coroutine[Any, Any, None], until: Callable[[], object]) -> None:
        steps = coroutine.__await__()
        future = next(steps)
        await asyncio.to_thread(until)
        future._asyncio_future_blocking = False
        if future.done():
            next(steps)
        steps.close()

    for is_held in (True, False):
        held = home.take() if is_held else None
        until: Callable[[], object] = (
            (lambda: home.wait_for_queue(1))
            if is_held
            else (lambda: home.wait_until(lambda metrics: metrics.current_concurrent == 1))
        )
        asyncio.run(step(stay(), until))
        home.wait_for_queue(0)
        if held is not None:
            home.give(held)
        home.wait_until(lambda metrics: metrics.current_concurrent == 0)
    home.check_empty()


def test_unknown_failure_of_the_loop_comes_through(home_of: HomeOf) -> None:
    """Only a closed loop is taken for one: any other failure to reach it is shown."""

    class Odd:
        def call_soon_threadsafe(self, *args: object) -> None:
            raise RuntimeError("something else")

        def is_closed(self) -> bool:
            return False

    controller = ToolConcurrencyController()
    slot = controller.try_acquire()
    assert slot is not None
    odd = ControllerBridge(controller, cast("asyncio.AbstractEventLoop", Odd()))
    with pytest.raises(RuntimeError, match="something else"):
        odd.release(slot)


def test_repr_names_both_ends(home_of: HomeOf) -> None:
    """The whole live state is in the repr."""
    home = home_of()
    assert "ToolConcurrencyController 0/10 in use" in repr(home.bridge)
    assert "EventLoop" in repr(home.bridge)


async def test_bridge_blocks_no_loop() -> None:
    """C27: neither the home loop nor the caller's makes a blocking call."""
    controller = ToolConcurrencyController(ConcurrencyConfig(max_concurrent=1))
    there = ControllerBridge(controller, asyncio.get_running_loop())

    async def work() -> None:
        async with there.slot():
            await asyncio.sleep(0)

    def with_loop() -> None:
        asyncio.run(work())

    def without() -> None:
        with there.slot():
            pass

    calls: list[Awaitable[None]] = [
        asyncio.to_thread(with_loop),
        asyncio.to_thread(without),
        work(),
    ]
    async with asyncio.timeout(BOUND):
        await asyncio.gather(*calls)
    await asyncio.sleep(0)
    assert controller.get_metrics().total_released == 3
