"""What waits for approval in the lock file, and how is it approved?"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tool_engine.access.problem import Problem
from tool_engine.catalog.approval.approved_before import find_approved
from tool_engine.catalog.approval.lock import default_lock_file
from tool_engine.catalog.approval.lock_state import LockState, bare_name, kind_named
from tool_engine.catalog.approval.quarantine import QuarantinedTool
from tool_engine.catalog.change.compatibility import compare_versions
from tool_engine.catalog.change.text_diff import diff_definitions
from tool_engine.catalog.change.tool_change import ToolChange
from tool_engine.catalog.definition.showing import write_shown
from tool_engine.catalog.kinds import Definition
from tool_engine.config import LOCK_ENFORCE
from tool_engine.engine import ToolEngine
from tool_engine.errors import ApprovalConflictError, LockFileError
from tool_engine.model.tool import Tool
from tool_engine.server.definitions.definition import MOST_CHANGES
from tool_engine.server.endpoint import Sized
from tool_engine.server.operating import Changes
from tool_engine.server.operation import Asked, serve_at
from tool_engine.server.paging import Limit
from tool_engine.server.problems import make_unknown

_Name = Annotated[str, Meta(min_length=1, max_length=1000)]


class Unapproved(msgspec.Struct, kw_only=True):
    """A tool, group or server that is not approved as it is."""

    name: str
    """Of a group: with `group:` before it; of a server: with `server:`."""
    kind: str
    """`tool`, `group` or `server`."""
    reason: str
    """`new`, `changed`, `handler_changed` (only the code that runs it), or `no_lock`."""
    message: str
    """Why, and how it is approved at the command line; empty where that is not said."""
    version: str | None
    approved_version: str | None
    """Null: none was."""
    fingerprint: str | None
    """Stands for what would be approved, for `POST /v1/lock`; null: it cannot be approved here."""


class LockQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    limit: Limit = 100
    offset: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class LockView(msgspec.Struct, kw_only=True):
    """The lock file, and what it does not approve."""

    file: str
    is_enforced: bool
    """False: approvals are not looked at, all tools may be called, and nothing waits."""
    problem: str | None
    """Why the file cannot be used; null: it can."""
    count: int
    """All that wait."""
    items: list[Unapproved]
    """Those asked for, tools first."""


class UnapprovedDetails(Unapproved):
    """The same, with what it says."""

    origin: str | None
    """`file:` and a path, or the name of a source."""
    yaml: str
    """Its definition, with secrets hidden."""
    is_approved_known: bool
    """Whether it is still known what was approved."""
    level: str
    """The worst of the changes since: `none`, `cosmetic`, `compatible` or `breaking`."""
    changes: list[ToolChange]
    diff: str | None
    """The lines that differ from what was approved; null: that is not known, or is too long."""


class LockRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What a person has read and approves."""

    names: Annotated[
        dict[_Name, _Name],
        Meta(min_length=1, max_length=1000, description="The `fingerprint` of each, by name."),
    ]


@serve_at("GET", "/v1/lock", scope="operate", answer=LockView, query=LockQuery)
async def get_lock(asked: Asked) -> Any:
    """List the tools, groups and servers that wait for approval."""
    engine, query = asked.engine, asked.query
    problem = None
    try:
        names = await engine.list_unapproved()
    except LockFileError as error:
        names, problem = [each.name for each in engine.quarantined()], str(error)
    shown = [each for each in names if asked.principal.may_use(bare_name(each))]
    page = shown[query.offset : query.offset + query.limit]
    return LockView(
        file=_name_file(engine),
        is_enforced=engine.config.lock == LOCK_ENFORCE,
        problem=problem,
        count=len(shown),
        items=await _describe_states(engine, page),
    )


@serve_at("GET", "/v1/lock/{name}", scope="operate", answer=UnapprovedDetails, errors=(404,))
async def get_unapproved(asked: Asked) -> Any:
    """Show what waits for approval, and what has changed since it was approved."""
    engine, name = asked.engine, asked.path["name"]
    definition = (await engine.list_lockable([name])).get(name)
    items = await _describe_states(engine, [name]) if engine.config.lock == LOCK_ENFORCE else []
    if not items or definition is None or not asked.principal.may_use(bare_name(name)):
        raise make_unknown("definition", name, " that waits for approval")
    return Sized(await asyncio.to_thread(_describe_unapproved, engine, items[0], definition))


@serve_at("POST", "/v1/lock", scope="operate", answer=Changes, body=LockRequest, errors=(404, 409))
async def approve_definitions(asked: Asked) -> Any:
    """Approve definitions as they were read; what has changed since is refused, with all others."""
    for name in asked.body.names:
        if not asked.principal.may_use(bare_name(name)):
            raise make_unknown("definition", name, " that waits for approval")
    try:
        changes = await asked.engine.lock_tools(asked.body.names)
    except ApprovalConflictError as error:
        raise Problem(409, "changed-meanwhile", str(error)) from error
    return {"generation": asked.engine.generation, **changes}


def _name_file(engine: ToolEngine) -> str:
    return engine.config.lock_file or default_lock_file(engine.config.tools_directory)


async def _describe_states(engine: ToolEngine, names: list[str]) -> list[Unapproved]:
    """Return those of some definitions that wait for approval."""
    states = {}
    with suppress(LockFileError):
        states = {each.name: each for each in await engine.check_lock(names)}
    held = {each.name: each for each in engine.quarantined()}
    found = [_describe_state(name, states.get(name), held.get(name)) for name in names]
    return [each for each in found if each is not None]


def _describe_state(
    name: str, state: LockState | None, held: QuarantinedTool | None
) -> Unapproved | None:
    """Return why something waits; None: it does not."""
    fingerprint = None if state is None else state.fingerprint
    versions: tuple[str | None, str | None]
    if held is not None:
        reason, message = held.reason, held.message
        versions = held.tool.version, held.approved_version
    elif state is not None and fingerprint is not None:
        reason, message = "handler_changed" if state.is_code else state.status, ""
        versions = state.version, state.approved_version
    else:
        return None
    return Unapproved(
        name=name,
        kind=kind_named(name),
        reason=reason,
        message=message,
        version=versions[0],
        approved_version=versions[1],
        fingerprint=fingerprint,
    )


def _describe_unapproved(
    engine: ToolEngine, found: Unapproved, definition: Definition
) -> UnapprovedDetails:
    """Return what is to be approved, beside what was. Blocks."""
    before = None
    if isinstance(definition, Tool):
        kept = [each.index.get(definition.name) for each in engine.generations()]
        earlier = [each for each in reversed(kept) if each is not None]
        before = find_approved(_name_file(engine), definition.name, earlier)
    changes = (
        compare_versions(before, definition) if before and isinstance(definition, Tool) else None
    )
    return UnapprovedDetails(
        **msgspec.structs.asdict(found),
        origin=definition.origin if isinstance(definition, Tool) else definition.source,
        yaml=write_shown(definition),
        is_approved_known=before is not None,
        level="none" if changes is None else changes.level,
        changes=[] if changes is None else changes.changes[:MOST_CHANGES],
        diff=None if before is None else diff_definitions(before, definition),
    )


OPERATIONS = (get_lock, get_unapproved, approve_definitions)
