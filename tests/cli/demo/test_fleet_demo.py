"""The demo of a fleet runs on a real Ray, keeps its promises, and leaves no process behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.effort import IS_WHOLE
from tests.fleet.seen import check_seen_here_alone
from tests.ray_cluster import is_alive, needs_ray, tree_of

ROOT = Path(__file__).parents[3]
BOUND = 100
"""Seconds."""


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Where Ray can make its sockets."""
    folder = Path(tempfile.mkdtemp(prefix="te-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def begin(folder: Path, *words: str) -> subprocess.Popen[str]:
    env = {key: value for key, value in os.environ.items() if key != "TOOL_ENGINE_TOOLS"}
    return subprocess.Popen(
        [sys.executable, "-m", "tool_engine.cli", "demo", "--fleet", *words],
        cwd=folder,
        env={
            **env,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "80",
            "TMPDIR": str(folder),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@needs_ray
@pytest.mark.ray
def test_what_it_shows_until_ctrl_c(short_folder: Path) -> None:
    """Issue 24: in an empty folder; what is killed, is tried again or not, by its effect.

    Its Ray is seen on this machine alone. Ended in the middle of its work: exit code 130, and no
    process of Ray's is left, nor a file.
    """
    process = begin(short_folder)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "count_primes below 100,000,000" in line:
            break
        if "the first call started Ray on this machine" in line:
            check_seen_here_alone(tree_of(process.pid))
    started = tree_of(process.pid)
    assert len(started) > 4
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=BOUND)
    assert process.returncode == 130
    assert "interrupted" in err
    assert not [each for each in started if is_alive(each)]
    assert [*short_folder.iterdir()] == []
    text = " ".join("".join(lines).split())
    assert "NOT" not in text
    for fact in (
        "all 6 were answered by workers",
        "at attempt 2",
        "it ran again, on another worker, within the same call",
        "worker_lost in",
        "it did not run again: it may have published already",
    ):
        assert fact in text
    assert max(map(len, lines)) <= 81, "with its end"
    assert len(lines) <= 100


@needs_ray
@pytest.mark.ray
@pytest.mark.skipif(not IS_WHOLE, reason="the same steps in another form: make proof")
def test_what_the_fleet_kept_as_json(short_folder: Path) -> None:
    """To its end: the deadline, and that the fleet ended with its engine, too."""
    process = begin(short_folder, "--json")
    out, err = process.communicate(timeout=BOUND)
    said = json.loads(out)
    assert (process.returncode, err) == (0, "")
    assert {each["is_kept"] for each in said["promises"]} == {True}
    assert said["statistics"]["by_tool"]["publish_primes"]["failed"] == 1
    promises = str(said["promises"])
    for fact in (
        "the caller had its result by the deadline",
        "the work was ended where it ran, and its slot is free",
        "the fleet ended with its engine, and its",
    ):
        assert fact in promises
    assert [*short_folder.iterdir()] == []


def test_without_ray_it_says_how_to_get_it(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOL_ENGINE_TOOLS", raising=False)
    monkeypatch.setattr("tool_engine.cli.demo.fleet_steps.find_spec", lambda _: None)
    ended = command("demo", "--fleet")
    assert ended.code == 1
    assert "error: the demo of a fleet needs Ray: pip install 'tool-engine[ray]'" in ended.err
    ended = command("demo", "--fleet", "--json")
    assert json.loads(ended.out)["error"]["type"] == "missing_extra"
