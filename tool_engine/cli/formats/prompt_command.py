"""Which text or definitions describe the tools to a model?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from tool_engine.cli.completion import complete_tool
from tool_engine.cli.console import json_text, print_json, safe_text
from tool_engine.cli.failures import EXIT_OK
from tool_engine.cli.formats.speaking import (
    ProtocolOption,
    chosen_tools,
    finding_facts,
    findings_of,
    make_protocol,
    print_findings,
    prompt_of,
    tools_in,
)
from tool_engine.cli.options import JSONOption, ToolsOption, settings_of
from tool_engine.cli.settings import Settings


def run_command(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="The tools; all enabled if none.", autocompletion=complete_tool
        ),
    ] = None,
    *,
    protocol: ProtocolOption,
    language: Annotated[
        str | None, typer.Option("--language", "-l", metavar="L", help="en or zh; of texts only.")
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Print what a model reads of the tools: a text for its prompt, or JSON for a request.

    Example: tool-engine prompt --protocol function_call --language zh echo
    """
    return print_prompt(
        settings_of(ctx, tools), protocol, names or (), language=language, as_json=as_json
    )


def print_prompt(
    settings: Settings,
    protocol_name: str,
    names: Sequence[str],
    *,
    language: str | None,
    as_json: bool,
) -> int:
    """Print the text of the system prompt, or definitions as JSON.

    What the format cannot express goes to stderr.
    """
    known = tools_in(settings)
    tools = chosen_tools(known, names)
    protocol = make_protocol(protocol_name, known, language=language)
    definitions = protocol.definitions(tools)
    prompt = prompt_of(protocol, tools)
    findings = findings_of(protocol, tools)
    if as_json:
        facts = {"definitions": definitions, "prompt": prompt, "findings": finding_facts(findings)}
        print_json({"protocol": protocol_name, **facts})
        return EXIT_OK
    text = prompt or (definitions if isinstance(definitions, str) else json_text(definitions))
    # A pipe gets the text as it is; a description must not steer a terminal.
    sys.stdout.write((safe_text(text) if sys.stdout.isatty() else text).rstrip("\n") + "\n")
    print_findings(findings, stderr=True)
    return EXIT_OK
