"""What has changed in the tools of servers since they were approved?"""

from __future__ import annotations

import asyncio
from difflib import unified_diff
from typing import Final, NamedTuple

from tool_engine.catalog.approval.approved_before import read_texts
from tool_engine.catalog.approval.lock import ToolLock
from tool_engine.catalog.approval.lock_state import APPROVED, CHANGED, GONE, LockState
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.cli.console import as_text, make_console, print_json, safe_text
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError
from tool_engine.cli.mcp.word_request import Request, find_server, is_down, open_servers
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.tables import count_text
from tool_engine.config import LOCK_ENFORCE
from tool_engine.engine import ToolEngine
from tool_engine.mcp_servers.state import MCPServerState
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
    lock = await asyncio.to_thread(ToolLock.read, settings.lock_file)
    known = await asyncio.to_thread(read_texts, lock)
    # What is not approved must not run, be it only to be looked at.
    async with open_servers(settings, lock=LOCK_ENFORCE) as engine:
        origin = f"{_KIND}{find_server(engine, request.words[0]).name}" if request.words else _KIND
        present = _list_tools(engine, origin)
        states = {each.name: each for each in await engine.check_lock() if each.kind == "tool"}
        servers = [each for each in engine.list_mcp_servers() if not each.is_connected]
    names = {name for name, each in lock.tools.items() if (each.origin or "").startswith(origin)}
    # The names of tools depend on all servers, so that none is gone as long as one does not run.
    unseen = {name for name in names if servers and states[name].status == GONE}
    compared = [
        _compare_tool(states[name], known.get(name), present.get(name))
        for name in sorted({*names, *present} - unseen)
    ]
    different = [each for each in compared if each.status != APPROVED]
    down = [each for each in servers if is_down(each) and f"{_KIND}{each.name}".startswith(origin)]
    if request.as_json:
        tools = [each._asdict() for each in different]
        print_json(
            {
                "file": lock.file,
                "tools": tools,
                "not_compared": sorted(unseen),
                "down": [each.name for each in down],
            }
        )
    else:
        _print_compared(different, len(compared), lock.file)
        _print_unseen(down, unseen)
    return EXIT_FAILED if different or down else EXIT_OK


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


def _print_unseen(down: list[MCPServerState], unseen: set[str]) -> None:
    console = make_console()
    for each in down:
        for text in each.findings or [f"the server {each.name!r} {each.state}"]:
            console.print(as_text(safe_text(text), "red"), soft_wrap=True)
    if unseen:
        text = f"not compared, as not all servers run: {', '.join(sorted(unseen))}"
        console.print(as_text(safe_text(text), "yellow"), soft_wrap=True)


def _print_compared(different: list[_Compared], count: int, file: str) -> None:
    console = make_console()
    for each in different:
        console.print(as_text(f"{each.name}: {each.status}", "bold"), soft_wrap=True)
        for line in each.lines:
            console.print(
                as_text(f"  {safe_text(line)}", _STYLES.get(line[:1], "")), soft_wrap=True
            )
    if different:
        names = " ".join(f"--approve {each.name}" for each in different)
        console.print(as_text(f"if you trust them: tool-engine lock {names}"), soft_wrap=True)
    text = f"{file}: {count_text(count, 'tool')} of servers, {len(different)} not as approved"
    console.print(as_text(text), soft_wrap=True)
