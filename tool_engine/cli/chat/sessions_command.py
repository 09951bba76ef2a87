"""Which conversations are kept, and which approvals do they wait for?"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from tool_engine.approval.answers import name_at_terminal
from tool_engine.approval.describe import describe, shown_fields
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.cli.completion import complete_word
from tool_engine.cli.console import as_text, json_text, make_console, print_json, safe_text
from tool_engine.cli.failures import EXIT_OK, CommandError
from tool_engine.cli.options import JSONOption, RecordsOption, ToolsOption, settings_of
from tool_engine.cli.records.record_line import local_time
from tool_engine.cli.records.recording import open_records
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.tables import fact_table, make_table
from tool_engine.cli.usage import suggest_step
from tool_engine.knowledge.store import ToolKnowledgeStore
from tool_engine.model.approval import ApprovalDecision, ApprovalRequest, StandingDecision
from tool_engine.model.json.returned_value import to_text
from tool_engine.model.session import SessionInfo
from tool_engine.model.tool import Tool
from tool_engine.session.kept_secrets import KeptSecrets

_PAGE = 1_000
_SPEAKERS = ("user", "assistant")
_STYLES = {"user": "bold", "assistant": ""}
_SHOWN = 300
"""Characters of a call with its result, which may be long; `--json` has all of it."""


_WORDS = {
    "show": "ID",
    "delete": "ID",
    "approve": "TOKEN",
    "refuse": "TOKEN",
    "revoke": "DECISION",
}
_ALONE = ("list", "pending", "decisions")


def run_command(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[show ID | delete ID | pending | approve TOKEN | refuse TOKEN | decisions | "
            "revoke DECISION]",
            help="One session, what waits for an answer, the answer, or what always holds; "
            "else the list.",
            show_default=False,
            autocompletion=complete_word,
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
    always: Annotated[
        str | None,
        typer.Option(
            "--always",
            metavar="call|tool",
            help="With approve and refuse: it holds for the principal until it is revoked.",
        ),
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """List the kept conversations, look at one, and answer what one of them waits for.

    Example: tool-engine sessions show chat-1
    """
    step, name = _read_step(words or [])
    if reason is not None and step != "refuse":
        raise CommandError("--reason goes with `sessions refuse TOKEN`")
    if always not in (None, "call", "tool") or (always and step not in ("approve", "refuse")):
        raise CommandError("write `sessions approve TOKEN --always call`, or `--always tool`")
    settings = settings_of(ctx, tools, records)
    if step in ("approve", "refuse"):
        from tool_engine.cli.chat.answering import answer_request

        decision = ApprovalDecision(
            is_approved=step == "approve", reason=reason, always=always, by=name_at_terminal()
        )
        return answer_request(settings, name, decision, as_json=as_json)
    if step in ("decisions", "revoke"):
        run = partial(revoke_decision, decision_id=name) if step == "revoke" else print_decisions
        return run(settings, as_json=as_json)
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
        f"sessions takes no {' '.join(words)!r}{suggest_step(step, [*_WORDS, *_ALONE])}"
    )


def print_sessions(settings: Settings, *, limit: int, as_json: bool) -> int:
    return run_async(_print_sessions(settings, limit, as_json=as_json))


def print_session(settings: Settings, session_id: str, *, as_json: bool) -> int:
    return run_async(_print_session(settings, session_id, as_json=as_json))


def print_pending(settings: Settings, *, as_json: bool) -> int:
    """Print all requests that wait for an answer, oldest first."""
    return run_async(_print_pending(settings, as_json=as_json))


def delete_session(settings: Settings, session_id: str, *, as_json: bool) -> int:
    return run_async(_delete_session(settings, session_id, as_json=as_json))


async def _print_sessions(settings: Settings, limit: int, *, as_json: bool) -> int:
    async with open_records(settings) as store:
        infos = await store.sessions.list(limit)
    if as_json:
        print_json([_describe_session(each) for each in infos])
        return EXIT_OK
    if not infos:
        sys.stderr.write("no sessions are kept\n" if limit else "--limit 0 shows none\n")
        return EXIT_OK
    table = make_table("", "session", "saved", "begun", "characters", "asks")
    for each in infos:
        table.add_row(
            as_text(each.session_id, "bold cyan"),
            as_text(local_time(each.updated_at)),
            as_text(local_time(each.created_at)),
            f"{each.size:,}",
            str(each.pending_approvals or ""),
        )
    make_console().print(table)
    return EXIT_OK


async def _print_session(settings: Settings, session_id: str, *, as_json: bool) -> int:
    async with open_records(settings) as store:
        data = await store.sessions.load(session_id)
        requests = await store.approvals.pending(session_id)
        info = await _find_session(store, session_id)
    if data is None or info is None:
        raise _unknown_error(session_id)
    # Reads files.
    secrets = KeptSecrets(data, await asyncio.to_thread(_load_tools, settings))
    if secrets.unknown:
        names = ", ".join(map(safe_text, secrets.unknown))
        sys.stderr.write(
            f"warning: {settings.tools} does not have the definition that {names} ran with: all of "
            "its arguments are hidden, what was answered is not; name its folder with --tools\n"
        )
    if as_json:
        asked = [_describe_request(each) for each in requests]
        # A session's name is no secret, though its key is named like one.
        kept = {**secrets.hide(data), "session_id": data.get("session_id")}
        print_json({**_describe_session(info), "requests": asked, "data": kept})
        return EXIT_OK
    facts = {
        "session": info.session_id,
        "begun": local_time(info.created_at),
        "saved": local_time(info.updated_at),
        "characters": f"{info.size:,}",
    }
    make_console().print(fact_table("", facts))
    _print_messages(data, secrets)
    _print_requests(requests)
    return EXIT_OK


async def _print_pending(settings: Settings, *, as_json: bool) -> int:
    async with open_records(settings) as store:
        requests = await store.approvals.pending()
    if as_json:
        print_json([_describe_request(each) for each in requests])
    elif requests:
        _print_requests(requests)
    else:
        sys.stderr.write("nothing waits for an answer\n")
    return EXIT_OK


async def _delete_session(settings: Settings, session_id: str, *, as_json: bool) -> int:
    async with open_records(settings) as store:
        if not await store.sessions.delete(session_id):
            raise _unknown_error(session_id)
    if as_json:
        print_json({"deleted": session_id})
    else:
        make_console().print(as_text(f"deleted {session_id}"), soft_wrap=True)
    return EXIT_OK


async def _find_session(store: ToolKnowledgeStore, session_id: str) -> SessionInfo | None:
    offset = 0
    while infos := await store.sessions.list(_PAGE, offset):
        for each in infos:
            if each.session_id == session_id:
                return each
        offset += len(infos)
    return None


def _load_tools(settings: Settings) -> list[Tool]:
    """Return the tools that can be loaded; none where there is no folder."""
    if not Path(settings.tools).is_dir():
        return []
    return ToolConfigLoader().load_directory(settings.tools, settings.is_recursive)


def _print_messages(data: Mapping[str, Any], secrets: KeptSecrets) -> None:
    """Print messages and calls, one paragraph each, with secrets hidden."""
    loop = data.get("more", {}).get("loop", {})
    console = make_console()
    for entry in loop.get("transcript", ()) if isinstance(loop, dict) else ():
        role, call = str(entry.get("role", "")), entry.get("metadata", {}).get("toolCall")
        text = secrets.hide_text(str(entry.get("text", "")))
        if isinstance(call, dict):
            arguments = json_text(_read_arguments(secrets.hide(call)), indent=None)
            text = f"{call.get('toolName', '')}({arguments}): {text}"
        shown = text if role in _SPEAKERS or len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        if shown:
            console.print(as_text(f"{role}: {shown}", _STYLES.get(role, "dim")), soft_wrap=True)


def _read_arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, which is kept with texts, as the model sent them."""
    kept: dict[str, Any] = call.get("args", {})
    sent: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        sent = json.loads(str(call.get("rawBlock")))
    if not isinstance(sent, dict):
        return kept  # of a protocol that is a text
    # What is hidden in one of both has another text.
    return {
        key: sent[key] if key in sent and to_text(sent[key]) == text else text
        for key, text in kept.items()
    }


def _print_requests(requests: Sequence[ApprovalRequest]) -> None:
    console = make_console()
    for each in requests:
        expires = datetime.fromtimestamp(each.expires_at, UTC)
        who = each.principal or each.conversation_id
        of = f" for {who}" if who not in ("", each.session_id) else ""
        head = f"{each.session_id} asks{of} until {local_time(expires)}: {each.token}"
        console.print(as_text(head, "bold"), soft_wrap=True)
        console.print(as_text(describe(each)), soft_wrap=True)


def _describe_session(info: SessionInfo) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(info)
    return found


def _describe_request(request: ApprovalRequest) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(request),
        **shown_fields(request),
        "is_whole": request.is_whole,
    }


def _unknown_error(session_id: str) -> CommandError:
    return CommandError(
        f"no session {session_id!r} is kept; `tool-engine sessions` lists those that are",
        error_type="session_not_found",
    )


def print_decisions(settings: Settings, *, as_json: bool) -> int:
    """Print all of them, of every engine on the database, oldest first."""
    return run_async(_print_decisions(settings, as_json=as_json))


def revoke_decision(settings: Settings, decision_id: str, *, as_json: bool) -> int:
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
        console.print(as_text(f"{each.principal}: {each.decision_id}", "bold"), soft_wrap=True)
        console.print(as_text(f"{said}{f', by {each.by}' if each.by else ''}"), soft_wrap=True)
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
        make_console().print(as_text(f"revoked {decision_id}"), soft_wrap=True)
    return EXIT_OK
