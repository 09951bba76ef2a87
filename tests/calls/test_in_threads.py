"""Plain functions run in threads, on the real clock: everything waits for events, not for time."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.calls.audit import Audit, check_idle, make_engine
from tests.calls.samples import bare
from tool_engine import ToolEngine, ToolExecutionContext

BOUND = 10.0


class Blocking:
    """A plain tool that runs until it is let go."""

    def __init__(self, value: Any = "done") -> None:
        self.started = threading.Event()
        self.go = threading.Event()
        self.value = value
        self.thread: threading.Thread | None = None

    def __call__(self) -> Any:
        self.thread = threading.current_thread()
        self.started.set()
        assert self.go.wait(BOUND)
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what a thread brings about."""
    async with asyncio.timeout(BOUND):
        while not condition():  # noqa: ASYNC110 - a thread cannot set an asyncio.Event
            await asyncio.sleep(0.001)


async def started(blocking: Blocking) -> None:
    await asyncio.to_thread(blocking.started.wait, BOUND)


async def test_runs_beside_the_loop(engine: ToolEngine, audit: Audit) -> None:
    """K27: a plain function runs in a thread of its own, never on the event loop."""
    blocking = Blocking()
    engine.register_tool(bare("block"), blocking)
    call = asyncio.create_task(engine.execute("block"))
    await started(blocking)
    assert blocking.thread is not threading.main_thread()
    blocking.go.set()
    async with asyncio.timeout(BOUND):
        assert (await call).output == {"result": "done"}


@pytest.mark.parametrize("value", ["late", ValueError("late")], ids=["value", "error"])
async def test_thread_past_its_deadline(value: Any) -> None:
    """C10: the caller has its timeout; the thread's slot is a zombie until it ends; what it brings
    is dropped."""
    engine = make_engine(1)
    audit = Audit(engine)
    blocking = Blocking(value)
    engine.register_tool(bare("block", timeout=0.01), blocking)
    async with asyncio.timeout(BOUND):
        result = await engine.execute("block")
    assert result.error_type == "timeout"
    metrics = engine.controller.get_metrics()
    assert (metrics.zombies, metrics.current_concurrent) == (1, 1)
    waiting = asyncio.create_task(engine.execute("block", {}, ToolExecutionContext(timeout=BOUND)))
    await until(lambda: engine.controller.get_metrics().queue_length == 1)
    blocking.go.set()
    async with asyncio.timeout(BOUND):
        assert (await waiting).is_success == (value == "late")
    first, _ = await audit.records()
    assert first.result == {}
    await audit.check([result])
    await engine.close()


async def test_cancelled_caller_of_a_thread() -> None:
    """C10, U15: cancelling the caller frees it at once; the thread keeps its slot until it ends."""
    engine = make_engine(1)
    audit = Audit(engine)
    blocking = Blocking()
    engine.register_tool(bare("block"), blocking)
    call = asyncio.create_task(engine.execute("block"))
    await started(blocking)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(BOUND):
            await call
    assert engine.controller.get_metrics().zombies == 1
    blocking.go.set()
    await until(lambda: engine.controller.get_metrics().zombies == 0)
    assert (await audit.last()).error_type == "cancelled"
    await audit.check()
    await engine.close()


async def test_close_with_a_stuck_thread() -> None:
    """C24: a thread that does not end cannot keep the engine from closing, and ends by itself."""
    engine = make_engine(close_timeout=0.01)
    blocking = Blocking()
    engine.register_tool(bare("block"), blocking)
    call = asyncio.create_task(engine.execute("block"))
    await started(blocking)
    async with asyncio.timeout(BOUND):
        await engine.close()
        assert (await call).error_type == "engine_closed"
    assert engine.controller.get_metrics().zombies == 1
    blocking.go.set()
    await until(lambda: engine.controller.get_metrics().zombies == 0)


async def test_context_variables_in_threads(engine: ToolEngine, audit: Audit) -> None:
    """C27: a thread sees its caller's context variables, and what it sets stays with it."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("the caller's")

    def change() -> str:
        seen = variable.get()
        variable.set("the thread's")
        return seen

    engine.register_tool(bare("change"), change)
    assert (await engine.execute("change")).output == {"result": "the caller's"}
    assert variable.get() == "the caller's"


async def test_context_of_a_plain_handler(engine: ToolEngine, audit: Audit) -> None:
    """K30: a plain handler receives the bound context if it asks for it."""

    def who(context: ToolExecutionContext) -> str | None:
        return context.caller_id

    engine.register_tool(bare("who"), who)
    result = await engine.execute("who", {}, ToolExecutionContext(caller_id="me"))
    assert result.output == {"result": "me"}


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(2), StopIteration(), asyncio.CancelledError()], ids=repr
)
async def test_errors_of_threads(engine: ToolEngine, audit: Audit, error: BaseException) -> None:
    """K29: whatever a plain function raises is an execution_error."""

    def fail() -> None:
        raise error

    engine.register_tool(bare("fail"), fail)
    async with asyncio.timeout(BOUND):
        result = await engine.execute("fail")
    assert result.error_type == "execution_error"


async def test_keyboard_interrupt_of_a_thread(engine: ToolEngine, audit: Audit) -> None:
    """K29: KeyboardInterrupt gets out of a thread too, and the slot is given back."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    engine.register_tool(bare("interrupted"), interrupted)
    with pytest.raises(KeyboardInterrupt):
        async with asyncio.timeout(BOUND):
            await engine.execute("interrupted")


async def test_what_looks_like_ctrl_c(engine: ToolEngine, audit: Audit) -> None:
    """Where the program hears of Ctrl-C by its event loop, the tool has failed: it runs on."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    engine.register_tool(bare("interrupted"), interrupted)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        async with asyncio.timeout(BOUND):
            result = await engine.execute("interrupted")
            task = await (await engine.start("interrupted")).wait()
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    words = "the tool tried to end the process (KeyboardInterrupt)"
    assert [result.error, task.error] == [words, words]


async def test_executor_whose_execute_is_plain(engine: ToolEngine, audit: Audit) -> None:
    """K52: a plain `execute` runs in a thread; a coroutine that it returns is awaited."""

    class Executor:
        def execute(self, tool: Any, params: Any, context: Any) -> Any:
            thread = threading.current_thread()

            async def finish() -> str:
                await asyncio.sleep(0)
                return f"{thread is threading.main_thread()}"

            return finish()

    engine.register_tool(bare("mixed"))
    engine.register_executor("mixed", Executor())
    assert (await engine.execute("mixed")).output == {"result": "False"}


async def test_threads_are_used_again(engine: ToolEngine, audit: Audit) -> None:
    """K27: calls one after the other share a thread; calls at once have one each."""

    def which() -> int:
        return threading.get_ident()

    engine.register_tool(bare("which"), which)
    idents = set()
    for _ in range(20):
        idents.add((await engine.execute("which")).output["result"])
        await asyncio.sleep(0.001)
    assert len(idents) < 20
    both = [Blocking(), Blocking()]
    for number, blocking in enumerate(both):
        engine.register_tool(bare(f"block{number}"), blocking)
    calls = [asyncio.create_task(engine.execute(f"block{number}")) for number in range(2)]
    for blocking in both:
        await started(blocking)
    assert both[0].thread is not both[1].thread
    for blocking in both:
        blocking.go.set()
    async with asyncio.timeout(BOUND):
        assert all([(await call).is_success for call in calls])


async def test_many_threads_at_once() -> None:
    """C26: threads that end in any order leave nothing behind."""
    engine = make_engine(20)
    audit = Audit(engine)

    def work(n: int) -> int:
        return n * n

    parameters = [{"name": "n", "type": "integer", "required": True, "description": "x"}]
    engine.register_tool(bare("work", parameters=parameters), work)
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        calls = [group.create_task(engine.execute("work", {"n": n})) for n in range(100)]
    assert [call.result().output["result"] for call in calls] == [n * n for n in range(100)]
    await audit.check([call.result() for call in calls])
    await engine.close()


async def test_nested_call_of_a_plain_tool() -> None:
    """C23: a plain tool that another tool calls runs in a thread, at max_concurrent=1 too."""
    engine = make_engine(1)

    async def outer(context: ToolExecutionContext) -> Any:
        return (await context.call("plain")).output

    def plain() -> int:
        return 7

    engine.register_tool(bare("outer"), outer)
    engine.register_tool(bare("plain"), plain)
    async with asyncio.timeout(BOUND):
        assert (await engine.execute("outer")).output == {"result": 7}
    check_idle(engine)
    await engine.close()


def test_loop_that_ends_before_the_thread() -> None:
    """C24: once its engine is closed, a thread that never returns keeps no program from ending."""
    blocking = Blocking()

    async def main() -> None:
        async with make_engine(close_timeout=0.01) as engine:
            engine.register_tool(bare("block", timeout=0.01), blocking)
            assert (await engine.execute("block")).error_type == "timeout"

    asyncio.run(main())
    assert blocking.thread is not None
    assert blocking.thread.is_alive()
    blocking.go.set()
    blocking.thread.join(BOUND)
    assert not blocking.thread.is_alive()
