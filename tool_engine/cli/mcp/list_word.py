"""Which servers are named, how is it with each, and which tools do they give?"""

from __future__ import annotations

from typing import Any

from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError
from tool_engine.cli.mcp.word_request import Request, is_down, open_servers
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.tables import make_table
from tool_engine.mcp_servers.state import MCPServerState
from tool_engine.visible import escape_hidden

_MOST_NAMES = 8


def run_word(settings: Settings, request: Request) -> int:
    """Print the servers; exit with 1 when one cannot be used."""
    if request.words:
        raise CommandError("`mcp list` lists all servers: leave out the names")
    return run_async(_list_servers(settings, as_json=request.as_json))


async def _list_servers(settings: Settings, *, as_json: bool) -> int:
    async with open_servers(settings) as engine:
        states, errors = engine.list_mcp_servers(), engine.list_mcp_errors()
        quarantined = {each.name for each in engine.quarantined()}
    if as_json:
        rows = [_to_dict(each, quarantined) for each in states]
        found = [{"file": file, "message": text} for file, text in errors]
        print_json({"servers": rows, "errors": found})
    else:
        _print_states(states, errors, quarantined)
    is_bad = errors or any(map(is_down, states))
    return EXIT_FAILED if is_bad else EXIT_OK


def _to_dict(state: MCPServerState, quarantined: set[str]) -> dict[str, Any]:
    waiting = [name for name in state.tools if name in quarantined]
    return {**state.to_dict(), "quarantined": waiting}


def _name_state(state: MCPServerState, errors: list[tuple[str, str]]) -> str:
    """Return how it is with a server, without the reason if an error below says it."""
    begin, mark, rest = state.state.partition(" (")
    reason = rest.rpartition(")")[0]
    is_said = bool(mark) and any(reason in text for _, text in errors)
    # The command ends now, so that there is no next try either.
    return begin if is_down(state) and is_said else state.state


def _print_states(
    states: list[MCPServerState], errors: list[tuple[str, str]], quarantined: set[str]
) -> None:
    console = make_console()
    table = make_table("", "server", "state", "version", "tools")
    for each in states:
        shown = each.tools[:_MOST_NAMES]
        names = ", ".join(
            f"{name} (quarantined)" if name in quarantined else name for name in shown
        )
        more = ", …" if len(each.tools) > _MOST_NAMES else ""
        table.add_row(
            as_text(each.name, "bold cyan"),
            as_text(_name_state(each, errors)),
            as_text(each.version),
            as_text(f"{len(each.tools)}: {names}{more}" if names else "0"),
        )
    if states:
        console.print(table)
    for each in states:
        for finding in each.findings:
            console.print(as_text(escape_hidden(f"warning: {finding}"), "yellow"), soft_wrap=True)
    for _, text in errors:
        console.print(as_text(escape_hidden(text), "red"), soft_wrap=True)
