"""How does one tool look in every format?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from tool_engine.cli.console import as_text, json_text, make_console, print_json
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError, suggest_name
from tool_engine.cli.formats.speaking import (
    chosen_tools,
    finding_facts,
    findings_of,
    has_errors,
    make_protocol,
    print_findings,
    tools_in,
)
from tool_engine.cli.options import JSONOption, NameArgument, ToolsOption, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.errors import ConfigurationError
from tool_engine.model.reply import ReplyFinding
from tool_engine.model.tool import Tool
from tool_engine.protocols.definition_formats import definitions
from tool_engine.protocols.registry import protocol_names

_MCP: Final = "mcp"
"""A format of definitions that is no protocol: models do not speak it."""


def run_command(
    ctx: typer.Context,
    name: NameArgument,
    *,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="P", help="Only this format; repeatable."),
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Show one tool in every format, with what each format cannot say of it.

    Example: tool-engine convert http_request --to openai --to gemini
    """
    return convert_tool(settings_of(ctx, tools), name, to or (), as_json=as_json)


def convert_tool(settings: Settings, name: str, formats: Sequence[str], *, as_json: bool) -> int:
    """Print a tool in the formats, with what each cannot express.

    Returns:
        0; 1 if a format cannot express the tool at all.
    """
    (tool,) = chosen_tools(tools_in(settings), [name])
    known = [*protocol_names(), _MCP]
    for each in formats:
        if each not in known:
            raise CommandError(f"there is no format {each!r}{suggest_name(each, known)}")
    shown = {each: _convert_tool(each, tool) for each in formats or known}
    if as_json:
        facts = {
            each: {"definition": definition, "findings": finding_facts(findings)}
            for each, (definition, findings) in shown.items()
        }
        print_json({"tool": tool.name, "formats": facts})
    else:
        for each, (definition, findings) in shown.items():
            _print_definition(each, definition, findings)
    return EXIT_FAILED if any(has_errors(findings) for _, findings in shown.values()) else EXIT_OK


def _convert_tool(name: str, tool: Tool) -> tuple[Any, list[ReplyFinding]]:
    try:
        if name == _MCP:
            return definitions(name, [tool]), []
        protocol = make_protocol(name, {tool.name: tool})
        return protocol.definitions([tool]), findings_of(protocol, [tool])
    except (CommandError, ConfigurationError) as error:
        finding = ReplyFinding(
            error_type="dropped", level="error", tool_name=tool.name, message=str(error)
        )
        return None, [finding]


def _print_definition(name: str, definition: Any, findings: Sequence[ReplyFinding]) -> None:
    console = make_console()
    console.print(as_text(name, "bold cyan"))
    if definition is not None:
        text = definition if isinstance(definition, str) else json_text(definition)
        console.print(as_text(text), soft_wrap=True)
    print_findings(findings)
    console.print()
