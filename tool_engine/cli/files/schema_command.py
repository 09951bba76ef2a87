"""Which JSON Schemas do editors check files by?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tool_engine.cli.completion import complete_word
from tool_engine.cli.failures import EXIT_OK, CommandError, suggest_name
from tool_engine.cli.options import ToolsOption, settings_of
from tool_engine.cli.writing import write_output


def run_command(
    ctx: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            metavar="[WHAT]",
            help="tool, settings, or catalog.",
            show_default=False,
            autocompletion=complete_word,
        ),
    ] = "tool",
    *,
    address: Annotated[
        str | None,
        typer.Option("--address", metavar="URL", help="With catalog: where both schemas are."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write it to a file instead."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
    tools: ToolsOption = None,
) -> int:
    """Print the JSON Schema of a tool file, for editors that check while you type.

    A catalog has the names of the files in the project's folder of tools, or in that of --tools.

    Example: tool-engine schema --output tools/.tool.schema.json
    """
    from tool_engine.cli.files.editor_schemas import SCHEMAS, schema_catalog, write_schema

    if what not in SCHEMAS:
        raise CommandError(f"there is no schema {what!r}{suggest_name(what, SCHEMAS)}")
    if (what == "catalog") != (address is not None):
        raise CommandError(
            "a catalog says where its schemas are, and only it; write `tool-engine schema catalog "
            "--address URL`"
        )
    if address is not None and not address.startswith(("https://", "http://")):
        raise CommandError(
            f"--address {address!r} is no URL; write where editors find the schemas, such as "
            "--address https://example.com/schemas"
        )

    def make_catalog() -> dict[str, Any]:
        settings = settings_of(ctx, tools)
        folder = Path(settings.tools)
        return schema_catalog(address or "", folder, is_recursive=settings.is_recursive)

    text = write_schema(what, make_catalog)
    if output is not None:
        write_output(output, text)
    else:
        sys.stdout.write(text)
    return EXIT_OK
