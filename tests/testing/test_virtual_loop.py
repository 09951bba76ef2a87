"""Time passes at once, in the same order each time, and nothing hangs or gets lost."""

import asyncio
import contextvars
import gc
import logging
import threading
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from tool_engine.testing import CallbackError, DeadlockError, VirtualLoop, run


def test_an_hour_passes_at_once_and_to_the_instant() -> None:
    """`sleep`, `timeout`, `wait_for` and `wait` follow the virtual clock, without rounding."""

    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        times = [loop.time()]
        await asyncio.sleep(3600.0)
        times.append(loop.time())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.sleep(5.0)
        times.append(loop.time())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 60.0)
        times.append(loop.time())
        done, pending = await asyncio.wait([asyncio.create_task(asyncio.sleep(9.0))], timeout=2.0)
        assert (len(done), len(pending)) == (0, 1)
        times.append(loop.time())
        return times

    assert run(main()) == [0.0, 3600.0, 3600.1, 3660.1, 3662.1]


def test_timers_run_in_the_order_of_time_then_of_asking() -> None:
    """Earlier first; at one time, first asked first; what is in the past runs now."""
    ran: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_at(2.0, ran.append, "two a")
        loop.call_at(1.0, ran.append, "one")
        loop.call_at(2.0, ran.append, "taken back").cancel()
        loop.call_at(2.0, ran.append, "two b")
        loop.call_at(-5.0, lambda: ran.append(f"past at {loop.time():g}"))
        timer = loop.call_later(1.5, ran.append, "never")
        assert (timer.when(), timer.cancelled()) == (1.5, False)
        timer.cancel()
        timer.cancel()
        assert timer.cancelled()
        soon = loop.call_soon(ran.append, "nor this")
        soon.cancel()
        assert soon.cancelled()
        assert "cancelled" in repr(soon)
        assert "cancelled" in repr(timer)
        await asyncio.sleep(3.0)
        assert loop.time() == 3.0
        loop.call_at(1.0, lambda: ran.append(f"late at {loop.time():g}"))
        await asyncio.sleep(1.0)

    run(main())
    assert ran == ["past at 0", "one", "two a", "two b", "late at 3"]


def test_a_cancelled_timer_does_not_move_the_clock() -> None:
    """Time jumps to the next timer that will run."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        loop.call_later(50.0, print).cancel()
        await asyncio.sleep(100.0)
        return loop.time()

    assert run(main()) == 100.0

    async def wait_for_nothing() -> None:
        asyncio.get_running_loop().call_later(50.0, print).cancel()
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match="deadlock at 0 s"):
        run(wait_for_nothing())


def test_cancelled_timers_are_let_go() -> None:
    """A hundred thousand timers that were cancelled take no room, as with queue timeouts."""
    loop = VirtualLoop()
    kept = [loop.call_later(number, print) for number in range(50)]
    for number in range(100_000):
        loop.call_later(number, print).cancel()
    assert len(loop._timers) < 200
    late = loop.call_later(0.0, kept[7].cancel)
    loop.call_later(49.5, loop.stop)
    for timer in kept:
        if timer is not kept[7]:
            timer.cancel()
    loop.run_forever()
    assert loop.time() == 49.5
    assert late.when() == 0.0
    cancelled = loop._timers_cancelled
    late.cancel()
    assert loop._timers_cancelled == cancelled
    loop.close()


def test_a_deadlock_is_an_error_that_names_who_waits() -> None:
    """No hang: the message has the time, the tasks and their lines; the rest is counted."""

    async def wait_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        await asyncio.sleep(2.5)
        async with asyncio.TaskGroup() as group:
            for _ in range(12):
                group.create_task(wait_for_ever())

    with pytest.raises(DeadlockError) as caught:
        run(main())
    text = str(caught.value)
    assert text.startswith("deadlock at 2.5 s")
    assert "13 of the tasks" in text
    assert "wait_for_ever" in text
    assert "test_virtual_loop.py:" in text
    assert "and 3 more" in text


def test_a_timer_that_never_comes_is_a_deadlock() -> None:
    """Sleeping for ever is waiting for what will never happen."""
    with pytest.raises(DeadlockError):
        run(asyncio.sleep(float("inf")))


def test_a_deadlock_of_futures_alone() -> None:
    """A loop that waits for a future without any task says so too."""
    loop = VirtualLoop()
    with pytest.raises(DeadlockError, match="0 of the tasks"):
        loop.run_until_complete(loop.create_future())
    loop.close()


def order_of(seed: int | None) -> list[int]:
    async def main() -> list[int]:
        ran: list[int] = []

        async def note(number: int) -> None:
            await asyncio.sleep(1.0)
            ran.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(note(number))
        return ran

    return run(main(), seed=seed)


def test_the_seed_decides_the_order_of_what_is_ready_at_once() -> None:
    """No seed: first come, first served. A seed: another order, the same one each time."""
    assert order_of(None) == list(range(20))
    assert order_of(1) == order_of(1)
    assert sorted(order_of(1)) == list(range(20))
    assert len({tuple(order_of(seed)) for seed in range(8)}) == 8


def test_a_seed_finds_a_race() -> None:
    """Whichever of two tasks may come first does so under some seed."""

    async def racing() -> str:
        ran = ""

        async def say(word: str) -> None:
            nonlocal ran
            ran += word

        async with asyncio.TaskGroup() as group:
            group.create_task(say("a"))
            group.create_task(say("b"))
        return ran

    assert {run(racing(), seed=seed) for seed in range(20)} == {"ab", "ba"}


def test_results_and_errors_of_the_main_coroutine() -> None:
    """`run` returns and raises what the coroutine does, and cancels what it leaves behind."""
    left: list[str] = []

    async def leave() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.append("cancelled")

    async def main() -> str:
        leave.task = asyncio.create_task(leave())  # type: ignore[attr-defined] # kept alive
        await asyncio.sleep(1.0)
        return "done"

    assert run(main()) == "done"
    assert left == ["cancelled"]

    async def fail() -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run(fail())


def test_a_callback_that_raises_ends_the_run() -> None:
    """No exception of a callback is lost: it ends the run, as the cause, however many there are."""

    def divide() -> None:
        raise ZeroDivisionError("by zero")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(1.0, divide)
        loop.call_later(1.0, divide)
        await asyncio.sleep(10.0)

    with pytest.raises(
        CallbackError, match=r"divide.*ZeroDivisionError: by zero.*1 more"
    ) as caught:
        run(main())
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_task_that_nobody_awaits_does_not_fail_in_silence() -> None:
    """An exception that nobody asks for is told when its task goes, even at the very end."""

    async def fail() -> None:
        raise ValueError("nobody looks")

    async def main() -> None:
        asyncio.create_task(fail())  # noqa: RUF006 - dropped on purpose
        await asyncio.sleep(1.0)
        gc.collect()
        await asyncio.sleep(1.0)

    with pytest.raises(CallbackError, match="nobody looks"):
        run(main())

    async def fail_when_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while ending")

    async def leave() -> None:
        leave.task = asyncio.create_task(fail_when_cancelled())  # type: ignore[attr-defined]
        await asyncio.sleep(1.0)

    with pytest.raises(CallbackError, match="while ending"):
        run(leave())

    async def leave_and_fail() -> None:
        await leave()
        raise LookupError("first")

    with pytest.raises(LookupError, match="first") as caught:
        run(leave_and_fail())
    assert any("while ending" in note for note in caught.value.__notes__)


def test_a_handler_of_ones_own_is_asked() -> None:
    """Whoever sets an exception handler is told instead."""
    told: list[dict[str, Any]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert loop.get_exception_handler() is None
        loop.set_exception_handler(lambda _, context: told.append(context))
        assert loop.get_exception_handler() is not None
        loop.call_soon(int, "x")
        await asyncio.sleep(1.0)

    run(main())
    assert isinstance(told[0]["exception"], ValueError)


def test_what_fails_after_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A closed loop can raise nothing more; it logs as asyncio does."""
    loop = VirtualLoop()
    loop.close()
    with caplog.at_level(logging.ERROR, "asyncio"):
        loop.call_exception_handler({"message": "late", "exception": ValueError("x")})
        loop.call_exception_handler({"message": "alone"})
    assert [record.getMessage() for record in caplog.records] == ["late; ValueError: x", "alone"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_goes_up(kind: type[BaseException]) -> None:
    """Ctrl-C in a task or a callback ends the run at once, and leaves the loop usable."""

    async def interrupt() -> None:
        await asyncio.sleep(1.0)
        raise kind

    loop = VirtualLoop()
    with pytest.raises(kind):
        loop.run_until_complete(interrupt())
    assert loop.run_until_complete(asyncio.sleep(1.0, "on")) == "on"
    loop.close()
    with pytest.raises(kind):
        run(interrupt())


def test_functions_for_threads_run_on_the_loop() -> None:
    """`to_thread` works, without a thread, so that it is reproducible; its errors arrive."""

    def where() -> int:
        return threading.get_ident()

    async def main() -> None:
        assert await asyncio.to_thread(where) == threading.get_ident()
        with pytest.raises(ValueError, match="invalid literal"):
            await asyncio.to_thread(int, "x")
        future = asyncio.get_running_loop().run_in_executor(None, where)
        future.cancel()
        await asyncio.sleep(0)

    run(main())


def test_other_threads_are_kept_out() -> None:
    """A call from another thread raises there: its moment would be chance."""
    raised: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def call() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except RuntimeError as error:
                raised.append(str(error))

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        done = loop.create_future()
        loop.call_soon_threadsafe(done.set_result, "same thread")
        assert await done == "same thread"

    run(main())
    assert "another thread" in raised[0]


async def test_no_loop_inside_a_loop() -> None:
    """In a coroutine it says how to run a simulation instead: in a thread."""
    coroutine = asyncio.sleep(1.0, "slept")
    loop = VirtualLoop()
    with pytest.raises(RuntimeError, match="to_thread"):
        loop.run_forever()
    loop.close()
    assert await asyncio.to_thread(run, coroutine) == "slept"


def test_a_closed_loop_takes_nothing() -> None:
    """Callbacks, timers, tasks and runs are refused, not forgotten."""
    loop = VirtualLoop(start=7.0)
    assert loop.time() == 7.0
    loop.close()
    assert loop.is_closed()
    for refused in (
        lambda: loop.call_soon(print),
        lambda: loop.call_later(1.0, print),
        lambda: loop.create_task(asyncio.sleep(1.0)),
        loop.run_forever,
    ):
        with pytest.raises(RuntimeError, match="closed"):
            refused()


def test_stop_and_close() -> None:
    """A stopped loop has not finished, a running one cannot be closed."""
    loop = VirtualLoop()

    async def stop() -> None:
        assert loop.is_running()
        with pytest.raises(RuntimeError, match="stop it first"):
            loop.close()
        loop.stop()
        await asyncio.sleep(1.0)

    task = loop.create_task(stop())
    with pytest.raises(RuntimeError, match="stopped before"):
        loop.run_until_complete(task)
    assert not loop.is_running()
    loop.run_until_complete(task)
    loop.close()


def test_generators_are_closed() -> None:
    """An asynchronous generator that was dropped or left runs its `finally`."""
    ended: list[str] = []
    kept: list[AsyncIterator[int]] = []

    async def count(name: str) -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ended.append(name)

    async def main() -> None:
        left = count("left")
        kept.append(left)
        await anext(left)
        dropped = count("dropped")
        await anext(dropped)
        del dropped
        await asyncio.sleep(1.0)
        assert ended == ["dropped"]

    run(main())
    assert ended == ["dropped", "left"]


def test_a_generator_may_outlive_its_loop() -> None:
    """One that is dropped after the loop was closed fails nobody."""

    async def count() -> AsyncIterator[int]:
        yield 1
        yield 2

    loop = VirtualLoop()
    kept = [count()]

    async def begin() -> None:
        await anext(kept[0])

    loop.run_until_complete(begin())
    loop.close()
    kept.clear()
    gc.collect()
    assert loop.unhandled == []


def test_a_cancelled_run_raises_so() -> None:
    """Who waits for a task that is cancelled gets the cancellation."""
    loop = VirtualLoop()
    task = loop.create_task(asyncio.sleep(5.0))
    loop.call_later(1.0, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


class Foreign(Coroutine[Any, None, None]):
    """A coroutine without frames, as extension modules have them."""

    def send(self, value: None) -> Any:
        self.future: Any = asyncio.get_running_loop().create_future()
        self.future._asyncio_future_blocking = True  # what `yield` in a future's await sets
        return self.future

    def throw(self, *error: Any) -> Any:
        raise error[0]

    def close(self) -> None:
        pass

    def __await__(self) -> Any:
        return self


def test_a_deadlock_names_tasks_without_frames() -> None:
    """A task whose coroutine shows no line has its name at least."""

    async def main() -> None:
        Foreign.task = asyncio.create_task(Foreign(), name="foreign")  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match="foreign"):
        run(main())


def test_contexts_factories_and_debug() -> None:
    """Callbacks run in the context they were asked for in; task factories and debug are kept."""
    variable = contextvars.ContextVar("variable", default="outside")
    seen: list[str] = []
    made: list[str] = []

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        made.append(coro.__name__)
        return asyncio.Task(coro, loop=loop, **options)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert loop.get_task_factory() is None
        loop.set_task_factory(factory)
        assert loop.get_task_factory() is factory
        other = contextvars.copy_context()
        other.run(variable.set, "inside")
        loop.call_soon(lambda: seen.append(variable.get()), context=other)
        loop.call_later(1.0, lambda: seen.append(variable.get()))
        await asyncio.create_task(asyncio.sleep(2.0), name="x")
        assert not loop.get_debug()
        loop.set_debug(True)
        assert loop.get_debug()
        await asyncio.create_task(asyncio.sleep(2.0))

    run(main())
    assert seen == ["inside", "outside"]
    assert made[:2] == ["sleep", "sleep"]


def test_what_asks_for_sockets_is_refused() -> None:
    """There is no network in virtual time."""

    async def main() -> None:
        with pytest.raises(NotImplementedError):
            await asyncio.open_connection("127.0.0.1", 9)

    run(main())
