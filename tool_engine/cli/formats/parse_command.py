"""What does a protocol read in a reply from a file?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
import typer

from tool_engine.cli.console import as_text, json_text, make_console, print_json
from tool_engine.cli.documents import read_bytes
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError
from tool_engine.cli.formats.speaking import (
    ProtocolOption,
    finding_facts,
    has_errors,
    known_tools,
    make_protocol,
    print_findings,
)
from tool_engine.cli.options import JSONOption, ToolsOption, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import count_text, fact_table, make_table
from tool_engine.interfaces import ToolCallingProtocol
from tool_engine.model.call import ToolCall
from tool_engine.model.reply import ParsedReply, StreamEvent
from tool_engine.protocols.cycle import parse_reply

_PIECE: Final = 16
"""Bytes that `--stream` feeds at once: few enough to cut every marker somewhere."""


def run_command(
    ctx: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The reply; - or nothing is stdin.")
    ] = "-",
    *,
    protocol: ProtocolOption,
    stream: Annotated[
        bool, typer.Option("--stream", help="Read it in pieces and print the events, too.")
    ] = False,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Show what a protocol reads in a reply; exit with 1 when a call of it cannot be run.

    Example: tool-engine parse --protocol vcp reply.txt
    """
    return parse_file(settings_of(ctx, tools), protocol, file, is_stream=stream, as_json=as_json)


def parse_file(
    settings: Settings, protocol_name: str, file: str, *, is_stream: bool, as_json: bool
) -> int:
    """Print the calls, the text and the findings of a reply.

    `settings` names the tools that the model had; `-` is stdin; with `is_stream` the reply is read
    in pieces, as it came from the model.

    Returns:
        0 if every call can be run, 1 if one cannot, or something else the model wanted is lost.
    """
    protocol = make_protocol(protocol_name, known_tools(settings))
    data = read_bytes(file)
    events: list[StreamEvent] = []
    if is_stream:
        events, reply = _decode_stream(protocol, data)
    else:
        reply = parse_reply(protocol, data)
    if as_json:
        facts = _list_facts(protocol_name, reply)
        if is_stream:
            facts["events"] = [_event_facts(event) for event in events]
        print_json(facts)
    else:
        _print_events(events)
        _print_reply(reply)
    is_whole = all(call.is_runnable for call in reply.calls) and not has_errors(reply.findings)
    return EXIT_OK if is_whole else EXIT_FAILED


def _decode_stream(
    protocol: ToolCallingProtocol, data: bytes
) -> tuple[list[StreamEvent], ParsedReply]:
    try:
        decoder = protocol.decoder()
        pieces = (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))
        return [event for piece in pieces for event in decoder.feed(piece)], decoder.close()
    except Exception as error:
        # A protocol of another package may break; those of this one make findings.
        raise CommandError(
            f"the protocol {protocol.name!r} failed: {type(error).__name__}: {error}",
            error_type="protocol_failed",
            exit_code=EXIT_FAILED,
        ) from error


def _list_facts(protocol: str, reply: ParsedReply) -> dict[str, Any]:
    return {
        "protocol": protocol,
        "calls": [
            {**msgspec.structs.asdict(call), "is_runnable": call.is_runnable}
            for call in reply.calls
        ],
        "text": reply.text,
        "findings": finding_facts(reply.findings),
        "reasoning": reply.reasoning,
        "refusal": reply.refusal,
        "stop_reason": reply.stop_reason,
        "usage": reply.usage,
        "message": reply.message,
    }


def _event_facts(event: StreamEvent) -> dict[str, Any]:
    facts = {
        name: value
        for name, value in msgspec.structs.asdict(event).items()
        if value is not None and name not in ("error", "type")
    }
    if event.error is not None:
        facts["error"] = msgspec.structs.asdict(event.error)
    return {"type": event.type.value, **facts}


def _print_events(events: Sequence[StreamEvent]) -> None:
    if not events:
        return
    table = make_table(count_text(len(events), "event"), "type", "call", "piece")
    for event in events:
        said = (
            event.content or event.tool_call_arguments_chunk or event.tool_call_arguments_complete
        )
        message = event.error.message if event.error is not None else ""
        table.add_row(
            as_text(event.type.value, "bold cyan"),
            as_text(" ".join(filter(None, (event.tool_call_id, event.tool_call_name)))),
            as_text(repr(said) if said else message),
        )
    make_console().print(table)


def _print_reply(reply: ParsedReply) -> None:
    console = make_console()
    cut = sum(not call.is_runnable for call in reply.calls)
    console.print(as_text(_make_headline(len(reply.calls), cut), "red" if cut else "bold"))
    for number, call in enumerate(reply.calls, 1):
        console.print(fact_table(f"{number}. {call.tool_name or '(no name)'}", _call_facts(call)))
    for name in ("text", "reasoning", "refusal"):
        value = getattr(reply, name)
        if value:
            console.print(as_text(name, "bold"))
            console.print(as_text(value))
    print_findings(reply.findings)


def _make_headline(calls: int, cut: int) -> str:
    lost = f", {cut} of them cannot be run" if cut else ""
    return f"{count_text(calls, 'call')}{lost}"


def _call_facts(call: ToolCall) -> dict[str, Any]:
    facts: dict[str, Any] = {"id": call.call_id, "arguments": json_text(call.arguments)}
    if call.repairs:
        facts["repairs"] = "\n".join(call.repairs)
    if not call.complete:
        facts["state"] = "cut off, never run"
    if call.error is not None:
        facts["error"] = call.error
    return facts
