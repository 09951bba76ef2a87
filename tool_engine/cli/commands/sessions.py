"""Which words may follow `sessions`?

Signatures only: what a command does is imported when it runs, so that `--help` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tool_engine.cli.failures import CommandError, suggest_name
from tool_engine.cli.options import JSONOption, RecordsOption, ToolsOption, settings_of

_WORDS = {"show": "ID", "delete": "ID", "approve": "TOKEN", "refuse": "TOKEN"}
_ALONE = ("list", "pending")


def sessions_command(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[show ID | delete ID | pending | approve TOKEN | refuse TOKEN]",
            help="One session, what waits for an answer, or the answer; else the list.",
            show_default=False,
        ),
    ] = None,
    *,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, metavar="N", help="Those saved last.")
    ] = 20,
    reason: Annotated[
        str | None,
        typer.Option("--reason", metavar="TEXT", help="With refuse: what the model is told."),
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """List the conversations that are kept, look at one, and answer what one of them waits for.

    Example: tool-engine sessions show chat-1
    """
    step, name = _read_step(words or [])
    if reason is not None and step != "refuse":
        raise CommandError("--reason goes with `sessions refuse TOKEN`")
    settings = settings_of(ctx, tools, records)
    if step in ("approve", "refuse"):
        from tool_engine.cli.answering import answer

        return answer(settings, name, is_approved=step == "approve", reason=reason, as_json=as_json)
    from tool_engine.cli.sessions import (
        delete_session,
        print_pending,
        print_session,
        print_sessions,
    )

    if step == "show":
        return print_session(settings, name, as_json=as_json)
    if step == "delete":
        return delete_session(settings, name, as_json=as_json)
    if step == "pending":
        return print_pending(settings, as_json=as_json)
    return print_sessions(settings, limit=limit, as_json=as_json)


def _read_step(words: list[str]) -> tuple[str, str]:
    if not words:
        return "list", ""
    step, *names = words
    if step in _ALONE and not names:
        return step, ""
    if step in _WORDS and len(names) == 1:
        return step, names[0]
    if step in _WORDS:
        raise CommandError(f"write `tool-engine sessions {step} {_WORDS[step]}`")
    raise CommandError(
        f"sessions takes no {' '.join(words)!r}{suggest_name(step, [*_WORDS, *_ALONE])}"
    )
