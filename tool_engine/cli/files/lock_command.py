"""Which definitions does `lock` approve, and what does it say of them?"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import typer

from tool_engine.catalog.approval.lock import LockedTool, ToolLock, content_hash, default_lock_file
from tool_engine.catalog.approval.lock_state import (
    APPROVED,
    CHANGED,
    GONE,
    NEW,
    LockState,
    bare_name,
    by_key,
    changed_lock,
    kind_named,
)
from tool_engine.catalog.approval.locked_group import PREFIX, LockedGroup
from tool_engine.catalog.kinds import Definition
from tool_engine.catalog.loader import KINDS
from tool_engine.cli.completion import complete_tool
from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.engines import AppOption, check_app, load_app, wait_for_app
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError, suggest_name
from tool_engine.cli.files.checking import check_files
from tool_engine.cli.files.lock_findings import describe_versions, print_findings
from tool_engine.cli.files.locking import (
    compare_folder,
    count_approved,
    read_lock,
    write_messages,
)
from tool_engine.cli.files.report_formats import FORMATS, REPORTS, FormatOption
from tool_engine.cli.options import JSONOption, ToolsOption, chosen_format, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.cli.signals import run_async
from tool_engine.cli.slow_servers import open_with_servers
from tool_engine.cli.tables import count_text
from tool_engine.config import LOCK_ENFORCE
from tool_engine.engine import ToolEngine
from tool_engine.errors import LockFileError
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool

_NOT_RUNNING: Final = "not compared, as not all servers run; see tool-engine mcp list"
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
            help="Only this tool, group:NAME or server:NAME; repeatable.",
            autocompletion=complete_tool,
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 when something differs.")
    ] = False,
    app: AppOption = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE", help="The lock file, if not tools.lock."),
    ] = None,
    form: FormatOption = "text",
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Approve tools, groups and servers as they are, for engines with `lock: enforce`.

    Example: tool-engine lock --approve get_weather
    """
    if check and approve:
        raise CommandError("--check looks at all tools and groups; leave out --approve")
    form = "json" if as_json else chosen_format(form, FORMATS)
    if form in REPORTS and not check:
        raise CommandError(f"--format {form} says what is not approved; add --check")
    names = sorted({*(approve or ())})
    settings = settings_of(ctx, tools)
    if app is None and may_have_servers(settings):
        report, broken = lock_servers(settings, names, check=check, file=file)
    elif app is None:
        report, broken = lock_folder(settings, names, check=check, file=file)
    elif file is not None:
        raise CommandError("--app has a lock file of its own; leave out --file")
    else:
        check_app(app, settings)
        report, broken = lock_app(app, names, check=check)
    if form in REPORTS:
        texts = [*broken, *([report.problem] if report.problem else [])]
        if report.is_down:
            texts.append(f"{report.path}: {_NOT_RUNNING}")
        print_findings(form, report.path, report.states, report.files, texts)
    elif form == "json":
        print_json(_to_dict(report))
    else:
        write_messages([*broken, *([report.problem] if report.problem else [])])
        _print_report(report)
    is_other = any(each.status != APPROVED for each in report.states) or broken or report.problem
    return EXIT_FAILED if check and (is_other or report.is_down) else EXIT_OK


_GONE_CURE: Final = (
    "gone is what was approved and no file that loads defines: mend its file, bring it back, or "
    "have it forgotten with tool-engine lock --approve NAME"
)


class _Report(NamedTuple):
    path: str
    states: list[LockState]
    is_written: bool
    problem: str | None = None
    """Why the file of before could not be read."""
    unseen: list[str] = []
    """The tools of sources in the file that were not looked at."""
    why_unseen: str = "of sources not looked at; name the engine that has them with --app"
    is_down: bool = False
    """Whether a server that is wanted does not run."""
    files: Mapping[str, str] = {}
    """The file of each definition that is in one, by its name in `states`."""


def lock_folder(
    settings: Settings, names: Sequence[str], *, check: bool, file: str | None
) -> tuple[_Report, list[str]]:
    """Write or check the lock file of a folder; also return what does not load.

    `names` are the tools to approve, and `group:NAME` or `server:NAME`; without any, all of the
    folder are, and no others. `file` is None for the lock beside the folder.
    """
    path = file or settings.lock_file
    present, broken = _load_definitions(settings)
    lock, problem = read_lock(path, is_needed=bool(names), is_checked=check)
    found, code = compare_folder(lock, present)
    if names:
        found = _choose_states(found, names, path, lock)
    elif broken and not check:
        write_messages(broken)
        raise _make_unwritten_error(len(broken))
    if not check:
        _approve_found(lock, found, present, code).write()
    known = {each.name for each in found}
    unseen = [] if names else sorted(lock.tools.keys() - known)
    files = _map_files(present)
    return _Report(path, found, not check, problem, unseen, files=files), broken


def may_have_servers(settings: Settings) -> bool:
    """Return True if tools may come from servers."""
    if settings.mcp_servers is not None:
        return True
    checked = check_files([settings.folder()], is_recursive=settings.is_recursive)
    return any(each.servers for each in checked)


def lock_servers(
    settings: Settings, names: Sequence[str], *, check: bool, file: str | None
) -> tuple[_Report, list[str]]:
    """Write or check the lock file of a folder and servers, as `lock_folder` does.

    No program runs here that is not approved, unless all is to be approved.
    """
    lock = LOCK_ENFORCE if names or check else "off"
    # That a server may run is no reason to run it.
    is_needed = not names or any(kind_named(each) == "tool" for each in names)
    changes = {"lock": lock, "lock_file": file or settings.lock_file}
    engine = ToolEngine(settings.engine_config(**changes, mcp_autostart=is_needed))
    reports: list[tuple[_Report, list[str]]] = []

    async def lock_tools() -> int:
        async with open_with_servers(engine):
            reports.append(await _lock_engine(engine, names, check=check))
        return EXIT_OK

    run_async(lock_tools(), log_level=logging.CRITICAL)
    return reports[0]


def lock_app(app: str, names: Sequence[str], *, check: bool) -> tuple[_Report, list[str]]:
    """Write or check the lock file of a program's engine, as `lock_folder` does."""
    found = load_app(app)
    reports: list[tuple[_Report, list[str]]] = []

    async def lock() -> int:
        async with await wait_for_app(found, app) as engine:
            reports.append(await _lock_engine(engine, names, check=check))
        return EXIT_OK

    # What does not load is reported with the rest.
    run_async(lock(), log_level=logging.ERROR)
    return reports[0]


async def _lock_engine(
    engine: ToolEngine, names: Sequence[str], *, check: bool
) -> tuple[_Report, list[str]]:
    path = engine.config.lock_file or default_lock_file(engine.config.tools_directory)
    wrong = [each for each in engine.load_errors if each[0] != path]
    broken = [text if text.startswith(file) else f"{file}: {text}" for file, text in wrong]
    problem = None
    try:
        states = await engine.check_lock()
    except LockFileError as error:
        if names or check:
            raise
        states, problem = [], str(error)
    unseen = await asyncio.to_thread(_find_unseen, engine, path, states)
    if names:
        states = _choose_states(states, names, path)
    elif broken and not check:
        write_messages(broken)
        of_servers = engine.list_mcp_errors()
        files = {file for file, text in wrong if (file, text) not in of_servers}
        raise _make_unwritten_error(len(files), is_down=bool(of_servers))
    else:
        states = [each for each in states if each.name not in unseen]
    if not check:
        # What a server has that is turned off stays approved.
        chosen = names or ([each.name for each in states] if unseen else None)
        await engine.lock_tools(chosen)
    if problem is not None:
        states = [LockState(each.name, NEW, each.version) for each in await engine.check_lock()]
    is_down = any(each.is_enabled and not each.is_connected for each in engine.list_mcp_servers())
    left_out = [] if names else unseen
    placed = _map_files(by_key([*engine.list_all(), *engine.groups.values()]))
    return _Report(
        path, states, not check, problem, left_out, _NOT_RUNNING, is_down, placed
    ), broken


def _find_unseen(engine: ToolEngine, path: str, states: Sequence[LockState]) -> list[str]:
    """Return the approved tools that servers may have still: one of them does not run.

    The names of tools depend on all servers.
    """
    gone = [each.name for each in states if each.status == GONE]
    if not gone or all(each.is_connected for each in engine.list_mcp_servers()):
        return []
    lock, _ = read_lock(path, is_needed=False, is_checked=False)
    origins = {name: lock.tools[name].origin or "" for name in gone if name in lock.tools}
    return [name for name, origin in origins.items() if origin.startswith("mcp:")]


def _make_unwritten_error(count: int, *, is_down: bool = False) -> CommandError:
    wrong = [f"{count_text(count, 'file')} could not be loaded"] if count else []
    wrong += ["not all servers could be used"] if is_down else []
    return CommandError(
        f"nothing was written: {', and '.join(wrong)}; mend "
        "what is wrong, or approve single tools with --approve NAME",
        error_type="definition_error",
        exit_code=EXIT_FAILED,
    )


def _choose_states(
    found: list[LockState], names: Sequence[str], path: str, lock: ToolLock | None = None
) -> list[LockState]:
    known = {each.name: each for each in found}
    for name in names:
        if name not in known:
            what = f"{kind_named(name)} {bare_name(name)!r}"
            given = None if lock is None else lock.tools.get(name)
            if given is not None:
                raise CommandError(
                    f"the {what} is of the source {given.origin!r}, which only a program adds; "
                    "name its engine with --app MODULE:NAME",
                    error_type="tool_not_found",
                )
            group = f"{PREFIX}{name}"
            hint = f"; did you mean {group!r}?" if group in known else suggest_name(name, known)
            raise CommandError(
                f"no file that loads defines the {what}, and {path} does not have it{hint}",
                error_type="tool_not_found",
            )
    return [known[name] for name in names]


def _approve_found(
    lock: ToolLock,
    found: Iterable[LockState],
    present: Mapping[str, Definition],
    code: Mapping[str, str],
) -> ToolLock:
    changes: dict[str, LockedTool | LockedGroup | None] = {}
    for each in found:
        one = present.get(each.name)
        if isinstance(one, Tool):
            before = lock.tools.get(one.name)
            # A program's own approval of its registered code stays: nothing is known of it here.
            handler = code.get(one.name, None if before is None else before.handler)
            changes[each.name] = LockedTool.of(one, content_hash(one), handler)
        elif isinstance(one, ToolGroup):
            changes[each.name] = LockedGroup.of(one, content_hash(one))
        else:
            approved = None if one is None else LockedTool.of_server(one, content_hash(one))
            changes[each.name] = approved
    return changed_lock(lock, changes)


def _to_dict(report: _Report) -> dict[str, Any]:
    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for each in report.states:
        row = {**msgspec.structs.asdict(each), "name": bare_name(each.name)}
        del row["fingerprint"]  # of a program that approves what it has shown
        rows[each.kind].append(row if each.is_code else _without_code(row))
    return {
        "file": report.path,
        "is_written": report.is_written,
        "problem": report.problem,
        "tools": rows["tool"],
        "groups": rows["group"],
        "servers": rows["server"],
        "unseen": report.unseen,
    }


def _map_files(present: Mapping[str, Definition]) -> dict[str, str]:
    """Return the files of definitions; what code or a server has is in none."""
    sources = ((key, getattr(one, "source", None)) for key, one in present.items())
    return {key: each for key, each in sources if each and not each.startswith("<")}


def _print_report(report: _Report) -> None:
    console = make_console()
    found, path = report.states, report.path
    for each in found:
        if each.status != APPROVED:
            line = f"{each.status:<8} {each.name} {describe_versions(each)}"
            console.print(as_text(line, _STYLES[each.status]), soft_wrap=True)
    counts: dict[str, Any] = {
        status: sum(each.status == status for each in found) for status in (NEW, CHANGED, GONE)
    }
    said = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    here = [each for each in found if each.status != GONE]
    total = count_approved(each.name for each in here)
    verdict = "written" if report.is_written else "not approved"
    summary = f"{path}: {total}, {said}: {verdict}" if said else f"{path}: {total}, nothing changed"
    console.print(as_text(summary), soft_wrap=True)
    if counts[GONE] and not report.is_written:
        console.print(as_text(_GONE_CURE), soft_wrap=True)
    if report.unseen:
        count = count_text(len(report.unseen), "tool")
        console.print(as_text(f"{path}: {count} {report.why_unseen}"), soft_wrap=True)


def _without_code(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a definition without the code's key."""
    return {key: value for key, value in row.items() if key != "is_code"}


def _load_definitions(settings: Settings) -> tuple[dict[str, Definition], list[str]]:
    checked = check_files([settings.folder()], is_recursive=settings.is_recursive)
    good = [one for each in checked if not each.problems for one in each.definitions]
    broken = ["\n".join(map(str, each.problems)) for each in checked if each.problems]
    return by_key(good), broken
