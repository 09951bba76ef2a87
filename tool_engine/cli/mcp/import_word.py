"""How do the tools of a server become files, and what is lost on the way?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from tool_engine.catalog.definition.export import definition_of
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.cli.console import as_text, make_console, print_json, safe_text
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError, suggest_name
from tool_engine.cli.files.checking import check_files
from tool_engine.cli.mcp.word_request import Request, find_server, open_servers, own_name
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.writing import make_folder, write_file
from tool_engine.engine import ToolEngine
from tool_engine.errors import ToolEngineError
from tool_engine.model.tool import Tool, is_source_name, server_of

_BETWEEN: Final = "---\n"
_WRITTEN, _SAME, _DIFFERS = "written", "unchanged", "differs"
"""What became of a file."""
_LOST: Final = "was left out"
"""Stands in a finding about what a server says of a tool and is not held here."""


class _Written(NamedTuple):
    tool: Tool
    text: str
    lost: list[str]
    """What the file does not say of the tool."""
    earlier: Tool | None = None
    """What a file says of the tool already."""
    is_same: bool = False
    """Whether that is what would be written now."""


def run_word(settings: Settings, request: Request) -> int:
    """Write the tools of a server as files; exit with 1 when something is lost, or differs."""
    if len(request.words) != 1:
        raise CommandError("`mcp import` takes one server, such as: mcp import github")
    return run_async(_import_tools(settings, request))


async def _import_tools(settings: Settings, request: Request) -> int:
    (server,) = request.words
    async with open_servers(settings) as engine:
        known = _find_earlier(engine, server, request.output)
        tools = _choose_tools(engine, server, request.names)
        found = [write_tool(tool, known.get(own_name(tool))) for tool in tools]
    folder = None if request.output is None else Path(request.output)
    states: dict[Path, str] = {}
    if folder is not None:
        states = _write_files(found, folder, partial(_is_there, settings, folder), request.force)
    if request.as_json:
        _print_json(server, found, states)
    elif folder is None:
        sys.stdout.write(_BETWEEN.join(each.text for each in found))
    else:
        _print_states(states)
    if not request.as_json:
        for each in found:
            if (own := own_name(each.tool)) != each.tool.name and each.earlier is None:
                what = f"renamed; the server {server!r} calls it {own!r}"
                sys.stderr.write(f"{safe_text(each.tool.name)}: {safe_text(what)}\n")
            for lost in each.lost:
                sys.stderr.write(f"{safe_text(each.tool.name)}: {safe_text(lost)}\n")
    is_other = _DIFFERS in states.values() or any(each.lost for each in found)
    return EXIT_FAILED if is_other else EXIT_OK


def _print_json(server: str, found: list[_Written], states: Mapping[Path, str]) -> None:
    files = [str(path) for path, state in states.items() if state == _WRITTEN]
    there = {str(path): state for path, state in states.items() if state != _WRITTEN}
    tools = [
        {"name": each.tool.name, "own_name": own_name(each.tool), "lost": each.lost}
        for each in found
    ]
    print_json({"server": server, "files": files, "there": there, "tools": tools})


def _print_states(states: Mapping[Path, str]) -> None:
    console = make_console()
    for path, state in states.items():
        if state == _WRITTEN:
            console.print(as_text(f"wrote {path}", "green"), soft_wrap=True)
        else:
            cure = "; write it again with --force" if state == _DIFFERS else ""
            console.print(as_text(f"already there as {path} ({state}){cure}"), soft_wrap=True)


def write_tool(tool: Tool, earlier: Tool | None = None) -> _Written:
    """Return a tool as a file, and what is lost in it; under its name of before, if it had one."""
    loader = ToolConfigLoader()
    if earlier is not None:
        tool = replace(tool, name=earlier.name)
    text = loader.export_to_yaml(tool)
    lost = [each for each in tool.findings if _LOST in each]
    try:
        again = loader.load_text(text.encode(), tool.name)
    except ToolEngineError as error:
        return _Written(tool, text, [*lost, f"the file would not load: {error}"], earlier)
    before, after = definition_of(tool), definition_of(again)
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    lost += [f"{key} is not the same in the file" for key in changed]
    is_same = earlier is not None and definition_of(earlier) == after
    return _Written(tool, text, lost, earlier, is_same)


def _find_earlier(engine: ToolEngine, server: str, output: str | None) -> dict[str, Tool]:
    """Return what files define of a server's tools, by its own names for them."""
    there: list[Tool] = []
    if output is not None and Path(output).is_dir():
        there += [tool for checked in check_files([output]) for tool in checked.tools]
    loaded = [*engine.list_all(), *(each.tool for each in engine.quarantined())]
    found: dict[str, Tool] = {}
    for tools in (there, loaded):
        of_server = [each for each in tools if server_of(each) == server]
        # Of several, the one that has the server's own name.
        for tool in sorted(of_server, key=lambda each: each.name != own_name(each)):
            if tool.source and not is_source_name(tool.source):
                found.setdefault(own_name(tool), tool)
    return found


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


def _is_there(settings: Settings, folder: Path, file: Path) -> bool:
    """Return True if a folder has a file, or a definition would be loaded twice with one in it."""
    place, home = folder.resolve(), Path(settings.tools).resolve()
    given = file.resolve()
    are_loaded = settings.is_recursive and given.is_relative_to(home) and place.is_relative_to(home)
    return given.parent == place or are_loaded


def _write_files(
    found: list[_Written], folder: Path, is_there: Callable[[Path], bool], force: bool
) -> dict[Path, str]:
    """Write what is not there yet, or all with `force`; return what became of each file."""
    make_folder(folder, "name another with --output DIR")
    targets: dict[Path, str] = {}
    states: dict[Path, str] = {}
    for each in found:
        path = folder / f"{each.tool.name}.yaml"
        earlier = None if each.earlier is None else Path(str(each.earlier.source))
        if earlier is not None and is_there(earlier):
            if each.is_same or not force:
                is_same = each.is_same and states.get(earlier) != _DIFFERS
                states[earlier] = _SAME if is_same else _DIFFERS
                continue
            _check_alone(earlier)
            path = earlier
        # The same text again is no change; another one may be a person's work.
        elif path.exists() and path.read_bytes() != each.text.encode():
            raise CommandError(
                f"{str(path)!r} is there already, and says something else; remove it, or name "
                "another folder with --output DIR",
                error_type="file_exists",
            )
        targets[path] = each.text
    for path, text in targets.items():
        write_file(path, text, may_replace=True)
    return states | dict.fromkeys(targets, _WRITTEN)


def _check_alone(path: Path) -> None:
    """Refuse to replace a file that holds something else, too."""
    if len(ToolConfigLoader().load_definitions(path.read_bytes())) > 1:
        raise CommandError(
            f"{str(path)!r} holds other definitions, too; take this one out of it, or leave out "
            "--force",
            error_type="file_exists",
        )
