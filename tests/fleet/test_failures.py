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
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio
import structlog

from tests.effort import IS_WHOLE
from tests.fleet.samples import (
    BOUND,
    ROUNDS,
    SPAWNING,
    Bench,
    fleet_engine,
    has_ended,
    noted_in,
    worker_of,
)
from tests.ray_cluster import RayCluster, is_alive, read_command, tree_of

pytestmark = [
    pytest.mark.ray,
    pytest.mark.asyncio(loop_scope="package"),
    pytest.mark.timeout(240 + 30 * ROUNDS),  # most rounds begin with the start of a worker
]
SOON = 30.0
"""Seconds in which what happens at once has happened, on a busy machine too."""


TURNS = [[("block", "guest"), ("spawn", "guardian"), ("wait", "actor")]]
"""What is killed at once: never two of one worker, for async handlers share theirs."""
if IS_WHOLE:
    NAMES = ("block", "spawn", "wait")
    PARTS = ("guest", "guardian", "actor")
    TURNS = [[(name, PARTS[(n + turn) % 3]) for n, name in enumerate(NAMES)] for turn in range(3)]


async def test_workers_are_killed(shared_bench: Bench, tmp_path: Path) -> None:
    """K20: whichever of its processes dies, the call ends as `worker_lost`, with all it started."""
    for _ in range(ROUNDS):
        for turn in TURNS:
            kills = (
                kill_worker(shared_bench.with_file(tmp_path / each[0]), *each) for each in turn
            )
            await asyncio.gather(*kills)
            assert shared_bench.has_slots_free()


async def kill_worker(bench: Bench, name: str, part: str) -> None:
    """Kills one process of the worker of a call."""
    call = asyncio.create_task(bench.call(name))
    noted = await bench.noted(2 if name == "spawn" else 1)
    guardian, actor = await asyncio.to_thread(worker_of, noted[0])
    os.kill({"guest": noted[0], "guardian": guardian, "actor": actor}[part], signal.SIGKILL)
    result = await asyncio.wait_for(call, SOON)
    assert result.error_type == "worker_lost", result.error
    for pid in (*noted, guardian):
        await asyncio.wait_for(has_ended(pid), SOON)
    bench.file.unlink()


async def test_it_runs_again_only_if_that_is_harmless(shared_bench: Bench, tmp_path: Path) -> None:
    """C18: a lost worker's call runs twice if its tool may, by the policy of the tool alone."""
    retry = {"attempts": 2, "backoff": 0.01}
    shared_bench.add_tool("block", "harmless", effect="read", retry=retry)

    async def kill_each_run(name: str, runs: int) -> None:
        bench = shared_bench.with_file(tmp_path / name)
        call = asyncio.create_task(bench.call(name))
        for number in range(1, runs + 1):
            noted = await bench.noted(number)
            os.kill(noted[-1], signal.SIGKILL)
        result = await asyncio.wait_for(call, BOUND)
        assert result.error_type == "worker_lost"
        assert len(await bench.noted()) == runs

    await asyncio.gather(kill_each_run("harmless", 2), kill_each_run("block", 1))


async def test_deadlines(shared_bench: Bench, tmp_path: Path) -> None:
    """C21: the result is there by then; the slot is free when nothing of the work is left."""
    for turn in range(ROUNDS):
        folder = tmp_path / str(turn)
        folder.mkdir()
        await check_deadlines(shared_bench, folder)


async def check_deadlines(shared_bench: Bench, folder: Path) -> None:
    """Lets one call of each kind of handler miss its deadline."""

    async def miss_deadline(name: str) -> None:
        bench = shared_bench.with_file(folder / name)
        assert (await bench.call(name, "")).is_success  # so that a worker is there
        result = await bench.call(name, seconds=1.5)
        assert result.error_type == "timeout"

    names = ("block", "wait", "stay", "stubborn", "spawn")
    await asyncio.gather(*map(miss_deadline, names))
    await asyncio.wait_for(shared_bench.becomes_free(), SOON)
    for name in names:
        noted = await shared_bench.with_file(folder / name).noted(2 if name == "spawn" else 1)
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


STAGES: dict[float, tuple[str, ...]] = dict.fromkeys(
    (0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0), ("nap", "anap")
)
"""Which handlers are cancelled so many seconds after the call."""
if not IS_WHOLE:
    STAGES = {0.6: ("nap",), 2.0: ("anap",)}


async def cancel_after(bench: Bench, delay: float, names: Iterable[str]) -> None:
    """Cancels calls that began so long ago; the next ones of their tools succeed."""
    calls = [asyncio.create_task(bench.call(name, "0.05")) for name in [*names] * 4]
    await asyncio.sleep(delay)
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    await asyncio.wait_for(bench.becomes_free(), BOUND)
    results = await asyncio.gather(*(bench.call(name, "0.0") for name in names))
    assert all(each.is_success for each in results)


async def test_cancel_at_every_stage(shared_bench: Bench) -> None:
    """C24: while it waits, its worker starts, it runs, or its result is on its way."""
    for turn in range(ROUNDS):
        stages = {
            delay: [f"{name}_{delay * 10:.0f}_{turn}" for name in names]
            for delay, names in STAGES.items()
        }
        for names in stages.values():
            for name in names:
                # Whose workers do not run yet; to start one takes a second of a processor.
                handler = name.partition("_")[0]
                shared_bench.add_tool(handler, name, max_workers=1, idle_time=1.0)
        await asyncio.gather(*(cancel_after(shared_bench, *each) for each in stages.items()))
        assert shared_bench.has_slots_free()


async def test_before_a_call_has_begun(handlers: Path) -> None:
    """C24, C21: a call that is cancelled while the fleet is joined stops no other; one whose time
    is up then says so, as does one that waits for a worker; a program can join it before all.
    """
    async with asyncio.timeout(BOUND), fleet_engine(handlers, "nap") as bench:
        fleet = bench.engine.fleet
        assert fleet is not None
        assert not fleet.snapshot().is_joined
        late = asyncio.create_task(bench.call("nap", "0", seconds=0.05))
        cancelled = asyncio.create_task(cancel_after(bench, 0.01, ["nap"]))
        found = await fleet.join()
        assert (found.is_joined, found.node_count >= 3) == (True, True)
        assert found.find_lack({"GPU": 1.0}) is not None
        assert found.find_lack({"CPU": 1.0, "node:__internal_head__": 0.001}) is None
        assert [*found.nodes[0].resources][:2] == ["CPU", "memory"]
        assert not any(name.startswith("node:") for name in found.free)
        result = await late
        assert result.error_type == "timeout"
        assert "had not begun, for the fleet 'auto' was still being joined" in str(result.error)
        assert "engine.fleet.join()" in str(result.error)
        await cancelled
        bench.add_tool("nap", "narrow_nap", max_workers=1)
        assert (await bench.call("narrow_nap", "0")).is_success
        taken = asyncio.create_task(bench.call("narrow_nap", "3"))
        await asyncio.sleep(0)
        result = await bench.call("narrow_nap", "0", seconds=0.2)
        assert str(result.error) == (
            "tool 'narrow_nap' did not finish within 0.2 s; it had not begun: it waited for a "
            "worker of the fleet; raise its timeout, or entry.config.max_workers"
        )
        assert (await taken).is_success
        result = await bench.call("narrow_nap", "3", seconds=0.5)
        assert "had not begun" not in str(result.error)
        with structlog.testing.capture_logs() as lines:
            await bench.engine.close()
        assert "fleet_lost" not in [each["event"] for each in lines], "nothing was lost"


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def impatient_engine(handlers: Path) -> AsyncIterator[Bench]:
    """One that waits a second for the end of what has stood still."""
    async with fleet_engine(handlers, fleet_lost_after=1.0) as made:
        yield made


async def test_what_stands_still(
    impatient_engine: Bench, ray_cluster: RayCluster, tmp_path: Path
) -> None:
    """C21, DESIGN 10.5: the result is there; after `fleet_lost_after` its end is unknown."""
    # Which takes as long as what comes first.
    spare = asyncio.create_task(asyncio.to_thread(ray_cluster.find_spare_node))
    if IS_WHOLE:  # with its node a worker stands still, too
        await check_still_one(impatient_engine.with_file(tmp_path / "worker"), 0)
    await check_still_one(impatient_engine.with_file(tmp_path / "node"), await spare)


async def check_still_one(bench: Bench, node: int) -> None:
    """What becomes of a call whose worker, or whole node, stands still."""
    name = f"block_on_{node}"
    bench.add_tool("block", name, resources={"cpus": 0, "others": {"spare": 0.1} if node else {}})
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


async def test_a_node_is_removed(shared_bench: Bench, ray_cluster: RayCluster) -> None:
    """K20: as when its power is cut: `worker_lost`, and the next call runs elsewhere."""
    bench, there = shared_bench, {"cpus": 0, "others": {"spare": 0.1}}
    bench.add_tool("spawn", "far", resources=there, max_workers=1)
    # Its worker may be on that node, too.
    bench.add_tool("pid", "anywhere", effect="read", retry={"attempts": 3})
    anywhere = asyncio.create_task(bench.call("anywhere"))
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
    assert (await anywhere).is_success


async def test_the_engine_is_killed(handlers: Path) -> None:
    """DESIGN 10.3: its work on the fleet dies with it, and what that has started."""
    file = handlers / "noted"
    file.unlink(missing_ok=True)
    for _ in range(ROUNDS):
        process = await asyncio.to_thread(
            subprocess.Popen, [sys.executable, "-c", SPAWNING, str(handlers)]
        )
        async with asyncio.timeout(BOUND):
            noted = await noted_in(file, 2)
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


HOSTILE = {
    "quit": "exit code 7",
    "eat": "needs more memory than the 512 MiB of its entry.config.resources.memory",
    "flood": "wrote more than 64 MiB and was stopped",
}


async def test_hostile_handlers(shared_bench: Bench) -> None:
    """C7: what it does to its process ends its call, and its tool goes on."""
    for name in HOSTILE:
        shared_bench.add_tool(name, resources={"cpus": 0, "memory": "512MiB"})
    for turn in range(max(2, ROUNDS)):
        tried = HOSTILE if IS_WHOLE or not turn else {"quit": HOSTILE["quit"]}
        results = await asyncio.gather(*map(shared_bench.call, tried))
        for words, result in zip(tried.values(), results, strict=True):
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


KILLS = 7
"""Most of them have a worker start anew."""


@pytest.mark.skipif(not IS_WHOLE, reason="each kill is tried by itself above: make proof")
async def test_random_kills(shared_bench: Bench) -> None:
    """Promises 2 and 3: 200 calls with kills among them: one end each, no slot held, no orphan."""
    names = {"shot": "nap", "ashot": "anap"}
    for name, handler in names.items():
        shared_bench.add_tool(handler, name, max_workers=3, idle_time=0.5)
    for turn in range(ROUNDS):
        chance = Random(7 + turn)  # noqa: S311 - always the same
        assert await kill_at_random(shared_bench, [*names], chance) > 3


async def kill_at_random(bench: Bench, names: list[str], random: Random) -> int:
    """Makes 200 calls of these tools, and kills what belongs to their workers; how often it did."""
    calls = [asyncio.create_task(bench.call(random.choice(names), "0.02")) for _ in range(200)]
    seen: set[int] = set()
    kills = 0
    while kills < KILLS and not all(call.done() for call in calls):
        await asyncio.sleep(random.random() * 0.2)
        if pids := list_actors(bench, names):
            below = await asyncio.to_thread(tree_of, random.choice(pids))
            seen |= below
            kills += 1
            send_to_all([random.choice([*below])], signal.SIGKILL)
    results = await asyncio.gather(*calls)
    other = [each.error for each in results if each.error_type not in (None, "worker_lost")]
    assert not other
    assert len({result.call_id for result in results}) == 200
    await asyncio.wait_for(bench.becomes_free(), SOON)
    for pid in seen:
        await asyncio.wait_for(has_ended(pid), 2 * SOON)
    return kills
