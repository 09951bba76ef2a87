"""Which tools and groups are approved, and which of them changed since?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from tool_engine.catalog.approval.lock import (
    LockedTool,
    ToolLock,
    content_hash,
    default_lock_file,
    is_hash,
)
from tool_engine.catalog.approval.locked_group import PREFIX, LockedGroup
from tool_engine.cli.console import make_console, plain, print_json, visible
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError, suggest_name
from tool_engine.cli.files.checking import check_files
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
_STYLES: Final = {NEW: "green", CHANGED: "yellow", GONE: "red"}


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


def lock_tools(
    settings: Settings, names: Sequence[str], *, check: bool, file: str | None, as_json: bool
) -> int:
    """Write the lock file, or check it.

    `names` are the tools to approve, groups as `group:NAME`; without any, all of the folder are,
    and no others. `file` is None for the lock beside the folder.

    Returns:
        1 when files could not be loaded, or when `check` found a difference; else 0.
    """
    if check and names:
        raise CommandError("--check looks at all tools and groups; leave out --approve")
    path = file or default_lock_file(settings.folder())
    present, broken = _load_definitions(settings)
    code = code_hashes(present.values())
    lock, problem = _read_lock(path, is_needed=bool(names), is_checked=check)
    found = approvals(lock, present, code)
    if names:
        found = _choose_approvals(found, names, path)
    elif broken and not check:
        _write_messages(broken)
        raise CommandError(
            f"nothing was written: {count_text(len(broken), 'file')} could not be loaded; mend "
            "what is wrong, or approve single tools with --approve NAME",
            error_type="definition_error",
            exit_code=EXIT_FAILED,
        )
    changed = [each for each in found if each.status != APPROVED]
    if not check:
        _approve_found(lock, found, present, code).write()
    facts = {"file": path, "is_written": not check, "problem": problem}
    if as_json:
        rows: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
        for each in found:
            name = each.name.removeprefix(PREFIX)
            row = {**msgspec.structs.asdict(each), "name": name}
            rows[each.is_group].append(row if each.is_code else _without_code(row))
        print_json({**facts, "tools": rows[False], "groups": rows[True]})
    else:
        _write_messages([*broken, *([problem] if problem else [])])
        _print_approvals(path, found, check=check)
    return EXIT_FAILED if check and (changed or broken or problem) else EXIT_OK


def lock_states(settings: Settings, definitions: Iterable[Tool | ToolGroup]) -> dict[str, str]:
    """Return each definition's state in the folder's lock; {} without one."""
    path = default_lock_file(settings.folder())
    if not os.path.lexists(path):
        return {}
    lock, problem = _read_lock(path, is_needed=False, is_checked=True)
    _write_messages([problem] if problem else [])
    present = {_key_of(each): each for each in definitions}
    found = approvals(lock, present, code_hashes(present.values()))
    return {each.name: each.status for each in found if each.status != GONE}


def tell_unapproved(settings: Settings, states: Mapping[str, str]) -> None:
    """Print the tools and groups that the lock file does not approve."""
    waiting = [f"{name} ({status})" for name, status in states.items() if status != APPROVED]
    if waiting:
        verb = "is" if len(waiting) == 1 else "are"
        path = default_lock_file(settings.folder())
        groups = sum(each.startswith(PREFIX) for each in waiting)
        counted = _count_approved(len(waiting) - groups, groups)
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


def _key_of(definition: Tool | ToolGroup) -> str:
    """Return the tool's name, or `group:NAME`."""
    is_group = isinstance(definition, ToolGroup)
    return f"{PREFIX}{definition.name}" if is_group else definition.name


def _load_definitions(settings: Settings) -> tuple[dict[str, Tool | ToolGroup], list[str]]:
    checked = check_files([settings.folder()], is_recursive=settings.is_recursive)
    good = [one for each in checked if not each.problems for one in each.definitions]
    broken = ["\n".join(map(str, each.problems)) for each in checked if each.problems]
    return {_key_of(each): each for each in good}, broken


def _read_lock(path: str, *, is_needed: bool, is_checked: bool) -> tuple[ToolLock, str | None]:
    """Return the lock, and why it is unreadable unless it is needed."""
    try:
        return (ToolLock.read(path) if is_checked else ToolLock.read_or_start(path)), None
    except LockFileError as error:
        if is_needed:
            raise
        return ToolLock(file=path), str(error)


def _choose_approvals(found: list[Approval], names: Sequence[str], path: str) -> list[Approval]:
    known = {each.name: each for each in found}
    for name in names:
        if name not in known:
            what = f"group {name.removeprefix(PREFIX)!r}" if PREFIX in name else f"tool {name!r}"
            group = f"{PREFIX}{name}"
            hint = f"; did you mean {group!r}?" if group in known else suggest_name(name, known)
            raise CommandError(
                f"no file that loads defines the {what}, and {path} does not have it{hint}",
                error_type="tool_not_found",
            )
    return [known[name] for name in sorted({*names})]


def _approve_found(
    lock: ToolLock,
    found: Iterable[Approval],
    present: Mapping[str, Tool | ToolGroup],
    code: Mapping[str, str],
) -> ToolLock:
    tools, groups = dict(lock.tools), dict(lock.groups)
    for each in found:
        one, handler = present.get(each.name), None
        if each.is_group:
            groups.pop(each.name.removeprefix(PREFIX), None)
        elif (before := tools.pop(each.name, None)) is not None:
            # A program's own approval of its registered code stays: nothing is known of it here.
            handler = before.handler
        if isinstance(one, Tool):
            handler = code.get(one.name, handler)
            tools[one.name] = LockedTool(one.name, one.version, content_hash(one), handler)
        elif one is not None:
            groups[one.name] = LockedGroup.of(one, content_hash(one))
    return ToolLock(tools.values(), file=lock.file, groups=groups.values())


def _write_messages(messages: Iterable[str]) -> None:
    for message in messages:
        sys.stderr.write(f"{visible(message)}\n")


def _print_approvals(path: str, found: Sequence[Approval], *, check: bool) -> None:
    console = make_console()
    changed = [each for each in found if each.status != APPROVED]
    for each in changed:
        line = f"{each.status:<8} {each.name} {_describe_versions(each)}"
        console.print(plain(line, _STYLES[each.status]), soft_wrap=True)
    counts: dict[str, Any] = {
        status: sum(each.status == status for each in found) for status in (NEW, CHANGED, GONE)
    }
    said = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    here = [each for each in found if each.status != GONE]
    groups = sum(each.is_group for each in here)
    total = _count_approved(len(here) - groups, groups)
    verdict = "not approved" if check else "written"
    summary = f"{path}: {total}, {said}: {verdict}" if said else f"{path}: {total}, nothing changed"
    console.print(plain(summary), soft_wrap=True)


def _count_approved(tools: int, groups: int) -> str:
    counts = [count_text(tools, "tool")] if tools or not groups else []
    return ", ".join([*counts, count_text(groups, "group")] if groups else counts)


def _without_code(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a definition without the code's key."""
    return {key: value for key, value in row.items() if key != "is_code"}


def _describe_versions(each: Approval) -> str:
    if each.is_code:
        return f"{each.version} (the code of its handler)"
    if each.version is None or each.approved_version in (None, each.version):
        return each.version or f"{each.approved_version}"
    return f"{each.approved_version} -> {each.version}"
