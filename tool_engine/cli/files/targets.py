"""Which files does a word on the command line mean?"""

from __future__ import annotations

from pathlib import Path

from tool_engine.catalog.definition_files import list_definitions
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.cli.broken import NOT_LOADED, find_errors, missing_tool, suggest_tool
from tool_engine.cli.failures import CommandError, missing_file
from tool_engine.cli.settings import Settings
from tool_engine.named_file import is_broken_link


def is_path(word: str) -> bool:
    """Return True if `word` is a path, or is written as one."""
    return Path(word).exists() or word.endswith((".yaml", ".yml")) or "/" in word


def files_at(word: str, *, is_recursive: bool = False) -> list[str]:
    """Return the file or the folder's definitions at a path."""
    path = Path(word)
    if path.is_dir():
        return list(list_definitions(word, recursive=is_recursive))
    if not path.exists():
        raise missing_file(word)
    return [word]


def file_of_tool(settings: Settings, name: str, *, or_broken: bool = False) -> str:
    """Return the file of a tool; with `or_broken`, also one that could not be loaded."""
    loader = ToolConfigLoader()
    tools = loader.load_directory(settings.folder(), settings.is_recursive)
    sources = {tool.name: str(tool.source) for tool in tools}
    if name not in sources:
        missing = missing_tool(settings, name, sources, loader.load_errors)
        if missing.kind == NOT_LOADED:
            if or_broken:
                return find_errors(name, loader.load_errors)[0][0]
            raise missing
        if is_broken_link(name):
            raise missing_file(name)
        raise CommandError(
            f"there is no file {name!r}, and no tool of that name in {settings.tools}"
            f"{suggest_tool(name, sources, loader.load_errors)}",
            error_type="tool_not_found",
        )
    return sources[name]
