"""Which tools are approved, and which of them are no longer what was approved?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from tool_engine.catalog.lock import LockedTool, ToolLock, content_hash, default_lock_file
from tool_engine.cli.checking import check_files
from tool_engine.cli.console import make_console, plain, print_json, visible
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError, nearest
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import count_text
from tool_engine.errors import LockFileError
from tool_engine.model.tool import Tool

__all__ = ["Approval", "approvals", "lock_states", "lock_tools", "tell_unapproved"]

APPROVED: Final = "approved"
NEW: Final = "new"
CHANGED: Final = "changed"
GONE: Final = "gone"
_STYLES: Final = {NEW: "green", CHANGED: "yellow", GONE: "red"}


class Approval(msgspec.Struct, frozen=True):
    """How a tool stands to the lock file."""

    name: str
    status: str
    """`approved`, `new`, `changed`, or `gone` when no file defines it any more."""
    version: str | None = None
    """Of the definition; None when it is gone."""
    approved_version: str | None = None
    """Of the approval; None when it is new."""


def lock_tools(
    settings: Settings, names: Sequence[str], *, check: bool, file: str | None, as_json: bool
) -> int:
    """Writes the lock file, or checks it.

    Args:
        settings: Names the folder.
        names: The tools to approve; empty: all of the folder, and no others.
        check: Writes nothing.
        file: The lock file; None: the one beside the folder.
        as_json: Prints one JSON document.

    Returns:
        1 when files could not be loaded, or when `check` found a difference; else 0.
    """
    if check and names:
        raise CommandError("--check looks at all tools; leave out --approve")
    path = file or default_lock_file(settings.folder())
    tools, broken = _load(settings)
    lock, problem = _lock(path, is_needed=bool(names), is_checked=check)
    found = approvals(lock, tools.values())
    if names:
        found = _chosen(found, names, path)
    elif broken and not check:
        _tell(broken)
        raise CommandError(
            f"nothing was written: {count_text(len(broken), 'file')} could not be loaded; mend "
            "what is wrong, or approve single tools with --approve NAME",
            error_type="definition_error",
            exit_code=EXIT_FAILED,
        )
    changed = [each for each in found if each.status != APPROVED]
    if not check:
        _approve(lock, found, tools).write()
    facts = {"file": path, "is_written": not check, "problem": problem}
    if as_json:
        print_json({**facts, "tools": [msgspec.structs.asdict(each) for each in found]})
    else:
        _tell([*broken, *([problem] if problem else [])])
        _print(path, found, check=check)
    return EXIT_FAILED if check and (changed or broken or problem) else EXIT_OK


def lock_states(settings: Settings, tools: Iterable[Tool]) -> dict[str, str]:
    """How each tool stands to the lock file beside the folder; {} where there is none."""
    path = default_lock_file(settings.folder())
    if not os.path.lexists(path):
        return {}
    lock, problem = _lock(path, is_needed=False, is_checked=True)
    _tell([problem] if problem else [])
    return {each.name: each.status for each in approvals(lock, tools) if each.status != GONE}


def tell_unapproved(settings: Settings, states: Mapping[str, str]) -> None:
    """Prints which tools the lock file does not approve, if there are any."""
    waiting = [f"{name} ({status})" for name, status in states.items() if status != APPROVED]
    if waiting:
        verb = "is" if len(waiting) == 1 else "are"
        path = default_lock_file(settings.folder())
        text = f"{count_text(len(waiting), 'tool')} {verb} not approved by {path}: "
        make_console().print(plain(text + ", ".join(waiting), "yellow"), soft_wrap=True)


def approvals(lock: ToolLock, tools: Iterable[Tool]) -> list[Approval]:
    """How each tool stands to the lock, by name; with those that are in the lock only."""
    present = {tool.name: tool for tool in tools}
    found = []
    for name in sorted({*present, *lock.tools}):
        tool, known = present.get(name), lock.tools.get(name)
        if tool is None or known is None:
            status = GONE if tool is None else NEW
        else:
            status = APPROVED if known.definition == content_hash(tool) else CHANGED
        versions = [each.version if each else None for each in (tool, known)]
        found.append(Approval(name, status, *versions))
    return found


def _load(settings: Settings) -> tuple[dict[str, Tool], list[str]]:
    checked = check_files([settings.folder()], is_recursive=settings.is_recursive)
    good = [tool for each in checked if not each.problems for tool in each.tools]
    broken = ["\n".join(map(str, each.problems)) for each in checked if each.problems]
    return {tool.name: tool for tool in good}, broken


def _lock(path: str, *, is_needed: bool, is_checked: bool) -> tuple[ToolLock, str | None]:
    """The lock, and why it could not be read: then it is written anew, unless it is needed."""
    try:
        return (ToolLock.read(path) if is_checked else ToolLock.read_or_start(path)), None
    except LockFileError as error:
        if is_needed:
            raise
        return ToolLock(file=path), str(error)


def _chosen(found: list[Approval], names: Sequence[str], path: str) -> list[Approval]:
    known = {each.name: each for each in found}
    for name in names:
        if name not in known:
            raise CommandError(
                f"no file that loads defines the tool {name!r}, and {path} does not have it"
                f"{nearest(name, known)}",
                error_type="tool_not_found",
            )
    return [known[name] for name in sorted({*names})]


def _approve(lock: ToolLock, found: Iterable[Approval], tools: dict[str, Tool]) -> ToolLock:
    approved = dict(lock.tools)
    for each in found:
        known = approved.pop(each.name, None)
        if each.status != GONE:
            tool = tools[each.name]
            # A program approved the code that it registered; nobody said a word about that here.
            handler = None if known is None else known.handler
            approved[each.name] = LockedTool(tool.name, tool.version, content_hash(tool), handler)
    return ToolLock(approved.values(), file=lock.file)


def _tell(messages: Iterable[str]) -> None:
    for message in messages:
        sys.stderr.write(f"{visible(message)}\n")


def _print(path: str, found: Sequence[Approval], *, check: bool) -> None:
    console = make_console()
    changed = [each for each in found if each.status != APPROVED]
    for each in changed:
        line = f"{each.status:<8} {each.name} {_versions(each)}"
        console.print(plain(line, _STYLES[each.status]), soft_wrap=True)
    counts: dict[str, Any] = {
        status: sum(each.status == status for each in found) for status in (NEW, CHANGED, GONE)
    }
    said = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    total = count_text(len(found) - counts[GONE], "tool")
    verdict = "not approved" if check else "written"
    summary = f"{path}: {total}, {said}: {verdict}" if said else f"{path}: {total}, nothing changed"
    console.print(plain(summary), soft_wrap=True)


def _versions(each: Approval) -> str:
    if each.version is None or each.approved_version in (None, each.version):
        return each.version or f"{each.approved_version}"
    return f"{each.approved_version} -> {each.version}"
