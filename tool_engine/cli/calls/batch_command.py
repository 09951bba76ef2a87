"""How does the command line run many calls?"""

from __future__ import annotations

import os
from contextlib import closing
from typing import Annotated, Any, Final

import msgspec
import typer

from tool_engine.cli.calls.caller import CALLER, find_approver, summary_facts
from tool_engine.cli.calls.progress_line import ProgressLine
from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.documents import JSONTextError, read_entries
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError, suggest_name
from tool_engine.cli.options import JSONOption, RecordsOption, ToolsOption, settings_of
from tool_engine.cli.records.recording import recording_engine, records_written
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.tables import count_text, fact_table, results_table
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.event import ToolEngineEventType
from tool_engine.model.record import ToolCallRecord
from tool_engine.named_file import why_unwritten
from tool_engine.subagent import ToolSubAgent
from tool_engine.testing.trace import write_trace

_PART: Final = 5_000
"""Calls of a batch between two waits for their records; fewer than a buffer of records holds."""
_MOST_TRACED: Final = 1_000_000
"""Calls of a batch that a trace holds, those made by calls included."""
_FORM: Final = '{"tool": "echo", "params": {"message": "hi"}} or ["echo", {"message": "hi"}]'


class BatchOptions(msgspec.Struct, frozen=True):
    is_parallel: bool = False
    max_parallel: int | None = None
    trace: str | None = None
    """The file to record the calls in."""


def run_command(
    ctx: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A JSON or YAML list, or JSON lines; - is stdin.")
    ],
    *,
    parallel: Annotated[
        bool, typer.Option("--parallel", "-p", help="Run the calls at the same time.")
    ] = False,
    max_parallel: Annotated[
        int | None,
        typer.Option("--max-parallel", min=1, metavar="N", help="At most N at the same time."),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option("--trace", metavar="FILE", help="Record the calls for `simulate`."),
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Run many calls, each {"tool": NAME, "params": {...}} or a list of NAME and params.

    Example: tool-engine batch calls.jsonl --parallel --max-parallel 4
    """
    options = BatchOptions(parallel or max_parallel is not None, max_parallel, trace)
    return run_batch(settings_of(ctx, tools, records), file, options, as_json=as_json)


def run_batch(settings: Settings, file: str, options: BatchOptions, *, as_json: bool) -> int:
    calls = read_calls(file)
    if options.trace is None:
        run = _run_batch(settings, calls, options, as_json=as_json)
        return run_async(run, has_document=as_json)
    records: list[ToolCallRecord] = []
    _open_trace(options.trace)
    run = _run_batch(settings, calls, options, records, as_json=as_json)
    code = run_async(run, has_document=as_json)
    # Written after the loop has ended, which a slow disk would have blocked.
    written = write_trace(options.trace, records)
    if not as_json:
        text = f"trace: {count_text(written, 'call')} in {options.trace}"
        make_console().print(as_text(text), soft_wrap=True)
    return code


async def _run_batch(
    settings: Settings,
    calls: list[tuple[str, dict[str, Any]]],
    options: BatchOptions,
    records: list[ToolCallRecord] | None = None,
    *,
    as_json: bool,
) -> int:
    changes: dict[str, Any] = {} if records is None else {"max_records": _MOST_TRACED}
    results: list[ToolExecutionResult] = []
    with closing(ProgressLine()) as line:
        async with recording_engine(settings, approver=find_approver(), **changes) as engine:
            engine.subscribe(line.log, ToolEngineEventType.EXECUTION_LOGGED)
            count = line.counter("batch", len(calls))
            agent = ToolSubAgent(CALLER, engine, on_result_callback=count)
            # Calls that never wait block the loop; this lets the records be written.
            for start in range(0, len(calls), _PART):
                results += await agent.execute_batch(
                    calls[start : start + _PART],
                    parallel=options.is_parallel,
                    max_parallel=options.max_parallel,
                )
                await records_written(engine)
            summary = summary_facts(agent.get_execution_summary())
            if records is not None:
                records += await engine.query_call_records()
    if as_json:
        print_json({"results": [result.to_dict() for result in results], "summary": summary})
    else:
        console = make_console()
        console.print(results_table(results, count_text(len(results), "call")))
        console.print(fact_table("summary", summary))
    return EXIT_OK if all(result.is_success for result in results) else EXIT_FAILED


def _open_trace(path: str) -> None:
    """Check before any call that the trace can be written."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o666))
    except OSError as error:
        raise CommandError(f"cannot write {path}: {why_unwritten(error)}") from error


def read_calls(path: str) -> list[tuple[str, dict[str, Any]]]:
    """Read calls from a list or from JSON lines; `-` is stdin.

    A CommandError names the place of an entry that is no call.
    """
    try:
        entries = read_entries(path)
    except JSONTextError as error:
        raise CommandError(f"{error}; write a call a line: {_FORM}") from error
    calls = [_read_call(place, entry) for place, entry in entries]
    if not calls:
        raise CommandError(f"{path} holds no calls; write {_FORM}")
    return calls


def _read_call(place: str, entry: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(entry, dict):
        for key in entry:
            if key not in ("tool", "params"):
                hint = suggest_name(str(key), ("tool", "params"))
                raise CommandError(f"{place}: unknown key {key!r}{hint}")
        name, params = entry.get("tool"), entry.get("params")
    elif isinstance(entry, list) and 1 <= len(entry) <= 2:
        name, params = entry[0], entry[1] if len(entry) == 2 else None
    else:
        raise CommandError(f"{place}: no call; write {_FORM}")
    if not isinstance(name, str) or not name:
        raise CommandError(f"{place}: the call names no tool; write {_FORM}")
    if params is not None and not isinstance(params, dict):
        raise CommandError(
            f"{place}: params must be an object, got {type(params).__name__}; write {_FORM}"
        )
    return name, params or {}
