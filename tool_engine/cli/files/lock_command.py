"""Which definitions does `lock` approve, and what does it say of them?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
import typer

from tool_engine.catalog.approval.lock import LockedTool, ToolLock, content_hash, default_lock_file
from tool_engine.catalog.approval.locked_group import PREFIX, LockedGroup
from tool_engine.cli.completion import complete_tool
from tool_engine.cli.console import make_console, plain, print_json
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError, suggest_name
from tool_engine.cli.files.checking import check_files
from tool_engine.cli.files.locking import (
    APPROVED,
    CHANGED,
    GONE,
    NEW,
    Approval,
    approvals,
    code_hashes,
    count_approved,
    key_of,
    read_lock,
    write_messages,
)
from tool_engine.cli.options import JSONOption, ToolsOption, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import count_text
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool

_STYLES: Final = {NEW: "green", CHANGED: "yellow", GONE: "red"}


def run_command(
    ctx: typer.Context,
    *,
    approve: Annotated[
        list[str] | None,
        typer.Option(
            "--approve",
            "-a",
            metavar="NAME",
            help="Only this tool, or group:NAME; repeatable.",
            autocompletion=complete_tool,
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 when something differs.")
    ] = False,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE", help="The lock file, if not tools.lock."),
    ] = None,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Approve the tools and groups as they are, for engines with `lock: enforce`.

    Example: tool-engine lock --approve get_weather
    """
    return lock_tools(
        settings_of(ctx, tools), approve or (), check=check, file=file, as_json=as_json
    )


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
    lock, problem = read_lock(path, is_needed=bool(names), is_checked=check)
    found = approvals(lock, present, code)
    if names:
        found = _choose_approvals(found, names, path)
    elif broken and not check:
        write_messages(broken)
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
        write_messages([*broken, *([problem] if problem else [])])
        _print_approvals(path, found, check=check)
    return EXIT_FAILED if check and (changed or broken or problem) else EXIT_OK


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
    total = count_approved(len(here) - groups, groups)
    verdict = "not approved" if check else "written"
    summary = f"{path}: {total}, {said}: {verdict}" if said else f"{path}: {total}, nothing changed"
    console.print(plain(summary), soft_wrap=True)


def _without_code(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a definition without the code's key."""
    return {key: value for key, value in row.items() if key != "is_code"}


def _describe_versions(each: Approval) -> str:
    if each.is_code:
        return f"{each.version} (the code of its handler)"
    if each.version is None or each.approved_version in (None, each.version):
        return each.version or f"{each.approved_version}"
    return f"{each.approved_version} -> {each.version}"


def _load_definitions(settings: Settings) -> tuple[dict[str, Tool | ToolGroup], list[str]]:
    checked = check_files([settings.folder()], is_recursive=settings.is_recursive)
    good = [one for each in checked if not each.problems for one in each.definitions]
    broken = ["\n".join(map(str, each.problems)) for each in checked if each.problems]
    return {key_of(each): each for each in good}, broken
