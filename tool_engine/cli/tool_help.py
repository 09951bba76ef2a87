"""What does `call NAME --help` say of the tool?"""

from __future__ import annotations

from typing import Any

from tool_engine.cli.calls.call_arguments import example_arguments
from tool_engine.cli.console import as_text, make_console
from tool_engine.cli.failures import CommandError
from tool_engine.cli.files.server_tools import load_tools
from tool_engine.cli.options import settings_of
from tool_engine.cli.tables import parameters_table
from tool_engine.errors import ToolEngineError


def show_tool_help(ctx: Any, name: str, tools: str | None) -> bool:
    """Print what one tool takes; return False where there is none of that name."""
    try:
        tool = load_tools(settings_of(ctx, tools), name).tools.get(name)
    except (CommandError, ToolEngineError):
        return False  # the call itself says why
    if tool is None:
        return False
    console = make_console()
    words = " ".join((ctx.command_path, tool.name, *example_arguments(tool)))
    console.print(as_text(f"Usage: {ctx.command_path} {tool.name} [KEY=VALUE]... [OPTIONS]\n"))
    console.print(as_text(tool.description))
    if tool.parameters:
        console.print(parameters_table(tool.parameters))
    else:
        console.print(as_text("\nIt takes no arguments."))
    console.print(as_text(f"Example: {words}"), soft_wrap=True)
    console.print(as_text(f"Other ways to write arguments, and options: {ctx.command_path} --help"))
    return True
