"""Which tools do the folder and the named servers have together?"""

from __future__ import annotations

import logging
import sys

from tool_engine.cli.broken import report_broken, report_servers
from tool_engine.cli.failures import EXIT_OK
from tool_engine.cli.files.checking import LoadedFolder, load_folder
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.slow_servers import open_with_servers
from tool_engine.model.tool import Tool, server_of
from tool_engine.visible import escape_hidden


def load_tools(settings: Settings, name: str | None = None) -> LoadedFolder:
    """Return what the folder has, with the tools of the servers as `call` knows them.

    No server is started for `name`, if the folder has it.
    """
    folder = LoadedFolder({}, {}, []) if settings.is_without_folder else load_folder(settings)
    if settings.mcp_servers is None or name in {*folder.tools, *folder.groups}:
        return folder
    given: dict[str, Tool] = {}
    errors: list[tuple[str, str]] = []

    async def ask_servers() -> int:
        # Loaded late: a folder alone needs no engine.
        from tool_engine.engine import ToolEngine

        async with open_with_servers(ToolEngine(settings.engine_config())) as engine:
            waiting = [each.tool for each in engine.quarantined()]
            for tool in (*engine.list_all(), *waiting):
                if server_of(tool) is not None:
                    given[tool.name] = tool
            errors.extend(engine.list_mcp_errors())
        return EXIT_OK

    run_async(ask_servers(), log_level=logging.CRITICAL)
    tools = {**given, **folder.tools}
    return folder._replace(
        tools={name: tools[name] for name in sorted(tools)}, server_errors=tuple(errors)
    )


def report_folder(settings: Settings, folder: LoadedFolder) -> None:
    """Say on stderr how much of a folder and of servers is missing."""
    report_broken(settings, len(folder.errors))
    for _, text in folder.server_errors:
        sys.stderr.write(f"{escape_hidden(text)}\n")
    report_servers(folder.server_errors)
