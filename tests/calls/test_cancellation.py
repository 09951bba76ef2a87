"""What is left after a caller was cancelled? Nothing, at whichever await it happened."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any

import pytest

from tests.calls.audit import Audit, check_idle, make_engine, turns
from tests.calls.samples import Stubborn, bare, forever
from tool_engine import ConfigurationError, ToolEngine, ToolExecutionContext, ToolSubAgent

BOUND = 10_000.0
MOST_AWAITS = 200


class CancelAt:
    """Awaits a coroutine, and cancels at its await number `number`.

    `thrown`: the error arrives at that await, as a foreign driver would do it; `asked`: the task is
    asked to end while it waits there; `late`: it is asked when what it waits for has come already.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], number: int, how: str) -> None:
        self._coroutine = coroutine
        self._left = number
        self._how = how
        self.has_struck = False

    def __await__(self) -> Generator[Any, Any, Any]:
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                waits_for = (
                    self._coroutine.send(value) if error is None else self._coroutine.throw(error)
                )
            except StopIteration as stop:
                return stop.value
            error = None
            self._left -= 1
            if self._left == 0:
                self.has_struck = True
                error = self._strike(waits_for)
                if error is not None:
                    continue
            try:
                value = yield waits_for
            except BaseException as raised:  # noqa: BLE001 - the coroutine is to see it
                error = raised

    def _strike(self, waits_for: Any) -> BaseException | None:
        if self._how == "thrown":
            if waits_for is not None:
                waits_for._asyncio_future_blocking = False
            return asyncio.CancelledError()
        task = asyncio.current_task()
        assert task is not None
        if self._how == "late" and waits_for is not None:
            waits_for.add_done_callback(lambda _: task.cancel())
        else:
            asyncio.get_running_loop().call_soon(task.cancel)
        return None


async def quick() -> str:
    return "quick"


async def slow() -> str:
    for _ in range(3):
        await asyncio.sleep(0)
        await asyncio.sleep(1)
    return "slow"


class Flaky:
    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self) -> str:
        self.runs += 1
        await asyncio.sleep(0.5)
        if self.runs % 3:
            raise ValueError("flaky")
        return "at last"


async def nesting(context: ToolExecutionContext) -> Any:
    first = await context.call("slow")
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(context.call("slow")) for _ in range(2)]
    return [first.output, *(call.result().output for call in calls)]


def register_all(engine: ToolEngine) -> None:
    engine.register_tool(bare("quick"), quick)
    engine.register_tool(bare("slow"), slow)
    engine.register_tool(bare("nesting"), nesting)
    retry = {"attempts": 3, "backoff": 2}
    engine.register_tool(bare("flaky", effect="read", retry=retry), Flaky())
    engine.register_tool(bare("timing_out", timeout=2.5), slow)
    engine.register_tool(bare("stubborn", timeout=3), Stubborn(seconds=7))


async def one(engine: ToolEngine, name: str) -> Any:
    return await engine.execute(name)


async def batch(engine: ToolEngine, is_parallel: bool) -> Any:
    agent = ToolSubAgent("agent", engine)
    return await agent.execute_batch([("slow", {}), ("nesting", {}), ("quick", {})], is_parallel)


SCENES: dict[str, Callable[[ToolEngine], Awaitable[Any]]] = {
    **{
        name: partial(one, name=name)
        for name in ("slow", "nesting", "flaky", "timing_out", "stubborn")
    },
    "batch": lambda engine: batch(engine, is_parallel=False),
    "parallel": lambda engine: batch(engine, is_parallel=True),
}


async def strike(engine: ToolEngine, scene: str, number: int, how: str, *, busy: bool) -> bool:
    """Runs a scene that is cancelled at one await; whether it came so far."""

    async def run() -> CancelAt:
        driver = CancelAt(SCENES[scene](engine), number, how)  # type: ignore[arg-type]
        with contextlib.suppress(asyncio.CancelledError):
            await driver
        task = asyncio.current_task()
        assert task is not None
        while task.cancelling():
            task.uncancel()
        return driver

    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        others = [group.create_task(engine.execute("slow")) for _ in range(2 if busy else 0)]
        await turns(2)
        driver = await group.create_task(run())
    assert all(other.result().is_success for other in others)
    return driver.has_struck


@pytest.mark.parametrize("busy", [False, True], ids=["free", "queued"])
@pytest.mark.parametrize("how", ["thrown", "asked", "late"])
@pytest.mark.parametrize("scene", SCENES)
async def test_cancelled_at_every_await(scene: str, how: str, busy: bool) -> None:
    """C8, C9, C26: cancelled at any await of a call (queued, running, nested, back-off, batch),
    nothing is held, nobody waits, no task is left, every call has its record, and all goes on."""
    tasks = asyncio.all_tasks()
    engine = make_engine(1, queue_timeout=None)
    register_all(engine)
    audit = Audit(engine)
    for number in range(1, MOST_AWAITS):
        has_struck = await strike(engine, scene, number, how, busy=busy)
        await asyncio.sleep(100)
        check_idle(engine)
        assert asyncio.all_tasks() == tasks
        for _ in range(2):
            assert (await engine.execute("quick")).is_success
        if not has_struck:
            break
    else:
        pytest.fail(f"{scene} waits more than {MOST_AWAITS} times")
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        calls = [group.create_task(engine.execute("quick")) for _ in range(100)]
    assert all(call.result().is_success for call in calls)
    await audit.check()
    await engine.close()


async def cancelled_call(engine: ToolEngine, name: str) -> asyncio.Task[Any]:
    call = asyncio.create_task(engine.execute(name))
    await turns()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(BOUND):
            await call
    return call


async def test_running_call(engine: ToolEngine, audit: Audit) -> None:
    """U15, K29: cancelling the caller ends STARTED with CANCELLED, records it and is re-raised."""
    engine.register_tool(bare("wait"), forever)
    await cancelled_call(engine, "wait")
    assert audit.kinds() == ["execution_started", "execution_cancelled"]
    record = await audit.last()
    assert (record.error_type, record.reached_executor) == ("cancelled", True)
    assert audit.events[-1].error == record.error == "the caller cancelled the call"


async def test_waiting_call() -> None:
    """C8: a call that is cancelled while it waits never starts, and nobody behind it loses."""
    engine = make_engine(1)
    audit = Audit(engine)
    engine.register_tool(bare("slow"), slow)
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        group.create_task(engine.execute("slow"))
        await turns()
        waiting = asyncio.create_task(engine.execute("slow"))
        await turns()
        behind = group.create_task(engine.execute("slow"))
        await turns()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert behind.result().is_success
    cancelled = [r for r in await audit.records() if r.error_type == "cancelled"]
    assert [record.reached_executor for record in cancelled] == [False]
    assert audit.kinds(cancelled[0].call_id) == ["execution_queued", "execution_cancelled"]
    await audit.check()
    await engine.close()


async def test_tool_that_swallows_the_callers_cancellation(
    engine: ToolEngine, audit: Audit
) -> None:
    """C10, U15: a tool cannot keep its caller from being cancelled; its value is dropped."""

    async def swallow() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(1)
        return "not interested"

    engine.register_tool(bare("swallow"), swallow)
    await cancelled_call(engine, "swallow")
    assert (await audit.last()).error_type == "cancelled"
    assert (await audit.last()).result == {}


async def test_tool_that_never_ends_after_the_callers_cancellation() -> None:
    """C10: at the latest its deadline frees the caller of a tool that ignores cancellation."""
    engine = make_engine()
    audit = Audit(engine)
    stubborn = Stubborn(seconds=500, times=2)
    engine.register_tool(bare("stubborn", timeout=5), stubborn)
    began = asyncio.get_running_loop().time()
    await cancelled_call(engine, "stubborn")
    assert asyncio.get_running_loop().time() - began == pytest.approx(5)
    assert engine.controller.get_metrics().zombies == 1
    await asyncio.sleep(600)
    await audit.check()
    await engine.close()


async def test_tool_that_answers_with_an_error(engine: ToolEngine, audit: Audit) -> None:
    """U15: a tool that answers a cancellation with an error does not stop it either."""

    async def object_to_it() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("no") from None

    engine.register_tool(bare("object"), object_to_it)
    await cancelled_call(engine, "object")
    assert (await audit.last()).error_type == "cancelled"


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_tool_that_raises_cancelled_error(
    engine: ToolEngine, audit: Audit, is_waiting: bool
) -> None:
    """K29: a CancelledError of the tool's own is an execution_error; its caller goes on."""

    async def give_up() -> None:
        if is_waiting:
            await asyncio.sleep(1)
        raise asyncio.CancelledError

    async def lose_a_task() -> None:
        task = asyncio.ensure_future(asyncio.sleep(100))
        asyncio.get_running_loop().call_later(1, task.cancel)
        await task

    caller = asyncio.current_task()
    assert caller is not None
    engine.register_tool(bare("give_up"), give_up)
    engine.register_tool(bare("lose"), lose_a_task)
    for name in ("give_up", "lose"):
        result = await engine.execute(name)
        assert result.error_type == "execution_error"
        assert "CancelledError" in str(result.error)
    assert caller.cancelling() == 0


@pytest.mark.parametrize(
    "state",
    [
        "queued",
        "running",
    ],
)
async def test_reason_of_the_cancellation(state: str) -> None:
    """U15: the caller's own CancelledError is re-raised: anyio's scopes know theirs by its text."""
    engine = make_engine(1)
    engine.register_tool(bare("wait", timeout=5), forever)
    slot = engine.controller.try_acquire() if state == "queued" else None
    seen: list[Any] = []

    async def caller() -> None:
        try:
            await engine.execute("wait")
        except asyncio.CancelledError as error:
            seen.append(error.args)
            raise

    call = asyncio.create_task(caller())
    await turns()
    call.cancel("the reason")
    with pytest.raises(asyncio.CancelledError):
        await call
    if slot is not None:
        engine.controller.release(slot)
    await engine.close()
    assert seen == [("the reason",)]


async def test_callers_own_timeout(engine: ToolEngine, audit: Audit) -> None:
    """U15: `asyncio.timeout` around a call works as around anything else."""
    engine.register_tool(bare("wait"), forever)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await engine.execute("wait")
    assert (await audit.last()).error_type == "cancelled"


async def test_callers_task_group(engine: ToolEngine, audit: Audit) -> None:
    """U15: in a TaskGroup, the failure of a neighbour cancels the call."""

    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError

    engine.register_tool(bare("wait"), forever)

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            group.create_task(engine.execute("wait"))

    with pytest.raises(ExceptionGroup):
        await both()
    assert (await audit.last()).error_type == "cancelled"


async def test_cancelled_before_the_first_step(engine: ToolEngine, audit: Audit) -> None:
    """C8: a call whose task never began is no call."""
    engine.register_tool(bare("wait"), forever)
    call = asyncio.create_task(engine.execute("wait"))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await audit.records() == []


async def test_cancelled_in_back_off_behind_a_full_engine() -> None:
    """C8: a call that is cancelled in its back-off ends at once, though others took its slot."""
    engine = make_engine(1)
    audit = Audit(engine)
    engine.register_tool(bare("flaky", effect="read", retry={"attempts": 3, "backoff": 5}), Flaky())
    engine.register_tool(bare("wait", timeout=20), forever)
    loop = asyncio.get_running_loop()
    flaky = asyncio.create_task(engine.execute("flaky"))
    await asyncio.sleep(1)
    other = asyncio.create_task(engine.execute("wait"))
    await asyncio.sleep(1)
    flaky.cancel()
    began = loop.time()
    with pytest.raises(asyncio.CancelledError):
        await flaky
    assert loop.time() == began
    assert (await other).error_type == "timeout"
    await audit.check()
    await engine.close()


async def test_call_in_the_clean_up_of_a_cancelled_task(engine: ToolEngine, audit: Audit) -> None:
    """U15: a task that is being cancelled may still call tools while it cleans up."""
    results: list[Any] = []

    async def careful() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            results.append(await engine.execute("slow"))

    engine.register_tool(bare("slow"), slow)
    task = asyncio.create_task(careful())
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert results[0].output == {"result": "slow"}


async def test_call_without_a_task(engine: ToolEngine, audit: Audit) -> None:
    """K29: a call may be driven by something that is no task, such as another framework's loop."""
    engine.register_tool(bare("quick"), quick)
    loop = asyncio.get_running_loop()
    finished = loop.create_future()

    def drive() -> None:
        try:
            engine.execute("quick").send(None)
        except StopIteration as stop:
            finished.set_result(stop.value)

    loop.call_soon(drive)
    assert (await finished).output == {"result": "quick"}


@pytest.mark.parametrize("state", ["queued", "running", "nested"])
async def test_abandoned_coroutine(state: str) -> None:
    """C9: a call whose coroutine is closed in the middle gives back what it holds."""
    engine = make_engine(1)
    register_all(engine)
    audit = Audit(engine)
    slot = engine.controller.try_acquire() if state == "queued" else None
    call = engine.execute("nesting" if state == "nested" else "slow")
    call.send(None)
    call.close()
    if slot is not None:
        engine.controller.release(slot)
    await audit.check()
    assert (await engine.execute("quick")).is_success
    await engine.close()


async def test_unhashable_name(engine: ToolEngine, audit: Audit) -> None:
    """K23: a name that is no text is a tool that does not exist, whatever it is."""
    name: Any = ["add"]
    result = await engine.execute(name)
    assert result.error_type == "tool_not_found"


async def test_wrong_context_is_refused(engine: ToolEngine) -> None:
    """X12: an impossible timeout is refused where the context is made."""
    with pytest.raises(ConfigurationError, match="timeout must be a positive"):
        ToolExecutionContext(timeout=0)
    with pytest.raises(ConfigurationError, match="max_retries must be a whole number >= 0"):
        ToolExecutionContext(max_retries=-1)
