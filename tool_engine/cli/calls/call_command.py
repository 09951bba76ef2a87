"""How does the command line run one call?"""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing
from functools import partial
from typing import Annotated, Any

import msgspec
import typer

from tool_engine.cli.broken import missing_in, report_servers
from tool_engine.cli.calls.call_arguments import parse_arguments, read_params
from tool_engine.cli.calls.caller import CALLER, find_approver
from tool_engine.cli.calls.progress_line import ProgressLine
from tool_engine.cli.completion import complete_argument
from tool_engine.cli.console import as_text, flush_stdout, json_text, make_console, print_json
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError
from tool_engine.cli.logs import hide_load_errors
from tool_engine.cli.options import (
    JSONOption,
    NameArgument,
    RecordsOption,
    TimeoutOption,
    ToolsOption,
    settings_of,
)
from tool_engine.cli.records.recording import recording_engine
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.slow_servers import warn_of_slow_servers
from tool_engine.cli.tables import findings_table
from tool_engine.engine import ToolEngine
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.model.call import ToolExecutionContext, ToolExecutionResult
from tool_engine.model.content.blocks import read_content, write_text
from tool_engine.model.event import ToolEngineEventType
from tool_engine.model.json.returned_value import copy_plain
from tool_engine.model.permission import ExecutionPolicy
from tool_engine.model.tool import Tool, server_of
from tool_engine.visible import escape_hidden


class Request(msgspec.Struct, frozen=True):
    name: str
    words: tuple[str, ...] = ()
    params_file: str | None = None
    timeout: float | None = None


def run_command(
    ctx: typer.Context,
    name: NameArgument,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Arguments: key=value by the parameter's type, key:=json, key=@file; also "
            "--key value, or one JSON object.",
            autocompletion=complete_argument,
        ),
    ] = None,
    *,
    params: Annotated[
        str | None,
        typer.Option(
            "--params", metavar="FILE", help="Arguments from a JSON or YAML file; - is stdin."
        ),
    ] = None,
    timeout: TimeoutOption = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Call one tool.

    Example: tool-engine call http_request url=https://example.com headers:='{"accept": "*/*"}'
    """
    request = Request(name, tuple(words or ()), params, timeout)
    return call_tool(settings_of(ctx, tools, records), request, as_json=as_json)


def call_tool(settings: Settings, request: Request, *, as_json: bool) -> int:
    # Read before the loop runs: a Ctrl-C cannot cancel a coroutine that waits for stdin.
    params = read_params(request.params_file)
    said: list[int] = []
    run = _call_tool(settings, request, params, said, as_json=as_json)
    try:
        return run_async(run, has_document=as_json)
    except CommandError as error:
        if said and error.kind == "interrupted":
            # Its result stands there already: what was cut off is the wait for what it has left.
            return error.exit_code
        raise


def print_result(result: ToolExecutionResult) -> None:
    console = make_console()
    if findings := _list_unsaid(result):
        console.print(findings_table(findings))
    if not result.is_success:
        console.print(as_text(f"{result.error_type}: {result.error or ''}", "red"), soft_wrap=True)
        if place := (result.metadata.get("error_details") or {}).get("raised_at"):
            console.print(as_text(f"raised at {place}", "dim"), soft_wrap=True)
        return
    output: Any = result.output
    # Only the engine's own wrapping is undone: a tool's text prints as text.
    if list(output) == ["result"] and isinstance(output["result"], str):
        console.print(as_text(output["result"]), soft_wrap=True)
        return
    # Bytes as base64 are nothing to read: with --json all of it is printed.
    parts = read_content(output)
    console.print(
        as_text(write_text(parts) if parts else json_text(copy_plain(output))), soft_wrap=True
    )


def _list_unsaid(result: ToolExecutionResult) -> list[dict[str, Any]]:
    """Return the findings that the line of the error does not say as well."""
    found = list(result.validation_errors or ())
    if result.is_success or sum(each.get("level") == "error" for each in found) != 1:
        return found
    # The one mistake stands in the line, and with it the name that was sent for the right one.
    said = result.error or ""
    return [
        each
        for each in found
        if str(each.get("message")) not in said
        and not (each.get("error_type") == "extra_parameter" and f"sent {each['path']!r}" in said)
    ]


async def _start_servers(engine: ToolEngine) -> None:
    is_reported = bool(engine.list_mcp_errors())
    with hide_load_errors(), warn_of_slow_servers(engine):
        await engine.start_mcp_servers()
    if not is_reported:
        report_servers(engine.list_mcp_errors())


async def _call_tool(
    settings: Settings,
    request: Request,
    params: dict[str, Any],
    said: list[int],
    *,
    as_json: bool,
) -> int:
    """Call a tool and print its result; `said` gets the exit code once that is done."""
    context = ToolExecutionContext(caller_id=CALLER, caller_type="direct", timeout=request.timeout)
    # Modules of other kinds of tools take longer to import than this call to run, and servers to
    # start.
    off: dict[str, Any] = {"preload": False, "mcp_autostart": False}
    async with recording_engine(settings, approver=find_approver(), **off) as engine:
        tool = engine.get(request.name)
        if tool is None or server_of(tool) is not None:
            await _start_servers(engine)
        tool = engine.get(request.name)
        for each in engine.quarantined():
            if each.name == request.name and tool is None:
                raise CommandError(
                    each.message, error_type="tool_quarantined", exit_code=EXIT_FAILED
                )
        if tool is None:
            raise missing_in(settings, engine, request.name)
        arguments = {**params, **parse_arguments(tool, request.words, params)}
        await asyncio.to_thread(ExecutorRegistry().prepare, [tool])
        with closing(ProgressLine()) as line:
            engine.subscribe(line.log, ToolEngineEventType.EXECUTION_LOGGED)
            show = partial(line.show, tool.name)
            result = await engine.execute(tool.name, arguments, context, on_progress=show)
        # Before the engine closes: that waits for what a tool has left in a thread.
        if as_json:
            print_json(result.to_dict())
        else:
            print_result(result)
            _print_denial(tool, result)
        if result.is_success and result.output == {"result": None}:
            _explain_null(tool)
        flush_stdout()
        said.append(EXIT_OK if result.is_success else EXIT_FAILED)
    return said[0]


def _print_denial(tool: Tool, result: ToolExecutionResult) -> None:
    """Print the place that allows no call."""
    denied = tool.permission is not None and tool.permission.execution is ExecutionPolicy.DENY
    if denied and result.error_type == "execution_rejected" and tool.source:
        said = f"{tool.source}: permission: deny; write another one there to allow calls"
        make_console().print(as_text(said, "dim"), soft_wrap=True)


def _explain_null(tool: Tool) -> None:
    """Say which expression may have found nothing: a misspelt key finds null, and no error."""
    response = tool.implementation_config.get("response")
    path, key = "entry.response", "response"
    if isinstance(response, dict):
        path, key, response = f"{path}.select", "select", response.get("select")
    if response is None and tool.result is not None:
        path, key, response = "result.select", "select", tool.result.select
    if isinstance(response, str):
        words = f"{path} {response!r} finds nothing; to see all that there is write {key}: '@'"
        sys.stderr.write(f"{escape_hidden(f'{tool.source}: {words}')}\n")
