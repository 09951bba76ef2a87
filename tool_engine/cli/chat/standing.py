"""Which decisions hold for principals until they are revoked?"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

from tool_engine.cli.console import json_text, make_console, plain, print_json
from tool_engine.cli.failures import EXIT_OK, CommandError
from tool_engine.cli.records.recording import open_records
from tool_engine.cli.records.showing import local_time
from tool_engine.cli.settings import Settings, run_async
from tool_engine.model.approval import StandingDecision


def print_decisions(settings: Settings, *, as_json: bool) -> int:
    """Print all of them, of every engine on the database, oldest first."""
    return run_async(_print_decisions(settings, as_json=as_json))


def revoke(settings: Settings, decision_id: str, *, as_json: bool) -> int:
    """Forget one of them: the next call is asked about again."""
    return run_async(_revoke_decision(settings, decision_id, as_json=as_json))


async def _print_decisions(settings: Settings, *, as_json: bool) -> int:
    async with open_records(settings) as store:
        approvals: Any = store.approvals
        found: list[StandingDecision] = await approvals.list_standing()
    if as_json:
        print_json([msgspec.structs.asdict(each) for each in found])
        return EXIT_OK
    if not found:
        sys.stderr.write("no decision always holds\n")
        return EXIT_OK
    console = make_console()
    for each in found:
        since = local_time(datetime.fromtimestamp(each.decided_at, UTC))
        params = "all arguments" if each.params is None else json_text(each.params, indent=None)
        word = "yes" if each.is_approved else "no"
        said = f"{word} to {each.tool_name} {each.tool_version} with {params}, since {since}"
        console.print(plain(f"{each.principal}: {each.decision_id}", "bold"), soft_wrap=True)
        console.print(plain(f"{said}{f', by {each.by}' if each.by else ''}"), soft_wrap=True)
    return EXIT_OK


async def _revoke_decision(settings: Settings, decision_id: str, *, as_json: bool) -> int:
    async with open_records(settings) as store:
        approvals: Any = store.approvals
        if not await approvals.revoke_standing(decision_id):
            raise CommandError(
                "no decision with this id holds; `tool-engine sessions decisions` lists those "
                "that do",
                error_type="decision_not_found",
            )
    if as_json:
        print_json({"revoked": decision_id})
    else:
        make_console().print(plain(f"revoked {decision_id}"), soft_wrap=True)
    return EXIT_OK
