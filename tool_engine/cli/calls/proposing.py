"""How does the command line show which limits would serve better?"""

from __future__ import annotations

import sys
from typing import Final

from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.failures import EXIT_OK, CommandError
from tool_engine.cli.records.filters import RecordFilters
from tool_engine.cli.records.recording import open_records
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.tables import make_table
from tool_engine.model.record import ToolCallRecord
from tool_engine.model.settings.limit_proposal import LimitProposal, LimitProposals
from tool_engine.testing.trace import Trace

_USUAL: Final = 1000
_MOST: Final = 100_000
"""Records; more take minutes to simulate."""


def read_calls(settings: Settings, last: int | None, since: str | None) -> Trace:
    """Return the newest recorded calls.

    Args:
        settings: The global options.
        last: The most of them; None: a thousand, or, since a moment, as many as there are.
        since: A moment or an age, as `parse_moment` reads it.

    Raises:
        CommandError: There are none.
    """
    query = RecordFilters(since=since).query(last or (_USUAL if since is None else _MOST))
    found: list[ToolCallRecord] = []

    async def read() -> int:
        async with open_records(settings) as store:
            found.extend(await store.storage.query(query))
        return EXIT_OK

    run_async(read())
    trace = Trace.of(found)
    if not trace.calls:
        raise CommandError(
            "there are no records of calls that asked for a slot"
            + ("" if since is None else f" since {since}")
            + "; give a TRACE, or name their database with --records URL",
            error_type="no_records",
        )
    return trace


def print_proposals(found: LimitProposals, *, with_curve: bool, as_json: bool) -> int:
    """Print the proposals, each with its reason and what it does not know."""
    if as_json:
        print_json(found.to_dict())
        return EXIT_OK
    console = make_console()
    for proposal in found.proposals:
        console.print(as_text(str(proposal), "bold"), soft_wrap=True)
        console.print(as_text(f"  because {proposal.reason}"), soft_wrap=True)
        sure = f"  certainty: {proposal.certainty}, from {proposal.calls:,} calls that ran"
        console.print(as_text(sure), soft_wrap=True)
        for each in proposal.unknown:
            console.print(as_text(f"  not known: {each}"), soft_wrap=True)
        if with_curve:
            console.print(_make_curve(proposal))
    for note in found.notes:
        console.print(as_text(f"note: {note}"), soft_wrap=True)
    sys.stdout.flush()
    return EXIT_OK


def _make_curve(proposal: LimitProposal) -> object:
    heads = ("limit", "wait, half", "95 %", "until done, 95 %", "served/s", "refused", "rejected")
    table = make_table(proposal.bucket, *heads)
    for point in proposal.curve:
        mark = "now" if point.limit == proposal.now.limit else ""
        mark = "proposed" if point.limit == proposal.limit else mark
        cells = (
            f"{point.limit} {mark}".strip(),
            f"{point.wait_p50:,.3f} s",
            f"{point.wait_p95:,.3f} s",
            f"{point.time_p95:,.3f} s",
            f"{point.throughput:,.2f}",
            str(point.refused_by_service),
            str(point.rejected),
        )
        table.add_row(*(as_text(cell) for cell in cells))
    return table
