"""Which processes share limits, what does each of them have, and who waits?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer

from tool_engine.cli.completion import WORDS, complete_word
from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.failures import EXIT_OK, CommandError, suggest_name
from tool_engine.cli.options import JSONOption, settings_of
from tool_engine.cli.records.quantities import seconds_text
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.tables import make_table
from tool_engine.config import checked_concurrency
from tool_engine.model.settings.cluster import ClusterConfig

_WORDS = WORDS["cluster"]
_MOST_VALUES = 3
"""Of one key, that are named one by one."""


def run_command(
    ctx: typer.Context,
    word: Annotated[
        str,
        typer.Argument(
            metavar="WORD", help="status: as it is at this moment.", autocompletion=complete_word
        ),
    ] = "status",
    *,
    as_json: JSONOption = False,
) -> int:
    """Show which processes share limits, what each has, and who waits.

    Example: tool-engine cluster status --json
    """
    if word not in _WORDS:
        raise CommandError(f"there is no `cluster {word}`{suggest_name(word, _WORDS)}")
    return run_async(_print_status(_find_cluster(settings_of(ctx, None)), as_json=as_json))


def _find_cluster(settings: Settings) -> ClusterConfig:
    with settings.placed_errors():
        cluster = checked_concurrency(settings.concurrency).cluster
    if cluster is None:
        raise CommandError(
            "no cluster is named; give its database with `tool-engine --cluster URL ...`, the "
            "variable TOOL_ENGINE_CLUSTER, or [concurrency.cluster] of the settings",
            error_type="no_cluster",
        )
    return cluster


async def _print_status(cluster: ClusterConfig, *, as_json: bool) -> int:
    looking = import_module("tool_engine.admission.cluster.looking")
    address = import_module("tool_engine.knowledge.sql.connection.address")
    find_url = partial(address.fill_secrets, str(cluster.url), "cluster")
    found = await looking.read_cluster(find_url, cluster.name)
    if found is None:
        raise CommandError(
            f"no process has made the cluster {cluster.name!r} in that database; start one, or "
            "name another with `name` in [concurrency.cluster]",
            error_type="no_cluster",
        )
    if as_json:
        print_json(found.to_dict())
    else:
        _print_tables(found)
    return EXIT_OK


def _print_tables(found: Any) -> None:
    console = make_console()
    gated = "" if not found.gated_for else f", gives nothing for {seconds_text(found.gated_for)}"
    title = f"cluster {found.name}, revision {found.revision}, {found.strategy}{gated}"
    limits = make_table(title, "limit", "units", "held", "waiting", "paused for")
    for resource, limit in found.limits.items():
        held = found.used.get(resource, 0)
        waiting = sum(_waits_for(each.units, resource) for each in found.waiting)
        paused = found.paused.get(resource)
        units = f"{limit} for each value" if resource.startswith("key:") else str(limit)
        limits.add_row(
            as_text(resource, "bold cyan"),
            *map(as_text, (units, str(held), str(waiting))),
            as_text("-" if paused is None else seconds_text(paused)),
        )
    console.print(limits)
    if found.breakers:
        breakers = make_table("breakers", "breaker", "state")
        for name, state in found.breakers.items():
            breakers.add_row(as_text(name, "bold cyan"), as_text(state))
        console.print(breakers)
    processes = make_table(
        "who takes part",
        *("process", "holds", "waiting", "state", "gone in"),
    )
    for each in found.processes:
        processes.add_row(
            as_text(each.process, "bold cyan"),
            as_text(_write_holdings(each.units, found.limits) or "-"),
            as_text(str(each.waiting)),
            as_text("connected" if each.is_connected else "away"),
            as_text(seconds_text(each.seconds_left)),
        )
    console.print(processes)
    if not found.waiting:
        return
    line = make_table("who waits", "place", "process", "for", "priority", "waited", "")
    for each in found.waiting:
        wanted = ", ".join(f"{resource} {units}" for resource, units in each.units.items())
        line.add_row(
            *map(as_text, (str(each.position), each.process, wanted, str(each.priority))),
            as_text(seconds_text(each.waited)),
            as_text("held up by its process" if each.is_held else ""),
        )
    console.print(line)


def _write_holdings(units: Mapping[str, int], limits: Iterable[str]) -> str:
    """Return what a process holds; of a key with many values, the sum of them."""
    words, by_limit = [], dict[str, list[str]]()
    for resource in units:
        of_key = (each for each in limits if resource.startswith(f"{each}:"))
        by_limit.setdefault(next(of_key, resource), []).append(resource)
    for limit, found in by_limit.items():
        if len(found) > _MOST_VALUES:
            total = sum(units[each] for each in found)
            words.append(f"{limit} {total} ({len(found)} values)")
        else:
            words += [f"{each} {units[each]}" for each in found]
    return ", ".join(words)


def _waits_for(units: Iterable[str], limit: str) -> bool:
    """Return whether a limit bounds one of these resources: that of a key bounds each value."""
    return any(each == limit or each.startswith(f"{limit}:") for each in units)
