"""Do calls work that come from another event loop than the one that the engine lives on?

The table of ways to call (`test_belonging.py`) has them for what belongs to a call. Here is what
can become of the two loops: many at once, refused, cancelled, blocked, closed, gone. Looked at: all
public coroutines of an engine, those of a session, and what each asks on the other's loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.calls.audit import Audit, check_idle, make_engine, tally, turns
from tests.contracts.calling_ways import tool
from tests.contracts.test_belonging import BOUND, Approver, settled
from tool_engine import (
    EngineClosedError,
    Permission,
    ToolCallConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineError,
    ToolExecutionContext,
    ToolExecutionResult,
    ToolSession,
    UnboundContextError,
)
from tool_engine.calls import home_loop
from tool_engine.model.permission import ExecutionPolicy

ASK = {"leaf": Permission(execution=ExecutionPolicy.ASK_ALWAYS)}


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for a loop that stands still give up soon."""
    monkeypatch.setattr(home_loop, "LOOK_INTERVAL", 0.02)
    monkeypatch.setattr(home_loop, "PATIENCE", 0.2)
    monkeypatch.setattr(home_loop, "PATIENCE_LATER", 0.4)


@pytest.fixture
def other_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def add_leaf(engine: ToolEngine, plain: bool = False, **keys: Any) -> list[str]:
    """Adds a tool that takes a moment; gives the texts that it was called with."""
    seen: list[str] = []

    async def leaf(text: str) -> str:
        seen.append(text)
        await asyncio.sleep(0.002)
        return text

    def plain_leaf(text: str) -> str:
        seen.append(text)
        time.sleep(0.002)
        return text

    engine.register_tool(tool("leaf", **keys), plain_leaf if plain else leaf)
    return seen


def add_many(engine: ToolEngine) -> None:
    """Adds a plain tool that calls `leaf` four times at once, on a loop of its own."""

    def many(text: str, context: ToolExecutionContext) -> list[Any]:
        async def call() -> list[ToolExecutionResult]:
            calls = [engine.execute("leaf", {"text": text}) for _ in range(2)]
            calls += [engine.execute("leaf", {"text": text}, context)]
            return await asyncio.gather(*calls, context.call("leaf", {"text": text}))

        return [each.error_type for each in asyncio.run(call())]

    engine.register_tool(tool("many", timeout=20), many)


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
@pytest.mark.parametrize("limit", [1, 8])
@pytest.mark.parametrize("strategy", ["fifo", "priority", "reject"])
async def test_eight_at_once(limit: int, strategy: str, plain: bool) -> None:
    """DESIGN 2.2, 2.3: eight such tools and a bystander; each call ends once, no slot is left."""
    engine = make_engine(limit, strategy=strategy, queue_timeout=15.0)
    audit = Audit(engine)
    add_leaf(engine, plain)
    add_many(engine)
    async with asyncio.timeout(BOUND), engine:
        calls = [engine.execute("many", {"text": str(each)}) for each in range(8)]
        bystanders = [engine.execute("leaf", {"text": "by"}) for _ in range(8)]
        results = await asyncio.gather(*calls, *bystanders)
        allowed = {None, "rejected"} if strategy == "reject" else {None}
        assert set(tally(results)) <= allowed
        assert engine.controller.get_metrics().max_concurrent_observed <= limit
        await audit.check(results)


async def test_a_full_queue() -> None:
    """DESIGN 2.1: where there is no room in the line, such a call has its typed refusal, too."""
    engine = make_engine(1, queue_size=1, queue_timeout=15.0)
    audit = Audit(engine)
    add_leaf(engine)
    add_many(engine)
    async with asyncio.timeout(BOUND), engine:
        calls = [engine.execute("many", {"text": ""}) for _ in range(4)]
        results = await asyncio.gather(*calls)
        assert set(tally(results)) == {None, "queue_full"}
        await audit.check(results)


@pytest.mark.parametrize(
    "keys",
    [
        {"concurrency": {"collision": "single_flight", "key": "params"}},
        {"retry": {"attempts": 3, "backoff": 0.001, "on": ["execution_error"]}},
    ],
    ids=["single_flight", "retries"],
)
async def test_shared_and_repeated_runs(keys: dict[str, Any]) -> None:
    """C12, C24: a run that is shared, or made again, is so for callers of all loops."""
    engine = make_engine(4, queue_timeout=15.0)
    audit = Audit(engine)
    runs: list[str] = []

    async def leaf(text: str) -> str:
        runs.append(text)
        await asyncio.sleep(0.01)
        if "retry" in keys and len(runs) % 3:
            raise ValueError("again")
        return text

    engine.register_tool(tool("leaf", idempotent=True, **keys), leaf)
    add_many(engine)
    async with asyncio.timeout(BOUND), engine:
        calls = [engine.execute("many", {"text": "x"}) for _ in range(3)]
        results = await asyncio.gather(*calls)
        assert [each.is_success for each in results] == [True] * 3, results
        await audit.check(results)
        assert ("retry" in keys) == (len(runs) > 9)


@pytest.mark.parametrize("way", ["await", "to_thread", "own loop", "plain"])
async def test_no_more_calls_after_the_cancellation(way: str) -> None:
    """C9: what a cancelled tool has left behind in a thread calls nothing any more."""
    engine = make_engine()
    loop = asyncio.get_running_loop()
    sent: list[str] = []
    raised: list[type[BaseException]] = []
    hanging, ended = asyncio.Event(), threading.Event()

    async def leaf(text: str) -> None:
        sent.append(text)
        hanging.set()
        await asyncio.Event().wait()

    def work() -> None:
        for text in ("first", "second", "third"):
            call = engine.execute("leaf", {"text": text})
            try:
                if way == "to_thread":
                    asyncio.run_coroutine_threadsafe(call, loop).result(BOUND)
                else:
                    asyncio.run(call)
            except BaseException as error:  # noqa: BLE001 - looked at below
                raised.append(type(error))
        ended.set()

    async def helper(text: str) -> None:
        if way == "await":
            raised.append(UnboundContextError)
            ended.set()
            await engine.execute("leaf", {"text": "first"})
        else:
            await asyncio.to_thread(work)

    def plain_helper(text: str) -> None:
        work()

    engine.register_tool(tool("leaf"), leaf)
    engine.register_tool(tool("helper"), plain_helper if way == "plain" else helper)
    async with asyncio.timeout(BOUND), engine:
        call = asyncio.create_task(engine.execute("helper", {"text": ""}))
        await hanging.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(ended.wait, BOUND)
        await settled(engine)
        check_idle(engine)
        assert sent == ["first"]
        assert raised[-1] is UnboundContextError


async def test_a_caller_that_gives_up() -> None:
    """DESIGN 2.2: a timeout on the own loop cancels the call on the other, in line or running."""
    engine = make_engine(2)
    audit = Audit(engine)
    gone: list[str] = []

    async def hang(text: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            gone.append(text)

    def helper(text: str) -> list[str]:
        async def call() -> list[str]:
            ends = []
            for _ in range(2):
                try:
                    async with asyncio.timeout(0.05):
                        await engine.execute("hang", {"text": text})
                except TimeoutError:
                    ends.append(str(len(gone)))
            return ends

        return asyncio.run(call())

    engine.register_tool(tool("hang"), hang)
    engine.register_tool(tool("helper"), helper)
    async with asyncio.timeout(BOUND), engine:
        result = await engine.execute("helper", {"text": "x"})
        # Each had ended, clean-up and all, when its caller went on.
        assert result.output == {"result": ["1", "2"]}
        await audit.check([result])


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("is_cured", [False, True])
async def test_a_blocked_loop(is_cured: bool) -> None:
    """DESIGN 2.1: no deadlock with a tool that blocks the loop; the message names the cure."""
    engine = make_engine()
    seen = add_leaf(engine)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(engine.execute("leaf", {"text": "x"}))
        except ToolEngineError as error:
            errors.append(error)

    async def helper(text: str) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        if is_cured:
            await asyncio.to_thread(thread.join)
        else:
            while thread.is_alive():
                pass  # as a join would

    engine.register_tool(tool("helper"), helper)
    async with asyncio.timeout(BOUND), engine:
        assert (await engine.execute("helper", {"text": ""})).is_success
        await turns()
        check_idle(engine)
        if is_cured:
            assert (errors, seen) == ([], ["x"])
        else:
            assert "blocked for 0.2 s" in str(errors[0])
            assert "await asyncio.to_thread" in str(errors[0])
            # What was given up does not run later.
            assert seen == []


@pytest.mark.usefixtures("hurried")
async def test_a_loop_that_is_blocked_while_the_call_runs() -> None:
    """DESIGN 2.1: nor where the call had begun before."""
    engine = make_engine()
    errors: list[BaseException] = []
    begun = asyncio.Event()

    async def leaf(text: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    def work() -> None:
        try:
            asyncio.run(engine.execute("leaf", {"text": "x"}))
        except ToolEngineError as error:
            errors.append(error)

    engine.register_tool(tool("leaf"), leaf)
    async with asyncio.timeout(BOUND), engine:
        thread = threading.Thread(target=work)
        thread.start()
        await begun.wait()
        thread.join()
        assert "blocked for 0.4 s" in str(errors[0])
        await settled(engine)
        check_idle(engine)


async def test_a_loop_inside_of_the_loop() -> None:
    """DESIGN 2.1: a loop that runs within a call of the engine's own one is refused at once."""
    engine = make_engine()
    add_leaf(engine)

    async def helper(text: str) -> str:
        home = asyncio.get_running_loop()
        inner = asyncio.new_event_loop()
        asyncio._set_running_loop(None)
        try:
            inner.run_until_complete(engine.execute("leaf", {"text": text}))
        except ToolEngineError as error:
            return str(error)
        finally:
            asyncio._set_running_loop(home)
            inner.close()
        return "no error"

    engine.register_tool(tool("helper"), helper)
    async with asyncio.timeout(BOUND), engine:
        result = await engine.execute("helper", {"text": ""})
        assert "waits for this one" in result.output["result"]
        check_idle(engine)


@pytest.mark.parametrize("begins", ["execute", "load"])
def test_a_loop_that_ends(begins: str) -> None:
    """DESIGN 2.1: where the engine's loop ends under a call, its caller is told; then it moves."""
    engine = make_engine()
    begun, told = threading.Event(), []

    async def hang(text: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def call() -> None:
        try:
            await engine.execute("hang", {"text": ""})
        except EngineClosedError as error:
            told.append(str(error))

    async def home() -> threading.Thread:
        if begins == "load":
            await engine.load()
        else:
            await engine.execute("leaf", {"text": ""})
        thread = threading.Thread(target=asyncio.run, args=(call(),))
        thread.start()
        assert await asyncio.to_thread(begun.wait, BOUND)
        return thread

    engine.register_tool(tool("hang"), hang)
    seen = add_leaf(engine)
    asyncio.run(home()).join()
    assert "ended while the call ran; keep the loop running" in told[0]
    for _ in range(2):
        assert asyncio.run(engine.execute("leaf", {"text": "after"})).is_success
    assert seen[-2:] == ["after", "after"]
    check_idle(engine)
    asyncio.run(engine.close())


async def test_closing_meanwhile() -> None:
    """L4: such a call ends as `engine_closed`, as any other; so does one that comes later."""
    engine = make_engine(close_timeout=0.05)
    begun = asyncio.Event()
    ends: list[str | None] = []

    async def hang(text: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    def work() -> None:
        results = (asyncio.run(engine.execute("hang", {"text": ""})) for _ in range(2))
        ends.extend(each.error_type for each in results)

    engine.register_tool(tool("hang"), hang)
    async with asyncio.timeout(BOUND):
        await engine.load()
        working = asyncio.create_task(asyncio.to_thread(work))
        await begun.wait()
        await engine.close()
        await working
    assert ends == ["engine_closed", "engine_closed"]
    check_idle(engine)


async def test_the_other_coroutines_of_an_engine() -> None:
    """An engine is loaded again, and closed, from another loop, and is as it is at home."""
    engine = make_engine()
    loops: list[asyncio.AbstractEventLoop] = []
    stop = engine._reloader.stop

    async def note() -> None:
        loops.append(asyncio.get_running_loop())
        await stop()

    async with asyncio.timeout(BOUND):
        await engine.load()
        engine._reloader.stop = note  # type: ignore[method-assign]
        for make in (engine.load, engine.reload, engine.close):
            await asyncio.to_thread(_run_on_own_loop, make)
    assert loops == [asyncio.get_running_loop()]
    with pytest.raises(EngineClosedError):
        await asyncio.to_thread(_run_on_own_loop, engine.reload)


def _run_on_own_loop(make: Callable[[], Coroutine[Any, Any, object]]) -> None:
    asyncio.run(make())


@pytest.mark.parametrize("is_inner", [False, True], ids=["outer session", "session of the loop"])
async def test_who_is_asked_and_where(is_inner: bool) -> None:
    """S31: an approver is asked on its session's loop, whatever loop the call comes from."""
    engine = make_engine()
    seen = add_leaf(engine)
    asked: list[asyncio.AbstractEventLoop] = []
    made: list[asyncio.AbstractEventLoop] = []

    async def approve(request: Any) -> bool:
        asked.append(asyncio.get_running_loop())
        return True

    def make_session() -> ToolSession:
        return ToolSession(engine, "asks", ToolCallConfig(rules=ASK), Approver(approve))

    outer = make_session()

    def helper(text: str) -> list[str | None]:
        async def call() -> list[str | None]:
            made.append(asyncio.get_running_loop())
            session = make_session() if is_inner else outer
            calls = [session.execute("leaf", {"text": text}) for _ in range(2)]
            return [each.error_type for each in await asyncio.gather(*calls)]

        return asyncio.run(call())

    engine.register_tool(tool("helper"), helper)
    async with asyncio.timeout(BOUND), engine:
        maker = ToolSession(engine, "outer") if is_inner else outer
        result = await maker.execute("helper", {"text": "x"})
        assert result.output == {"result": [None, None]}
        assert seen == ["x", "x"]
        assert set(asked) == {made[0] if is_inner else asyncio.get_running_loop()}
        check_idle(engine)


@pytest.mark.parametrize("how", ["task", "own loop"])
async def test_two_engines_on_two_loops(other_loop: asyncio.AbstractEventLoop, how: str) -> None:
    """DESIGN 2.8: a cancellation reaches the calls of an engine that lives on another loop."""
    near, far = make_engine(), make_engine()
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[Any]] = []

    async def hang(text: str) -> None:
        assert asyncio.get_running_loop() is other_loop
        loop.call_soon_threadsafe(begun.set)
        await asyncio.Event().wait()

    async def helper(text: str) -> None:
        tasks.append(asyncio.create_task(far.execute("hang", {"text": text})))
        await asyncio.Event().wait()

    def plain_helper(text: str) -> None:
        asyncio.run(far.execute("hang", {"text": text}))

    far.register_tool(tool("hang"), hang)
    near.register_tool(tool("helper"), helper if how == "task" else plain_helper)
    async with asyncio.timeout(BOUND), near:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(far.load(), other_loop))
        call = asyncio.create_task(near.execute("helper", {"text": ""}))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.gather(*tasks, return_exceptions=True)
        await settled(near)
        await settled(far)
        (record,) = await far.query_call_records()
        assert record.error_type == "cancelled"
        check_idle(near)
        check_idle(far)
        # From the loop of another engine it is closed as well.
        await far.close()


@pytest.mark.parametrize("way", [{"auto_reload": True}, {"watch_for_changes": True}], ids=str)
def test_one_loop_after_another(tmp_path: Path, way: dict[str, bool]) -> None:
    """As with `asyncio.run` for each step: calls, hot reload and the end work on each of them."""
    before = set(threading.enumerate())
    say = "name: {0}\ndescription: Says it.\nentry: {{type: builtin, handler: echo}}\n"
    (tmp_path / "one.yaml").write_text(say.format("one"))
    settings = {"auto_reload": False, "reload_interval": 0.1, **way}
    engine = ToolEngine(ToolEngineConfig(str(tmp_path), **settings))  # type: ignore[arg-type]
    asyncio.run(engine.load())
    assert engine.list_names() == ["one"]

    async def use(name: str) -> None:
        (tmp_path / f"{name}.yaml").write_text(say.format(name))
        await engine.execute("one")
        async with asyncio.timeout(BOUND):
            while name not in engine.list_names():  # noqa: ASYNC110 - a file rings no bell
                await asyncio.sleep(0.02)

    for name in ("two", "three"):
        asyncio.run(use(name))
    asyncio.run(engine.close())
    assert engine.list_names() == ["one", "three", "two"]
    assert set(threading.enumerate()) <= before
