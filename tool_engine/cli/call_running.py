"""How does the command line run one call or a batch?"""

from __future__ import annotations

import os
from typing import Any, Final

import msgspec

from tool_engine.cli.call_arguments import parse_arguments, read_params
from tool_engine.cli.console import json_text, make_console, plain, print_json
from tool_engine.cli.documents import read_entries
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError, suggest_name
from tool_engine.cli.files.broken import missing_tool
from tool_engine.cli.records.recording import recording_engine, records_written
from tool_engine.cli.settings import Settings, run_async
from tool_engine.cli.tables import count_text, fact_table, findings_table, results_table
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.interfaces import Approver
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.record import ToolCallRecord
from tool_engine.named_file import why_unwritten
from tool_engine.subagent import ToolSubAgent
from tool_engine.testing.trace import write_trace

_CALLER = "tool-engine-cli"
_PART = 5_000
"""Calls of a batch between two waits for their records; fewer than a buffer of records holds."""
_MOST_TRACED = 1_000_000
"""Calls of a batch that a trace holds, those made by calls included."""


class Request(msgspec.Struct, frozen=True):
    name: str
    words: tuple[str, ...] = ()
    params_file: str | None = None
    timeout: float | None = None


class BatchOptions(msgspec.Struct, frozen=True):
    is_parallel: bool = False
    max_parallel: int | None = None
    trace: str | None = None
    """The file to record the calls in."""


def call_tool(settings: Settings, request: Request, *, as_json: bool) -> int:
    # Read before the loop runs: a Ctrl-C cannot cancel a coroutine that waits for stdin.
    params = read_params(request.params_file)
    return run_async(_call_tool(settings, request, params, as_json=as_json))


def run_batch(settings: Settings, file: str, options: BatchOptions, *, as_json: bool) -> int:
    calls = read_calls(file)
    if options.trace is None:
        return run_async(_run_batch(settings, calls, options, as_json=as_json))
    records: list[ToolCallRecord] = []
    _open_trace(options.trace)
    code = run_async(_run_batch(settings, calls, options, records, as_json=as_json))
    # Written after the loop has ended, which a slow disk would have blocked.
    written = write_trace(options.trace, records)
    if not as_json:
        text = f"trace: {count_text(written, 'call')} in {options.trace}"
        make_console().print(plain(text), soft_wrap=True)
    return code


def print_result(result: ToolExecutionResult) -> None:
    console = make_console()
    if result.validation_errors:
        console.print(findings_table(result.validation_errors))
    if not result.is_success:
        console.print(plain(f"{result.error_type}: {result.error or ''}", "red"), soft_wrap=True)
        return
    output: Any = result.output
    # Only the engine's own wrapping is undone: a tool's text prints as text.
    if list(output) == ["result"] and isinstance(output["result"], str):
        console.print(plain(output["result"]), soft_wrap=True)
        return
    console.print(plain(json_text(output)), soft_wrap=True)


def summary_facts(summary: dict[str, Any]) -> dict[str, Any]:
    """Return a sub-agent's summary without the list of its calls."""
    return {key: value for key, value in summary.items() if key not in ("call_details", "errors")}


async def _call_tool(
    settings: Settings, request: Request, params: dict[str, Any], *, as_json: bool
) -> int:
    context = ToolExecutionContext(caller_id=_CALLER, caller_type="direct", timeout=request.timeout)
    # Modules of other kinds of tools take longer to import than this call to run.
    async with recording_engine(settings, approver=_find_approver(), preload=False) as engine:
        tool = engine.get(request.name)
        for each in engine.quarantined():
            if each.name == request.name and tool is None:
                raise CommandError(
                    each.message, error_type="tool_quarantined", exit_code=EXIT_FAILED
                )
        if tool is None:
            raise missing_tool(settings, request.name, engine.list_names(), engine.load_errors)
        arguments = {**params, **parse_arguments(tool, request.words, params)}
        await ExecutorRegistry().prepare([tool])
        result = await engine.execute(tool.name, arguments, context)
    if as_json:
        print_json(result.to_dict())
    else:
        print_result(result)
    return EXIT_OK if result.is_success else EXIT_FAILED


async def _run_batch(
    settings: Settings,
    calls: list[tuple[str, dict[str, Any]]],
    options: BatchOptions,
    records: list[ToolCallRecord] | None = None,
    *,
    as_json: bool,
) -> int:
    changes = {} if records is None else {"max_records": _MOST_TRACED}
    async with recording_engine(settings, approver=_find_approver(), **changes) as engine:
        agent = ToolSubAgent(_CALLER, engine)
        results: list[ToolExecutionResult] = []
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


def _find_approver() -> Approver | None:
    """Return the person at the terminal; None on systems without such terminals."""
    # Loaded here: most commands ask for no approval.
    try:
        from tool_engine.approval.console import ConsoleApprover
    except ModuleNotFoundError:
        return None
    return ConsoleApprover()


def _open_trace(path: str) -> None:
    """Check before any call that the trace can be written."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o666))
    except OSError as error:
        raise CommandError(f"cannot write {path}: {why_unwritten(error)}") from error


_FORM: Final = '{"tool": "echo", "params": {"message": "hi"}} or ["echo", {"message": "hi"}]'


def read_calls(path: str) -> list[tuple[str, dict[str, Any]]]:
    """Read calls from a list or from JSON lines; `-` is stdin.

    A CommandError names the place of an entry that is no call.
    """
    calls = [_read_call(place, entry) for place, entry in read_entries(path)]
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
        raise CommandError(f"{place}: params must be an object, got {type(params).__name__}")
    return name, params or {}
