"""How are all tests run, in as little time as two processors allow? See `make help`.

The files are divided into parts, and a process collects and runs one part at a time: to collect
all of them takes half a minute of processor time, which each worker of pytest-xdist spends again.
The processes are forks of one that has imported what most of them need.
"""

from __future__ import annotations

import argparse
import asyncio
import compileall
import math
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.effort import VARIABLE
from tests.measuring import FOLDER, write_costs
from tests.postgres_server import MADE
from tests.turns import TURN
from tests.warm import ADDRESS, SDK, Program, Server

TESTS = Path(__file__).parent
ROOT = TESTS.parent
AT_ONCE = max(3, os.cpu_count() or 1)
"""More than processors: a test computes for a third of its time, and waits for processes and
sockets in the rest of it.
"""
WAITING_AT_ONCE = 2
"""Beside them, of the rooms that do little but wait: for servers that start, end and are killed."""
FLEET, OWN_RAY = "fleet", "own Ray"
WAITING = (FLEET, OWN_RAY, "server", "browser", "documents")

OTHERS = "others"
PARTS = {
    OTHERS: 5,
    "executors": 3,
    "contracts": 5,
    "security": 3,
    "cli": 4,
    "knowledge": 3,
    "catalog": 2,
    "properties": 1,
    "session": 1,
    "calls": 2,
    "agent": 2,
    "meta": 1,
    "protocols": 2,
    "integration": 1,
    "integrations": 1,
    FLEET: 2,
    OWN_RAY: 1,
    "server": 2,
    "browser": 1,
    "documents": 1,
}
"""The rooms that take long, from the longest on, and in how many parts; the others share parts."""

IN_MEMORY = (
    "admission",
    "approval",
    "backends",
    "calls",
    "events",
    "model",
    "output",
    "protocols",
    "redaction",
    "session",
    "sources",
    "validation",
)
"""What `make quick` runs: no documents, no databases, no processes."""
NOT_QUICK = (
    "test_adaptive.py",
    "test_calls.py",
    "test_cancel_sweep*.py",
    "test_cancellation.py",
    "test_compression.py",
    "test_consented_code.py",
    "test_cutting.py",
    "test_cycle.py",
    "test_formatting.py",
    "test_hostile_arguments.py",
    "test_known.py",
    "test_layout.py",
    "test_many_calls.py",
    "test_markdown.py",
    "test_names.py",
    "test_names_of_the_package.py",
    "test_overload.py",
    "test_foreign_values.py",
    "test_plain_calls.py",
    "test_policy.py",
    "test_properties.py",
    "test_random_members.py",
    "test_result_limits_in_threads.py",
    "test_saved_state.py",
    "test_saving.py",
    "test_scanner.py",
    "test_scenarios.py",
    "test_sdk.py",
    "test_secret_names.py",
    "test_simulation.py",
    "test_single_flight.py",
    "test_snapshot.py",
    "test_spelling.py",
    "test_stop_sweep.py",
    "test_storm.py",
    "test_subject.py",
    "test_text.py",
    "test_view.py",
    "test_which_engine.py",
    "test_write_only.py",
)
"""Nor what takes seconds: every moment of a call, a service for minutes, long texts, an SDK."""
STARTS = re.compile(r"sys\.executable|os\.fork\(|tests\.warm|sqlite:///|postgres_server")
"""Words of a test that starts a process or uses a database."""
ON_A_FLEET = re.compile(r"\bray_cluster: RayCluster|\"ray_cluster\"|tests\.fleet\.samples")
"""Words of tests that need nodes of Ray: they are started once for each part of these."""
WITH_OWN_RAY = "needs_ray"
"""A word of tests that start a Ray of their own: beside those."""
UNUSED = ("anyio", "sybil", "xdist", "xdist.looponfail")
"""Plugins of pytest that cost each test a little."""
IMPORTED = ("hypothesis.stateful", "pytest_asyncio.plugin", "structlog.testing")
"""What all tests import, beside the package."""
IMPORTED_BY_SOME = (
    *SDK,
    "aiohttp.web",
    "anthropic.types",
    "asyncpg",
    "google.genai",
    "openai.types",
    "sqlalchemy.dialects.postgresql",
)
"""What some tests import that takes long."""
KNOWN_CONSTANTS = "tests.warm_constants"
"""Imported behind all else."""
COMMANDS = "tests.warm_commands"
"""What programs load: each that is started would spend up to 0.3 s on it."""
SUMMARY = re.compile(r"^(?:\d+ \w+, )*\d+ \w+ in [\d.]+s", re.MULTILINE)
"""The line of pytest that says how many tests ended in which way."""
FAILURES = re.compile(r"^(?:FAILED|ERROR) |^held up beside others", re.MULTILINE)
"""What a part that did not pass says, unless it was lost."""
COUNT = re.compile(r"(\d+) ([a-z]+)")
AGAIN = "--last-failed"

BEATS = "beats"
"""The mark of tests that bound how long the event loop is held up."""
MEMORY = Path("/dev/shm")  # noqa: S108 - what lies below it has a name that is a secret
ROOM = 4 * 2**30
"""Bytes; a run needs less than one of them."""


@dataclass
class Part:
    """Files that one process runs, and which of their tests."""

    name: str
    files: list[str]
    words: tuple[str, ...] = ()
    is_timed: bool = False
    """What fails beside others is looked at again alone; without coverage, which takes time."""
    waits: bool = False
    """Takes little time of a processor."""


def list_test_files() -> list[Path]:
    """Every file of tests."""
    return sorted(TESTS.rglob("test_*.py"))


def is_quick(file: Path) -> bool:
    """Whether `make quick` runs a file: all of it is in memory, and takes no long time."""
    if file.relative_to(TESTS).parts[0] not in IN_MEMORY:
        return False
    is_long = any(file.match(pattern) for pattern in NOT_QUICK)
    return not is_long and STARTS.search(file.read_text("utf-8")) is None


def parts_of(files: Sequence[Path]) -> list[Part]:
    """Divides files into parts; those of a long room come first."""
    rooms: dict[str, list[str]] = {room: [] for room in PARTS}
    for file in files:
        room, text = file.relative_to(TESTS).parts[0], file.read_text("utf-8")
        if WITH_OWN_RAY in text:
            room = OWN_RAY
        elif ON_A_FLEET.search(text):
            room = FLEET
        rooms[room if room in PARTS else OTHERS].append(str(file.relative_to(ROOT)))
    parts = []
    for room, found in rooms.items():
        count = PARTS[room]
        parts += [
            Part(
                f"{room} {number + 1} of {count}",
                found[number::count],
                ("-m", f"not {BEATS}"),
                waits=room in WAITING,
            )
            for number in range(count)
            if found[number::count]
        ]
    return parts


def heartbeats(folder: Path) -> Part:
    """Tests that bound how long the loop is held up; `folder` keeps which of them failed."""
    # To collect the others takes seconds.
    found = [file for file in list_test_files() if f"mark.{BEATS}" in file.read_text("utf-8")]
    words = ("-m", BEATS, "-o", f"cache_dir={folder / 'heartbeats'}")
    return Part("heartbeats", [str(file.relative_to(ROOT)) for file in found], words, is_timed=True)


def quick_parts(files: Sequence[Path]) -> list[Part]:
    """Divides what is quick into as few parts as keep the processors busy."""
    quick = [str(file.relative_to(ROOT)) for file in files if is_quick(file)]
    count = AT_ONCE
    return [Part(f"quick {n + 1} of {count}", quick[n::count]) for n in range(count)]


class Ended(NamedTuple):
    """How a part ended."""

    code: int
    summary: str
    """The last line of pytest."""


async def run_pytest(
    words: Sequence[str], environment: Mapping[str, str], server: Server | None
) -> tuple[str, int, float]:
    """What pytest says, its exit code and processor time; in a fork of `server`, if any."""
    command = ["-m", "pytest", "-q", *words]
    if server is None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *command),
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        said = (await process.communicate())[0]
        return said.decode(errors="replace").strip(), process.returncode or 0, math.nan
    # What is imported already cannot be made to say more about its asserts.
    command += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    reads, writes = os.pipe()
    with open(reads, "rb") as output, open(os.devnull, "rb") as nothing:  # noqa: ASYNC230, PTH123 - at once
        streams = (nothing.fileno(), writes, writes)
        program = Program(command, cwd=ROOT, env=environment, streams=streams, server=server)
        os.close(writes)
        try:
            said = await asyncio.to_thread(output.read)
            code = await asyncio.to_thread(program.wait)
            return said.decode(errors="replace").strip(), code, program.processor_time
        except BaseException:
            program.send_signal(signal.SIGINT)  # it is in another session: Ctrl-C is not for it
            raise


async def run_part(
    part: Part, words: Sequence[str], environment: Mapping[str, str], server: Server | None
) -> Ended:
    """Runs one part in a process, and prints what it says."""
    if part.is_timed:
        words = [word for word in words if not word.startswith("--cov")]
    began = time.monotonic()
    said, ended, used = await run_pytest([*words, *part.words, *part.files], environment, server)
    code, summary = abs(ended), (SUMMARY.findall(said) or [""])[-1]
    if part.is_timed and code == 1 and AGAIN not in words:
        said = f"{summary}\nheld up beside others, or alone, too? what failed runs again, alone"
        summary = re.sub(r"\d+ failed", "", summary)
    took = f"{time.monotonic() - began:.0f} s, {used:.0f} s of a processor"
    print(f"\n-- {part.name}: {took}\n{said}", flush=True)
    if code > 1 or (code and not FAILURES.search(said)):
        last = said.rpartition("\n")[2]
        print(f"ERROR {part.name} ended with {ended}; it said last: {last}", flush=True)
    return Ended(code, summary)


async def run_all(
    parts: Sequence[Part],
    words: Sequence[str],
    environment: Mapping[str, str],
    server: Server | None = None,
) -> int:
    """Runs the parts, some at a time; prints how many tests passed."""
    began = time.monotonic()
    turn, waiting = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(WAITING_AT_ONCE)
    to_begin = {number for number, part in enumerate(parts) if part.waits}

    async def run_in_turn(number: int, part: Part) -> Ended:
        async with waiting if part.waits else turn:
            to_begin.discard(number)
            own = {"COVERAGE_FILE": f"{environment['COVERAGE_FILE']}.{number}"}
            ended = await run_part(part, words, {**environment, **own}, server)
        if part.waits and not to_begin:
            turn.release()  # one that computes takes its place
        return ended

    ended = await asyncio.gather(*(run_in_turn(*each) for each in enumerate(parts)))
    codes = [each.code for each in ended]
    for number, part in enumerate(parts):
        if part.is_timed and codes[number] == 1:
            ended.append(await run_part(part, [*words, AGAIN], environment, server))
            codes[number] = ended[-1].code
    counts: Counter[str] = Counter()
    for _, line in ended:
        counts.update({kind: int(count) for count, kind in COUNT.findall(line)})
    total = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    print(f"\n===== {total or 'no test passed'} in {time.monotonic() - began:.0f} s =====")
    return max(codes)


def report_coverage(environment: Mapping[str, str]) -> int:
    """Puts together what the parts covered; fails below the bound of pyproject.toml."""
    coverage = [sys.executable, "-m", "coverage"]
    combined = subprocess.run([*coverage, "combine", "-q"], cwd=ROOT, env=environment, check=False)
    reported = subprocess.run([*coverage, "report"], cwd=ROOT, env=environment, check=False)
    return max(combined.returncode, reported.returncode)


def folder_in_memory() -> Path | None:
    """Where files of tests cost no disk; None: the machine offers no such place."""
    try:
        is_fit = not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC and os.access(MEMORY, os.W_OK)
        return MEMORY if is_fit and shutil.disk_usage(MEMORY).free > ROOM else None
    except OSError:
        return None


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """What is asked for on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--quick", action="store_true", help="only the rooms that run in memory")
    kind.add_argument(
        "--coverage", action="store_true", help="all random cases, and branch coverage"
    )
    kind.add_argument("--all", action="store_true", help="also what takes long and has no turn")
    kind.add_argument(
        "--costs", action="store_true", help="the same, and write down how long each test takes"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Runs what is asked for; 0 if all of it passed."""
    options = options_of(arguments)
    effort = os.environ.get(VARIABLE, "usual")
    unused, measured = [*UNUSED, "pytest_cov"], []
    if options.costs:
        measured = ["-p", "tests.measuring"]
    if options.quick:
        effort = "quick"
    elif options.coverage:
        effort = "whole"
        unused, measured = [*UNUSED], ["--cov", "--cov-branch", "--cov-report="]
        measured += ["--cov-fail-under=0"]  # of a part
    words = [word for name in unused for word in ("-p", f"no:{name}")] + measured
    # In the background of a shell it is ignored, and tests of Ctrl-C would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Else each of a thousand processes does it, where PYTHONDONTWRITEBYTECODE is set.
    compileall.compile_dir(ROOT / "tool_engine", quiet=1)
    # One order of sets in all parts, and a number to repeat it with.
    seed = os.environ.get("PYTHONHASHSEED") or str(secrets.randbelow(2**32))
    turn = os.environ.get(TURN) or str(secrets.randbelow(2**32))
    turn = "" if any(vars(options).values()) else turn  # of `make test` alone
    print(f"PYTHONHASHSEED={seed} {VARIABLE}={effort} {TURN}={turn}", flush=True)
    with tempfile.TemporaryDirectory(prefix="tests-", dir=folder_in_memory()) as name:
        folder = Path(name)
        folder.chmod(0o711)  # the database server may run as another user
        environment = {**os.environ, "PYTHONHASHSEED": seed, VARIABLE: effort, "TMPDIR": name}
        environment |= {MADE: name, TURN: turn, FOLDER: str(folder / "costs")}
        (folder / "costs").mkdir()
        environment["COVERAGE_FILE"] = str(folder / ".coverage")
        files = list_test_files()
        parts = quick_parts(files) if options.quick else [heartbeats(folder), *parts_of(files)]
        os.environ.update(environment)
        # Coverage has to come before what is covered.
        forking = None
        if not options.coverage:
            more = () if options.quick else IMPORTED_BY_SOME
            forking = Server(folder / "parts", (*IMPORTED, *more, KNOWN_CONSTANTS))
        warm = None if options.quick else Server(folder / "warm", (COMMANDS,))
        environment |= {} if warm is None else {ADDRESS: str(folder / "warm")}
        code = asyncio.run(run_all(parts, words, environment, forking))
        for server in filter(None, (forking, warm)):
            server.close()
        if options.costs:
            write_costs(folder / "costs")
        return max(code, report_coverage(environment)) if options.coverage else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
