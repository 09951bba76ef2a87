"""What becomes of the calls and workers of one tool when the fleet changes under them?

The fleet is a list of orders here, and says what a test lets it say: no Ray is started.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from tests.fleet.samples import fleet_engine
from tests.ray_cluster import is_alive
from tool_engine import Tool, ToolConfigLoader, ToolExecutionContext
from tool_engine.errors import EngineClosedError, ToolExecutionError
from tool_engine.executors.fleet import driver_process
from tool_engine.executors.fleet.connection import FleetConnection, FleetLostError
from tool_engine.executors.fleet.fleet_backend import FleetBackend
from tool_engine.executors.fleet.line import DefinitionMismatchError, FleetCall, Line
from tool_engine.executors.fleet.looking import FleetView
from tool_engine.executors.fleet_entry import FleetEntry
from tool_engine.executors.lost_work import WorkerLostError
from tool_engine.executors.python.python_entry import PythonEntry
from tool_engine.executors.python.worker import Answer, Fault

BOUND = 20.0
DESCRIBED = {"parameters": [["text", 1, False]], "is_callable": True, "is_async": False}
OTHER_CODE = {"answer": {"id": 0, "error": {"type": "OtherCodeError", "message": "", "kind": "x"}}}
VERSIONS = {"version": "1", "python": "3.11.1"}
CPU = [{"id": "a", "host": "a", "address": "a", "resources": {"CPU": 1.0}}]


class Fleet(FleetConnection):
    """Notes what is sent, and has been joined."""

    def __init__(self, look: Callable[[], object] = lambda: None) -> None:
        super().__init__("auto", look)
        self.orders: list[dict[str, Any]] = []
        self.can_join = True
        self.joins = 0
        self.is_there = True
        self.nodes = CPU

    @property
    def is_joined(self) -> bool:
        return self.is_there

    async def join(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as it is
        del timeout
        self.joins += 1
        await asyncio.sleep(0)
        if not self.can_join:
            raise FleetLostError("it cannot be joined")
        self.is_there = True

    def lose_driver(self) -> None:
        self.is_there = False
        self._note_end()

    def started(self) -> list[int]:
        return [each["worker"] for each in self.orders if each["do"] == "start"]

    def ended(self) -> list[int]:
        return [each["worker"] for each in self.orders if each["do"] == "kill"]

    async def make_ready(self, number: int, **more: Any) -> None:
        """Says that a worker has started, and lets all happen that follows."""
        said = {**VERSIONS, "node": "a", "pid": 7, **more}
        if "answer" not in said:
            said["answer"] = {"id": 0, "value": DESCRIBED}
        self.owners[number].note_ready(msgspec.json.encode(said))
        await settle()

    def send(self, worker: int, items: bytes, calls: int) -> None:
        assert self.is_there
        self.orders += [{"do": "call", "worker": worker, **each} for each in _read(items)]

    def _send_order(self, **words: Any) -> None:
        if self.is_there:
            self.orders.append(words)


def _read(items: bytes) -> list[dict[str, Any]]:
    return msgspec.json.decode(items, type=list[dict[str, Any]])


class Owner:
    """Has no other lines."""

    def make_room(self, hungry: Line) -> None:
        del hungry

    def doubt_code(self, line: Line, error: DefinitionMismatchError) -> None:
        line.fail_waiting(error)


def make_line(fleet: Fleet, **ways: Any) -> Line:
    entry = PythonEntry("m", "f", "ray", 0, fleet=FleetEntry(**ways))
    return Line(entry, fleet, VERSIONS, Owner())


def enter(line: Line) -> FleetCall:
    call = FleetCall({"text": "x"}, ToolExecutionContext(), {})
    line.enter(call)
    return call


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_calls_that_wait_when_the_driver_ends() -> None:
    """They had not begun: the fleet is joined again for them, and their tool goes on."""
    fleet = Fleet()
    line = make_line(fleet, max_workers=1)
    first, second = enter(line), enter(line)
    await settle()
    await fleet.make_ready(1)
    fleet.lose_driver()
    async with asyncio.timeout(BOUND):
        with pytest.raises(WorkerLostError):
            await first.ended
        await settle()
        assert fleet.started() == [1, 2]
        await fleet.make_ready(2)
        assert second.worker is line.workers[2]


async def test_calls_that_wait_for_a_fleet_that_is_gone() -> None:
    """Where it cannot be joined again they end, and the next call tries anew."""
    fleet = Fleet()
    line = make_line(fleet, max_workers=1)
    first, second = enter(line), enter(line)
    await settle()
    await fleet.make_ready(1)
    fleet.can_join = False
    fleet.lose_driver()
    async with asyncio.timeout(BOUND):
        for call, error in ((first, WorkerLostError), (second, FleetLostError)):
            with pytest.raises(error):
                await call.ended
        assert line.workers == {}
        fleet.is_there = True
        enter(line)
        await settle()
        assert fleet.started() == [1, 2]


async def test_a_worker_that_starts_after_its_call_was_cancelled() -> None:
    """It is idle from then on: it ends after its time."""
    fleet = Fleet()
    line = make_line(fleet, idle_time=0.2)
    call = enter(line)
    await settle()
    line.withdraw(call)
    await fleet.make_ready(1)
    async with asyncio.timeout(BOUND):
        while line.workers:  # noqa: ASYNC110 - an end rings no bell
            await asyncio.sleep(0.01)
    assert fleet.ended() == [1]


async def test_a_worker_that_starts_for_a_former_definition() -> None:
    """It ends at once: no call comes to it any more."""
    fleet = Fleet()
    line = make_line(fleet)
    call = enter(line)
    await settle()
    line.retire()
    line.withdraw(call)
    await fleet.make_ready(1)
    assert fleet.ended() == [1]


async def test_memory_that_nothing_limits() -> None:
    """A handler without `resources.memory` is not said to have exceeded 0 MiB."""
    fleet = Fleet()
    call = enter(make_line(fleet))
    await settle()
    await fleet.make_ready(1)
    fleet.owners[1].take([Answer(1, error=Fault("MemoryError", "", "memory"))])
    with pytest.raises(ToolExecutionError, match=r"no limit of its own: MemoryError$"):
        await call.ended


async def test_no_node_can_hold_it_any_more() -> None:
    """A call that waits ends when the last node goes that could hold it, not at its deadline."""
    fleet = Fleet()
    line = make_line(fleet, max_workers=1)
    first, second = enter(line), enter(line)
    await settle()
    await fleet.make_ready(1)
    fleet.nodes = []
    fleet.owners.pop(1).lose("its node has gone")
    with pytest.raises(WorkerLostError):
        await first.ended
    async with asyncio.timeout(BOUND):
        while not any(each["do"] == "nodes" for each in fleet.orders):  # noqa: ASYNC110 - as it is
            await asyncio.sleep(0.01)
        fleet._end_looking()
        with pytest.raises(ToolExecutionError, match="can ever hold 1 CPU"):
            await second.ended
    assert line.workers == {}


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Tool]:
    """Two tools of one module."""
    (tmp_path / "code_of_lines.py").write_text("def f(text): return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return {name: make_tool(name) for name in ("one", "two")}


def make_tool(name: str, **config: Any) -> Tool:
    config = {"isolation": "ray", "max_workers": 1, **config}
    entry = {"type": "custom", "handler": "code_of_lines:f", "config": config}
    return ToolConfigLoader().from_mapping(
        {"name": name, "description": "A sample", "entry": entry}
    )


MADE: list[FleetBackend] = []


@pytest.fixture(autouse=True)
async def none_left() -> AsyncIterator[None]:
    """Closes the backends of a test that fails before it does: calls outlast a cancellation."""
    yield
    while MADE:
        await MADE.pop().close(0)


def make_backend(tools: dict[str, Tool]) -> tuple[FleetBackend, Fleet]:
    backend = FleetBackend("auto", find_tool=tools.get)
    MADE.append(backend)
    backend.connection = fleet = Fleet(backend._retire_former)
    return backend, fleet


async def begin(backend: FleetBackend, tool: Tool) -> tuple[asyncio.Task[Any], Line]:
    """A call, and the line that it has come to."""
    made: Any = None
    context = ToolExecutionContext().bound_to(None, made, f"call of {tool.name}", None, None)
    call = asyncio.create_task(backend.execute(made, tool, {}, context))
    async with asyncio.timeout(BOUND):
        while (known := backend._lines.get(tool.name)) is None or not known[2].waiting:  # noqa: ASYNC110 - as it is
            await asyncio.sleep(0.001)
    await settle()
    return call, known[2]


async def test_calls_of_a_batch_that_have_not_begun(tools: dict[str, Tool]) -> None:
    """A blocking handler has one call at a time: those behind it say what they waited for."""
    tools["one"] = make_tool("one", batch={"max_size": 2, "max_wait": 0})
    backend, fleet = make_backend(tools)
    made: Any = None
    contexts = [ToolExecutionContext().bound_to(None, made, name, None, None) for name in "abc"]
    calls = [
        asyncio.create_task(backend.execute(made, tools["one"], {}, each)) for each in contexts
    ]
    async with asyncio.timeout(BOUND):
        while not fleet.started():  # noqa: ASYNC110 - as it is
            await asyncio.sleep(0.001)
    await fleet.make_ready(1)
    assert backend.explain("a") == "on the node a, in the worker 7"
    assert backend.explain("c").endswith("which runs one call at a time; before it: 2")
    for each in calls:
        each.cancel()
    await settle()
    assert backend.explain_start("a") == ""
    assert "was to end 2 before it; raise its timeout" in backend.explain_start("c")
    await backend.close(0)
    await asyncio.wait(calls)


async def test_workers_of_a_tool_that_is_gone(tools: dict[str, Tool]) -> None:
    """Those that stay for the next call end: there is none."""
    tools["one"] = make_tool("one", min_workers=1)
    backend, fleet = make_backend(tools)
    call, _ = await begin(backend, tools["one"])
    await fleet.make_ready(1)
    hear = fleet.owners[1].take
    fleet._look()
    hear([Answer(1, value="a")])
    assert await call == "a"
    fleet._look()
    assert fleet.ended() == []
    del tools["one"]
    fleet._look()
    assert (fleet.ended(), backend._lines) == ([1], {})
    await backend.close(0)


async def test_tools_that_need_the_same_take_turns(tools: dict[str, Tool]) -> None:
    """One that is always busy gives its only worker up for one that has waited for some seconds."""
    backend, fleet = make_backend(tools)
    served, busy = await begin(backend, tools["one"])
    await fleet.make_ready(1)
    waiting, hungry = await begin(backend, tools["two"])
    backend.make_room(hungry)
    assert not busy.gives_up_one, "it has waited for a second"
    hungry.hunger.seconds = 5
    fleet.free = {"CPU": 1.0}
    hungry.fleet = FleetEntry(others={"tpu": 1.0})
    backend.make_room(hungry)
    assert not busy.gives_up_one, "what it has is not what is short"
    fleet.free = {"tpu": 1.0}
    backend.make_room(hungry)
    assert busy.gives_up_one
    fleet.owners[1].take([Answer(1, value="a")])
    assert await served == "a"
    assert fleet.ended() == [1]
    await backend.close(0)
    with pytest.raises(ToolExecutionError, match="the engine was closed"):
        await waiting


async def test_no_more_is_ended_than_a_start_needs(tools: dict[str, Tool]) -> None:
    """One that takes long to start has what it needs: idle workers of others stay for theirs."""
    tools["one"] = make_tool("one", max_workers=3)
    backend, fleet = make_backend(tools)
    fleet.nodes = [{**CPU[0], "resources": {"CPU": 4.0}}]
    calls = []
    for number in range(3):
        call, warm = await begin(backend, tools["one"])
        calls.append(call)
        await fleet.make_ready(number + 1)
    waiting, hungry = await begin(backend, tools["two"])
    for number in range(3):
        fleet.owners[number + 1].take([Answer(number + 1, value="a")])
    assert [await call for call in calls] == ["a"] * 3
    fleet.free = {"CPU": 1.0}
    hungry.hunger._look_at_line()
    assert len(warm.workers) == 3, "there is room, and Ray has not placed it yet"
    fleet.free = {}
    for _ in range(3):
        hungry.hunger._look_at_line()
    assert len(warm.workers) == 2, "one made room for it"
    fleet._hear_driver(b'{"worker":4,"is_placed":true}')
    for _ in range(20):
        hungry.hunger._look_at_line()
    assert len(warm.workers) == 2, "it imports its module"
    await backend.close(0)
    with pytest.raises(ToolExecutionError, match="the engine was closed"):
        await waiting


async def test_room_that_does_not_help(tools: dict[str, Tool]) -> None:
    """What was ended may be of another node, or be taken by others: after a while more ends."""
    tools["two"] = make_tool("two", resources={"cpus": 2})
    backend, fleet = make_backend(tools)
    fleet.nodes = [{**CPU[0], "resources": {"CPU": 4.0}}]
    waiting, hungry = await begin(backend, tools["two"])
    seen = []
    for _ in range(30):
        hungry.hunger._look_at_line()
        if short := hungry.hunger.list_short({"CPU": 2.0}):
            hungry.hunger.note_room({"CPU": 1.0})
        seen.append(bool(short))
    assert [second + 1 for second, is_short in enumerate(seen) if is_short] == [
        5,
        6,
        10,
        11,
        20,
        21,
        30,
    ]
    await backend.close(0)
    with pytest.raises(ToolExecutionError, match="the engine was closed"):
        await waiting


async def test_what_is_known_of_a_lost_fleet(tools: dict[str, Tool]) -> None:
    """Its nodes are not shown as if they were there; the tools that wait for it are."""
    backend, fleet = make_backend(tools)
    call, _ = await begin(backend, tools["one"])
    fleet.free, fleet.versions = {"CPU": 1.0}, {"python": "3.11.1", "ray": "2.60"}
    made: Any = None
    view = FleetView("auto", lambda: backend, lambda: backend, made, made)
    seen = view.snapshot()
    assert (seen.is_joined, seen.node_count, seen.ray) == (True, 1, "2.60")
    fleet.can_join = False
    fleet.lose_driver()
    seen = view.snapshot()
    assert (seen.is_joined, seen.nodes, seen.free, seen.ray) == (False, [], {}, "")
    assert [each.tool for each in seen.tools] == ["one"]
    with pytest.raises(FleetLostError):
        await call


async def test_code_that_has_changed_here_too(tools: dict[str, Tool], tmp_path: Path) -> None:
    """A worker that starts later finds other code than the first call did: the newest runs."""
    backend, fleet = make_backend(tools)
    call, line = await begin(backend, tools["one"])
    await asyncio.to_thread((tmp_path / "code_of_lines.py").write_text, "def f(text): return 2\n")
    await fleet.make_ready(1, **OTHER_CODE)
    async with asyncio.timeout(BOUND):
        while len(fleet.started()) < 2:  # noqa: ASYNC110 - a thread reads the file
            await asyncio.sleep(0.001)
        assert not line.workers
        await fleet.make_ready(2)
        fleet.owners[2].take([Answer(1, value=2)])
        assert await call == 2
        # Where it has not, the node has other code indeed.
        fleet.end_worker(2)
        backend._lines["one"][2].workers.clear()
        call, _ = await begin(backend, tools["one"])
        await fleet.make_ready(3, **OTHER_CODE)
        with pytest.raises(DefinitionMismatchError, match="deploy the same version there"):
            await call
    await backend.close(0)


async def test_code_that_has_changed_beside_a_warm_worker(
    tools: dict[str, Tool], tmp_path: Path
) -> None:
    """What runs goes on with the former code; what waits is not kept for that worker."""
    tools["one"] = tool = make_tool("one", max_workers=2)
    backend, fleet = make_backend(tools)
    first, _ = await begin(backend, tool)
    await fleet.make_ready(1)
    second, _ = await begin(backend, tool)
    await asyncio.to_thread((tmp_path / "code_of_lines.py").write_text, "def f(text): return 2\n")
    await fleet.make_ready(2, **OTHER_CODE)
    async with asyncio.timeout(BOUND):
        while len(fleet.started()) < 3:  # noqa: ASYNC110 - a thread reads the file
            await asyncio.sleep(0.001)
        await fleet.make_ready(3)
        fleet.owners[3].take([Answer(1, value=2)])
        assert await second == 2
        fleet.owners[1].take([Answer(1, value=1)])
        assert await first == 1
    assert fleet.ended() == [2, 1]
    await backend.close(0)


async def test_a_worker_that_stands_still(tools: dict[str, Tool]) -> None:
    """Once its call's end is unknown, it is no longer one of the tool's `max_workers`."""
    backend, fleet = make_backend(tools)
    waits, line = await begin(backend, tools["one"])
    await fleet.make_ready(1)
    next_call = enter(line)
    backend.give_up("call of one")
    assert fleet.ended() == [], "it runs, and was not cancelled"
    waits.cancel()
    await settle()
    backend.give_up("call of one")
    assert (fleet.ended(), fleet.started()) == ([1], [1, 2])
    await fleet.make_ready(2)
    assert next_call.worker is line.workers[2]
    assert not waits.done(), "whether the work has ended is not known"
    waits.cancel()
    async with asyncio.timeout(BOUND):
        with pytest.raises(asyncio.CancelledError):
            await waits  # a program that does not close its engine can end
    await backend.close(0)


def test_what_a_killed_driver_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own Ray goes with it: each process, and the folder; Ray leaves two of its agents."""
    start = (
        "import os, subprocess, sys, time; "
        "left = subprocess.Popen(['sleep', '1000'], start_new_session=True); "
        "os.write(int(sys.argv[1]), b'%d' % left.pid); time.sleep(1000)"
    )
    monkeypatch.setattr(driver_process, "_START", start)
    monkeypatch.setattr(driver_process, "find_spec", lambda _: True)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        driver = driver_process.DriverProcess(theirs, "local")
        left = int(ours.recv(100))
        folder = driver._folder
        assert is_alive(left)
        assert Path(folder).is_dir()
        os.kill(driver.pid, signal.SIGKILL)
        driver.end_process()
    assert not is_alive(left)
    assert not Path(folder).exists()


async def test_a_driver_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its engine closes in its own time, with what the driver has started, and nothing failed."""
    start = (
        "import subprocess, sys, time; "
        "left = subprocess.Popen(['sleep', '1000'], start_new_session=True); "
        f"open({str(tmp_path / 'pid')!r}, 'w').write(f'{{left.pid}} '); time.sleep(1000)"
    )
    monkeypatch.setattr(driver_process, "_START", start)
    monkeypatch.setattr(driver_process, "find_spec", lambda _: True)
    async with fleet_engine(tmp_path, fleet="local") as bench:
        assert bench.engine.fleet is not None
        bench.file = tmp_path / "pid"
        joining = asyncio.create_task(bench.engine.fleet.join())
        (left,) = await bench.noted()
        with structlog.testing.capture_logs() as lines:
            await bench.engine.close()
        assert lines == []
        assert not is_alive(left)
        with pytest.raises(ToolExecutionError, match="the engine was closed"):
            await joining
        with pytest.raises(EngineClosedError):
            await bench.engine.fleet.join()  # it would be left behind
