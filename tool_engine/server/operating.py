"""What may an operator do to the engine while it serves?"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from tool_engine.calls.foreign_controller import hold_to_contract
from tool_engine.catalog.source_tools import SourceState
from tool_engine.mcp_servers.state import MCPServerState
from tool_engine.server.endpoint import Sized
from tool_engine.server.operation import Asked, serve_at
from tool_engine.server.results import Moment


class Changes(msgspec.Struct, kw_only=True):
    """The names of what has changed."""

    generation: int
    added: list[str]
    modified: list[str]
    removed: list[str]
    groups_added: list[str] = []
    groups_modified: list[str] = []
    groups_removed: list[str] = []


class LoadError(msgspec.Struct):
    file: str
    message: str


class QuarantinedName(msgspec.Struct):
    name: str
    message: str


class GenerationState(msgspec.Struct):
    number: int
    cause: str
    at: Moment
    added: list[str]
    modified: list[str]
    removed: list[str]


class EngineState(msgspec.Struct):
    """The engine at this moment."""

    generation: int
    tools: int
    is_paused: bool
    is_draining: bool
    load_errors: list[LoadError]
    quarantined: list[QuarantinedName]
    generations: list[GenerationState]
    """Those that `rollback` takes, oldest first."""


class SourceList(msgspec.Struct):
    """Where tools come from, beside the files."""

    servers: list[MCPServerState]
    """The servers of the Model Context Protocol that files and the configuration name."""
    sources: list[SourceState]
    """All sources that were added, those of servers among them."""


class RollbackRequest(msgspec.Struct, forbid_unknown_fields=True):
    generation: int


class DrainRequest(msgspec.Struct, forbid_unknown_fields=True):
    timeout: Annotated[float, Meta(gt=0, le=3600, description="Seconds to wait.")] = 30.0


class Drained(msgspec.Struct):
    is_drained: bool
    """False: calls still run."""
    running: int


class Paused(msgspec.Struct):
    is_paused: bool


@serve_at("GET", "/v1/engine", scope="operate", answer=EngineState)
async def get_engine(asked: Asked) -> Any:
    """Show what is loaded, what could not be, and what waits for approval."""
    engine, may_use = asked.engine, asked.principal.may_use
    state = EngineState(
        engine.generation,
        len(asked.name_usable(engine.list_names())),
        hold_to_contract(engine.controller).snapshot().is_paused,
        asked.served.is_draining,
        [LoadError(file, message) for file, message in engine.load_errors],
        [
            QuarantinedName(each.tool.name, each.message)
            for each in engine.quarantined()
            if may_use(each.tool.name)
        ],
        [
            GenerationState(
                each.number,
                each.cause,
                each.at.isoformat(),
                *map(asked.name_usable, (each.added, each.modified, each.removed)),
            )
            for each in engine.generations()
        ],
    )
    return Sized(state)  # of ten thousand tools that wait


@serve_at("GET", "/v1/sources", scope="operate", answer=SourceList)
async def list_sources(asked: Asked) -> Any:
    """List servers and other sources of tools, and how it is with each."""
    servers = [
        replace(each, tools=tuple(asked.name_usable(each.tools)))
        for each in asked.engine.list_mcp_servers()
    ]
    return SourceList(servers, asked.engine.list_sources())


@serve_at("POST", "/v1/reload", scope="operate", answer=Changes)
async def reload_tools(asked: Asked) -> Any:
    """Read all definitions again."""
    changes = asked.limit_changes(await asked.engine.reload())
    return {"generation": asked.engine.generation, **changes}


@serve_at(
    "POST", "/v1/rollback", scope="operate", answer=Changes, body=RollbackRequest, errors=(409,)
)
async def roll_back(asked: Asked) -> Any:
    """Return to the definitions of a generation that is kept."""
    changes = asked.limit_changes(await asked.engine.rollback(asked.body.generation))
    return {"generation": asked.engine.generation, **changes}


@serve_at("POST", "/v1/pause", scope="operate", answer=Paused, errors=(409,))
async def pause_calls(asked: Asked) -> Any:
    """Let no more calls start; those that come wait."""
    asked.engine.controller.pause()
    return Paused(True)


@serve_at("POST", "/v1/resume", scope="operate", answer=Paused, errors=(409,))
async def resume_calls(asked: Asked) -> Any:
    """Let calls start again, after a pause or a drain."""
    asked.engine.controller.resume()
    asked.served.is_draining = asked.served.ending.is_set()
    return Paused(False)


@serve_at(
    "POST",
    "/v1/drain",
    scope="operate",
    answer=Drained,
    body=DrainRequest,
    is_body_needed=False,
    is_cancelled_with_client=True,
)
async def drain_calls(asked: Asked) -> Any:
    """Take no more calls, and wait until those that run and wait have ended."""
    asked.served.is_draining = True
    controller = asked.engine.controller
    is_drained = await controller.drain(asked.body.timeout)
    return Drained(is_drained, hold_to_contract(controller).get_metrics().current_concurrent)


OPERATIONS = (
    get_engine,
    list_sources,
    reload_tools,
    roll_back,
    pause_calls,
    resume_calls,
    drain_calls,
)
