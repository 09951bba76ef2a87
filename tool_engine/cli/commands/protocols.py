"""Which words may follow `parse`, `prompt` and `convert`?

Signatures only: what a command does is imported when it runs, so that `--help` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tool_engine.cli.completion import complete_tool
from tool_engine.cli.options import JSONOption, NameArgument, ToolsOption, settings_of

_ProtocolOption = Annotated[
    str,
    typer.Option(
        "--protocol", "-p", metavar="P", help="How the model speaks, such as openai or vcp."
    ),
]


def parse_command(
    ctx: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The reply; - or nothing is stdin.")
    ] = "-",
    *,
    protocol: _ProtocolOption,
    stream: Annotated[
        bool, typer.Option("--stream", help="Read it in pieces and print the events, too.")
    ] = False,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Show what a protocol reads in a reply, and exit with 1 when a call of it cannot be run.

    Example: tool-engine parse --protocol vcp reply.txt
    """
    from tool_engine.cli.formats.parsing import parse_file

    return parse_file(settings_of(ctx, tools), protocol, file, is_stream=stream, as_json=as_json)


def prompt_command(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="The tools; all enabled if none.", autocompletion=complete_tool
        ),
    ] = None,
    *,
    protocol: _ProtocolOption,
    language: Annotated[
        str | None, typer.Option("--language", "-l", metavar="L", help="en or zh; of texts only.")
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Print what a model reads about the tools: a text for its prompt, or JSON for the request.

    Example: tool-engine prompt --protocol function_call --language zh echo
    """
    from tool_engine.cli.formats.prompting import print_prompt

    return print_prompt(
        settings_of(ctx, tools), protocol, names or (), language=language, as_json=as_json
    )


def convert_command(
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
    from tool_engine.cli.formats.converting import convert_tool

    return convert_tool(settings_of(ctx, tools), name, to or (), as_json=as_json)
