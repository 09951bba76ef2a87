"""Is every damaged tool file read as what it says, or refused with its place?

Tens of thousands of mutants of right files go through the loader. A mutant that is answered as none
before it is damaged further, so that the search goes deeper. Where atheris is installed
(`pip install atheris`), half of the time is its: it is guided by the branches that a text takes.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from tests.properties.definition_judge import judge
from tests.properties.definition_mutants import SAMPLES, mutant
from tool_engine import DefinitionError

__all__ = ["main", "prove"]

SECONDS: Final = 60.0
SLOW: Final = 1.0
"""Seconds that no text may take; measured on the processor, which other programs do not share."""
POOL: Final = 2_000
RIGHT: Final = 0.7
"""How many mutants are made of right files; the others of what taught something."""
_DETAIL: Final = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9]+")
_ROOT: Final = Path(__file__).parents[2]


class Search:
    """Mutants of mutants, for as long as they teach something.

    Args:
        seed: Of the damage; one seed gives the same mutants in the same order.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - a test, no secret
        self._pool = list(SAMPLES)
        self._known: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def run(self, seconds: float) -> None:
        """Tries mutants until the time is over, or a few have failed."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and len(self.failures) < 5:
            self.step()

    def step(self) -> None:
        """Tries one mutant."""
        source = SAMPLES if self._random.random() < RIGHT else self._pool
        text = mutant(self._random.choice(source), self._random, self._pool)
        started = time.process_time()
        try:
            found = judge(text)
        except Exception:  # noqa: BLE001 - whatever it is, it must not have happened
            self.failures.append(f"{traceback.format_exc()}\nThe text:\n{text!r}\n")
            return
        if time.process_time() - started > SLOW:
            self.failures.append(f"It took longer than {SLOW} s. The text:\n{text!r}\n")
        answer = "tools"
        if isinstance(found, DefinitionError):
            answer = _DETAIL.sub("*", found.problems[0].message)[:80]
        self.counts["accepted" if answer == "tools" else "refused"] += 1
        if answer not in self._known and len(text) < 20_000:
            self._known.add(answer)
            self._keep(text)

    def _keep(self, text: str) -> None:
        if len(self._pool) < POOL:
            self._pool.append(text)
        else:
            self._pool[self._random.randrange(len(SAMPLES), POOL)] = text

    def __str__(self) -> str:
        return (
            f"{self.counts.total()} mutants: {self.counts['accepted']} accepted, "
            f"{self.counts['refused']} refused in {len(self._known)} ways"
        )


async def prove(seconds: float, seed: int) -> bool:
    """Damages definitions for so long; prints what came of it, and says whether all was right."""
    has_atheris = importlib.util.find_spec("atheris") is not None
    search = Search(seed)
    await asyncio.to_thread(search.run, seconds / 2 if has_atheris else seconds)
    verdict = "all agreed with an independent reading" if not search.failures else "NOT all right"
    print(f"definitions: {search}; {verdict} (seed {seed})")
    for failure in search.failures:
        print(failure)
    if search.failures or not has_atheris:
        return not search.failures
    return await asyncio.to_thread(_run_guided, seconds / 2, seed)


def _run_guided(seconds: float, seed: int) -> bool:
    """The same by atheris, which needs a process of its own: it never returns."""
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(SAMPLES):
            Path(folder, str(number)).write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "tests.proof.definitions", "--guided"]
        limits = [f"-max_total_time={max(1, int(seconds))}", f"-seed={seed}", "-rss_limit_mb=1024"]
        paths = os.pathsep.join([str(_ROOT), *filter(None, sys.path)])
        done = subprocess.run(
            [
                *command,
                *limits,
                "-max_len=4000",
                "-timeout=10",
                f"-artifact_prefix={folder}/",
                folder,
            ],
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    lines = done.stderr.splitlines()
    print("definitions, guided by atheris:", *(line for line in lines if line.startswith("Done ")))
    if done.returncode:
        print(done.stdout, "\n".join(lines[-60:]))
    return done.returncode == 0


def _fuzz(arguments: Sequence[str]) -> None:
    atheris = importlib.import_module("atheris")
    # What is already loaded is not watched; the reader of YAML is loaded on first use.
    with atheris.instrument_imports(include=["tool_engine.catalog"]):
        importlib.import_module("tool_engine.catalog.yaml.strict_yaml")
    atheris.Setup([sys.argv[0], *arguments], lambda data: judge(data) and None)
    atheris.Fuzz()


def main(arguments: Sequence[str]) -> bool:
    """`python -m tests.proof.definitions`: as a part of `tests.proof`, with another length."""
    if arguments[:1] == ["--guided"]:
        _fuzz(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m tests.proof.definitions", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long")
    parser.add_argument("--seed", type=int, default=1, help="of the damage")
    options = parser.parse_args(arguments)
    return asyncio.run(prove(options.seconds, options.seed))


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
