"""Which tools of a folder fit a search?"""

from __future__ import annotations

from collections.abc import Sequence

from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.search import ToolSearch
from tool_engine.cli.console import make_console, print_json
from tool_engine.cli.failures import EXIT_OK
from tool_engine.cli.files.broken import tell_broken
from tool_engine.cli.files.checking import check_files
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import count_text, tools_table
from tool_engine.model.match import ToolMatch


def search_tools(settings: Settings, words: Sequence[str], limit: int, *, as_json: bool) -> int:
    checked = check_files([settings.folder()], is_recursive=settings.is_recursive)
    tools = ToolIndex(tool for file in checked if not file.problems for tool in file.tools)
    broken = sum(bool(file.problems) for file in checked)
    matches = ToolSearch().find(tools, " ".join(words), limit)
    if as_json:
        print_json({"matches": [_list_facts(match) for match in matches], "broken_files": broken})
        return EXIT_OK
    title = f"{count_text(len(matches), 'tool')} of {len(tools)} in {settings.tools}, best first"
    make_console().print(tools_table([match.tool for match in matches], title))
    tell_broken(settings, broken)
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
