"""What a command tool returns, and how it fails."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tool_engine import ToolEngine, ToolEngineConfig
from tool_engine.errors import DefinitionError, ToolExecutionError
from tool_engine.executors.commands import command_executor as module
from tool_engine.executors.commands.command_executor import CommandExecutor
from tool_engine.executors.commands.command_outcome import output_of
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

Make = Callable[..., Tool]
BOUND = 20.0


async def run(make: Make, argv: list[str], **entry: Any) -> Any:
    async with asyncio.timeout(BOUND):
        tool = make({"argv": argv, **entry})
        return await CommandExecutor().execute(tool, {}, ToolExecutionContext())


async def test_output(make: Make) -> None:
    """R11: exit code, output and errors, each apart."""
    script = "echo out; echo é你 >&2"
    output = await run(make, ["sh", "-c", script])
    assert output == {"exit_code": 0, "stdout": "out\n", "stderr": "é你\n", "truncated": False}


async def test_bytes_that_are_no_text(make: Make) -> None:
    """Output that is no UTF-8 is returned as text all the same."""
    assert (await run(make, ["printf", r"a\377b"]))["stdout"] == "a\ufffdb"


async def test_output_beyond_the_limit(make: Make) -> None:
    """The start and the end are kept, of each stream for itself, and it is said what is not."""
    argv = ["sh", "-c", "seq 1 100000; echo short >&2"]
    output = await run(make, argv, config={"max_output": 1000})
    assert output["truncated"] is True
    assert output["stdout"].startswith("1\n2\n3\n")
    assert output["stdout"].endswith("\n99999\n100000\n")
    assert "\n[... 587" in output["stdout"]
    assert output["stderr"] == "short\n"


async def test_an_exit_code_is_a_failure_unless_declared(make: Make) -> None:
    """A program that says it failed has failed; `ok_exit_codes` says which codes are answers."""
    argv = ["sh", "-c", "echo half; echo no such thing >&2; exit 3"]
    with pytest.raises(ToolExecutionError) as caught:
        await run(make, argv)
    assert str(caught.value) == "sh ended with the exit code 3, expected 0: no such thing"
    assert caught.value.details == {
        "exit_code": 3,
        "stdout": "half\n",
        "stderr": "no such thing\n",
        "truncated": False,
    }
    output = await run(make, argv, config={"ok_exit_codes": [0, 3]})
    assert output["exit_code"] == 3


async def test_a_failure_without_words(make: Make) -> None:
    """Without errors the output is told, and without that nothing."""
    with pytest.raises(ToolExecutionError, match=r"expected 0, 2: only this$"):
        await run(make, ["sh", "-c", "echo only this; exit 1"], config={"ok_exit_codes": [2, 0]})
    with pytest.raises(ToolExecutionError, match=r"the exit code 1, expected 0$"):
        await run(make, ["false"])


async def test_ended_by_a_signal(make: Make) -> None:
    """A program that was killed from elsewhere did not end well."""
    with pytest.raises(ToolExecutionError, match=r"sh was ended by the signal 15 \(SIGTERM\)"):
        await run(make, ["sh", "-c", "kill $$"])
    with pytest.raises(ToolExecutionError, match=r"by the signal 40 \(unknown\)"):
        await run(make, ["sh", "-c", "kill -40 $$"])


async def test_a_lost_exit_code_is_no_success(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another part of the process takes the exit code, the call says so."""

    def taken(pid: int) -> int:
        os.waitpid(pid, 0)
        raise ProcessLookupError(pid)

    monkeypatch.setattr(os, "pidfd_open", taken)
    with pytest.raises(ToolExecutionError, match="exit code was taken by another part of this"):
        await run(make, ["true"])


async def test_the_environment(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`inherit` passes variables on as they are, where they are set; `env` sets its own."""
    monkeypatch.setenv("HERE", "a{x}b")
    monkeypatch.delenv("GONE", raising=False)
    config = {"inherit": ["HERE", "GONE"], "env": {"OWN": "1", "LANG": "C"}}
    lines = (await run(make, ["env"], config=config))["stdout"].splitlines()
    assert {"HERE=a{x}b", "OWN=1", "LANG=C"} <= set(lines)
    assert not any(line.startswith("GONE") for line in lines)
    (tmp_path / "key").write_text("from-a-file\n", encoding="utf-8")
    config = {"env": {"KEY": f"${{file:{tmp_path}/key}}"}}
    assert "KEY=[hidden]" in (await run(make, ["env"], config=config))["stdout"].splitlines()
    with pytest.raises(ToolExecutionError, match="environment variable GONE is not set"):
        await run(make, ["env"], config={"env": {"X": "${env:GONE}"}})


async def test_the_folder(make: Make, tmp_path: Path) -> None:
    """`cwd` is where the program runs; one that is not there is named."""
    assert (await run(make, ["pwd"], cwd=str(tmp_path)))["stdout"].strip() == str(tmp_path)
    assert (await run(make, ["pwd"]))["stdout"].strip() == str(await asyncio.to_thread(Path.cwd))
    with pytest.raises(ToolExecutionError, match=r"cannot run in the folder .*/gone: No such"):
        await run(make, ["pwd"], cwd=str(tmp_path / "gone"))


async def test_what_cannot_be_started(make: Make, tmp_path: Path) -> None:
    """A file that is no program for this machine is named, with the reason."""
    broken = tmp_path / "broken"
    broken.write_bytes(b"\0\0\0")
    broken.chmod(0o755)
    with pytest.raises(ToolExecutionError, match=r"broken cannot be started: Exec format error"):
        await run(make, [str(broken)])
    with pytest.raises(ToolExecutionError, match="'no-such-program' is not installed"):
        await run(make, ["no-such-program"])


async def test_a_wrong_entry(make: Make) -> None:
    """A tool that was registered in code is checked at its first call."""
    with pytest.raises(DefinitionError, match="write an absolute path"):
        await run(make, ["./a"])


async def test_a_tool_that_is_defined_anew(make: Make) -> None:
    """A reload changes what is run."""
    executor = CommandExecutor()
    for text in ("a", "b"):
        tool = make({"argv": ["echo", text]})
        for _ in range(2):
            output = await executor.execute(tool, {}, ToolExecutionContext())
            assert output["stdout"] == f"{text}\n"


async def test_elsewhere_it_says_so(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it cannot be made sure that nothing is left, nothing is started."""
    monkeypatch.setattr(module.sys, "platform", "darwin")  # type: ignore[attr-defined]
    with pytest.raises(ToolExecutionError, match="commands run on Linux only, this is darwin"):
        await run(make, ["true"])


TOOL = """
name: count
description: Counts the lines of a text file.
category: file
effect: read
parameters:
  - {name: file, type: string, required: true, description: The file}
entry: {type: builtin, argv: [wc, -l, --, "{file}"]}
"""


async def test_from_a_file(tmp_path: Path) -> None:
    """K6: an entry with `argv` needs no handler, whatever the tool is called."""
    (tmp_path / "count.yaml").write_text(TOOL)
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        assert engine.load_errors == []
        result = await engine.execute("count", {"file": str(tmp_path / "count.yaml")})
        assert result.output["stdout"].split()[0] == str(TOOL.count("\n"))
        result = await engine.execute("count", {"file": "-x"})
        assert (result.error_type, "-x" in (result.error or "")) == ("execution_error", True)


async def test_mistakes_are_found_when_the_file_is_loaded(tmp_path: Path) -> None:
    """K5: a wrong entry is a load error with its place."""
    (tmp_path / "count.yaml").write_text(TOOL.replace('"{file}"', '"{fiel}"'))
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with asyncio.timeout(BOUND), ToolEngine(config) as engine:
        ((_, message),) = engine.load_errors
    assert "entry.argv[3]" in message
    assert "did you mean 'file'?" in message


@pytest.mark.parametrize("count", [970, 990])
async def test_no_half_of_a_secret_in_an_error(
    make: Make, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The end of a program's words is shown, and a secret at its beginning not in half."""
    monkeypatch.setenv("SAMPLE_KEY", "correct-horse-battery-staple")
    script = f'printf %s "$KEY"; head -c {count} /dev/zero | tr "\\0" x; exit 3'
    with pytest.raises(ToolExecutionError, match="exit code 3") as caught:
        await run(make, ["sh", "-c", script], config={"env": {"KEY": "${env:SAMPLE_KEY}"}})
    assert "aple" not in str(caught.value)


async def test_a_program_is_looked_at_before_each_run(make: Make, tmp_path: Path) -> None:
    """What was nobody's to replace at the first call is refused when it is everybody's."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho one\n")
    program.chmod(0o755)
    tool, executor = make({"argv": [str(program)]}), CommandExecutor()
    async with asyncio.timeout(BOUND):
        assert (await executor.execute(tool, {}, ToolExecutionContext()))["stdout"] == "one\n"
        program.chmod(0o777)
        with pytest.raises(ToolExecutionError, match="can be replaced by every user"):
            await executor.execute(tool, {}, ToolExecutionContext())


@pytest.mark.parametrize("script", ["yes x | head -c 2000000", "yes x | head -c 2000000; exit 3"])
async def test_a_large_output_does_not_hold_up_the_loop(make: Make, script: str) -> None:
    """What a program wrote is made a text, and its secrets hidden, beside the event loop."""
    threads = []

    def hide(*args: Any) -> Any:
        threads.append(threading.current_thread())
        return output_of(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{module.__name__}.output_of", hide)
        with contextlib.suppress(ToolExecutionError):
            await run(make, ["sh", "-c", script], config={"max_output": 4_000_000})
    assert threads != [threading.main_thread()]
    assert len(threads) == 1
