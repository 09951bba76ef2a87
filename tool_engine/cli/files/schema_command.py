"""Which JSON Schema do editors check tool files by?"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tool_engine.catalog.definition.starter import schema_text
from tool_engine.cli.failures import EXIT_OK
from tool_engine.cli.writing import write_output


def run_command(
    *,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write it to a file instead."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
) -> int:
    """Print the JSON Schema of a tool file, for editors that check while you type.

    Example: tool-engine schema --output tools/.tool.schema.json
    """
    if output is not None:
        write_output(output, schema_text())
    else:
        sys.stdout.write(schema_text())
    return EXIT_OK
