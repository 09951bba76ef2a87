"""What tools on a fleet can do, on a real Ray: large results, reports, batches, workers, code."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.samples import BOUND, Bench, define_tool, has_ended
from tests.ray_cluster import is_alive
from tool_engine import DefinitionError, ToolEngineEvent

pytestmark = [pytest.mark.ray, pytest.mark.asyncio(loop_scope="package")]


@pytest.fixture
def bench(shared_bench: Bench) -> Bench:
    """The engine that tests share: they give their tools names of their own."""
    return shared_bench


def workers_of(bench: Bench, tool: str) -> list[Any]:
    """The workers of a tool that can take calls."""
    backend: Any = bench.engine._registry.places.find("ray")
    lines = [line for name, line in backend.named_lines() if name == tool]
    every = [each for line in lines for each in line.workers.values()]
    return [each for each in every if each.ready is not None]


async def test_a_call_that_nothing_can_ever_hold(bench: Bench) -> None:
    """It ends at once, not at its deadline, and says what there is."""
    bench.add_tool("pid", "greedy", resources={"cpus": 0, "gpus": 1})
    bench.add_tool("pid", "big", resources={"cpus": 64})
    for name, words in (
        ("greedy", "1 GPU: the most on one of its 3 nodes is 0 GPUs"),
        ("big", "64 CPUs"),
    ):
        result = await bench.call(name)
        assert result.error_type == "execution_error"
        assert f"no node of the fleet can ever hold {words}" in str(result.error)


async def test_a_node_that_the_engine_has_not_heard_of(bench: Bench) -> None:
    """It asks before it refuses: what can hold the call may be some seconds old."""
    bench.add_tool("pid", "newcomer", resources={"cpus": 0})
    assert bench.engine.fleet is not None
    await bench.engine.fleet.join()
    backend: Any = bench.engine._registry.places.find("ray")
    backend.connection.nodes = []
    assert (await bench.call("newcomer")).is_success


async def test_a_large_result(bench: Bench) -> None:
    """A megabyte and a half comes whole; what is more than an answer may hold is refused."""
    bench.add_tool("large")
    assert len((await bench.call("large", "é")).output["result"]) == int(1.5 * 2**20)
    assert "the most is 16777216" in str((await bench.call("large", "x" * 20)).error)


async def test_many_reports(bench: Bench) -> None:
    """X4: a thousand reports are heard as the newest of each moment, the last one last."""
    bench.add_tool("report")
    heard: list[Any] = []
    result = await bench.call("report", "1000", on_progress=heard.append)
    assert result.is_success, result.error
    assert heard[-1].done == 1000
    assert [each.done for each in heard] == sorted(each.done for each in heard)


async def test_a_batch(bench: Bench) -> None:
    """Calls that come together travel together, and each has its own end."""
    bench.add_tool("anap", "together", batch={"max_size": 50, "max_wait": 0.05})
    bench.add_tool("nap", "in_turn", batch={"max_size": 10, "max_wait": 0.05}, max_workers=1)
    assert (await bench.call("together", "0")).is_success
    calls = [bench.call("together", "0" if number else "wrong") for number in range(50)]
    results = await asyncio.gather(*calls)
    assert sum(each.is_success for each in results) == 49
    assert results[0].error_type == "execution_error"
    results = await asyncio.gather(*(bench.call("in_turn", "0.01") for _ in range(20)))
    assert all(each.is_success for each in results)


async def test_idle_workers_end(bench: Bench) -> None:
    """Those beyond `min_workers` end after `idle_time`; the others stay."""
    bench.add_tool("nap", "idle", min_workers=1, max_workers=2, idle_time=0.5)
    await asyncio.gather(*(bench.call("idle", "0.5") for _ in range(3)))
    async with asyncio.timeout(BOUND):
        while len(workers_of(bench, "idle")) > 1:  # noqa: ASYNC110 - an end rings no bell
            await asyncio.sleep(0.05)
    pid = workers_of(bench, "idle")[0].ready.pid
    assert (await bench.call("idle", "0")).is_success
    assert workers_of(bench, "idle")[0].ready.pid == pid


async def test_a_tool_that_waits_for_resources_of_idle_workers(bench: Bench) -> None:
    """Fair use: three processors, all held by idle workers of one tool, do not starve another."""
    bench.add_tool("nap", "wide", resources={"cpus": 1}, max_workers=3)
    bench.add_tool("pid", "other", resources={"cpus": 1})
    await asyncio.gather(*(bench.call("wide", "0.5") for _ in range(6)))
    result = await bench.call("other", seconds=60.0)
    assert result.is_success, result.error


async def test_other_code(bench: Bench) -> None:
    """What a node imports is compared with what the engine has; nothing of other code runs."""
    bench.add_tool("pid", "stale")
    assert (await bench.call("stale")).is_success
    (worker,) = workers_of(bench, "stale")
    line = worker._line
    # As on a node with another version of the file.
    line._settings["entry"] = type(line.entry)(
        "handlers_of_fleets", "pid", "ray", approved="sha256:0"
    )
    line.end_worker(worker)
    result = await bench.call("stale")
    assert result.error_type == "definition_mismatch"
    assert "deploy the same version there" in str(result.error)
    assert (await bench.call("here")).is_success


async def test_a_new_definition_has_new_workers(bench: Bench, handlers: Path) -> None:
    """C17: a running call keeps the definition that it began with; one that has begun with none
    finds the newest code.
    """
    (handlers / "none").mkdir()
    file, module = handlers / "none" / "timed.yaml", handlers / "timed_for_fleets.py"
    code = "import time\ndef nap(text):\n    time.sleep(float(text))\n    return text\n"
    module.write_text(code)
    definition = define_tool("timed", "nap", max_workers=1)
    definition["entry"]["handler"] = "timed_for_fleets:nap"
    file.write_text(json.dumps({**definition, "version": "1.0.0"}))
    await bench.engine.load()
    assert (await bench.call("timed", "0")).is_success
    (first,) = [each.ready.pid for each in workers_of(bench, "timed")]
    running = asyncio.create_task(bench.call("timed", "1.5"))
    await asyncio.sleep(0)
    module.write_text(code + "def nap(text): return 'new'\n")
    file.write_text(json.dumps({**definition, "version": "1.1.0"}))
    await bench.engine.reload()
    assert (await bench.call("timed", "0")).output == {"result": "new"}
    assert (await running).output == {"result": "1.5"}
    while is_alive(first):  # noqa: ASYNC110 - an end rings no bell
        await asyncio.sleep(0.05)
    # The worker is lost, and the next one imports what is there now.
    module.write_text(code + "def nap(text): return 'newest'\n")
    (worker,) = workers_of(bench, "timed")
    worker._line.end_worker(worker)
    assert (await bench.call("timed", "0")).output == {"result": "newest"}


async def test_what_kills_each_worker_as_it_starts(bench: Bench, handlers: Path) -> None:
    """A worker that others end before it takes a call is lost, as one in mid-call."""
    (handlers / "fragile.py").write_text(
        "import os, pathlib\n"
        "if pathlib.Path(__file__).with_name('fatal').exists(): os.kill(os.getpid(), 9)\n"
        "def echo(text): return text\n"
    )
    bench.add_tool("fragile:echo", "fragile", idle_time=0.1)
    (handlers / "fatal").touch()
    result = await bench.call("fragile")
    assert result.error_type == "worker_lost", result.error
    assert "signal 9 (SIGKILL)" in str(result.error)
    (handlers / "fatal").unlink()
    assert (await bench.call("fragile")).is_success


async def test_lines_are_the_calls_own(bench: Bench) -> None:
    """X4: of calls that share a worker each is heard under its own id."""
    bench.add_tool("say")
    events: list[ToolEngineEvent] = []
    bench.engine.subscribe(events.append, "execution_logged")
    results = await asyncio.gather(*(bench.call("say", str(number)) for number in range(5)))
    said = {(each.call_id, each.data["message"]) for each in events}
    assert said == {(each.call_id, f"I am {each.output['result']}") for each in results}


async def test_a_decorated_function(bench: Bench, handlers: Path) -> None:
    """`isolation` of the decorator: the function is imported where it runs."""
    (handlers / "decorated_for_fleets.py").write_text(
        "import os\n"
        "def add(a: int, b: int) -> list[int]:\n"
        '    """Adds.\n\n    Args:\n        a: One.\n        b: Two.\n    """\n'
        "    return [a + b, os.getpid()]\n"
    )
    import decorated_for_fleets as module  # type: ignore[import-not-found]

    bench.engine.tool(isolation="ray", resources={"cpus": 0})(module.add)
    total, pid = (await bench.engine.execute("add", {"a": 1, "b": 2})).output["result"]
    assert total == 3
    assert pid != module.os.getpid()

    def local(a: int) -> int:
        return a

    with pytest.raises(DefinitionError, match="define it in a module"):
        bench.engine.tool(isolation="ray", description="x")(local)


async def test_a_program(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """`entry.argv` runs on a node as here: its output, its failure, its end with its call."""
    monkeypatch.setenv("FLEET_TOKEN", "a-secret-of-the-engine")
    script = 'echo $$ >> "$1"; echo $TOKEN; test "$2" = wait && sleep 1000; exit 3'
    config = {
        "isolation": "ray",
        "resources": {"cpus": 0},
        "max_workers": 1,
        "env": {"TOKEN": "${env:FLEET_TOKEN}"},
        "ok_exit_codes": [3],
    }
    entry = {"type": "builtin", "argv": ["sh", "-c", script, "sh", str(bench.file), "{text}"]}
    bench.engine.register_tool(
        {**define_tool("program", "pid"), "entry": {**entry, "config": config}}
    )
    result = await bench.call("program", "now")
    assert (result.output["exit_code"], result.output["truncated"]) == (3, False)
    assert "a-secret" not in str(result.output)
    assert (await bench.call("program", "wait", seconds=1.0)).error_type == "timeout"
    calling = asyncio.create_task(bench.call("program", "wait"))
    pids = await bench.noted(3)
    assert not is_alive(pids[1])
    calling.cancel()
    await asyncio.wait([calling])
    await has_ended(pids[2])
    # The same worker goes on: a program's end is none of its worker's.
    step = {"id": "far", "tool": "program", "params": {"text": "${params.text}"}}
    flow = define_tool("flow", "pid") | {"entry": {"type": "workflow", "steps": [step]}}
    bench.engine.register_tool(flow)
    result = await bench.call("flow", "now")
    assert (result.output["exit_code"], len(workers_of(bench, "program"))) == (3, 1)
