"""Is each file of tests in exactly one part of `make test`, and does each room of a list exist?"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest

from tests import __main__ as whole_run
from tests import warm
from tests.__main__ import (
    AT_ONCE,
    IN_MEMORY,
    NOT_QUICK,
    OTHERS,
    OWN_RAY,
    PARTS,
    TESTS,
    WAITING_AT_ONCE,
    Ended,
    Part,
    is_quick,
    list_test_files,
    parts_of,
    quick_parts,
    run_all,
)
from tests.meta.sources import ROOT

FILES = list_test_files()


def test_each_file_is_in_one_part() -> None:
    """No file is left out or run twice, and no part is empty."""
    parts = parts_of(FILES)
    counts = Counter(file for part in parts for file in part.files)
    assert counts == Counter(str(file.relative_to(ROOT)) for file in FILES)
    assert all(part.files for part in parts)


def test_what_is_named_exists() -> None:
    """A room or a file that was renamed is found in the lists by its old name."""
    rooms = {*PARTS, *IN_MEMORY} - {OTHERS, OWN_RAY}
    assert [room for room in rooms if not (TESTS / room).is_dir()] == []
    assert [pattern for pattern in NOT_QUICK if not any(f.match(pattern) for f in FILES)] == []


def test_what_bounds_the_loop_is_marked() -> None:
    """What fails beside others is tried alone, wherever it stands."""
    texts = {file: file.read_text("utf-8") for file in FILES if file != Path(__file__)}
    bounds = [file for file, text in texts.items() if "Heartbeat()" in text or "beats_on(" in text]
    assert [file for file in bounds if "mark.beats" not in texts[file]] == []


def test_quick() -> None:
    """What is quick is most of the rooms in memory, and nothing that starts a process there."""
    quick = [file for part in quick_parts(FILES) for file in part.files]
    assert len(quick) == len(set(quick)) > 150
    assert {file.split("/")[1] for file in quick} == set(IN_MEMORY)
    for file in ("calls/test_blocking_threads.py", "session/test_resuming_elsewhere.py"):
        assert not is_quick(TESTS / file)


ONCE = """
from pathlib import Path
def test_fine(): pass
def test_late():
    with Path(__file__).with_name("been").open("a+") as been:
        assert been.write("x") and been.tell() > 1
"""


@pytest.mark.parametrize(
    ("late", "code", "total"),
    [(ONCE, 0, "2 passed"), ("def test_late(): assert False", 1, "1 failed")],
)
async def test_what_is_late_runs_again_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], late: str, code: int, total: str
) -> None:
    """A heartbeat that fails beside others is judged alone, and fails the run if it fails there."""
    (tmp_path / "test_late.py").write_text(late)
    words = ("-o", f"cache_dir={tmp_path}/cache", "-p", "no:langsmith_plugin")
    part = Part("late", [str(tmp_path / "test_late.py")], words, is_timed=True)
    environment = {**os.environ, "COVERAGE_FILE": f"{tmp_path}/coverage"}
    assert await run_all([part], [], environment, warm._server()) == code
    said = capsys.readouterr().out
    assert f"\n===== {total}" in said
    assert said.count("-- late: ") == 2
    assert said.count("\nFAILED ") == code


async def test_a_lost_part_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A process that ends as if tests had failed, and says none, is said to be lost."""
    (tmp_path / "test_gone.py").write_text("import os\ndef test_gone(): os._exit(1)")
    words = ("-p", "no:cacheprovider", "-p", "no:langsmith_plugin", "-s")
    part = Part("gone", [str(tmp_path / "test_gone.py")], words)
    environment = {**os.environ, "COVERAGE_FILE": f"{tmp_path}/coverage"}
    assert await run_all([part], [], environment, warm._server()) == 1
    assert "\nERROR gone ended with 1" in capsys.readouterr().out


async def test_as_many_run_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that wait so many at once, and others in their places when none is left."""
    running: list[str] = []
    seen: list[tuple[int, int]] = []

    async def run(part: Part, *_more: object) -> Ended:
        running.append(part.name)
        waits = running.count("waits")
        seen.append((waits, len(running) - waits))
        for _ in range(3):
            await asyncio.sleep(0)
        running.remove(part.name)
        return Ended(0, "1 passed")

    monkeypatch.setattr(whole_run, "run_part", run)
    parts = [Part("waits", [], waits=True)] * 4 + [Part("computes", [])] * 30
    assert await run_all(parts, [], {"COVERAGE_FILE": ""}) == 0
    assert max(waits for waits, _ in seen) == WAITING_AT_ONCE
    assert max(computes for waits, computes in seen if waits == WAITING_AT_ONCE) == AT_ONCE
    assert max(map(sum, seen)) == AT_ONCE + WAITING_AT_ONCE
    assert max(computes for waits, computes in seen if not waits) == AT_ONCE + WAITING_AT_ONCE
