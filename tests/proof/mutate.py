"""Do the tests find the faults that they are there for?

Each mutation is put into a temporary copy of the tree, where the tests that must find it run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.proof.mutations import MUTATIONS, Mutation

__all__ = ["MutationError", "prove"]

ROOT: Final = Path(__file__).resolve().parents[2]
PARTS: Final = ("tool_engine", "tests", "tools", "pyproject.toml")
"""What the tests need of the tree."""
AT_ONCE: Final = 2
TEST_LIMIT: Final = 120.0
"""Seconds for one test; one that needs longer hangs, which is found too."""
RUN_LIMIT: Final = 600.0
MEMORY_LIMIT: Final = 4 << 30
"""Bytes: a fault may fill a list without end."""
RUN_PYTEST: Final = (
    "import resource, sys, pytest; "
    f"resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_LIMIT}, {MEMORY_LIMIT})); "
    "sys.exit(pytest.main(sys.argv[1:]))"
)
WHERE: Final = "import tool_engine; print(tool_engine.__file__)"
HANGING: Final = re.compile(r"^(?P<test>.+?::.+?) \++ Timeout \++$", re.M)
SUMMARY: Final = re.compile(r"^(?:FAILED|ERROR) (?P<test>.+?::.+?)(?: - .*)?$", re.M)
ALL_PASSED, SOME_FAILED = 0, 1


class MutationError(Exception):
    """A mutation, or what is needed to try it, is wrong."""


class Outcome(NamedTuple):
    """What became of one run of the tests."""

    is_caught: bool
    by: str
    seconds: float


class Tree:
    """A copy of the tree, to be spoilt.

    Args:
        folder: Where to put it.
        root: What to copy.
    """

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.folder = folder.resolve()
        self.test_limit = TEST_LIMIT
        self.run_limit = RUN_LIMIT
        for part in PARTS:
            source, target = root / part, self.folder / part
            if source.is_dir():
                shutil.copytree(source, target)  # with what is compiled: half the time of a run
            else:
                shutil.copy2(source, target)
        self._environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
            "PYTHONPATH": str(self.folder),
            # The bytecode of a file is told from that of its mutation by its time in seconds.
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }

    async def check(self) -> None:
        """The interpreter must take the copy of the package, not the one that is installed."""
        _, printed = await self._run(["-c", WHERE])
        if not Path(printed.strip()).is_relative_to(self.folder):
            raise MutationError(f"the tests would run with {printed.strip()}, not with the copy")

    async def try_out(self, mutation: Mutation) -> Outcome:
        """Runs the tests with the mutation, until the first one fails."""
        path = self.folder / mutation.file
        text = path.read_text(encoding="utf-8")
        path.write_text(mutated(text, mutation), encoding="utf-8")
        try:
            return await self.run_tests(mutation.suite, "-x")
        finally:
            path.write_text(text, encoding="utf-8")

    async def run_tests(self, suite: Sequence[str], *options: str) -> Outcome:
        """Runs a part of the tests; `is_caught` says whether one failed."""
        arguments = ["-v", "--no-header", "--tb=no", "-p", "no:cacheprovider", *options]
        # The other method raises in the test, and an event loop that is at work swallows that.
        arguments += [f"--timeout={self.test_limit:g}", "--timeout-method=thread", *suite]
        began = time.monotonic()
        code, printed = await self._run(["-c", RUN_PYTEST, *arguments])
        seconds = time.monotonic() - began
        if code is None:
            return Outcome(is_caught=True, by=f"the limit of {self.run_limit:g} s", seconds=seconds)
        if code == ALL_PASSED:
            return Outcome(is_caught=False, by="", seconds=seconds)
        if code == SOME_FAILED and (hanging := HANGING.search(printed)) is not None:
            by = f"{hanging['test']} (hangs)"
        elif code == SOME_FAILED and (failing := SUMMARY.search(printed)) is not None:
            by = failing["test"]
        elif "MemoryError" in printed:
            by = f"the limit of {MEMORY_LIMIT >> 30} GiB"
        else:
            raise MutationError(f"pytest ended with {code}:\n{printed}")
        return Outcome(is_caught=True, by=by, seconds=seconds)

    async def _run(self, arguments: Sequence[str]) -> tuple[int | None, str]:
        """The exit code, or None after too long a time, and what was printed."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            cwd=self.folder,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self.run_limit):
                printed, _ = await process.communicate()
        except TimeoutError:
            return None, ""
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return process.returncode, printed.decode(errors="replace")


def mutated(text: str, mutation: Mutation) -> str:
    """The text of a file with a mutation in it.

    Raises:
        MutationError: The mutation no longer fits the file.
    """
    found = text.count(mutation.old)
    if found != 1:
        raise MutationError(
            f"{mutation.name!r}: the old text occurs {found} times in {mutation.file}, not once:\n"
            f"{mutation.old}"
        )
    if mutation.old == mutation.new:
        raise MutationError(f"{mutation.name!r} changes nothing")
    spoilt = text.replace(mutation.old, mutation.new)
    try:
        compile(spoilt, mutation.file, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise MutationError(f"{mutation.name!r} is not Python: {error}") from error
    return spoilt


def chosen(names: Sequence[str]) -> list[Mutation]:
    """The mutations of these names, or all; each is known to fit.

    Raises:
        MutationError: There is no such mutation, two have one name, or one no longer fits.
    """
    by_name = {mutation.name: mutation for mutation in MUTATIONS}
    faults = [f"there is no mutation {name!r}" for name in names if name not in by_name]
    if len(by_name) < len(MUTATIONS):
        faults.append("two mutations have the same name")
    for mutation in MUTATIONS:
        try:
            mutated((ROOT / mutation.file).read_text(encoding="utf-8"), mutation)
        except (MutationError, OSError) as error:
            faults.append(str(error))
    if faults:
        raise MutationError("\n".join(faults))
    return [by_name[name] for name in names] if names else list(MUTATIONS)


async def prove(names: Sequence[str] = ()) -> bool:
    """Tries the mutations, all without `names`, and prints the table; whether all were caught.

    Raises:
        MutationError: A mutation does not fit, or the tests fail without any.
    """
    mutations = chosen(names)
    began = time.monotonic()
    async with trees() as free:
        await check_unspoilt(free, mutations)
        survivors = await try_all(free, mutations)
    caught = len(mutations) - len(survivors)
    minutes = (time.monotonic() - began) / 60
    print(f"{caught} of {len(mutations)} mutations caught, in {minutes:.1f} minutes")
    for name in survivors:
        print(f"SURVIVES: {name}")
    return not survivors


async def try_all(free: asyncio.Queue[Tree], mutations: Sequence[Mutation]) -> list[str]:
    """Prints a row for each mutation, in order; the names of those that no test found."""
    width = max(len(mutation.name) for mutation in mutations)
    print(f"{'mutation':{width}}  seconds  caught by")
    survivors = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(attempt(free, mutation)) for mutation in mutations]
            for mutation, task in zip(mutations, tasks, strict=True):
                outcome = await task
                verdict = outcome.by if outcome.is_caught else "nobody: IT SURVIVES"
                print(f"{mutation.name:{width}}  {outcome.seconds:7.1f}  {verdict}", flush=True)
                if not outcome.is_caught:
                    survivors.append(mutation.name)
    except* MutationError as faults:
        raise MutationError("\n".join(str(fault) for fault in faults.exceptions)) from faults
    return survivors


@contextlib.asynccontextmanager
async def trees() -> AsyncIterator[asyncio.Queue[Tree]]:
    """As many copies as are used at once."""
    free: asyncio.Queue[Tree] = asyncio.Queue()
    with tempfile.TemporaryDirectory(prefix="proof-") as folder:
        for number in range(AT_ONCE):
            tree = Tree(Path(folder) / str(number))
            await tree.check()
            free.put_nowait(tree)
        yield free


async def check_unspoilt(free: asyncio.Queue[Tree], mutations: Sequence[Mutation]) -> None:
    """The tests pass without a mutation; else each of these would seem to be caught."""
    tree = await free.get()
    seconds = 0.0
    for suite in dict.fromkeys(mutation.suite for mutation in mutations):
        outcome = await tree.run_tests(suite)
        seconds += outcome.seconds
        if outcome.is_caught:
            raise MutationError(f"the tests fail without any mutation: {outcome.by}")
    free.put_nowait(tree)
    print(f"without a mutation, all tests pass: {seconds:.1f} s", flush=True)


async def attempt(free: asyncio.Queue[Tree], mutation: Mutation) -> Outcome:
    """Tries one mutation as soon as a tree is free."""
    tree = await free.get()
    try:
        return await tree.try_out(mutation)
    except MutationError as error:
        raise MutationError(f"{mutation.name!r}: {error}") from error
    finally:
        free.put_nowait(tree)
