"""Can any order of events lose a task, run it twice, or end it twice?

Engines start, close and are killed, tools change, clocks jump, people consent and cancel. What is
kept is then compared with a model that knows what was started, what has run and what was asked for.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.background.test_restarts import die
from tests.effort import IS_WHOLE
from tool_engine import (
    ConcurrencyConfig,
    QueueApprover,
    TaskNotFoundError,
    TaskState,
    ToolEngine,
    ToolEngineConfig,
)
from tool_engine.approval.book import DEFAULT_TIMEOUT

_T = TypeVar("_T")
BOUND = 60.0
SOON, LATE = 50.0, 100_000.0
"""A `ttl` that a jump of the clock ends, and one that it does not."""
JUMP = 60.0
ASKED_FOR: Final = DEFAULT_TIMEOUT
TOOLS = ("work", "again", "asked")
NUMBER = {"name": "number", "type": "integer", "required": True, "description": "which"}
KEYS: dict[str, dict[str, Any]] = {
    "work": {},
    "again": {"idempotent": True},
    "asked": {"permission": {"execution": "ask_always"}},
}
CAUSES = {
    "cancelled": {"cancel"},
    "timeout": {"jump"},
    "execution_rejected": {"change", "refuse", "expire"},
    "worker_lost": {"kill"},
    "engine_closed": {"close"},
    "execution_error": {"fail"},
}
"""What has to have happened for a task to end so."""


_PLACES: Final = st.integers(0, 999)
"""What is drawn does not depend on how far engines have come: that differs from run to run."""


class Started(msgspec.Struct):
    """What the model knows of a task."""

    number: int
    tool_name: str
    version: int
    ttl: float
    has_jumped: bool = False
    """Whether its time may be over, and it may be forgotten."""
    end: TaskState | None = None
    """How it ended, as it was seen first."""


class Live(msgspec.Struct, eq=False):
    """An engine that lives, and the person that it asks."""

    engine: ToolEngine
    approver: QueueApprover

    @property
    def feeding(self) -> Any:
        return self.engine.tasks.feeding  # type: ignore[attr-defined]


def draw_one(data: st.DataObject, choices: Sequence[_T]) -> _T:
    return choices[data.draw(_PLACES) % len(choices)]


class TaskMachine(RuleBasedStateMachine):
    """Engines over one storage, and all that can come between."""

    def __init__(self, url: str | None, folder: Path) -> None:
        super().__init__()
        self.url, self.folder = url, folder
        self.runner = asyncio.Runner()
        self.lives: list[Live] = []
        self.dead: list[Live] = []
        self.tasks: dict[str, Started] = {}
        self.numbers = itertools.count()
        self.ran: list[tuple[int, int]] = []
        """The number and the version of each run."""
        self.gates: dict[int, list[asyncio.Future[bool]]] = {}
        """What tools wait for, by number: whether they work."""
        self.causes: set[str] = set()
        self.version = 0
        self.ahead = 0.0
        """Seconds that the clocks have jumped."""
        self.is_over = False
        self.do(self.add_engine())

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(BOUND):
                found = await work
                await self.settle()
                return found

        return self.runner.run(bounded())

    # The world.

    async def add_engine(self) -> None:
        approver = QueueApprover()
        config = ToolEngineConfig(
            tools_directory=str(self.folder),
            auto_reload=False,
            records=self.url,
            close_timeout=0.02,
        )
        limits = ConcurrencyConfig(max_concurrent=2)
        engine = ToolEngine(config, concurrency=limits, approver=approver)
        live = Live(engine, approver)
        self.put_tools(live)
        clock: Any = engine.tasks._clock  # type: ignore[attr-defined]
        clock._began += self.ahead
        clock._read_time = self.make_time(clock._read_time)
        self.lives.append(live)
        await engine.load()

    def make_time(self, read_time: Callable[[], Awaitable[float | None]]) -> Any:
        """The time of the storage, which jumps with the clocks."""

        async def read_ahead() -> float | None:
            time = await read_time()
            return None if time is None else time + self.ahead

        return read_ahead

    def put_tools(self, live: Live) -> None:
        for name in TOOLS:
            if live.engine.get(name) is not None:
                live.engine.unregister_tool(name)
            definition: dict[str, Any] = {
                "name": name,
                "description": "works",
                "parameters": [NUMBER],
            }
            definition |= {"timeout": 1_000 + self.version, **KEYS[name]}
            live.engine.register_tool(definition, self.make_handler(self.version))

    def make_handler(self, version: int) -> Callable[..., Coroutine[Any, Any, dict[str, int]]]:
        async def handle(number: int) -> dict[str, int]:
            self.ran.append((number, version))
            if not self.is_over:
                gate = asyncio.get_running_loop().create_future()
                self.gates.setdefault(number, []).append(gate)
                try:
                    works = await gate
                finally:
                    self.gates[number].remove(gate)
                if not works:
                    raise ValueError("it does not work")
            return {"number": number}

        return handle

    async def settle(self) -> None:
        """Let the engines see what has happened, until nothing changes any more."""
        for live in self.lives:
            if live.feeding.runs_all:
                for other in self.dead:
                    worker = other.feeding.worker
                    beat = live.feeding._seen.get(worker, (0, 0.0))[0]
                    live.feeding._seen[worker] = beat, float("-inf")
                live.feeding.runner.end_expired()
                await live.feeding._look_around()
        before, same = None, 0
        while same < 3:
            await asyncio.sleep(0.0 if self.url is None else 0.004)
            runs = [run for live in self.lives for run in live.feeding.runner.runs.values()]
            now = sorted((run.kept.state.id, run.kept.state.status) for run in runs)
            same = same + 1 if now == before else 0
            before = now

    def draw_live(self, data: st.DataObject) -> Live:
        return draw_one(data, self.lives)

    # What can happen.

    @precondition(lambda self: self.lives)
    @rule(
        data=st.data(),
        tool_name=st.sampled_from(TOOLS),
        ttl=st.sampled_from([SOON, LATE]),
        count=st.sampled_from([1, 1, 2, 7]),
    )
    def start(self, data: st.DataObject, tool_name: str, ttl: float, count: int) -> None:
        live = self.draw_live(data)

        async def begin() -> None:
            for _ in range(count):
                number = next(self.numbers)
                handle = await live.engine.start(tool_name, {"number": number}, ttl=ttl)
                self.tasks[handle.id] = Started(number, tool_name, self.version, ttl)

        self.do(begin())

    @rule(data=st.data(), works=st.sampled_from([True, True, True, False]))
    def finish(self, data: st.DataObject, works: bool) -> None:
        waiting = [number for number, gates in self.gates.items() if gates]
        place = data.draw(_PLACES)
        if not waiting:
            return
        number = waiting[place % len(waiting)]
        self.causes |= set() if works else {"fail"}

        async def let() -> None:
            for gate in self.gates[number]:
                if not gate.done():
                    gate.set_result(works)

        self.do(let())

    @precondition(lambda self: self.lives and self.tasks)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.causes.add("cancel")
        live, task_id = self.draw_live(data), draw_one(data, list(self.tasks))

        async def end() -> None:
            try:
                was_open = await live.engine.tasks.cancel(task_id)
            except TaskNotFoundError:
                assert self.tasks[task_id].has_jumped
                return
            if self.tasks[task_id].end is not None:
                assert not was_open

        self.do(end())

    @rule(data=st.data(), is_yes=st.booleans())
    def answer(self, data: st.DataObject, is_yes: bool) -> None:
        asking = [live for live in self.lives if live.approver.pending_approvals]
        places = data.draw(_PLACES), data.draw(_PLACES)
        if not asking:
            return
        live = asking[places[0] % len(asking)]
        pending = live.approver.pending_approvals
        request = pending[places[1] % len(pending)]
        self.causes |= set() if is_yes else {"refuse"}

        async def say() -> None:
            if is_yes:
                live.approver.allow(request.token)
            else:
                live.approver.refuse(request.token)

        self.do(say())

    @precondition(lambda self: self.url is not None and len(self.lives) < 3)
    @rule()
    def open(self) -> None:
        self.do(self.add_engine())

    @precondition(lambda self: self.lives)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        self.causes.add("close")
        live = self.draw_live(data)
        self.lives.remove(live)
        self.do(self.close_one(live))

    async def close_one(self, live: Live) -> None:
        await live.engine.close()
        if self.url is None:
            # What is kept in memory goes with its engine: it has ended, and says so.
            await self.check_ends(live)
            assert all(task.end or task.has_jumped for task in self.tasks.values())
            self.tasks.clear()
            await self.add_engine()

    @precondition(lambda self: self.url is not None and self.lives)
    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        self.causes.add("kill")
        live = self.draw_live(data)
        self.lives.remove(live)
        self.dead.append(live)
        if live.feeding.runs_all:
            self.do(die(live.engine))

    @precondition(lambda self: len(self.lives) > 1)
    @rule(data=st.data())
    def presume_dead(self, data: st.DataObject) -> None:
        """An engine gave no sign for too long, and goes on."""
        self.causes.add("kill")
        first = self.draw_live(data)
        second = draw_one(data, [live for live in self.lives if live is not first])

        async def inherit() -> None:
            heir, worker = second.feeding, first.feeding.worker
            second.engine.tasks.open()
            for kept in await heir.storage.inherit(worker, heir.worker):
                await heir._take_over(kept)

        self.do(inherit())

    @precondition(lambda self: self.lives)
    @rule()
    def change(self) -> None:
        self.causes.add("change")
        self.version += 1

        async def reload() -> None:
            for live in self.lives:
                self.put_tools(live)

        self.do(reload())

    @rule()
    def jump(self) -> None:
        """Time passes."""
        self.causes.add("jump")
        self.ahead += JUMP
        if self.ahead >= ASKED_FOR:
            # A question that has no answer by then is a refusal.
            self.causes.add("expire")
        for task in self.tasks.values():
            task.has_jumped = task.has_jumped or task.ttl == SOON
        for live in self.lives:
            live.engine.tasks._clock._began += JUMP  # type: ignore[attr-defined]
        self.do(asyncio.sleep(0))

    # What must hold.

    @precondition(lambda self: self.lives)
    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        """What has ended stays as it was; what is kept is in the list."""
        self.do(self.check_ends(self.draw_live(data)))

    async def check_ends(self, live: Live) -> None:
        listed = {each.id: each for each in await live.engine.tasks.list(limit=10_000)}
        for task_id, task in self.tasks.items():
            found = listed.get(task_id)
            if found is None:
                assert task.has_jumped, "a task is lost"
                continue
            if task.end is None and found.is_final:
                try:
                    task.end = (await live.engine.tasks.get(task_id)).state
                except TaskNotFoundError:
                    # Another engine has forgotten it meanwhile.
                    assert task.has_jumped, "a task is lost"
                    continue
            if task.end is not None:
                assert found == task.end.without_result()

    async def finish_all(self) -> None:
        """Let everything run to its end, in one more engine where there is none."""
        self.is_over = True
        if not self.lives:
            await self.add_engine()
        for live in self.lives:
            live.engine.tasks.open()
        for gate in [each for gates in self.gates.values() for each in gates]:
            if not gate.done():
                gate.set_result(True)
        live = self.lives[-1]
        while True:
            for each in self.lives:
                for request in each.approver.pending_approvals:
                    each.approver.allow(request.token)
            listed = await live.engine.tasks.list(limit=10_000)
            if all(state.is_final for state in listed):
                return
            await self.settle()

    async def check_all(self) -> None:
        for live in self.lives:
            await self.check_ends(live)
        runs = Counter(number for number, _ in self.ran)
        versions = {task.number: task.version for task in self.tasks.values()}
        for number, version in self.ran:
            assert versions.get(number, version) == version, "another definition has run"
        for task in self.tasks.values():
            if task.tool_name != "again":
                assert runs[task.number] <= 1, "a task ran twice"
            if task.end is None:
                assert task.has_jumped
                continue
            result = task.end.result
            assert result is not None
            if task.end.status == "succeeded":
                assert result.output == {"number": task.number}
                assert runs[task.number] >= 1
            else:
                assert CAUSES[str(result.error_type)] & self.causes, result.error_type
        for live in self.lives:
            metrics = live.engine.controller.get_metrics()
            assert (metrics.active, metrics.queue_length) == (0, 0)
            assert (live.feeding.runner.runs, live.feeding.places.room) == ({}, 64)

    def teardown(self) -> None:
        async def end() -> None:
            try:
                await self.finish_all()
                await self.check_all()
            finally:
                for live in (*self.lives, *self.dead):
                    await live.engine.close()

        try:
            self.runner.run(asyncio.wait_for(end(), BOUND))
        finally:
            self.runner.close()


@pytest.mark.timeout(1_800 if IS_WHOLE else 240)
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
def test_any_order_of_events(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Each task ends once, none is lost, and none runs twice that does not allow it."""
    numbers = itertools.count()
    server = request.getfixturevalue("postgres_server") if kind == "postgresql" else None

    def make_machine() -> TaskMachine:
        url = None
        if kind == "sqlite":
            url = f"sqlite:///{tmp_path / f'kept-{next(numbers)}.db'}"
        elif server is not None:
            url = server.emptied_database()
        return TaskMachine(url, tmp_path)

    whole, usual = {"memory": (2_000, 8), "sqlite": (300, 3), "postgresql": (100, 2)}[kind]
    run_state_machine_as_test(
        make_machine,  # type: ignore[arg-type] # called, as a class is
        settings=settings(
            max_examples=whole if IS_WHOLE else usual,
            stateful_step_count=30,
            deadline=None,
            # To find the shortest example takes minutes.
            phases=[Phase.generate, Phase.shrink] if IS_WHOLE else [Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
