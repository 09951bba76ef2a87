"""Which machines do tools run on, what is free there, and can they hold each tool?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tool_engine.cli.completion import WORDS, complete_word
from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError, suggest_name
from tool_engine.cli.options import JSONOption, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.tables import make_table
from tool_engine.executors.fleet.resources import word_amounts

if TYPE_CHECKING:
    from tool_engine.engine import ToolEngine
    from tool_engine.executors.fleet.looking import FleetSnapshot

_WORDS = WORDS["fleet"]


def run_command(
    ctx: typer.Context,
    word: Annotated[
        str,
        typer.Argument(
            metavar="WORD",
            help="status, or check: fails if a tool can never run there.",
            autocompletion=complete_word,
        ),
    ] = "status",
    *,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0.001,
            help="Seconds that it may take to join the fleet, 180.",
        ),
    ] = None,
    as_json: JSONOption = False,
) -> int:
    """Show the machines that tools run on, and which tools they can hold.

    Joins the fleet of the settings; a head that says nothing is given up after 10 s. Workers and
    waiting calls are those of an engine: see engine.fleet.snapshot(), and the metrics of a server.

    Example: tool-engine fleet status --json
    """
    if word not in _WORDS:
        raise CommandError(f"there is no `fleet {word}`{suggest_name(word, _WORDS)}")
    settings = settings_of(ctx, None)
    if settings.read_file("fleet") is None:
        raise CommandError(
            'no fleet is named; write fleet = "auto", or the address of one, in the settings',
            error_type="no_fleet",
        )
    return run_async(_print_status(settings, timeout, fails=word == "check", as_json=as_json))


async def _print_status(
    settings: Settings,
    timeout: float | None,  # noqa: ASYNC109 - of the command line
    *,
    fails: bool,
    as_json: bool,
) -> int:
    from tool_engine.engine import ToolEngine

    async with ToolEngine(settings.engine_config()) as engine:
        assert engine.fleet is not None  # noqa: S101 - the settings name one
        found = await engine.fleet.join(timeout)
        tools = _list_tools(engine, found)
    if as_json:
        print_json({**found.to_dict(), "tools": tools})
    else:
        _print_tables(found, tools)
    return EXIT_FAILED if fails and any(each["lack"] for each in tools) else EXIT_OK


def _list_tools(engine: ToolEngine, found: FleetSnapshot) -> list[dict[str, Any]]:
    """Return what the tools of a fleet need, and what of it no node has."""
    from tool_engine.executors.fleet.fleet_backend import worker_entry_of

    rows = []
    for tool in engine.index:
        if tool.implementation_config.get("config", {}).get("isolation") != "ray":
            continue
        fleet = worker_entry_of(tool).fleet
        assert fleet is not None  # noqa: S101 - a tool that says so has one, or is not loaded
        rows.append(
            {
                "tool": tool.name,
                "resources": fleet.resources,
                "max_workers": fleet.max_workers,
                "lack": found.find_lack(fleet.resources),
            }
        )
    return rows


def _print_tables(found: FleetSnapshot, tools: list[dict[str, Any]]) -> None:
    console = make_console()
    title = f"fleet {found.address}: Ray {found.ray}, Python {found.python}"
    nodes = make_table(title, "node", "address", "has")
    for each in found.nodes:
        nodes.add_row(
            as_text(each.host, "bold cyan"),
            as_text(each.address),
            as_text(word_amounts(each.resources)),
        )
    console.print(nodes)
    console.print(as_text(f"free of all nodes: {word_amounts(found.free)}"))
    if not tools:
        return
    needs = make_table("what tools need", "tool", "for each worker", "workers", "")
    for tool in tools:
        needs.add_row(
            as_text(tool["tool"], "bold cyan"),
            as_text(word_amounts(tool["resources"]) or "nothing"),
            as_text(f"at most {tool['max_workers']}"),
            as_text(tool["lack"] or "a node can hold one"),
        )
    console.print(needs)
