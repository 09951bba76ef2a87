"""What has changed in the tools of servers since they were approved?"""

from __future__ import annotations

import asyncio
from difflib import unified_diff
from typing import Final, NamedTuple

from tool_engine.catalog.approval.approved_texts import read_texts
from tool_engine.catalog.approval.lock import ToolLock, default_lock_file
from tool_engine.catalog.approval.lock_state import APPROVED, CHANGED, LockState
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.cli.console import make_console, plain, print_json, visible
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError
from tool_engine.cli.mcp.word_request import Request, find_server, open_servers
from tool_engine.cli.settings import Settings, run_async
from tool_engine.cli.tables import count_text
from tool_engine.config import ENFORCE
from tool_engine.engine import ToolEngine
from tool_engine.model.tool import Tool

_KIND: Final = "mcp:"
_STYLES: Final = {"+": "green", "-": "red"}


class _Compared(NamedTuple):
    name: str
    status: str
    lines: list[str] = []
    """What its definition said and says, with - and + in front."""


def run_word(settings: Settings, request: Request) -> int:
    """Print what differs from the lock file; exit with 1 when something does."""
    if len(request.words) > 1:
        raise CommandError("`mcp diff` takes one server, or none for all of them")
    return run_async(_diff_tools(settings, request))


async def _diff_tools(settings: Settings, request: Request) -> int:
    lock = await asyncio.to_thread(ToolLock.read, default_lock_file(settings.tools))
    known = await asyncio.to_thread(read_texts, lock)
    # What is not approved must not run, be it only to be looked at.
    async with open_servers(settings, lock=ENFORCE) as engine:
        origin = f"{_KIND}{find_server(engine, request.words[0]).name}" if request.words else _KIND
        present = _list_tools(engine, origin)
        states = {each.name: each for each in await engine.check_lock() if each.kind == "tool"}
    names = {name for name, each in lock.tools.items() if (each.origin or "").startswith(origin)}
    compared = [
        _compare_tool(states[name], known.get(name), present.get(name))
        for name in sorted({*names, *present})
    ]
    different = [each for each in compared if each.status != APPROVED]
    if request.as_json:
        print_json({"file": lock.file, "tools": [each._asdict() for each in different]})
    else:
        _print_compared(different, len(compared), lock.file)
    return EXIT_FAILED if different else EXIT_OK


def _list_tools(engine: ToolEngine, origin: str) -> dict[str, Tool]:
    """Return the tools of servers, quarantined or not, by name."""
    tools = [*engine.list_all(), *(each.tool for each in engine.quarantined())]
    return {tool.name: tool for tool in tools if tool.origin.startswith(origin)}


def _compare_tool(state: LockState, old: Tool | None, new: Tool | None) -> _Compared:
    if state.status == APPROVED:
        return _Compared(state.name, APPROVED)
    if state.status == CHANGED and old is None:
        note = f"# only the hash of what was approved is kept; read the whole of {state.name}"
        return _Compared(state.name, CHANGED, [note])
    before, after = ([] if each is None else _write_lines(each) for each in (old, new))
    lines = list(unified_diff(before, after, lineterm="", n=2))[2:]
    return _Compared(state.name, state.status, [each for each in lines if each[:2] != "@@"])


def _write_lines(tool: Tool) -> list[str]:
    return ToolConfigLoader().export_to_yaml(tool).splitlines()


def _print_compared(different: list[_Compared], count: int, file: str) -> None:
    console = make_console()
    for each in different:
        console.print(plain(f"{each.name}: {each.status}", "bold"), soft_wrap=True)
        for line in each.lines:
            console.print(plain(f"  {visible(line)}", _STYLES.get(line[:1], "")), soft_wrap=True)
    if different:
        names = " ".join(f"--approve {each.name}" for each in different)
        console.print(plain(f"if you trust them: tool-engine lock {names}"), soft_wrap=True)
    text = f"{file}: {count_text(count, 'tool')} of servers, {len(different)} not as approved"
    console.print(plain(text), soft_wrap=True)
