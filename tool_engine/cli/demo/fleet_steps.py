"""What does the demo show of tools whose work runs on a fleet?"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tool_engine.cli.demo.stage import Stage
from tool_engine.cli.demo.steps import Steps, draw_slots
from tool_engine.cli.records.record_line import fit_encoding
from tool_engine.cli.records.stats_command import make_group_table
from tool_engine.config import ConcurrencyConfig
from tool_engine.errors import MissingExtraError
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.event import ToolEngineEventType
from tool_engine.model.progress import ToolProgress

FLEET: Final = "local"
"""The setting `fleet`: on this machine, and on its loopback address alone."""
BUCKET: Final = "fleet"
CONCURRENCY: Final = ConcurrencyConfig(
    max_concurrent=8, queue_size=20, queue_timeout=300.0, bucket_limits={BUCKET: 2}
)
"""Calls that compute for a second wait for one another for long on a busy machine."""
_OWN: Final = files("tool_engine.cli.demo").joinpath("fleet_tools")
_TOOLS: Final = ("count_primes", "publish_primes")
_BELOW: Final = 400_000
"""Primes below this keep a processor busy for about a second."""
_NEVER: Final = 100_000_000
"""Those below this are not counted within a deadline."""
_CALLS: Final = 6
_DEADLINE: Final = 1.0
"""Seconds."""
_PATIENCE: Final = 30.0
"""Seconds for what the operating system does at once, on a busy machine too."""


def copy_fleet_tools(target: Path) -> str:
    """Copy the definitions of the fleet's demo; return where they came from.

    Raises:
        MissingExtraError: Ray is not installed.
    """
    if find_spec("ray") is None:
        raise MissingExtraError("the demo of a fleet needs Ray: pip install 'tool-engine[ray]'")
    for name in _TOOLS:
        text = _OWN.joinpath(f"{name}.yaml").read_text("utf-8")
        (target / f"{name}.yaml").write_text(text, encoding="utf-8")
    return "two definitions that come with the package"


async def _start_fleet(stage: Stage) -> None:
    stage.expect(len(stage.engine.list_all()) == len(_TOOLS), "both tools are loaded")
    stage.say("count_primes.yaml:")
    for line in stage.read("count_primes").splitlines():
        if line.startswith(("effect:", "retry:", "  config:")):
            stage.say_line(f"  {line}")
    started = time.monotonic()
    result = await stage.agent.execute("count_primes", {"below": 100})
    seconds = time.monotonic() - started
    stage.say(f"the first call started Ray on this machine, and ended {seconds:.1f} s later:")
    _show_end(stage, result)
    stage.expect(result.is_success, "a worker of the fleet answered, and not the engine's process")


async def _fill_fleet(stage: Stage) -> None:
    slots = CONCURRENCY.bucket_limits[BUCKET]
    stage.say(
        f"{_CALLS} calls that compute for about a second; bucket {BUCKET!r} has {slots} slots"
    )

    async def ping() -> str:
        """Answers at once, in the engine's process."""
        return "pong"

    stage.engine.tool(effect="read")(ping)
    call = ("count_primes", {"below": _BELOW})
    pings: list[ToolExecutionResult] = []
    async with asyncio.TaskGroup() as group:
        batch = group.create_task(
            stage.agent.execute_batch([call] * _CALLS, parallel=True, max_parallel=_CALLS)
        )
        while not batch.done():
            pings.append(await stage.agent.execute("ping"))
            await asyncio.wait([batch], timeout=0.1)
    results = batch.result()
    stage.say("who held which slot, from the left to the right:")
    for line in draw_slots(results, slots, stage.console.width - 20):
        stage.say(f"  {fit_encoding(line, stage.console)}")
    processes = {result.output["process"] for result in results if result.is_success}
    slowest = max(ping.execution_time for ping in pings)
    stage.say(f"they ran in the processes {_join_numbers(processes)}")
    stage.expect(
        all(result.is_success for result in results) and os.getpid() not in processes,
        f"all {_CALLS} were answered by workers",
    )
    stage.expect(
        all(ping.is_success for ping in pings),
        f"the engine was free: {len(pings)} pings meanwhile, the slowest in {slowest * 1e3:.1f} ms",
    )


async def _kill_worker(stage: Stage) -> None:
    result, killed = await _call_and_kill(stage, "count_primes")
    _show_end(stage, result)
    stage.expect(
        result.is_success and result.output["process"] not in killed,
        "effect: read, so it ran again, on another worker, within the same call",
    )
    result, killed = await _call_and_kill(stage, "publish_primes")
    _show_end(stage, result)
    stage.expect(
        result.error_type == "worker_lost" and len(killed) == 1,
        "effect: write, so it did not run again: it may have published already",
    )


async def _meet_deadline(stage: Stage) -> None:
    # Those of the last step were killed, or had to make room; the start of one is no work yet.
    await stage.agent.execute("count_primes", {"below": 100})
    stage.say(f"count_primes below {_NEVER:,}, with {_DEADLINE:g} s of time")
    context = ToolExecutionContext(caller_id="you", caller_type="agent", timeout=_DEADLINE)
    result = await stage.engine.execute("count_primes", {"below": _NEVER}, context)
    _show_end(stage, result)
    stage.expect(result.error_type == "timeout", "the caller had its result by the deadline")
    is_free = await _wait_until(lambda: _count_held(stage) == 0)
    had_begun = "it had not begun" not in (result.error or "")
    stage.expect(is_free and had_begun, "the work was ended where it ran, and its slot is free")


async def _end_fleet(stage: Stage) -> None:
    statistics = stage.statistics = await stage.engine.get_call_statistics()
    stage.show(make_group_table("", "tool", statistics["by_tool"]))
    total = statistics["total_records"]
    stage.expect(
        stage.count_finished() == total, f"{total} calls: one final event and one record each"
    )
    workers: set[int] = set()
    for event in stage.events:
        if event.event_type is ToolEngineEventType.EXECUTION_PROGRESS:
            _note_process(workers, event.data.get("message"))
    await stage.engine.close()
    is_over = await _wait_until(lambda: not any(map(_is_alive, workers)))
    stage.expect(is_over, f"the fleet ended with its engine, and its {len(workers)} workers")


FLEET_STEPS: Final[Steps] = (
    ("A tool says in its file where it runs", _start_fleet),
    ("The engine decides when a call runs, and stays free itself", _fill_fleet),
    ("A worker is killed while it works", _kill_worker),
    ("A deadline holds where the work is, too", _meet_deadline),
    ("The books", _end_fleet),
)


async def _call_and_kill(stage: Stage, name: str) -> tuple[ToolExecutionResult, set[int]]:
    """Call a tool, and kill the first process that says that it works on it."""
    killed: set[int] = set()

    def kill(progress: ToolProgress) -> None:
        if not killed:
            _note_process(killed, progress.message)
            for process in killed:
                stage.say(f"{name}: {progress.message} works on it; kill -9 {process}")
                os.kill(process, signal.SIGKILL)

    result = await stage.agent.execute(name, {"below": _BELOW}, on_progress=kill)
    return result, killed


def _note_process(processes: set[int], message: str | None) -> None:
    word = (message or "").removeprefix("process ")
    if word.isdecimal():
        processes.add(int(word))


def _show_end(stage: Stage, result: ToolExecutionResult) -> None:
    attempts = result.metadata.get("attempts", 1)
    again = f" at attempt {attempts}" if attempts > 1 else ""
    took = f"{result.execution_time:.2f} s"
    if result.is_success:
        found = f"{result.output['primes']} primes, by process {result.output['process']}"
        stage.say(f"  {result.outcome.value} in {took}{again}: {found}", "green")
    else:
        stage.say(
            f"  {result.error_type} in {took}{again}: {result.error}",
            "yellow",
        )


def _count_held(stage: Stage) -> int:
    metrics = stage.engine.controller.get_metrics()
    return metrics.current_concurrent + metrics.zombies


def _join_numbers(numbers: Iterable[int]) -> str:
    return " and ".join(map(str, sorted(numbers)))


async def _wait_until(is_so: Callable[[], bool]) -> bool:
    """Wait for what rings no bell, a while at most; return whether it came."""
    until = time.monotonic() + _PATIENCE
    while not is_so():
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.02)
    return True


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # another user's, which has taken the number
    return True
