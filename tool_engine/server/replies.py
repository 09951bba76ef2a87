"""What would a protocol read in a model's reply?"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tool_engine.access.problem import Problem
from tool_engine.errors import ConfigurationError
from tool_engine.model.call import ToolCall
from tool_engine.model.reply import ParsedReply, ReplyFinding
from tool_engine.protocols import get_protocol, protocol_names
from tool_engine.protocols.cycle import parse_reply
from tool_engine.server.operation import Asked, serve_at


class ReplyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A model's reply, whole."""

    protocol: Annotated[str, Meta(max_length=100, description="Such as `openai` or `vcp`.")]
    reply: Any
    """A text, or the provider's own object."""


class ReadReply(msgspec.Struct):
    """What a protocol reads in a reply; nothing is run."""

    protocol: str
    calls: list[ToolCall]
    text: str
    findings: list[ReplyFinding]
    reasoning: str
    refusal: str | None
    stop_reason: str | None


class ProtocolNames(msgspec.Struct):
    items: list[str]


@serve_at("GET", "/v1/protocols", scope="read", answer=ProtocolNames)
async def list_protocols(asked: Asked) -> Any:
    """List the protocols in which a reply can be read."""
    # Those of other packages are looked for on the disk.
    return ProtocolNames(await asyncio.to_thread(protocol_names))


@serve_at("POST", "/v1/replies", scope="read", answer=ReadReply, body=ReplyRequest, errors=(404,))
async def read_reply(asked: Asked) -> Any:
    """Show which calls a protocol reads in a reply, without running any."""
    engine, may_use = asked.engine, asked.principal.may_use
    tools = [each for each in engine.list_all() if each.is_enabled and may_use(each.name)]
    try:
        # Those of other packages are looked for on the disk.
        protocol = await asyncio.to_thread(get_protocol, asked.body.protocol, tools=tools)
    except ConfigurationError as error:
        raise Problem(404, "unknown-protocol", str(error)) from error
    found: ParsedReply = await asyncio.to_thread(parse_reply, protocol, asked.body.reply)
    return ReadReply(
        asked.body.protocol,
        found.calls,
        found.text,
        found.findings,
        found.reasoning,
        found.refusal,
        found.stop_reason,
    )


OPERATIONS = (list_protocols, read_reply)
