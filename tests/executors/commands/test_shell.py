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

from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands import sandbox_launcher
from tool_engine.executors.commands.sandbox_launcher import obstacle
from tool_engine.executors.commands.shell import Approve, ShellExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]
BOUND = 20.0

needs_kernel = pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "it can")


class Shell:
    def __init__(self, make: Make, folder: Path) -> None:
        self.make, self.folder = make, folder

    async def run(
        self, script: str, approve: Approve | None = lambda script, context: True, **config: Any
    ) -> Any:
        tool = self.make({"cwd": str(self.folder), "config": config}, "script", name="shell")
        async with asyncio.timeout(BOUND):
            context = ToolExecutionContext(caller_id="ada")
            return await ShellExecutor(approve).execute(tool, {"script": script}, context)


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


@needs_kernel
async def test_only_what_somebody_approves(shell: Shell) -> None:
    """The script that runs is the script that was shown, and only True is a yes."""
    shown: list[tuple[str, str | None]] = []

    def approve(script: str, context: ToolExecutionContext) -> bool:
        shown.append((script, context.caller_id))
        return True

    async def approve_later(script: str, context: ToolExecutionContext) -> bool:
        await asyncio.sleep(0)
        return approve(script, context)

    for yes in (approve, approve_later):
        assert (await shell.run("echo a", yes))["stdout"] == "a\n"
    assert shown == [("echo a", "ada")] * 2
    for answer in (False, None, 1, "yes"):
        with pytest.raises(ToolExecutionError, match="not approved; it has not been run"):
            await shell.run("touch ran", lambda script, context, a=answer: a)  # type: ignore[misc]
    assert not await asyncio.to_thread((shell.folder / "ran").exists)


@needs_kernel
async def test_without_an_approver(tmp_path: Path) -> None:
    """K52: built in, it is there and refuses, in words that name the cure."""
    (tmp_path / "shell.yaml").write_text(
        "name: run_shell_command\n"
        "description: Runs a shell script.\n"
        "parameters: [{name: script, type: string, required: true, description: The script}]\n"
        f"entry: {{type: builtin, cwd: {tmp_path}}}\n"
    )
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        assert engine.load_errors == []
        result = await engine.execute("run_shell_command", {"script": "echo a"})
        assert result.error_type == "execution_error"
        assert "register_executor('run_shell_command', ShellExecutor(approve=" in str(result.error)
        engine.register_executor("run_shell_command", ShellExecutor(lambda script, context: True))
        result = await engine.execute("run_shell_command", {"script": "echo a"})
        assert result.output["stdout"] == "a\n"


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
async def test_scripts_that_nobody_is_asked_about(shell: Shell, script: str, told: str) -> None:
    """What cannot run, or what the author does not want, is refused first."""

    def approve(script: str, context: ToolExecutionContext) -> bool:
        raise AssertionError(script, context)

    with pytest.raises(ToolExecutionError, match=told):
        await shell.run(script, approve, deny=["rm -rf"])


@pytest.mark.parametrize(
    ("place", "name", "value", "told"),
    [
        (sys, "platform", "darwin", "it needs Linux, this is darwin"),
        (platform, "machine", lambda: "riscv64", "made for x86_64 and aarch64, this is riscv64"),
        (sandbox_launcher, "abi", lambda: 5, "needs Landlock version 6 .* this kernel has version"),
        (sandbox_launcher, "abi", lambda: 0, "this kernel has none, or it is turned off"),
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
    assert sandbox_launcher.abi() == 0


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
