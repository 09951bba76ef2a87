"""Which tools and groups are approved, and which of them changed since?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from tool_engine.catalog.approval.lock import (
    LockedTool,
    ToolLock,
    content_hash,
    default_lock_file,
    is_hash,
)
from tool_engine.catalog.approval.locked_group import PREFIX, LockedGroup
from tool_engine.cli.console import make_console, plain, visible
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import count_text
from tool_engine.errors import LockFileError
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.executors.fingerprint import module_hash
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool

APPROVED: Final = "approved"
NEW: Final = "new"
CHANGED: Final = "changed"
GONE: Final = "gone"


class Approval(msgspec.Struct, frozen=True):
    """The state of a tool or group in the lock file."""

    name: str
    """Of a group: with `group:` before it."""
    status: str
    """`approved`, `new`, `changed`, or `gone` when no file defines it any more."""
    version: str | None = None
    """Of the definition; None when it is gone."""
    approved_version: str | None = None
    """Of the approval; None when it is new."""
    is_code: bool = False
    """Whether only the code of its handler is unapproved, and not its definition."""

    @property
    def is_group(self) -> bool:
        return self.name.startswith(PREFIX)


def lock_states(settings: Settings, definitions: Iterable[Tool | ToolGroup]) -> dict[str, str]:
    """Return each definition's state in the folder's lock; {} without one."""
    path = default_lock_file(settings.folder())
    if not os.path.lexists(path):
        return {}
    lock, problem = read_lock(path, is_needed=False, is_checked=True)
    write_messages([problem] if problem else [])
    present = {key_of(each): each for each in definitions}
    found = approvals(lock, present, code_hashes(present.values()))
    return {each.name: each.status for each in found if each.status != GONE}


def report_unapproved(settings: Settings, states: Mapping[str, str]) -> None:
    """Print the tools and groups that the lock file does not approve."""
    waiting = [f"{name} ({status})" for name, status in states.items() if status != APPROVED]
    if waiting:
        verb = "is" if len(waiting) == 1 else "are"
        path = default_lock_file(settings.folder())
        groups = sum(each.startswith(PREFIX) for each in waiting)
        counted = count_approved(len(waiting) - groups, groups)
        text = f"{counted} {verb} not approved by {path}: "
        make_console().print(plain(text + ", ".join(waiting), "yellow"), soft_wrap=True)


def code_hashes(definitions: Iterable[Tool | ToolGroup]) -> dict[str, str]:
    """Return the hashes of the modules that handlers name, by tool."""
    registry = ExecutorRegistry()
    tools = [each for each in definitions if isinstance(each, Tool) and registry.is_python(each)]
    hashes = {tool.name: module_hash(tool.handler.partition(":")[0]) for tool in tools}
    return {name: code for name, code in hashes.items() if is_hash(code)}


def approvals(
    lock: ToolLock, present: Mapping[str, Tool | ToolGroup], code: Mapping[str, str]
) -> list[Approval]:
    """Return the state of each definition in the files or the lock.

    `present` are the definitions by name, groups as `group:NAME`; `code` is the hashes of the code
    that they name, by tool.
    """
    locked: dict[str, LockedTool | LockedGroup] = dict(lock.tools)
    locked |= {f"{PREFIX}{name}": each for name, each in lock.groups.items()}
    found = []
    for name in sorted({*present, *locked}, key=lambda name: (name.startswith(PREFIX), name)):
        one, known = present.get(name), locked.get(name)
        is_code = False
        if one is None or known is None:
            status = GONE if one is None else NEW
        else:
            is_same = known.definition == content_hash(one)
            is_code = is_same and getattr(known, "handler", None) != code.get(name) and name in code
            status = APPROVED if is_same and not is_code else CHANGED
        versions = [each.version if each else None for each in (one, known)]
        found.append(Approval(name, status, versions[0], versions[1], is_code))
    return found


def key_of(definition: Tool | ToolGroup) -> str:
    """Return the tool's name, or `group:NAME`."""
    is_group = isinstance(definition, ToolGroup)
    return f"{PREFIX}{definition.name}" if is_group else definition.name


def read_lock(path: str, *, is_needed: bool, is_checked: bool) -> tuple[ToolLock, str | None]:
    """Return the lock, and why it is unreadable unless it is needed."""
    try:
        return (ToolLock.read(path) if is_checked else ToolLock.read_or_start(path)), None
    except LockFileError as error:
        if is_needed:
            raise
        return ToolLock(file=path), str(error)


def write_messages(messages: Iterable[str]) -> None:
    for message in messages:
        sys.stderr.write(f"{visible(message)}\n")


def count_approved(tools: int, groups: int) -> str:
    counts = [count_text(tools, "tool")] if tools or not groups else []
    return ", ".join([*counts, count_text(groups, "group")] if groups else counts)
