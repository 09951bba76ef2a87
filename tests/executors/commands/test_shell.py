"""When a shell script runs and when not; what it may do in its sandbox is in tests/security."""

from __future__ import annotations

import asyncio
import json
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine import (
    ApprovalRequest,
    CallbackApprover,
    ToolEngine,
    ToolEngineConfig,
    ToolSession,
)
from tool_engine.approval.describe import describe
from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands import sandbox_launcher
from tool_engine.executors.commands.sandbox_launcher import find_obstacle
from tool_engine.executors.commands.shell import ShellExecutor
from tool_engine.interfaces import Approver
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]
BOUND = 20.0
LIMITS = "result: {max_chars: 1000}\n"

needs_kernel = pytest.mark.skipif(bool(find_obstacle()), reason=find_obstacle() or "it can")


class Shell:
    def __init__(self, make: Make, folder: Path) -> None:
        self.make, self.folder = make, folder

    def tool(self, **config: Any) -> Tool:
        return self.make({"cwd": str(self.folder), "config": config}, "script", name="shell")

    async def run(self, script: str, **config: Any) -> Any:
        async with asyncio.timeout(BOUND):
            context = ToolExecutionContext(caller_id="ada")
            params = {"script": script}
            return await ShellExecutor().execute(self.tool(**config), params, context)


@pytest.fixture
def shell(make: Make, tmp_path: Path) -> Shell:
    return Shell(make, tmp_path)


@needs_kernel
async def test_an_exit_code_is_an_answer(shell: Shell) -> None:
    """A free script has no exit codes that its author could have declared."""
    output = await shell.run("echo a; echo b >&2; exit 3")
    assert output == {"exit_code": 3, "stdout": "a\n", "stderr": "b\n", "truncated": False}


@needs_kernel
async def test_where_it_runs(shell: Shell) -> None:
    """Its folder is its home, which it may read and, where that is said, write to."""
    output = await shell.run("pwd; echo $HOME; echo $TMPDIR; (echo x > a) 2>/dev/null || echo no")
    assert output["stdout"].split() == [str(shell.folder)] * 3 + ["no"]
    output = await shell.run("echo x > a && cat a", write=[str(shell.folder)])
    assert output["stdout"] == "x\n"
    with pytest.raises(ToolExecutionError, match=r"'/no/such' does not exist"):
        await shell.run("true", read=["/no/such"])


@pytest.mark.parametrize("permission", ["", "permission: ask_always\n", "permission: ask_once\n"])
async def test_nothing_runs_without_consent(permission: str, tmp_path: Path) -> None:
    """R12: where nobody can be asked nothing runs, in words that name the cure."""
    async with asyncio.timeout(BOUND), _engine(tmp_path, None, permission) as engine:
        assert engine.load_errors == []
        result = await engine.execute("run_shell_command", {"script": f"touch {tmp_path}/ran"})
    assert result.error_type == "execution_rejected"
    assert "pass an approver to the engine or the session" in str(result.error)
    assert not (tmp_path / "ran").exists()


@needs_kernel
@pytest.mark.parametrize("in_session", [False, True])
async def test_one_question_per_call(in_session: bool, tmp_path: Path) -> None:
    """X3: whoever is asked sees the script as it will run, once; only a yes lets it run."""
    asked: list[ApprovalRequest] = []
    answers: list[bool | str] = [True, "not today"]

    def answer(request: ApprovalRequest) -> bool | str:
        asked.append(request)
        return answers.pop(0)

    approver = CallbackApprover(answer)
    of_engine = None if in_session else approver
    async with asyncio.timeout(BOUND), _engine(tmp_path, of_engine, LIMITS) as engine:
        caller: Any = ToolSession(engine, "s", approver=approver) if in_session else engine
        yes = await caller.execute("run_shell_command", {"script": "echo a\necho b"})
        no = await caller.execute("run_shell_command", {"script": f"touch {tmp_path}/ran"})
    assert yes.output["stdout"] == "a\nb\n"
    assert (no.error_type, no.is_success) == ("execution_rejected", False)
    assert "not today" in str(no.error)
    assert not (tmp_path / "ran").exists()
    assert len(asked) == 2
    told = describe(asked[0])
    assert f"a shell script runs in {tmp_path} (reads that folder; may change: nothing;" in told
    assert "no network):\n  echo a\n  echo b" in told


async def test_any_executor_of_scripts_asks(tmp_path: Path) -> None:
    """X3: under another name, with other limits, or for a conversation alone, it asks as well."""
    definition = {
        "name": "mine",
        "description": "Runs a script.",
        "parameters": [{"name": "script", "type": "string", "required": True, "description": "It"}],
        "entry": {"type": "custom", "handler": "own", "cwd": str(tmp_path)},
        "result": {"max_chars": 1000},
    }
    (tmp_path / "mine.yaml").write_text(json.dumps(definition))
    for permission in ({}, {"permission": "auto"}):
        (tmp_path / "mine.yaml").write_text(json.dumps({**definition, **permission}))
        config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
        async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
            engine.register_executor("own", ShellExecutor())
            result = await engine.execute("mine", {"script": f"touch {tmp_path}/ran"})
            assert result.error_type == "execution_rejected"
    assert not (tmp_path / "ran").exists()


async def test_a_definition_cannot_do_without(tmp_path: Path) -> None:
    """X3: `permission: auto` of a shell tool is a mistake, and not a way round the question."""
    async with asyncio.timeout(BOUND), _engine(tmp_path, None, "permission: auto\n") as engine:
        ((_, message),) = engine.load_errors
        assert "lets scripts run that no person has seen; write ask_always" in message


def _engine(folder: Path, approver: Approver | None, more: str = "") -> ToolEngine:
    (folder / "shell.yaml").write_text(
        "name: run_shell_command\n"
        "description: Runs a shell script.\n"
        f"{more}"
        "parameters: [{name: script, type: string, required: true, description: The script}]\n"
        f"entry: {{type: builtin, cwd: {folder}}}\n"
    )
    config = ToolEngineConfig(tools_directory=str(folder), auto_reload=False)
    return ToolEngine(config, approver=approver)


@needs_kernel
@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("rm -rf x", "holds 'rm -rf', which this tool does not run"),
        ("a\0b", "no NUL character"),
        ("x" * 131072, "at most 131071 bytes, it has 131072"),
        ("\ud800", "not valid Unicode"),
    ],
)
async def test_scripts_that_never_run(shell: Shell, script: str, told: str) -> None:
    """What cannot run, or what the author does not want, is refused; who is asked is told so."""
    with pytest.raises(ToolExecutionError, match=told):
        await shell.run(script, deny=["rm -rf"])
    with pytest.raises(ToolExecutionError, match=told):
        ShellExecutor().preview(shell.tool(deny=["rm -rf"]), {"script": script})


@pytest.mark.parametrize(
    ("place", "name", "value", "told"),
    [
        (sys, "platform", "darwin", "it needs Linux, this is darwin"),
        (platform, "machine", lambda: "riscv64", "made for x86_64 and aarch64, this is riscv64"),
        (
            sandbox_launcher,
            "read_abi_version",
            lambda: 5,
            "needs Landlock version 6 .* this kernel has version",
        ),
        (
            sandbox_launcher,
            "read_abi_version",
            lambda: 0,
            "this kernel has none, or it is turned off",
        ),
    ],
)
async def test_without_a_sandbox_nothing_runs(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, value: Any, told: str
) -> None:
    """Where the kernel cannot shut a script in, the tool says so and stays disabled."""
    monkeypatch.setattr(place, name, value)
    with pytest.raises(ToolExecutionError, match=f"shell is disabled, .* no sandbox: .*{told}"):
        await shell.run("echo a")


def test_no_landlock_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another system is not asked with Linux's numbers."""
    monkeypatch.setattr(sys, "platform", "win32")
    assert sandbox_launcher.read_abi_version() == 0


@needs_kernel
async def test_without_an_interpreter(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that embeds Python may not know where the interpreter is."""
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(ToolExecutionError, match="needs the Python interpreter"):
        await shell.run("echo a")


@needs_kernel
def test_a_policy_that_cannot_be_kept_up(tmp_path: Path) -> None:
    """When a part of the sandbox fails, the script does not run without it."""
    policy = {"read": [str(tmp_path / "gone")], "write": [], "network": False, "program": "/bin/sh"}
    launcher = [sys.executable, "-I", "-S", sandbox_launcher.__file__]
    done = subprocess.run(
        [*launcher, json.dumps(policy), "sh", "-c", "echo ran"],
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert (done.returncode, done.stdout) == (sandbox_launcher.CANNOT_SHUT_IN, "")
    assert "the sandbox cannot be set up" in done.stderr
