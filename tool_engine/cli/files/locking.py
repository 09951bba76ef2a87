"""How does the command line compare a folder with its lock file?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping

from tool_engine.catalog.approval.lock import ToolLock, is_hash
from tool_engine.catalog.approval.lock_state import (
    APPROVED,
    GONE,
    LockState,
    by_key,
    compare_lock,
    kind_named,
)
from tool_engine.catalog.kinds import Definition
from tool_engine.catalog.loader import KINDS
from tool_engine.cli.console import as_text, make_console, safe_text
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import count_text
from tool_engine.errors import LockFileError
from tool_engine.executors.executor_registry import ExecutorRegistry
from tool_engine.executors.fingerprint import module_hash
from tool_engine.model.tool import Tool


def lock_states(settings: Settings, definitions: Iterable[Definition]) -> dict[str, str]:
    """Return each definition's state in the folder's lock; {} where none is needed."""
    path = settings.lock_file
    if not os.path.lexists(path) and settings.lock != "enforce":
        return {}
    lock, problem = read_lock(path, is_needed=False, is_checked=True)
    write_messages([problem] if problem else [])
    present = by_key(definitions)
    found, _ = compare_folder(lock, present)
    return {each.name: each.status for each in found if each.status != GONE}


def report_unapproved(settings: Settings, states: Mapping[str, str]) -> None:
    """Print the tools and groups that the lock file does not approve."""
    waiting = [f"{name} ({status})" for name, status in states.items() if status != APPROVED]
    if waiting:
        verb = "is" if len(waiting) == 1 else "are"
        path = settings.lock_file
        counted = count_approved(waiting)
        text = f"{counted} {verb} not approved by {path}: "
        make_console().print(as_text(text + ", ".join(waiting), "yellow"), soft_wrap=True)


def code_hashes(definitions: Iterable[Definition]) -> dict[str, str]:
    """Return the hashes of the modules that handlers name, by tool."""
    registry = ExecutorRegistry()
    tools = [each for each in definitions if isinstance(each, Tool) and registry.is_python(each)]
    hashes = {tool.name: module_hash(tool.handler.partition(":")[0]) for tool in tools}
    return {name: code for name, code in hashes.items() if is_hash(code)}


def compare_folder(
    lock: ToolLock, present: Mapping[str, Definition]
) -> tuple[list[LockState], dict[str, str]]:
    """Return the states of a folder's definitions, and the hashes of their code.

    The lines of sources' tools are not looked at: only the engine that adds a source knows them.
    """
    code = code_hashes(present.values())
    tools = [each for name, each in lock.tools.items() if each.origin is None or name in present]
    seen = ToolLock(
        tools, file=lock.file, groups=lock.groups.values(), servers=lock.servers.values()
    )
    return compare_lock(seen, present, code), code


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
        sys.stderr.write(f"{safe_text(message)}\n")


def count_approved(keys: Iterable[str]) -> str:
    """Return how many tools, groups and servers are named, such as `2 tools, 1 group`."""
    kinds = [kind_named(key) for key in keys]
    counts = [count_text(kinds.count(kind), kind) for kind in KINDS if kind in kinds]
    return ", ".join(counts or [count_text(0, KINDS[0])])
