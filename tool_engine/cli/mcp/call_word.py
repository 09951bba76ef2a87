"""How does the command line call a tool of a server, by the server's own names?"""

from __future__ import annotations

from tool_engine.cli.calls.call_arguments import parse_arguments
from tool_engine.cli.calls.call_command import print_result
from tool_engine.cli.calls.caller import CALLER, find_approver
from tool_engine.cli.console import flush_stdout, print_json
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError, suggest_name
from tool_engine.cli.mcp.word_request import Request, find_server, own_name
from tool_engine.cli.records.recording import recording_engine
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.engine import ToolEngine
from tool_engine.model.call import ToolExecutionContext
from tool_engine.model.tool import Tool


def run_word(settings: Settings, request: Request) -> int:
    """Call one tool of one server."""
    if len(request.words) < 2:
        raise CommandError(
            "`mcp call` takes a server and a tool, such as: mcp call github search query=x"
        )
    return run_async(_call_tool(settings, request), has_document=request.as_json)


async def _call_tool(settings: Settings, request: Request) -> int:
    server, name, *words = request.words
    context = ToolExecutionContext(caller_id=CALLER, caller_type="direct")
    async with recording_engine(settings, approver=find_approver()) as engine:
        tool = _find_tool(engine, server, name)
        result = await engine.execute(tool.name, parse_arguments(tool, words, {}), context)
        # Before the engine closes: that waits for servers, and for what they have begun.
        if request.as_json:
            print_json(result.to_dict())
        else:
            print_result(result)
        flush_stdout()
    return EXIT_OK if result.is_success else EXIT_FAILED


def _find_tool(engine: ToolEngine, server: str, name: str) -> Tool:
    state = find_server(engine, server)
    tools = [engine.get(each) for each in state.tools]
    known = {own_name(tool): tool for tool in tools if tool is not None}
    if name in known:
        return known[name]
    for each in engine.quarantined():
        if each.name in state.tools and own_name(each.tool) == name:
            raise CommandError(each.message, error_type="tool_quarantined", exit_code=EXIT_FAILED)
    if not state.is_connected and not known:
        raise CommandError(
            f"the server {server!r} {state.state}; see tool-engine mcp list",
            error_type="server_down",
            exit_code=EXIT_FAILED,
        )
    raise CommandError(
        f"the server {server!r} has no tool {name!r}{suggest_name(name, known)}",
        error_type="tool_not_found",
    )
