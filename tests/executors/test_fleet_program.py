"""How does a program run on a machine of a fleet?

What a worker does is called here, with what would reach it; `tests/fleet` has a real one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ray_cluster import is_alive
from tool_engine import ToolEngine, ToolEngineConfig, ToolExecutionContext
from tool_engine.errors import DefinitionError, ToolExecutionError
from tool_engine.executors.commands.command_entry import check_entry, compile_entry
from tool_engine.executors.fleet.fleet_program import (
    FleetCommands,
    program_entry_of,
    start_program,
)
from tool_engine.executors.places import Places
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]
RAY: dict[str, Any] = {"isolation": "ray"}


async def send(tool: Tool, params: dict[str, Any], context: ToolExecutionContext) -> Any:
    """Do what a worker does, with JSON on both ways."""
    del tool
    sent = json.loads(json.dumps(params))
    return json.loads(json.dumps(await start_program(**sent, context=context)))


async def run(make: Make, argv: list[str], *parameters: str, **config: Any) -> Any:
    tool = make({"argv": argv, "config": {**RAY, **config}}, *parameters)
    values = dict.fromkeys(parameters, "; echo no")
    return await FleetCommands(Places({})).send(tool, values, ToolExecutionContext(), send)


async def test_output(make: Make) -> None:
    """R11: a value stays one argument, and each stream stands apart, as in a program here."""
    output = await run(make, ["sh", "-c", 'echo "$1"; echo e >&2', "sh", "{x}"], "x")
    assert output == {
        "exit_code": 0,
        "stdout": "; echo no\n",
        "stderr": "e\n",
        "truncated": False,
    }


async def test_secrets_of_its_environment(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's secret reaches the program, and is hidden in what that says."""
    monkeypatch.setenv("FLEET_TOKEN", "a-secret-of-the-engine")
    argv = ["sh", "-c", "echo $TOKEN; echo $TOKEN | wc -c; exit $CODE"]
    env = {"TOKEN": "${env:FLEET_TOKEN}", "CODE": "0"}
    output = await run(make, argv, env=env)
    assert "a-secret" not in output["stdout"]
    assert output["stdout"].endswith("23\n")
    with pytest.raises(ToolExecutionError, match="ended with the exit code 3") as caught:
        await run(make, argv, env={**env, "CODE": "3"})
    assert "a-secret" not in f"{caught.value} {caught.value.details}"


async def test_variables_of_its_machine(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """`inherit` names those of the machine that it runs on."""
    monkeypatch.setenv("ON_THE_NODE", "here")
    argv = ["sh", "-c", "echo $ON_THE_NODE"]
    assert (await run(make, argv, inherit=["ON_THE_NODE"]))["stdout"] == "here\n"
    assert (await run(make, argv))["stdout"] == "\n"


async def test_a_program_that_is_not_there(make: Make) -> None:
    with pytest.raises(ToolExecutionError, match="'no-such' is not installed"):
        await run(make, ["no-such"])


def test_what_its_workers_are(make: Make) -> None:
    """They have one program at a time, are named by it, and have its limit of memory."""
    config = {**RAY, "resources": {"cpus": 2, "memory": "64MiB"}, "max_workers": 3}
    entry = program_entry_of(make({"argv": ["ffmpeg"], "config": config}))
    assert entry.fleet is not None
    assert (entry.fleet.is_alone, entry.fleet.cpus, entry.fleet.max_workers) == (True, 2.0, 3)
    assert (entry.place, entry.memory) == ("ffmpeg", 64 * 2**20)
    assert compile_entry(make({"argv": ["ffmpeg"]})).fleet is None


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"isolation": "process"}, "isolation: must be one of none, ray; a program has a process"),
        (
            {"max_workers": 2},
            "max_workers: is for programs that run on a fleet; add isolation: ray",
        ),
        ({**RAY, "max_workers": 0}, "max_workers: must be a whole number from 1"),
        ({**RAY, "batch": {"max_size": 5}}, "batch: unknown key 'batch'"),
        ({**RAY, "resource": {}}, "resource: unknown key 'resource'; did you mean 'resources'?"),
        (
            {**RAY, "runtime": {"env_vars": {"API_KEY": "api_key=hunter2hunter2"}}},
            "API_KEY: looks like a secret",
        ),
        (
            {**RAY, "runtime": {"env_vars": {"DB": "postgresql://me:hunter2@db/shop"}}},
            "runtime.env_vars.DB: looks like a secret",
        ),
        (
            {**RAY, "runtime": {"pip": ["six", "https://me:hunter2@host/a.whl"]}},
            "runtime.pip[1]: looks like a secret",
        ),
        (
            {**RAY, "runtime": {"uv": {"uv_pip_install_options": ["-i https://a:b1@host/"]}}},
            "runtime.uv.uv_pip_install_options[0]: looks like a secret",
        ),
        (
            {**RAY, "runtime": {"env_vars": {"A": "${env:HOME}"}}},
            "runtime.env_vars.A: holds ${env:...} or ${file:...}, which is not filled in here",
        ),
        (
            {**RAY, "runtime": {"env_vars": {"PIN": 123456}}},
            "runtime.env_vars.PIN: its name and its value must be texts; quote them",
        ),
        (
            {**RAY, "runtime": {"env_vars": ["PASSWORD=123456"]}},
            "runtime.env_vars: must map names to texts, such as {LANG: de}",
        ),
        ({**RAY, "runtime": ["123456"]}, "runtime: must be a mapping of pip, uv"),
        ("postgresql://me:123456@db/shop", "entry.config: must be a mapping, got"),
        ({**RAY, "resources": {"others": {"GPU": 1}}}, "others.GPU: is resources.gpus; remove it"),
        (
            {**RAY, "resources": {"others": {"object_store_memory": 1}}},
            "others.object_store_memory: is Ray's own; remove it here",
        ),
        ({**RAY, "resources": {"gpus": 1.5}}, "resources.gpus: must be whole above 1, got 1.5"),
        ({**RAY, "resources": {"cpus": 0.00001}}, "resources.cpus: must be 0, or 0.0001 and more"),
        ({**RAY, "resources": {"others": {"tpu": 0.00001}}}, "amounts from 0.0001; got"),
    ],
)
def test_mistakes(make: Make, config: Any, expected: str) -> None:
    found = check_entry(make({"argv": ["ls"], "config": config}))
    assert "123456" not in str(found)
    assert [expected in f"{each.path}: {each.message}" for each in found] == [True]


async def test_an_engine_without_a_fleet(tmp_path: Path) -> None:
    """It is an error when the tool is loaded, with its cure."""
    engine = ToolEngine(ToolEngineConfig(str(tmp_path / "none"), auto_reload=False))
    entry = {"type": "builtin", "argv": ["ls"], "config": RAY}
    with pytest.raises(DefinitionError, match='ToolEngineConfig\\(fleet="auto"\\)'):
        engine.register_tool({"name": "far", "description": "x", "entry": entry})
    await engine.close()


async def test_nothing_is_left_of_a_cancelled_one(make: Make, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    argv = ["sh", "-c", f"sleep 300 & echo $! > {file}; wait"]
    task = asyncio.create_task(run(make, argv))
    async with asyncio.timeout(20):
        while not await asyncio.to_thread(lambda: file.exists() and file.read_text().strip()):  # noqa: ASYNC110 - a file rings no bell
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not await asyncio.to_thread(lambda: is_alive(int(file.read_text())))
