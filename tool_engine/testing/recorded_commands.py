"""Which commands did a test expect, which would have run, and what do they return?

Arguments are built and recorded output is read as in a real run; only no program is started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands.captured import Captured
from tool_engine.executors.commands.command_entry import compile_entry
from tool_engine.executors.commands.command_executor import CommandExecutor, ProgramCall, Ran
from tool_engine.executors.commands.command_outcome import output_of
from tool_engine.executors.commands.shell import check_script
from tool_engine.executors.commands.shell_entry import SCRIPT
from tool_engine.executors.commands.shell_entry import compile_entry as compile_shell_entry
from tool_engine.executors.commands.supervisor import End, Finished
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.interfaces import ToolExecutor
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool
from tool_engine.testing.comparison import json_line

_SHELL_OUTPUT = 64 * 1024


class CommandRecording:
    """The commands of one test, in their order.

    Args:
        commands: The test's `command`: one mapping, or a list of them.
    """

    def __init__(self, commands: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ()) -> None:
        self._is_list = not isinstance(commands, Mapping)
        self._commands = [commands] if isinstance(commands, Mapping) else list(commands)
        self._next = 0
        self._problems: list[str] = []

    @property
    def is_empty(self) -> bool:
        return not self._commands

    @property
    def is_broken(self) -> bool:
        """True if a command would have run that is not the recorded one."""
        return bool(self._problems)

    @property
    def problems(self) -> list[str]:
        """Return where the commands so far differ from the recorded ones."""
        if self._problems or self._next == len(self._commands):
            return self._problems
        message = (
            "the tool ran no such command; correct the tool, or remove it: only what run_command "
            "and run_shell_command run is seen here"
        )
        return [f"{self._name_place}: {message}"]

    def finished(self, argv: Sequence[str], max_output: int) -> Finished:
        """Return the recorded outcome of the next command.

        Raises:
            ToolExecutionError: It is not the recorded one.
        """
        ran = json_line(list(argv))
        if not self._problems and self._next == len(self._commands):
            message = (
                f"the tool ran {ran} as well, which is not recorded, so nothing was started; make "
                "the test's command a list, and add it"
            )
            self._problems = [f"{self._name_place}: {message}"]
        if not self._problems:
            command = self._commands[self._next]
            expected = command.get("argv")
            if expected is None or list(expected) == list(argv):
                self._next += 1
                return _make_finished(command, max_output)
            self._problems = [f"{self._name_place}.argv: expected {json_line(expected)}, got {ran}"]
        raise ToolExecutionError("the command is not the recorded one, so nothing was started")

    @property
    def _name_place(self) -> str:
        return f"command[{self._next}]" if self._is_list else "command"


class RecordedCommandExecutor(CommandExecutor):
    """Runs command tools against a recording; without one, the real program.

    Args:
        real: Starts programs.
    """

    def __init__(self, real: ToolExecutor) -> None:
        super().__init__()
        self._plans = CompiledEntries(compile_entry)
        self.real = real
        self.recording = CommandRecording()
        """What the commands of the test return."""

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> Any:
        """Return the program's output, real or recorded; see `CommandExecutor`."""
        if self.recording.is_empty:
            return await self.real.execute(tool, params, context)
        return await self.run(tool, params, self._replay_program)

    async def _replay_program(self, call: ProgramCall) -> Ran:
        finished = self.recording.finished(call.argv, call.max_output)
        return Ran(partial(output_of, call.program, finished, None), finished.is_large)


class RecordedShellExecutor:
    """Replays recordings to tools of shell scripts; none runs in a test."""

    def __init__(self) -> None:
        self._plans = CompiledEntries(compile_shell_entry)
        self.recording = CommandRecording()
        """What the scripts of the test return."""

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        """Return the recorded outcome of the script.

        Raises:
            ToolExecutionError: The tool does not run this script, or it is not the recorded one.
            DefinitionError: The tool's entry is wrong.
        """
        script = params[SCRIPT]
        check_script(self._plans.of(tool), script)
        if self.recording.is_empty:
            raise ToolExecutionError(
                f"{tool.name} runs no script in a test; record what the script would return: "
                "command: {stdout: …}"
            )
        finished = self.recording.finished(["sh", "-c", script], _SHELL_OUTPUT)
        return output_of("the script", finished, None)


def _make_finished(command: Mapping[str, Any], max_output: int) -> Finished:
    stdout, stderr = Captured(max_output), Captured(max_output)
    stdout.feed(command.get("stdout", "").encode())
    stderr.feed(command.get("stderr", "").encode())
    return Finished(command.get("exit_code", 0), stdout, stderr, End.ITSELF)
