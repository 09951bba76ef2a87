"""Do command tools run against a recording as they run programs, with no program started?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testing.checked import cases_of, problems
from tool_engine import (
    ApprovalRequest,
    CallbackApprover,
    ToolEngine,
    ToolEngineConfig,
    ToolExecutionError,
)
from tool_engine.executors.commands.command_executor import CommandExecutor
from tool_engine.testing import check_definitions
from tool_engine.testing.recorded_commands import CommandRecording

TOOL = """
name: tidy
description: Tidies up.
effect: write
parameters:
  - {name: path, type: string, required: true, description: Path}
entry:
  type: builtin
  handler: run_command
  argv: [PROGRAM, -rf, --, "{path}"]
  config: {max_output: 8, ok_exit_codes: [0, 2], env: {TOKEN: "${env:TOKEN_OF_TEST}"}}
tests:
"""
SHELL = """
name: shell
description: Runs scripts.
parameters:
  - {name: script, type: string, required: true, description: Script}
entry: {type: builtin, handler: run_shell_command, cwd: ., config: {deny: [sudo]}}
tests:
"""
ARGV = "argv: [/no/such/program, -rf, --, a b]"


def tool(tests: str, program: str = "/no/such/program") -> str:
    """The command tool with these tests of the path `a b`."""
    lines = [
        f"  - {{params: {{path: a b}}, env: {{TOKEN_OF_TEST: sesame}}, {t}}}"
        for t in tests.split(";")
    ]
    return TOOL.replace("PROGRAM", program) + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "test",
    [
        (
            f"command: {{{ARGV}, stdout: done}}, "
            "expect: {exit_code: 0, stdout: done, stderr: '', truncated: false}"
        ),
        "command: {}, expect: {exit_code: 0, stdout: '', stderr: '', truncated: false}",
        f"command: [{{{ARGV}}}], expect_part: {{exit_code: 0}}",
        "command: {exit_code: 2, stderr: w}, expect_part: {exit_code: 2, stderr: w}",
        (
            "command: {exit_code: 1, stderr: no way}, "
            "expect_error: {error_type: execution_error, message: 'code 1, expected 0, 2: no way'}"
        ),
        "command: {exit_code: -9}, expect_error: {error_type: execution_error, message: SIGKILL}",
        "command: {stdout: 0123456789}, expect_part: {truncated: true}",
        "command: {stdout: sesame}, expect_part: {stdout: '[hidden]'}",
    ],
)
async def test_a_recorded_command_is_returned(test: str, tmp_path: Path) -> None:
    """The program does not even exist; exit codes, limits and secrets are as for a real one."""
    test = test.replace("stdout: 0123456789", "stdout: '0123456789'")
    assert problems(await cases_of(tmp_path, tool(test))) == []


@pytest.mark.parametrize(
    ("test", "told"),
    [
        (
            "command: {argv: [/no/such/program, -rf, --, a, b]}, expect_part: {}",
            (
                'command.argv: expected ["/no/such/program", "-rf", "--", "a", "b"], got '
                '["/no/such/program", "-rf", "--", "a b"]'
            ),
        ),
        (
            "command: [{}, {}], expect_part: {}",
            (
                "command[1]: the tool ran no such command; correct the tool, or remove it: only "
                "what run_command and run_shell_command run is seen here"
            ),
        ),
        (
            "command: {stdout: a}, expect_part: {stdout: b}",
            'output.stdout: expected "b", got "a"',
        ),
    ],
)
async def test_differences_fail(test: str, told: str, tmp_path: Path) -> None:
    """Another command, one that is not run, another output."""
    assert problems(await cases_of(tmp_path, tool(test))) == [told]


async def test_a_command_that_is_not_run_fails(tmp_path: Path) -> None:
    """A call that ends as expected, but before its command, is no success."""
    text = tool("command: {}, expect_error: validation_error").replace("{path: a b}", "{}")
    (problem,) = problems(await cases_of(tmp_path, text))
    assert problem.startswith("command: the tool ran no such command")


async def test_without_a_recording_the_program_runs(tmp_path: Path) -> None:
    """A test that records nothing is about the real program, also behind one that does."""
    text = tool("command: {stdout: x}, expect_part: {stdout: x};expect_part: {exit_code: 0}", "rm")
    text = text.replace("-rf, --", "--version, --").replace("max_output: 8", "max_output: 9000")
    assert problems(await cases_of(tmp_path, text)) == []


async def test_a_command_of_an_engine_with_its_own_program_folders(tmp_path: Path) -> None:
    """Without a recording, the executor that the user's program registered runs it."""

    program = tmp_path / "hello"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    engine = ToolEngine(ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False))
    engine.register_executor("run_command", CommandExecutor([str(tmp_path)]))
    engine.register_tool(
        {
            "name": "hello",
            "description": "H.",
            "entry": {"type": "builtin", "handler": "run_command", "argv": ["hello"]},
            "tests": [
                {
                    "params": {},
                    "command": {"stdout": "recorded"},
                    "expect_part": {"stdout": "recorded"},
                },
                {"params": {}, "expect_part": {"stdout": "hello\n"}},
            ],
        }
    )
    async with engine:
        for _ in range(2):
            (report,) = await check_definitions(engine, cases=0)
            assert problems(report.cases) == []


@pytest.mark.parametrize(
    ("test", "told"),
    [
        (
            (
                "{params: {script: ls}, command: {argv: [sh, -c, ls], stdout: a}, "
                "expect_part: {stdout: a}}"
            ),
            "",
        ),
        ("{params: {script: ls}, command: {exit_code: 7}, expect_part: {exit_code: 7}}", ""),
        (
            "{params: {script: ls}, command: {argv: [sh, -c, pwd]}, expect_part: {}}",
            'command.argv: expected ["sh", "-c", "pwd"], got ["sh", "-c", "ls"]',
        ),
        (
            (
                "{params: {script: sudo ls}, "
                "expect_error: {error_type: execution_error, message: \"'sudo', which this tool\"}}"
            ),
            "",
        ),
        (
            (
                "{params: {script: ls}, "
                "expect_error: {error_type: execution_error, message: runs no script in a test}}"
            ),
            "",
        ),
        (
            "{params: {script: touch pwned}, expect_part: {}}",
            "record what the script would return: command: {stdout: …}",
        ),
    ],
)
async def test_no_script_runs(test: str, told: str, tmp_path: Path) -> None:
    """A script is recorded or refused, whatever the machine's sandbox is."""
    found = problems(await cases_of(tmp_path, f"{SHELL}  - {test}\n"))
    assert [told in problem for problem in found] == ([True] if told else [])


@pytest.mark.parametrize("handler", ["run_shell_command", "echo"])
async def test_an_approver_is_not_asked(handler: str, tmp_path: Path) -> None:
    """A test of a tool that asks runs, and disturbs nobody; scripts do not run even so."""
    asked: list[ApprovalRequest] = []

    def answer(request: ApprovalRequest) -> bool:
        asked.append(request)
        return False

    path = tmp_path / "shell.yaml"
    text = f"{SHELL}  - {{params: {{script: touch pwned}}, expect_part: {{}}}}\n".lstrip()
    if handler == "echo":
        text = text.replace("run_shell_command, cwd: ., config: {deny: [sudo]}", "echo")
    path.write_text(f"permission: ask_always\n{text}")
    config = ToolEngineConfig(tools_directory=str(tmp_path), auto_reload=False)
    async with ToolEngine(config, approver=CallbackApprover(answer)) as engine:
        (report,) = await check_definitions(engine, cases=0)
    assert report.has_failed == (handler == "run_shell_command")
    assert asked == []
    assert not (tmp_path / "pwned").exists()


def test_after_a_wrong_command_nothing_is_answered() -> None:
    """What follows would rest on a wrong start; what comes beyond the last is told."""
    recording = CommandRecording([{"argv": ["a"]}, {"argv": ["b"]}])
    for argv in (["b"], ["a"]):
        with pytest.raises(ToolExecutionError, match="not the recorded one"):
            recording.finished(argv, 100)
    assert recording.is_broken
    assert recording.problems == ['command[0].argv: expected ["a"], got ["b"]']
    recording = CommandRecording({})
    assert recording.finished(["a"], 100).exit_code == 0
    with pytest.raises(ToolExecutionError, match="not the recorded one"):
        recording.finished(["b"], 100)
    (problem,) = recording.problems
    assert problem.startswith('command: the tool ran ["b"] as well, which is not recorded')
