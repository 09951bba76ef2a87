"""How do the tools of a server become files, and what is lost on the way?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from tool_engine.catalog.definition.export import definition_of
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.cli.console import as_text, make_console, print_json, safe_text
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError, suggest_name
from tool_engine.cli.mcp.word_request import Request, find_server, open_servers, own_name
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.writing import make_folder, write_file
from tool_engine.engine import ToolEngine
from tool_engine.errors import ToolEngineError
from tool_engine.model.tool import Tool

_BETWEEN: Final = "---\n"
_LOST: Final = "was left out"
"""Stands in a finding about what a server says of a tool and is not held here."""


class _Written(NamedTuple):
    tool: Tool
    text: str
    lost: list[str]
    """What the file does not say of the tool."""


def run_word(settings: Settings, request: Request) -> int:
    """Write the tools of a server as files; exit with 1 when something is lost."""
    if len(request.words) != 1:
        raise CommandError("`mcp import` takes one server, such as: mcp import github")
    return run_async(_import_tools(settings, request))


async def _import_tools(settings: Settings, request: Request) -> int:
    (server,) = request.words
    async with open_servers(settings) as engine:
        found = [write_tool(tool) for tool in _choose_tools(engine, server, request.names)]
    files = [] if request.output is None else _write_files(found, Path(request.output))
    if request.as_json:
        print_json(
            {
                "server": server,
                "files": files,
                "tools": [_describe_import(each) for each in found],
            }
        )
    elif request.output is None:
        sys.stdout.write(_BETWEEN.join(each.text for each in found))
    else:
        for file in files:
            make_console().print(as_text(f"wrote {file}", "green"), soft_wrap=True)
    if not request.as_json:
        for each in found:
            if (own := own_name(each.tool)) != each.tool.name:
                what = f"renamed; the server {server!r} calls it {own!r}"
                sys.stderr.write(f"{safe_text(each.tool.name)}: {safe_text(what)}\n")
            for lost in each.lost:
                sys.stderr.write(f"{safe_text(each.tool.name)}: {safe_text(lost)}\n")
    return EXIT_FAILED if any(each.lost for each in found) else EXIT_OK


def _describe_import(written: _Written) -> dict[str, Any]:
    tool = written.tool
    return {"name": tool.name, "own_name": own_name(tool), "lost": written.lost}


def write_tool(tool: Tool) -> _Written:
    """Return a tool as a file, and what is lost in it."""
    loader = ToolConfigLoader()
    text = loader.export_to_yaml(tool)
    lost = [each for each in tool.findings if _LOST in each]
    try:
        again = loader.load_text(text.encode(), tool.name)
    except ToolEngineError as error:
        return _Written(tool, text, [*lost, f"the file would not load: {error}"])
    before, after = definition_of(tool), definition_of(again)
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    lost += [f"{key} is not the same in the file" for key in changed]
    return _Written(tool, text, lost)


def _choose_tools(engine: ToolEngine, server: str, names: tuple[str, ...]) -> list[Tool]:
    state = find_server(engine, server)
    quarantined = {each.name: each.tool for each in engine.quarantined()}
    found = [engine.get(each) or quarantined[each] for each in state.tools]
    known = {own_name(tool): tool for tool in found}
    for name in names:
        if name not in known:
            raise CommandError(
                f"the server {server!r} has no tool {name!r}{suggest_name(name, known)}",
                error_type="tool_not_found",
            )
    if not known:
        raise CommandError(
            f"the server {server!r} {state.state}, and gives no tools; see tool-engine mcp list",
            error_type="server_down",
            exit_code=EXIT_FAILED,
        )
    return [known[name] for name in names or sorted(known)]


def _write_files(found: list[_Written], folder: Path) -> list[str]:
    make_folder(folder, "name another with --output DIR")
    targets = {folder / f"{each.tool.name}.yaml": each.text for each in found}
    for path, text in targets.items():
        # The same text again is no change; another one may be a person's work.
        if path.exists() and path.read_bytes() != text.encode():
            raise CommandError(
                f"{str(path)!r} is there already, and says something else; remove it, or name "
                "another folder with --output DIR",
                error_type="file_exists",
            )
    for path, text in targets.items():
        write_file(path, text, may_replace=True)
    return [str(path) for path in targets]
