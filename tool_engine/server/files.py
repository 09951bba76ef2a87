"""What is not approved, what would its approval change, and how is it with servers of tools?"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tool_engine.access.problem import Problem
from tool_engine.catalog.approval.quarantine import QuarantinedTool
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.mcp_servers.state import MCPServerState
from tool_engine.model.tool import Tool
from tool_engine.redaction import redact
from tool_engine.server.operating import Changes, LoadError
from tool_engine.server.operation import Asked, serve_at


class Quarantined(msgspec.Struct, kw_only=True):
    """A tool that may not be called, as it is not approved."""

    name: str
    reason: str
    """`new`, `changed`, `handler_changed`, or `no_lock` when the lock file cannot be used."""
    message: str
    """Why, and how it is approved."""
    version: str
    definition_hash: str
    definition: str
    """YAML, with secrets hidden."""
    approved_version: str | None
    approved_definition: str | None
    """As it was called last; null: that is not known any more, or never was."""


class QuarantineList(msgspec.Struct):
    items: list[Quarantined]


class LockRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The approval of tools as they were read."""

    tools: Annotated[dict[str, str], Meta(min_length=1, max_length=10_000)]
    """The `definition_hash` of each, by name: of another one nothing is approved."""


class ServerList(msgspec.Struct):
    items: list[MCPServerState]
    errors: list[LoadError]
    """What is wrong with the files that name them."""


@serve_at("GET", "/v1/quarantine", scope="operate", answer=QuarantineList)
async def list_quarantined(asked: Asked) -> Any:
    """List the tools that wait for approval, with what was approved before."""
    # The lock file has hashes only; what they stand for is in the generations that are kept.
    before = [each.index for each in reversed(asked.engine.generations())]
    found = [
        (each, next((known for index in before if (known := index.get(each.name))), None))
        for each in asked.engine.quarantined()
        if asked.principal.may_use(each.name)
    ]
    return QuarantineList(
        await asyncio.to_thread(lambda: [_describe_quarantined(*each) for each in found])
    )


@serve_at("POST", "/v1/lock", scope="operate", answer=Changes, body=LockRequest, errors=(404, 409))
async def lock_tools(asked: Asked) -> Any:
    """Approve tools that are quarantined, as they were read; all of them, or none."""
    known = {each.name: each for each in asked.engine.quarantined()}
    for name, definition_hash in asked.body.tools.items():
        found = known.get(name)
        if found is None or not asked.principal.may_use(name):
            detail = f"no tool {name!r} waits for approval; read the list again"
            raise Problem(404, "unknown-tool", detail)
        if found.tool.definition_hash != definition_hash:
            detail = f"the definition of {name!r} has changed; read it again"
            raise Problem(409, "changed-meanwhile", detail)
    changes = await asked.engine.lock_tools(list(asked.body.tools))
    return {"generation": asked.engine.generation, **changes}


@serve_at("GET", "/v1/servers", scope="operate", answer=ServerList)
async def list_servers(asked: Asked) -> Any:
    """List the servers of MCP whose tools the engine uses, and how it is with each."""
    engine = asked.engine
    return ServerList(
        engine.list_mcp_servers(),
        [LoadError(file, message) for file, message in engine.list_mcp_errors()],
    )


def _describe_quarantined(found: QuarantinedTool, approved: Tool | None) -> Quarantined:
    return Quarantined(
        name=found.name,
        reason=found.reason,
        message=found.message,
        version=found.tool.version,
        definition_hash=found.tool.definition_hash,
        definition=_write_definition(found.tool),
        approved_version=found.approved_version,
        approved_definition=None if approved is None else _write_definition(approved),
    )


def _write_definition(tool: Tool) -> str:
    text: str = redact(ToolConfigLoader().export_to_yaml(tool))
    return text


OPERATIONS = (list_quarantined, lock_tools, list_servers)
