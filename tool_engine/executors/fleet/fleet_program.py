"""How does a program of a tool run on a machine of a fleet?

The engine writes its arguments, and judges and redacts what it said, as for a program that runs
here; a worker of the fleet does what is between: it starts the program on its own machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from tool_engine.executors.commands.command_entry import CommandPlan, compile_entry
from tool_engine.executors.commands.command_executor import (
    CommandExecutor,
    ProgramCall,
    Ran,
    run_program,
    seconds_left,
)
from tool_engine.executors.commands.command_outcome import output_of
from tool_engine.executors.commands.supervisor import LARGE
from tool_engine.executors.fleet_entry import RAY
from tool_engine.executors.places import PlacedHandler, Places
from tool_engine.executors.python.python_entry import PythonEntry
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool

Send = Callable[[Tool, dict[str, Any], ToolExecutionContext], Awaitable[dict[str, Any]]]
"""Has a worker of the tool call `start_program` with these arguments; returns what that does."""


class FleetCommands(PlacedHandler):
    """The executor of tools with `argv` and `isolation: ray`.

    Args:
        places: Where the fleet is found.
    """

    def __init__(self, places: Places) -> None:
        super().__init__(RAY, places)
        self._commands = CommandExecutor()

    async def send(
        self, tool: Tool, params: dict[str, Any], context: ToolExecutionContext, send: Send
    ) -> dict[str, Any]:
        """Run the program through `send`; see `CommandExecutor.execute`."""

        async def start(call: ProgramCall) -> Ran:
            output = await send(tool, call._asdict(), context)
            return Ran(lambda: output, len(output["stdout"]) + len(output["stderr"]) > LARGE)

        return await self._commands.run(tool, params, start)


def program_entry_of(tool: Tool) -> PythonEntry:
    """Return what the workers of a tool with `argv` run."""
    plan: CommandPlan = compile_entry(tool)
    assert plan.fleet is not None  # noqa: S101 - its definition asks for a fleet
    return PythonEntry(
        *(__name__, start_program.__name__, RAY),
        memory=0 if plan.fleet.gpus else plan.fleet.memory,
        fleet=plan.fleet,
        program=plan.program,
    )


async def start_program(
    program: str,
    argv: list[str],
    env: dict[str, str],
    inherit: list[str],
    cwd: str | None,
    max_output: int,
    context: ToolExecutionContext,
) -> dict[str, Any]:
    """Run a program on this machine, in a worker; return its output as the executor does."""
    call = ProgramCall(program, argv, env, inherit, cwd, max_output)
    seconds = seconds_left(context)
    finished = await run_program(call, seconds)
    return await asyncio.to_thread(partial(output_of, program, finished, seconds))
