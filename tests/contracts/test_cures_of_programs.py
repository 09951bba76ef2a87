"""What an error of a command or a shell script says to do is done, and it runs.

The rows are as those of `test_cures_of_errors`, which counts what is tried.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.test_cures_of_executors import (
    BOUND,
    check,
    define,
    engine_of,
    error_of,
    said_by,
    tools,
)
from tool_engine.executors.commands import shell as hard_links
from tool_engine.executors.commands.sandbox_launcher import find_obstacle

__all__ = ["tools"]

LESS = (
    "executors/commands/shell.py: name folders with less in entry.config.write, and keep "
    "definitions in a folder of their own"
)
LINK = "executors/commands/shell.py: remove the link, or put a copy in its place"
MISSING = "executors/commands/shell.py: make it, or correct …"
WITHOUT = "executors/commands/shell.py: name folders without it in entry.config.write"
CHILDREN = (
    "executors/commands/command_outcome.py: do not ignore SIGCHLD and "
    "wait for your own children only"
)
FEWER = (
    "executors/commands/own_thread.py: this process has used up what it may, run fewer calls at "
    "once"
)
CHMOD = "executors/commands/program.py: run chmod o-w …"
TRIED = {LESS, LINK, MISSING, WITHOUT, CHILDREN, FEWER, CHMOD}
needs_kernel = pytest.mark.skipif(bool(find_obstacle()), reason=find_obstacle() or "it can")


def shell(tools: Path, **config: Any) -> None:
    """Defines a tool that runs scripts in the folder `home` beside the definitions."""
    home = tools.parent / "home"
    home.mkdir(exist_ok=True)
    entry = {"type": "builtin", "cwd": str(home), "config": config}
    define(tools, "run_shell_command", entry, "script")


async def error_of_script(tools: Path, script: str = "echo a") -> str:
    return await error_of(tools, "run_shell_command", script=script)


@needs_kernel
@pytest.mark.parametrize("key", ["entry.cwd", "entry.config.read", "entry.config.write"])
async def test_folder_of_a_script(tools: Path, key: str) -> None:
    """A folder that is made, and a key that is corrected, let the script run."""
    gone, there = tools.parent / "gone", tools.parent / "there"
    there.mkdir()

    def write(folder: Path) -> None:
        shell(tools, **({} if key == "entry.cwd" else {key.rpartition(".")[2]: [str(folder)]}))
        if key == "entry.cwd":
            text = (tools / "run_shell_command.yaml").read_text()
            home = str(tools.parent / "home")
            (tools / "run_shell_command.yaml").write_text(text.replace(home, str(folder)))

    write(gone)
    message = await error_of_script(tools)
    check(MISSING, message)
    assert message.endswith(f"or correct {key}")
    write(there)
    assert await error_of_script(tools) == ""
    write(gone)
    gone.mkdir()
    assert await error_of_script(tools) == ""


@needs_kernel
async def test_script_that_may_write_what_is_trusted(tools: Path) -> None:
    """With folders that hold no definitions it runs."""
    shell(tools, write=[str(tools.parent)])
    check(WITHOUT, await error_of_script(tools))
    shell(tools, write=[str(tools.parent / "home")])
    assert await error_of_script(tools, "echo a > b") == ""


@needs_kernel
@pytest.mark.parametrize("cure", ["remove", "copy"])
async def test_hard_link(tools: Path, cure: str) -> None:
    """Without the link, and with a copy in its place, it runs."""
    home = tools.parent / "home"
    shell(tools, write=[str(home)])
    os.link(tools / "run_shell_command.yaml", home / "link")
    check(LINK, await error_of_script(tools))
    (home / "link").unlink()
    if cure == "copy":
        (home / "link").write_bytes((tools / "run_shell_command.yaml").read_bytes())
    assert await error_of_script(tools) == ""


@needs_kernel
@pytest.mark.parametrize("is_full", ["written", "tools"])
async def test_too_many_files(tools: Path, monkeypatch: pytest.MonkeyPatch, is_full: str) -> None:
    """A folder with less in it, or definitions in a folder of their own, can be looked through."""
    monkeypatch.setattr(hard_links, "MAX_ENTRIES", 1_000)
    home = tools.parent / "home"
    shell(tools, write=[str(home)])
    os.link(tools / "run_shell_command.yaml", tools.parent / "elsewhere")
    full = home if is_full == "written" else tools
    for number in range(1_001):
        (full / f"{number}.txt").touch()
    check(LESS, await error_of_script(tools))
    if is_full == "written":
        (home / "less").mkdir()
        shell(tools, write=[str(home / "less")])
    else:
        others = tools.parent / "others"
        others.mkdir()
        for number in range(1_001):
            (tools / f"{number}.txt").rename(others / f"{number}.txt")
    assert await error_of_script(tools) == ""


async def test_program_of_everybody(tools: Path) -> None:
    """The command that the message names makes it a program that runs."""
    program = tools.parent / "program"
    program.write_text("#!/bin/sh\necho yes\n")
    program.chmod(0o777)
    define(tools, "t", {"type": "builtin", "handler": "run_command", "argv": [str(program)]})
    message = await error_of(tools, "t")
    check(CHMOD, message)
    line = message.rpartition("; run ")[2].split()
    await asyncio.to_thread(subprocess.run, line, check=True)
    assert await error_of(tools, "t") == ""


def test_children_that_reap_themselves(tools: Path) -> None:
    """A process that does not ignore SIGCHLD, and waits for its own child only, has the code."""
    argv = ["sh", "-c", "sleep 0.1"]
    define(tools, "t", {"type": "builtin", "handler": "run_command", "argv": argv})
    check(CHILDREN, said_by("signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n", tools))
    own = "child = os.spawnlp(os.P_NOWAIT, 'true', 'true')\nos.waitpid(child, 0)\n"
    assert said_by(own, tools) == "None"


async def test_process_that_has_used_up_its_files(tools: Path) -> None:
    """When fewer calls run, which hold files, the command runs."""
    define(tools, "t", {"type": "builtin", "handler": "run_command", "argv": ["true"]})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with asyncio.timeout(BOUND), engine_of(tools) as engine:
        held = [os.open(os.devnull, os.O_RDONLY)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (held[0] + 50, hard))
        try:
            while held[-1] < held[0] + 49:
                held.append(os.open(os.devnull, os.O_RDONLY))
            failed = await engine.execute("t")
        finally:
            for each in held:
                os.close(each)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        check(FEWER, failed.error)
        assert (await engine.execute("t")).is_success
