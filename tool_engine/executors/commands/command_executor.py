"""How is a command run so that a hostile parameter stays one argument of one program?

The definition names the program and where each value goes; see `argument`. No shell takes part.
The program gets a small environment, no standard input and a session of its own; what it starts
ends with the call (`process_group`).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

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
        plan = self._plans.of(tool)
        secrets = SecretScope()
        timeout = seconds_left(context)
        try:
            argv = [plan.program, *command_line(plan.arguments, params)]
            await secrets.read_files(part for _, text in plan.env for part in text.secrets)
            env = _make_environment(plan, secrets)
            finished = await self._run_command(plan, argv, env, timeout)
            outcome = partial(_make_outcome, plan, finished, timeout, secrets)
            return await asyncio.to_thread(outcome) if finished.is_large else outcome()
        except (ToolExecutionError, TimeoutError) as error:
            raise hide_error(error, secrets) from None

    async def _run_command(
        self, plan: CommandPlan, argv: list[str], env: dict[str, str], seconds: float | None
    ) -> Finished:
        return await ProcessGroup(partial(self._make_command, plan, argv, env), seconds).run()

    def _make_command(self, plan: CommandPlan, argv: list[str], env: dict[str, str]) -> Command:
        """Prepare the command. Blocks: runs in the command's own thread."""
        # Looked up each time: another user may be able to replace it since the last call.
        return Command(
            program=find_program(plan.program, self._path),
            argv=argv,
            env=env,
            cwd=plan.cwd,
            max_output=plan.max_output,
        )


def _compile_plan(tool: Tool) -> CommandPlan:
    if sys.platform != "linux":
        raise ToolExecutionError(
            f"commands run on Linux only, this is {sys.platform}: nowhere else can it be made "
            "sure that nothing of a command is left"
        )
    return compile_entry(tool)


def _make_outcome(
    plan: CommandPlan, finished: Finished, timeout: float | None, secrets: SecretScope
) -> dict[str, Any]:
    output = output_of(plan.program, finished, timeout)
    if problem := exit_problem(output["exit_code"], plan.ok_exit_codes):
        raise ToolExecutionError(f"{plan.program} {problem}{own_words(output)}", details=output)
    return secrets.hide(output)  # type: ignore[no-any-return]


def seconds_left(context: ToolExecutionContext) -> float | None:
    if context.deadline is None:
        return None
    return context.deadline - asyncio.get_running_loop().time()


def _make_environment(plan: CommandPlan, secrets: SecretScope) -> dict[str, str]:
    env = {"PATH": os.pathsep.join(SYSTEM_PATH), "LANG": "C.UTF-8"}
    env.update({name: os.environ[name] for name in plan.inherit if name in os.environ})
    for name, template in plan.env:
        env[name] = template.render({}, secrets) or ""
    return env
