"""Which tools of a folder fit a search?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.search import ToolSearch
from tool_engine.cli.console import make_console, print_json
from tool_engine.cli.failures import EXIT_OK
from tool_engine.cli.files.server_tools import load_tools, report_folder
from tool_engine.cli.options import JSONOption, ToolsOption, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import count_text, tools_table
from tool_engine.model.match import ToolMatch


def run_command(
    ctx: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="What the tool does.")],
    *,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="The most tools to print.")
    ] = 10,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Find the tools that fit some words best, as a model finds them with search_tools.

    Example: tool-engine search weather forecast
    """
    return search_tools(settings_of(ctx, tools), words, limit, as_json=as_json)


def search_tools(settings: Settings, words: Sequence[str], limit: int, *, as_json: bool) -> int:
    folder = load_tools(settings)
    tools, broken = ToolIndex(folder.tools.values()), len(folder.errors)
    matches = ToolSearch().find(tools, " ".join(words), limit)
    if as_json:
        print_json({"matches": [_list_facts(match) for match in matches], "broken_files": broken})
        return EXIT_OK
    title = f"{count_text(len(matches), 'tool')} of {len(tools)} in {settings.tools}, best first"
    make_console().print(tools_table([match.tool for match in matches], title))
    report_folder(settings, folder)
    return EXIT_OK


def _list_facts(match: ToolMatch) -> dict[str, object]:
    return {
        "name": match.name,
        "score": match.score,
        "description": match.description,
        "category": match.tool.category.value,
        "tags": match.tool.tags,
        "source": match.tool.source,
    }
