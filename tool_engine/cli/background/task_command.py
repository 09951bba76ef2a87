"""How does the command line start tasks, look at them, wait for them and cancel them?"""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing
from typing import Annotated, Any, Final

import msgspec
import typer

from tool_engine.cli.broken import missing_in
from tool_engine.cli.calls.call_arguments import parse_arguments, read_params
from tool_engine.cli.calls.call_command import print_result
from tool_engine.cli.calls.caller import CALLER, find_approver
from tool_engine.cli.calls.progress_line import ProgressLine, describe_progress
from tool_engine.cli.completion import complete_word
from tool_engine.cli.console import as_text, json_text, make_console, print_json, safe_text
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError
from tool_engine.cli.options import JSONOption, RecordsOption, ToolsOption, settings_of
from tool_engine.cli.records.record_line import local_time
from tool_engine.cli.records.recording import recording_engine
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import CALLS_CANCELLED, run_async
from tool_engine.cli.tables import fact_table, make_table
from tool_engine.cli.usage import suggest_step
from tool_engine.engine import ToolEngine
from tool_engine.errors import TaskNotFoundError
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.task import QUEUED, SUCCEEDED, TaskHandle, TaskState

_WORDS: Final = {"start": "NAME", "show": "ID", "cancel": "ID", "wait": "ID"}
_Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="With cancel: why.")]
_OfAll = Annotated[
    bool, typer.Option("--all", help="With cancel: all that have not ended, or of --status.")
]
_LOOK: Final = 0.1
"""Seconds between two drawings of progress."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    step: str
    name: str = ""
    words: tuple[str, ...] = ()
    params_file: str | None = None
    ttl: float = 3600.0
    key: str | None = None
    status: str | None = None
    limit: int = 20
    reason: str | None = None
    waits: bool = False
    is_of_all: bool = False
    as_json: bool = False


def run_command(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[start NAME KEY=VALUE... | list | show ID | wait ID | cancel ID...]",
            help="What to do; else the list. `wait` runs what is queued here.",
            show_default=False,
            autocompletion=complete_word,
        ),
    ] = None,
    *,
    params: Annotated[
        str | None,
        typer.Option("--params", metavar="FILE", help="With start: arguments from a file, or -."),
    ] = None,
    ttl: Annotated[
        float,
        typer.Option("--ttl", metavar="SECONDS", help="With start: how long it may take in all."),
    ] = 3600.0,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="TEXT", help="With start: the same key is the same task."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="With start: run it here, and print its result.")
    ] = False,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="STATUS", help="With list, cancel --all: these."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, metavar="N", help="With list: the newest.")
    ] = 20,
    reason: _Reason = None,
    of_all: _OfAll = False,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Start calls that outlive this command, and see what became of them.

    Example: tool-engine task start write_report year=2026
    """
    step, name, rest = _read_step(list(words or []), is_of_all=of_all)
    request = Request(
        step=step,
        name=name,
        words=tuple(rest),
        params_file=params,
        ttl=ttl,
        key=key,
        status=status,
        limit=limit,
        reason=reason,
        waits=wait or step == "wait",
        is_of_all=of_all,
        as_json=as_json,
    )
    return _run_request(settings_of(ctx, tools, records), request)


def _run_request(settings: Settings, request: Request) -> int:
    # Read before the loop runs: a Ctrl-C cannot cancel a coroutine that waits for stdin.
    given = read_params(request.params_file) if request.step == "start" else {}
    goes_on: list[str] = []
    return run_async(
        _run_step(settings, request, given, goes_on),
        explain=lambda: "".join(goes_on) or CALLS_CANCELLED,
        has_document=request.as_json,
    )


def _read_step(words: list[str], *, is_of_all: bool) -> tuple[str, str, list[str]]:
    if is_of_all and words != ["cancel"]:
        raise CommandError("--all is of no task alone; write `tool-engine task cancel --all`")
    if is_of_all:
        return "cancel", "", []
    if not words or words == ["list"]:
        return "list", "", []
    step, *rest = words
    if step in ("start", "cancel") and rest:
        return step, rest[0], rest[1:]
    if step in _WORDS and len(rest) == 1:
        return step, rest[0], []
    if step in _WORDS:
        raise CommandError(f"write `tool-engine task {step} {_WORDS[step]}`")
    known = [*_WORDS, "list"]
    raise CommandError(f"task takes no {' '.join(words)!r}{suggest_step(step, known)}")


async def _run_step(
    settings: Settings, request: Request, params: dict[str, Any], goes_on: list[str]
) -> int:
    approver = find_approver()
    async with recording_engine(settings, approver=approver, must_record=True) as engine:
        if not engine.store.tasks.is_shared:
            raise CommandError(
                "tasks need a database to be kept in; name one with --records URL or the variable "
                "TOOL_ENGINE_RECORDS",
                error_type="no_records",
            )
        if request.step == "list":
            return await _list_tasks(engine, request)
        if request.step == "cancel":
            return await _cancel_tasks(engine, request)
        if request.step == "start":
            handle = await _start_task(settings, engine, request, params)
        else:
            handle = await _find_task(engine, request.name)
        if request.waits:
            return await _wait_for_task(engine, handle, request, goes_on)
        if request.step == "show":
            await handle.refresh()
        is_new, state = request.step == "start", handle.state
        _print_state(state, as_json=request.as_json, is_new=is_new)
        if is_new and state.is_final and state.status != SUCCEEDED:
            # No one waits for it, and a misspelt parameter is better known now than later.
            sys.stderr.write(f"it has ended: {state.status}: {safe_text(state.message or '')}\n")
            return EXIT_FAILED
        return EXIT_OK


async def _start_task(
    settings: Settings, engine: ToolEngine, request: Request, params: dict[str, Any]
) -> TaskHandle:
    tool = engine.get(request.name)
    if tool is None:
        raise missing_in(settings, engine, request.name)
    arguments = {**params, **parse_arguments(tool, request.words, params)}
    context = ToolExecutionContext(caller_id=CALLER, caller_type="direct")
    return await engine.tasks.start(
        tool.name,
        arguments,
        context,
        ttl=request.ttl,
        idempotency_key=request.key,
        is_awaited=request.waits,
    )


async def _find_task(engine: ToolEngine, task_id: str) -> TaskHandle:
    try:
        return await engine.tasks.get(task_id)
    except TaskNotFoundError as error:
        raise CommandError(
            f"no task {task_id!r} is kept; `tool-engine task` lists those that are",
            error_type=error.error_type,
        ) from error


async def _wait_for_task(
    engine: ToolEngine, handle: TaskHandle, request: Request, goes_on: list[str]
) -> int:
    waiting = asyncio.ensure_future(handle.wait())
    is_here = request.step == "start"
    try:
        with closing(ProgressLine()) as line:
            while not waiting.done():
                if handle.status == QUEUED:
                    # Whatever queued it: its engine may have ended, or was none that runs tasks.
                    is_here = await engine.tasks.run_one(handle.id) or is_here
                if handle.progress is not None and not handle.state.is_final:
                    line.show(handle.tool_name, handle.progress)
                await asyncio.wait([waiting], timeout=_LOOK)
        result = waiting.result()
    except asyncio.CancelledError:
        if not is_here:
            goes_on.append(f"the task goes on: `tool-engine task wait {handle.id}` waits again")
        raise
    finally:
        waiting.cancel()
    if request.as_json:
        print_json(result.to_dict())
    else:
        print_result(result)
    return EXIT_OK if result.is_success else EXIT_FAILED


async def _cancel_tasks(engine: ToolEngine, request: Request) -> int:
    if request.is_of_all:
        count = await engine.tasks.cancel_all(status=request.status, reason=request.reason)
        if request.as_json:
            print_json({"cancelled": count})
        else:
            make_console().print(as_text(f"cancelled: {count:,}"), soft_wrap=True)
        return EXIT_OK
    # Before one is cancelled each is known to be there.
    handles = [await _find_task(engine, each) for each in (request.name, *request.words)]
    for handle in handles:
        is_cancelled = await handle.cancel(request.reason)
        if request.as_json:
            print_json({"cancelled": is_cancelled, "id": handle.id})
        else:
            text = "cancelled" if is_cancelled else f"it had ended: {handle.status}"
            shown = text if len(handles) == 1 else f"{handle.id} {text}"
            make_console().print(as_text(shown), soft_wrap=True)
    return EXIT_OK


async def _list_tasks(engine: ToolEngine, request: Request) -> int:
    found = await engine.tasks.list(status=request.status, limit=request.limit)
    if request.as_json:
        print_json([state.to_dict() for state in found])
        return EXIT_OK
    if not found:
        of_status = "" if request.status is None else f" with the status {request.status!r}"
        sys.stderr.write(f"no tasks{of_status} are kept\n")
        return EXIT_OK
    table = make_table("", "task", "tool", "status", "started", "owner", "message")
    for state in found:
        table.add_row(
            as_text(state.id, "bold cyan"),
            as_text(state.tool_name),
            as_text(state.status),
            as_text(local_time(state.created_at)),
            as_text(state.owner or ""),
            as_text(state.message or ""),
        )
    make_console().print(table)
    return EXIT_OK


def _print_state(state: TaskState, *, as_json: bool, is_new: bool) -> None:
    if as_json:
        print_json(state.to_dict())
        return
    if is_new:
        make_console().print(as_text(state.id), soft_wrap=True)
        return
    progress = None if state.progress is None else describe_progress(state.progress)
    facts = {
        "task": state.id,
        "tool": state.tool_name,
        "status": state.status,
        "message": state.message,
        "progress": progress,
        "owner": state.owner,
        "call": state.call_id,
        "started": local_time(state.created_at),
        "ended": None if state.ended_at is None else local_time(state.ended_at),
        "output": None if state.result is None else json_text(state.result.output),
    }
    make_console().print(fact_table("", {k: v for k, v in facts.items() if v is not None}))
