"""The demo is the main job: offline, real, over in seconds, and honest about what fails."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tool_engine.cli.demo import demo_command as demo
from tool_engine.cli.demo import steps as demo_steps
from tool_engine.cli.demo.demo_command import HOST, demo_service
from tool_engine.cli.demo.stage import Stage

ROOT = Path(__file__).parents[3]
FACTS = (
    "tools are loaded from YAML files",
    "echo, calculator and get_weather answered, in order",
    "is a private address",
    "http_request 1.1.0 answers what 1.0.0 refused",
    "refused before it ran, with all findings at once",
    "calls waited for a slot",
    "1 call found the queue full and was refused",
    "all the others were answered",
    "100% 5 of 5 page 5",
    "the caller heard how far the call had come, up to its end",
    "the engine published a load_error",
    "the last good echo answers: version 1.0.0",
    "the new echo answers: version 2.0.0",
    "no slot is held any more",
    "one final event and one record each",
)


def arguments(*words: str) -> list[str]:
    return [sys.executable, "-m", "tool_engine.cli", *words]


def test_the_demo_does_what_it_says(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 2, the main job: every step keeps its promise, on the files in `tools/`."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("WEATHER_URL", "http://before.example")
    monkeypatch.setattr(demo_steps, "_SECONDS", 0.3)
    before = {path: path.read_bytes() for path in (ROOT / "tools").iterdir()}
    ended = command("--tools", "tools", "demo")
    text = " ".join(ended.out.split())
    assert "NOT" not in text, ended.out
    assert ended.code == 0
    for fact in FACTS:
        assert fact in text
    assert "5 execution_queued" in text
    assert "number 1 waits: bucket 'http' is full (2 of 2); about" in text
    assert "number 2 waits: number 1 is the first of its line" in text
    assert "slot 1 ▕1" in text
    assert "Now yours: tool-engine new my_tool" in text
    assert {path: path.read_bytes() for path in (ROOT / "tools").iterdir()} == before
    assert os.environ["WEATHER_URL"] == "http://before.example"


def test_the_demo_runs_where_there_are_no_tools(tmp_path: Path) -> None:
    """In an empty folder, to a pipe: the packaged definitions, plain text, 80 columns, 20 s."""
    env = {key: value for key, value in os.environ.items() if key != "TOOL_ENGINE_TOOLS"}
    env["PYTHONPATH"] = str(ROOT)
    ended = subprocess.run(
        arguments("demo"),
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert ended.stderr == ""
    assert "\x1b" not in ended.stdout
    lines = ended.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 120
    assert "{'" not in ended.stdout
    assert "running 2 of 2" in ended.stdout
    assert float(ended.stdout.rsplit("Done in ", 1)[1].split(" s")[0]) < 20


def test_what_was_kept_as_json(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --json it prints nothing else: each promise, and what the calls add up to."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(demo_steps, "_SECONDS", 0.1)
    ended = command("--tools", "tools", "demo", "--json")
    told = json.loads(ended.out)
    assert ended.code == 0
    assert {each["is_kept"] for each in told["promises"]} == {True}
    assert [each["step"] for each in told["promises"]][-1] == "The books"
    assert told["statistics"]["total_records"] == 17
    refused = command("--tools", "tools", "demo", "--json", "--studio")
    assert refused.code == 2
    assert "give one of the two" in refused.out


def test_a_terminal_sees_bars_without_colour_when_it_wants_none() -> None:
    """On a terminal the progress moves; with NO_COLOR nothing is coloured."""
    master, slave = pty.openpty()
    env = {**os.environ, "NO_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "80"}
    process = subprocess.Popen(arguments("demo"), cwd=ROOT, env=env, stdout=slave, stderr=slave)
    os.close(slave)
    output = b""
    try:
        while chunk := os.read(master, 65536):
            output += chunk
    except OSError:
        pass  # the other side has closed: the process has ended
    finally:
        os.close(master)
    assert process.wait(timeout=30) == 0
    text = output.decode()
    assert "running" in text
    assert "2 of 2" in text
    assert "\x1b[3" not in text.replace("\x1b[3A", "").replace("\x1b[3m", "")


@pytest.mark.parametrize("seen", ["A sub-agent runs a batch", "running 2 of 2"])
def test_ctrl_c_ends_the_demo(seen: str) -> None:
    """Exit code 130 at any step, no traceback, nothing left in the temporary folder."""
    process = subprocess.Popen(
        arguments("demo"),
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if seen in line:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in err


def test_a_broken_promise_is_exit_code_1(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What did not happen is said, and is no success."""

    async def step(stage: Stage) -> None:
        stage.expect(False, "the moon is up")

    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("TOOL_ENGINE_TOOLS")
    monkeypatch.delenv("WEATHER_URL", raising=False)
    monkeypatch.setattr(demo, "STEPS", (("A step", step),))
    ended = command("demo")
    assert ended.code == 1
    assert "NOT OK: the moon is up" in ended.out
    assert "NOT as promised: the moon is up" in ended.out
    assert "WEATHER_URL" not in os.environ


def test_an_event_that_does_not_come_is_a_broken_promise(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for an event is bounded: without a watcher the demo fails instead of hanging."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("TOOL_ENGINE_TOOLS")
    monkeypatch.setattr("tool_engine.cli.demo.stage._PATIENCE", 0.001)
    steps = tuple(each for each in demo_steps.STEPS if "broken file" in each[0])
    monkeypatch.setattr(demo, "STEPS", steps)
    monkeypatch.setattr("tool_engine.cli.demo.stage.Stage._write_definition", lambda *_: None)
    ended = command("demo")
    assert ended.code == 1
    assert "NOT OK: the engine published a load_error" in ended.out


@pytest.mark.parametrize(
    ("path", "status", "part"),
    [
        ("/weather?city=Oslo", 200, '"temperature": -3.0, "conditions": "snow"'),
        ("/weather?city=nowhere", 404, "unknown city"),
        ("/status", 200, '"up"'),
        ("/work?seconds=0", 200, '"worked": 0.0'),
        ("/work?seconds=nan", 400, "seconds must be"),
        ("/work?seconds=x", 400, "seconds must be"),
    ],
)
async def test_the_service_answers(path: str, status: int, part: str) -> None:
    """Every address of the service answers with JSON, wrong arguments too."""
    async with (
        demo_service() as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://{HOST}:{port}{path}") as response,
    ):
        assert response.status == status
        assert part in await response.text()


async def test_the_port_is_free_again_afterwards() -> None:
    """Nothing listens when the block has ended."""
    async with demo_service() as port:
        pass
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"http://{HOST}:{port}/status")
