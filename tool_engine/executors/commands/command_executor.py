"""How is a command run so that a hostile parameter stays one argument of one program?

The definition names the program and where each value goes; see `argument`. No shell takes part.
The program gets a small environment, no standard input and a session of its own; what it starts
ends with the call (`process_group`).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.commands.argument import command_line
from tool_engine.executors.commands.command_entry import CommandPlan, compile_entry
from tool_engine.executors.commands.command_outcome import (
    exit_problem,
    hide_error,
    output_of,
    own_words,
)
from tool_engine.executors.commands.own_thread import ProcessGroup
from tool_engine.executors.commands.program import SYSTEM_PATH, find_program
from tool_engine.executors.commands.supervisor import Command, Finished
from tool_engine.executors.entry_reader import CompiledEntries
from tool_engine.executors.secrets import SecretScope
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool


class ProgramCall(NamedTuple):
    """One call of a program, for any machine."""

    program: str
    argv: list[str]
    """Its first item is the name that the program sees as its own."""
    env: dict[str, str]
    """What the definition says."""
    inherit: list[str]
    """Variables that the machine has."""
    cwd: str | None
    max_output: int


class Ran(NamedTuple):
    """A program that has ended."""

    read_output: Callable[[], dict[str, Any]]
    """Returns its output, or raises if it was stopped."""
    is_large: bool
    """Whether to read it takes long."""


Start: TypeAlias = Callable[[ProgramCall], Awaitable[Ran]]


class CommandExecutor:
    """The executor of tools with `argv`; `path` lists the programs' folders."""

    def __init__(self, path: Sequence[str] = SYSTEM_PATH) -> None:
        self._path = tuple(path)
        self._plans = CompiledEntries(_compile_plan)

    async def execute(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext
    ) -> dict[str, Any]:
        """Run the program and return its output.

        Returns:
            `{"exit_code", "stdout", "stderr", "truncated"}`. Where one of the texts is not whole,
            `truncated` is true, and a line in it says how much is left out.

        Raises:
            ToolExecutionError: A value cannot be an argument, the program cannot be started, or its
                exit code is not in `ok_exit_codes`.
            TimeoutError: It did not end in time; nothing of it is left.
        """
        timeout = seconds_left(context)

        async def start(call: ProgramCall) -> Ran:
            finished = await run_program(call, timeout, self._path)
            return Ran(partial(output_of, call.program, finished, timeout), finished.is_large)

        return await self.run(tool, params, start)

    async def run(self, tool: Tool, params: dict[str, Any], start: Start) -> dict[str, Any]:
        """Do the same with a program that `start` runs, on whichever machine."""
        plan = self._plans.of(tool)
        secrets = SecretScope()
        try:
            argv = [plan.program, *command_line(plan.arguments, params)]
            await secrets.read_files(part for _, text in plan.env for part in text.secrets)
            env = {name: template.render({}, secrets) or "" for name, template in plan.env}
            ran = await start(
                ProgramCall(plan.program, argv, env, [*plan.inherit], plan.cwd, plan.max_output)
            )
            outcome = partial(_make_outcome, plan, ran, secrets)
            return await asyncio.to_thread(outcome) if ran.is_large else outcome()
        except (ToolExecutionError, TimeoutError) as error:
            raise hide_error(error, secrets) from None


async def run_program(
    call: ProgramCall, seconds: float | None, path: Sequence[str] = SYSTEM_PATH
) -> Finished:
    """Run a program on this machine, to its end or that of its time."""
    return await ProcessGroup(partial(_make_command, call, path), seconds).run()


def seconds_left(context: ToolExecutionContext) -> float | None:
    if context.deadline is None:
        return None
    return context.deadline - asyncio.get_running_loop().time()


def _make_command(call: ProgramCall, path: Sequence[str]) -> Command:
    """Prepare the command. Blocks: runs in the command's own thread."""
    env = {"PATH": os.pathsep.join(SYSTEM_PATH), "LANG": "C.UTF-8"}
    env.update({name: os.environ[name] for name in call.inherit if name in os.environ})
    return Command(
        # Looked up each time: another user may be able to replace it since the last call.
        program=find_program(call.program, path),
        argv=call.argv,
        env=env | call.env,
        cwd=call.cwd,
        max_output=call.max_output,
    )


def _compile_plan(tool: Tool) -> CommandPlan:
    if sys.platform != "linux":
        raise ToolExecutionError(
            f"commands run on Linux only, this is {sys.platform}: nowhere else can it be made "
            "sure that nothing of a command is left"
        )
    return compile_entry(tool)


def _make_outcome(plan: CommandPlan, ran: Ran, secrets: SecretScope) -> dict[str, Any]:
    output = ran.read_output()
    if problem := exit_problem(output["exit_code"], plan.ok_exit_codes):
        raise ToolExecutionError(f"{plan.program} {problem}{own_words(output)}", details=output)
    return secrets.hide(output)  # type: ignore[no-any-return]
