"""Which options does `mcp serve` take?"""

from __future__ import annotations

from typing import Annotated

import typer

WordArgument = Annotated[
    str, typer.Argument(metavar="serve|install", help="Serve, or print how clients start it.")
]
StdioOption = Annotated[
    bool, typer.Option("--stdio", help="Over standard input and output, as is the default.")
]
HTTPOption = Annotated[
    str | None,
    typer.Option("--http", metavar="HOST:PORT", help="Over HTTP, such as 127.0.0.1:8931."),
]
ToolOption = Annotated[
    list[str] | None,
    typer.Option("--tool", metavar="NAME", help="Only these tools, * for letters."),
]
GroupOption = Annotated[
    list[str] | None, typer.Option("--group", metavar="NAME", help="Only tools of the group.")
]
TagOption = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Only tools with the tag.")
]
ModeOption = Annotated[
    str,
    typer.Option(
        "--mode", metavar="all|search", help="search: two tools, which find and call the others."
    ),
]
ApprovalsOption = Annotated[
    str | None,
    typer.Option(
        "--approvals",
        metavar="operator|client|refuse",
        help="Who is asked for consent; operator: `tool-engine sessions pending`.",
        show_default=False,
    ),
]
TokenFileOption = Annotated[
    str | None,
    typer.Option("--token-file", metavar="FILE", help="With --http: whose requests to take."),
]
TitleOption = Annotated[
    str, typer.Option("--name", metavar="TEXT", help="What the server is called.")
]
AppOption = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:NAME", help="The engine of a program of yours."),
]
