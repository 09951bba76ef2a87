"""Every place where a handler can run keeps the same promises; a new one adds a line to `PLACES`.

A handler shows that it works by a lock on a file, which the system takes back when it ends, however
it does: who gets a slot after it must find the file free.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from tests.effort import IS_WHOLE
from tests.ray_cluster import RayCluster
from tool_engine import (
    ConcurrencyConfig,
    ToolEngine,
    ToolEngineConfig,
    ToolEngineEvent,
    ToolExecutionContext,
    ToolExecutionResult,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
BOUND = 60.0
SOON = 30.0
"""Seconds in which what is to happen at once has happened, on a busy machine too."""
PLACES = {
    "here": {},
    "process": {"isolation": "process", "memory": "512MiB", "workers": 2},
    "ray": {"isolation": "ray", "resources": {"cpus": 0}, "max_workers": 2},
}
"""What a definition says for each place."""
HANDLERS = """
import asyncio, contextlib, fcntl, os, subprocess, sys, time
@contextlib.contextmanager
def held(path):
    with open(path, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        open(path + ".began", "w").close()
        try: yield
        finally: fcntl.flock(file, fcntl.LOCK_UN)
def echo(text, context): return [text, context.caller_id, os.getpid()]
def take(text):
    with held(text): return "free"
def block(text):
    with held(text):
        while not os.path.exists(text + ".go"): time.sleep(0.005)
    return "late"
async def wait(text):
    with held(text): await asyncio.sleep(1000)
async def ignore(text):
    with held(text):
        is_going = True
        while is_going:
            try:
                await asyncio.sleep(0.005)
                is_going = not await asyncio.to_thread(os.path.exists, text + ".go")
            except asyncio.CancelledError: pass
def report(text, context):
    for number in range(1, 4):
        context.report_progress(number, 3, text)
        context.log(f"{text} {number}")
    return text
def flood(text, context):
    for number in range(20_000): context.log(f"{text} {number}")
    return text
def leave(text): sys.exit(3)
def die(text): os._exit(3)
def fork(text):
    with held(text):
        subprocess.Popen(["sleep", "1000"], start_new_session=True, pass_fds=())
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        open(text + ".child", "w").write(str(child.pid))
        time.sleep(1000)
def speak(text):
    print(text * 10_000)
    return text
def odd(text): return {text: object()}
def fail(text): raise ValueError(text)
"""


class Stand(NamedTuple):
    """An engine with one slot, whose tools run at one place."""

    engine: ToolEngine
    place: str
    file: Path

    async def call(
        self, name: str, text: str | None = None, seconds: float = BOUND, **ways: Any
    ) -> ToolExecutionResult:
        context = ToolExecutionContext(caller_id="me", timeout=seconds)
        text = str(self.file) if text is None else text
        return await self.engine.execute(name, {"text": text}, context, **ways)

    async def has_begun(self) -> None:
        while not self.file.with_suffix(".began").exists():  # noqa: ASYNC110 - a file rings no bell
            await asyncio.sleep(0.005)

    def let_go(self) -> None:
        """Let what nothing can stop come to its end."""
        self.file.with_suffix(".go").touch()

    async def check_slot(self) -> None:
        """Whoever has the slot next finds that the work before it has ended."""
        result = await self.call("take")
        assert result.output == {"result": "free"}, result.error
        metrics = self.engine.controller.get_metrics()
        assert (metrics.current_concurrent, metrics.zombies) == (0, 0)


@contextlib.asynccontextmanager
async def open_stand(
    place: str, folder: Path, request: pytest.FixtureRequest, slots: int = 1
) -> AsyncIterator[Stand]:
    """An engine whose tools run at a place; it is closed at the end."""
    with pytest.MonkeyPatch.context() as patch:
        if place == "ray":
            head: RayCluster = request.getfixturevalue("ray_cluster")
            patch.setenv("RAY_ADDRESS", head.address)
        module = f"handlers_of_places_{place}"
        patch.syspath_prepend(str(folder))
        (folder / f"{module}.py").write_text(HANDLERS)
        config = ToolEngineConfig(
            str(folder / "none"), auto_reload=False, close_timeout=0.1, fleet="auto"
        )
        limits = ConcurrencyConfig(max_concurrent=slots, queue_timeout=BOUND)
        engine = ToolEngine(config, concurrency=limits)
        for line in HANDLERS.splitlines():
            if line.startswith(("def ", "async def ")) and "held" not in line:
                name = line.partition("def ")[2].partition("(")[0]
                text = {"name": "text", "type": "string", "required": True, "description": "x"}
                entry = {"type": "custom", "handler": f"{module}:{name}", "config": PLACES[place]}
                engine.register_tool(
                    {"name": name, "description": "A sample", "parameters": [text], "entry": entry}
                )
        made = Stand(engine, place, folder / "lock")
        try:
            # What is tested is not how long an import takes.
            assert (await made.call("echo")).is_success
            yield made
        finally:
            made.let_go()
            await engine.close()
            sys.modules.pop(module, None)


PLACE = [pytest.param(each, marks=pytest.mark.ray if each == "ray" else ()) for each in PLACES]
beside_fleet = pytest.mark.parametrize(
    "shared_stand", PLACE if IS_WHOLE else PLACE[:2], indirect=True, scope="module"
)
"""Of what `tests/fleet` shows of a fleet in every run; each tool there starts a worker."""


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=PLACE)
async def shared_stand(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stand | str]:
    """One engine for all tests where to start one takes seconds; else the name of the place."""
    if request.param != "ray":
        yield str(request.param)
        return
    async with open_stand("ray", tmp_path_factory.mktemp("places"), request) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def stand(
    shared_stand: Stand | str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Stand]:
    """The engine of a place, with a file of this test's own; nothing is left of its calls."""
    async with asyncio.timeout(BOUND), contextlib.AsyncExitStack() as stack:
        if isinstance(shared_stand, str):
            made = await stack.enter_async_context(open_stand(shared_stand, tmp_path, request))
        else:
            made = shared_stand._replace(file=tmp_path / "lock")
        yield made
        made.let_go()
        while made.engine.controller.get_metrics().current_concurrent:  # noqa: ASYNC110 - silent
            await asyncio.sleep(0.005)


async def test_it_runs_there(stand: Stand) -> None:
    """R9, C7: arguments and context cross, and the value comes back."""
    result = await stand.call("echo", "é\n")
    *words, pid = result.output["result"]
    assert words == ["é\n", "me"]
    assert (pid == os.getpid()) == (stand.place == "here")


@beside_fleet  # test_failures.py::test_deadlines
@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", ["block", "wait", "ignore"])
async def test_the_deadline(stand: Stand, name: str) -> None:
    """C21: the result is there by then; the slot is given back when the work has really ended."""
    result = await stand.call(name, seconds=0.5)
    assert result.error_type == "timeout", result.error
    assert result.execution_time < SOON
    asyncio.get_running_loop().call_later(0.05, stand.let_go)
    await stand.check_slot()


@beside_fleet  # test_failures.py::test_a_cancelled_handler_cleans_up_and_its_worker_stays
@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", ["block", "wait"])
async def test_a_cancelled_caller(stand: Stand, name: str) -> None:
    """C8: it goes on, though nothing else stops the work; the slot goes back with its end."""
    call = asyncio.create_task(stand.call(name))
    await stand.has_begun()
    call.cancel()
    done, _ = await asyncio.wait([call], timeout=SOON)
    assert done
    assert call.cancelled()
    asyncio.get_running_loop().call_later(0.05, stand.let_go)
    await stand.check_slot()


async def test_progress_and_lines_in_order(stand: Stand) -> None:
    """X4: what a handler says is heard in its order, with the id of its call, before the end."""
    events: list[ToolEngineEvent] = []
    heard: list[Any] = []
    stand.engine.subscribe(events.append, "execution_logged")
    result = await stand.call("report", "step", on_progress=heard.append)
    assert result.output == {"result": "step"}
    assert [each.data["message"] for each in events] == ["step 1", "step 2", "step 3"]
    assert {each.call_id for each in events} == {result.call_id}
    assert [each.done for each in heard] == sorted(each.done for each in heard)
    assert (heard[-1].done, heard[-1].total, heard[-1].message) == (3, 3, "step")


async def test_a_flood_of_lines_is_bounded(stand: Stand) -> None:
    """X4: of twenty thousand lines the last ones are heard, and the call ends soon."""
    events: list[ToolEngineEvent] = []
    stand.engine.subscribe(events.append, "execution_logged")
    result = await stand.call("flood", "line", seconds=2 * SOON)
    assert result.is_success, result.error
    said = [each.data["message"] for each in events]
    assert said[-1] == "line 19999"
    assert len(said) < 20_000


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("name", "words"),
    [("leave", "tried to end the process"), ("fail", "no such thing"), ("odd", "JSON")],
)
async def test_what_a_handler_does_wrong(stand: Stand, name: str, words: str) -> None:
    """C7: the call fails with words for its author, and the engine goes on."""
    result = await stand.call(name, "no such thing")
    assert result.error_type == "execution_error"
    assert words in str(result.error)
    await stand.check_slot()


async def test_what_a_handler_prints(stand: Stand, capfd: pytest.CaptureFixture[str]) -> None:
    """R9: a process of its own has its own output; in this one it is the program's."""
    assert (await stand.call("speak", "word")).output == {"result": "word"}
    assert ("word" in capfd.readouterr().out) == (stand.place == "here")


@beside_fleet  # test_failures.py::test_hostile_handlers
async def test_a_handler_that_ends_its_process(stand: Stand) -> None:
    """R9, DESIGN 10.5: a process that dies ends its call, and what became of it is unknown."""
    if stand.place == "here":
        pytest.skip("it would end the tests")
    result = await stand.call("die")
    assert result.error_type == "worker_lost"
    assert "exit code 3" in str(result.error)
    await stand.check_slot()


@beside_fleet  # test_failures.py::test_a_child_that_a_call_leaves
async def test_nothing_is_left_of_what_it_started(stand: Stand) -> None:
    """Promise 4: a program with a session of its own is gone when the slot goes back."""
    if stand.place == "here":
        pytest.skip("what a function in this process starts is the program's own")
    call = asyncio.create_task(stand.call("fork"))
    noted = stand.file.with_suffix(".child")
    while not noted.exists() or not noted.read_text():  # noqa: ASYNC110 - a file rings no bell
        await asyncio.sleep(0.005)
    call.cancel()
    await asyncio.wait([call])
    await stand.check_slot()
    child = int(noted.read_text())
    with contextlib.suppress(FileNotFoundError):
        words = await asyncio.to_thread(Path(f"/proc/{child}/stat").read_text)
        assert words.rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("place", PLACE)
async def test_closing(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """C24: what runs ends as `engine_closed`, and no process of the engine is left."""
    names = ("block", "wait", "ignore")
    async with asyncio.timeout(BOUND), open_stand(place, tmp_path, request, len(names)) as stand:
        pid = (await stand.call("echo")).output["result"][-1]
        stands = {name: stand._replace(file=tmp_path / name) for name in names}
        calls = [asyncio.create_task(each.call(name)) for name, each in stands.items()]
        for each in stands.values():
            await each.has_begun()
        for each in stands.values():
            asyncio.get_running_loop().call_later(0.3, each.let_go)
        await stand.engine.close()
        assert {(await call).error_type for call in calls} == {"engine_closed"}
        if place != "here":
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
