"""What becomes of calls on a real three-node Ray when parts of it are killed, frozen, or lie.

Each case begins with a call that is known to run, and ends with one result for it, no slot held,
and nothing of it running.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from tests.effort import IS_WHOLE
from tests.fleet.samples import BOUND, Bench, fleet_engine, has_ended
from tests.ray_cluster import RayCluster, is_alive, read_command, tree_of

pytestmark = [pytest.mark.ray, pytest.mark.asyncio(loop_scope="package")]
ROUNDS = 20 if IS_WHOLE else 1
SOON = 30.0
"""Seconds in which what happens at once has happened, on a busy machine too."""


def worker_of(pid: int) -> list[int]:
    """The guest's guardian, and the actor above it."""
    found = []
    for _ in range(4):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return [found[0], found[3]]


PARTS = [("block", "guest"), ("spawn", "guardian"), ("wait", "actor")]
if IS_WHOLE:
    PARTS = [*product(["block", "wait", "spawn"], ["guest", "guardian", "actor"])]


@pytest.mark.parametrize(("name", "part"), PARTS)
async def test_a_worker_is_killed(shared_bench: Bench, part: str, name: str) -> None:
    """K20: whichever of its processes dies, the call ends as `worker_lost`, with all it started."""
    for _ in range(ROUNDS):
        call = asyncio.create_task(shared_bench.call(name))
        noted = await shared_bench.noted(2 if name == "spawn" else 1)
        guardian, actor = await asyncio.to_thread(worker_of, noted[0])
        os.kill({"guest": noted[0], "guardian": guardian, "actor": actor}[part], signal.SIGKILL)
        result = await asyncio.wait_for(call, SOON)
        assert result.error_type == "worker_lost", result.error
        for pid in (*noted, guardian):
            await asyncio.wait_for(has_ended(pid), SOON)
        assert shared_bench.has_slots_free()
        shared_bench.file.unlink()


async def test_it_runs_again_only_if_that_is_harmless(shared_bench: Bench) -> None:
    """C18: a lost worker's call runs twice if its tool may, by the policy of the tool alone."""
    retry = {"attempts": 2, "backoff": 0.01}
    shared_bench.add_tool("block", "harmless", effect="read", retry=retry)
    for name, runs in (("harmless", 2), ("block", 1)):
        call = asyncio.create_task(shared_bench.call(name))
        for number in range(1, runs + 1):
            noted = await shared_bench.noted(number)
            os.kill(noted[-1], signal.SIGKILL)
        result = await asyncio.wait_for(call, BOUND)
        assert result.error_type == "worker_lost"
        assert len(await shared_bench.noted()) == runs
        shared_bench.file.unlink()


@pytest.mark.parametrize("name", ["block", "wait", "stay", "stubborn", "spawn"])
async def test_a_deadline(shared_bench: Bench, name: str) -> None:
    """C21: the result is there by then; the slot is free when nothing of the work is left."""
    assert (await shared_bench.call(name, "")).is_success  # so that a worker is there
    result = await shared_bench.call(name, seconds=1.5)
    assert result.error_type == "timeout"
    await asyncio.wait_for(shared_bench.becomes_free(), SOON)
    noted = await shared_bench.noted(2 if name == "spawn" else 1)
    if name != "wait":
        assert not any(is_alive(pid) for pid in noted if name == "spawn" or pid != noted[0])


async def test_a_cancelled_handler_cleans_up_and_its_worker_stays(shared_bench: Bench) -> None:
    """Cancelled first: a blocking handler sees it, and the process with what it loaded goes on."""
    call = asyncio.create_task(shared_bench.call("loop"))
    (pid,) = await shared_bench.noted()
    call.cancel()
    await asyncio.wait([call])
    await asyncio.wait_for(shared_bench.becomes_free(), SOON)
    assert shared_bench.file.with_suffix(".cleaned").exists()
    assert is_alive(pid)
    call = asyncio.create_task(shared_bench.call("loop"))
    assert (await shared_bench.noted(2))[1] == pid
    call.cancel()
    await asyncio.wait([call])
    await asyncio.wait_for(shared_bench.becomes_free(), SOON)


async def test_one_stubborn_call_ends_no_others(shared_bench: Bench) -> None:
    """A call that ignores its cancellation is ended once it is alone in its worker; no sooner."""
    stubborn = asyncio.create_task(shared_bench.call("stay"))
    (pid,) = await shared_bench.noted()
    other = asyncio.create_task(shared_bench.call("stay"))
    await shared_bench.noted(2)
    stubborn.cancel()
    await asyncio.wait([stubborn])
    await asyncio.sleep(1.5)
    assert is_alive(pid)
    assert not other.done()
    other.cancel()
    await asyncio.wait([other])
    await asyncio.wait_for(has_ended(pid), SOON)
    await asyncio.wait_for(shared_bench.becomes_free(), SOON)


STAGES = [0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0] if IS_WHOLE else [0.6, 2.0]


async def cancel_after(bench: Bench, delay: float, *names: str) -> None:
    """Cancels calls that began so long ago; the next ones of their tools succeed."""
    calls = [asyncio.create_task(bench.call(name, "0.05")) for name in names * 4]
    await asyncio.sleep(delay)
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    await asyncio.wait_for(bench.becomes_free(), SOON)
    for name in names:
        assert (await bench.call(name, "0.0")).is_success


@pytest.mark.parametrize("delay", STAGES)
async def test_cancel_at_every_stage(shared_bench: Bench, delay: float) -> None:
    """C24: while it waits, its worker starts, it runs, or its result is on its way."""
    names = [f"{name}_{delay * 10:.0f}" for name in ("nap", "anap")]
    for name in names:
        shared_bench.add_tool(name.partition("_")[0], name)  # whose workers do not run yet
    await cancel_after(shared_bench, delay, *names)
    assert shared_bench.has_slots_free()


async def test_cancel_while_the_fleet_is_joined(handlers: Path) -> None:
    """C24: the others that wait for it, and the next calls, go on."""
    async with asyncio.timeout(BOUND), fleet_engine(handlers, "nap") as bench:
        assert bench.engine.fleet is not None
        await cancel_after(bench, 0.01, "nap")


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def impatient_engine(handlers: Path) -> AsyncIterator[Bench]:
    """One that waits a second for the end of what has stood still."""
    async with fleet_engine(handlers, fleet_lost_after=1.0) as made:
        yield made


@pytest.mark.parametrize("is_node", [False, True], ids=["worker", "node"])
async def test_what_stands_still(
    impatient_engine: Bench, ray_cluster: RayCluster, tmp_path: Path, is_node: bool
) -> None:
    """C21, DESIGN 10.5: the result is there; after `fleet_lost_after` its end is unknown."""
    bench, name = impatient_engine, f"block_{is_node}"
    node = await asyncio.to_thread(ray_cluster.find_spare_node) if is_node else 0
    bench.add_tool("block", name, resources={"cpus": 0, "others": {"spare": 0.1} if node else {}})
    bench.file = tmp_path / "noted"
    for _ in range(ROUNDS):
        async with asyncio.timeout(BOUND):
            assert (await bench.call(name, "")).is_success
            await stand_still(bench, name, node)
            # Awake again, it ends the work, and is there for other calls.
            assert (await bench.call(name, "")).is_success
        bench.file.unlink()


async def stand_still(bench: Bench, name: str, node: int) -> None:
    """Freezes the worker of a call, or all of its node, until the call's slot is given back."""
    call = asyncio.create_task(bench.call(name, seconds=3.0))
    (pid,) = await bench.noted()
    parts = await asyncio.to_thread(tree_of, node) if node else set()
    assert not node or pid in parts, "what is behind the guardian is below its node, too"
    frozen = [pid, *await asyncio.to_thread(worker_of, pid), *parts]
    send_to_all(frozen, signal.SIGSTOP)
    try:
        result = await call
        assert result.error_type == "timeout"
        assert not bench.has_slots_free()
        await asyncio.wait_for(bench.becomes_free(), SOON)
        assert "unknown" in str(bench.engine.controller.explain(result.call_id or ""))
    finally:
        send_to_all(frozen, signal.SIGCONT)


def send_to_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Sends a signal to those that are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.timeout(240 + 30 * ROUNDS)  # each begins with the start of a node
async def test_a_node_is_removed(shared_bench: Bench, ray_cluster: RayCluster) -> None:
    """K20: as when its power is cut: `worker_lost`, and the next call runs elsewhere."""
    bench, there = shared_bench, {"cpus": 0, "others": {"spare": 0.1}}
    bench.add_tool("spawn", "far", resources=there, max_workers=1)
    # Its worker may be on that node, too.
    bench.add_tool("pid", "anywhere", effect="read", retry={"attempts": 3})
    for _ in range(ROUNDS):
        async with asyncio.timeout(2 * BOUND):
            node = await asyncio.to_thread(ray_cluster.find_spare_node)
            # The engine may not have heard of it yet, and asks before it refuses.
            call = asyncio.create_task(bench.call("far", seconds=2 * BOUND))
            noted = await bench.noted(2)
            await asyncio.to_thread(ray_cluster.remove_node, node)
            result = await asyncio.wait_for(call, 2 * SOON)
            assert result.error_type == "worker_lost", result.error
            for pid in noted:
                await asyncio.wait_for(has_ended(pid), SOON)
            await asyncio.wait_for(bench.becomes_free(), SOON)
            assert (await bench.call("anywhere")).is_success
        bench.file.unlink()


ENGINE = """
import asyncio, sys
from pathlib import Path
from tests.fleet.samples import fleet_engine
async def main():
    folder = Path(sys.argv[1])
    sys.path.insert(0, str(folder))
    async with fleet_engine(folder, "spawn") as bench:
        await bench.call("spawn", seconds=1000.0)
asyncio.run(main())
"""


async def test_the_engine_is_killed(handlers: Path) -> None:
    """DESIGN 10.3: its work on the fleet dies with it, and what that has started."""
    file = handlers / "noted"
    file.unlink(missing_ok=True)
    for _ in range(ROUNDS):
        process = await asyncio.to_thread(
            subprocess.Popen, [sys.executable, "-c", ENGINE, str(handlers)]
        )
        async with asyncio.timeout(BOUND):
            while len(words := await asyncio.to_thread(_read_words, file)) < 2:  # noqa: ASYNC110 - as it is
                await asyncio.sleep(0.01)
            noted = [int(word) for word in words]
            noted += await asyncio.to_thread(worker_of, noted[0])
            noted += await asyncio.to_thread(tree_of, process.pid)
            commands = {pid: read_command(pid) for pid in noted}
            process.kill()
            await asyncio.to_thread(process.wait)
            with contextlib.suppress(TimeoutError):
                for pid in noted:
                    await asyncio.wait_for(has_ended(pid), SOON)
            assert [commands[pid] for pid in noted if is_alive(pid)] == []
        assert len(noted) >= 5, "the handler, its child, its guardian, the actor and the engine"
        file.unlink()


def _read_words(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("quit", "exit code 7"),
        ("eat", "needs more memory than the 512 MiB of its entry.config.resources.memory"),
        ("flood", "wrote more than 64 MiB and was stopped"),
    ],
)
async def test_hostile_handlers(shared_bench: Bench, name: str, words: str) -> None:
    """C7: what it does to its process ends its call, and its tool goes on."""
    shared_bench.add_tool(name, resources={"cpus": 0, "memory": "512MiB"})
    for _ in range(2):
        result = await shared_bench.call(name)
        assert words in str(result.error)
    assert shared_bench.has_slots_free()


async def test_a_child_that_a_call_leaves(shared_bench: Bench) -> None:
    """Promise 4: it is gone when the result comes, though the call has succeeded."""
    shared_bench.add_tool("leave_child")
    child = (await shared_bench.call("leave_child")).output["result"]
    assert not is_alive(child)


def list_actors(bench: Bench, names: Iterable[str]) -> list[int]:
    """The process ids of the workers of these tools that can take calls."""
    backend: Any = bench.engine._registry.places.find("ray")
    lines = [line for name, line in backend.named_lines() if name in names]
    every = [each.ready for line in lines for each in line.workers.values()]
    return [ready.pid for ready in every if ready is not None]


async def test_random_kills(shared_bench: Bench) -> None:
    """Promises 2 and 3: 200 calls with kills among them: one end each, no slot held, no orphan."""
    random = Random(7)  # noqa: S311 - it has to be the same each time
    names = {"shot": "nap", "ashot": "anap"}
    for name, handler in names.items():
        shared_bench.add_tool(handler, name, max_workers=3, idle_time=0.5)
    calls = [
        asyncio.create_task(shared_bench.call(random.choice([*names]), "0.02")) for _ in range(200)
    ]
    seen: set[int] = set()
    kills = 0
    while kills < 15 and not all(call.done() for call in calls):
        await asyncio.sleep(random.random() * 0.2)
        if pids := list_actors(shared_bench, names):
            below = await asyncio.to_thread(tree_of, random.choice(pids))
            seen |= below
            kills += 1
            send_to_all([random.choice([*below])], signal.SIGKILL)
    results = await asyncio.gather(*calls)
    other = [each.error for each in results if each.error_type not in (None, "worker_lost")]
    assert not other
    assert len({result.call_id for result in results}) == 200
    await asyncio.wait_for(shared_bench.becomes_free(), SOON)
    assert kills > 3
    for pid in seen:
        await asyncio.wait_for(has_ended(pid), 2 * SOON)
