"""What did an edit of tool files change for callers?"""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final

import msgspec
import typer

from tool_engine.catalog.change.compatibility import ToolDiff, compare_versions
from tool_engine.catalog.change.tool_change import BREAKING, COMPATIBLE, COSMETIC, NONE, next_major
from tool_engine.catalog.definition_files import (
    is_definition,
    read_definition,
    without_foreign_content,
)
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError
from tool_engine.cli.files.targets import file_of_tool, files_at, is_path
from tool_engine.cli.options import JSONOption, ToolsOption, chosen_format, settings_of
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import count_text
from tool_engine.errors import DefinitionError
from tool_engine.model.tool import Tool

_LEVELS: Final = (BREAKING, COMPATIBLE, COSMETIC, NONE)
_STYLES: Final = {BREAKING: "red", COMPATIBLE: "yellow", COSMETIC: "dim", NONE: ""}
_ARE_ANNOUNCED: Final = ("deprecated", "draft")
"""States in which a tool may disappear unannounced: no caller should use it."""


class Compared(msgspec.Struct, frozen=True):
    """One tool on both sides, or on one of them."""

    name: str
    status: str
    """`changed`, `unchanged`, `added` or `removed`."""
    level: str
    """`none`, `cosmetic`, `compatible` or `breaking`."""
    is_announced: bool
    """False when it is breaking and no version says so."""
    warning: str | None = None
    """What to do about the version."""
    diff: ToolDiff | None = None
    """The changes; None when it is on one side only."""

    def to_dict(self) -> dict[str, Any]:
        facts = {
            "name": self.name,
            "status": self.status,
            "level": self.level,
            "is_announced": self.is_announced,
            "warning": self.warning,
        }
        return facts if self.diff is None else {**facts, **self.diff.to_dict()}


def run_command(
    ctx: typer.Context,
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="A file, a folder, a tool, or REVISION:PATH.")
    ],
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="A file, a folder, a tool, or REVISION:PATH.")
    ],
    *,
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help="text or json.")] = "text",
    as_json: JSONOption = False,
    tools: ToolsOption = None,
) -> int:
    """Show how tools differ, and exit with 1 when an edit breaks callers unannounced.

    Example: tool-engine diff origin/main:tools tools --format json
    """
    is_json = chosen_format(form, ("text", "json")) == "json" or as_json
    return diff_files(settings_of(ctx, tools), old, new, as_json=is_json)


def diff_files(settings: Settings, old: str, new: str, *, as_json: bool) -> int:
    """Print how the tools of two places differ.

    A place is a file, a folder, `REVISION:PATH` of a git repository, or the name of a tool.

    Returns:
        1 when something is breaking and no version announces it, else 0.
    """
    compared = compare_tools(_load_tools(settings, old), _load_tools(settings, new))
    if as_json:
        level = min((each.level for each in compared), key=_LEVELS.index, default=NONE)
        print_json(
            {
                "level": level,
                "is_announced": all(each.is_announced for each in compared),
                "tools": [each.to_dict() for each in compared],
            }
        )
    else:
        _print_compared(compared)
    return EXIT_OK if all(each.is_announced for each in compared) else EXIT_FAILED


def compare_tools(old: Mapping[str, Tool], new: Mapping[str, Tool]) -> list[Compared]:
    """Compare tools by name; two single tools are a pair."""
    if len(old) == len(new) == 1:
        return [_compare_tools(*old.values(), *new.values())]
    return [
        _compare_tools(old[name], new[name])
        if name in old and name in new
        else (_describe_added(new[name]) if name in new else _describe_removed(old[name]))
        for name in sorted({*old, *new})
    ]


def _compare_tools(old: Tool, new: Tool) -> Compared:
    diff = compare_versions(old, new)
    status = "unchanged" if diff.level == NONE else "changed"
    return Compared(new.name, status, diff.level, not diff.breaks_unannounced, diff.warning, diff)


def _describe_added(tool: Tool) -> Compared:
    return Compared(tool.name, "added", COMPATIBLE, is_announced=True)


def _describe_removed(tool: Tool) -> Compared:
    if tool.status in _ARE_ANNOUNCED:
        return Compared(tool.name, "removed", COMPATIBLE, is_announced=True)
    warning = (
        f"the tool {tool.name!r} is gone, and was {tool.status} until now; give it status: "
        "deprecated for a while first"
    )
    return Compared(tool.name, "removed", BREAKING, is_announced=False, warning=warning)


def _load_tools(settings: Settings, word: str) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    wanted: str | None = None
    texts: Mapping[str, bytes]
    try:
        if is_path(word) and not is_revision(word):
            files = files_at(word, is_recursive=settings.is_recursive)
            texts = {file: read_definition(file).data for file in files}
        elif is_revision(word):
            texts = files_in_revision(word, is_recursive=settings.is_recursive)
        else:
            wanted, file = word, file_of_tool(settings, word)
            texts = {file: read_definition(file).data}
        for source, text in texts.items():
            with without_foreign_content(source):
                found = ToolConfigLoader().load_tools(text, source)
            for tool in found:
                _add_tool(tools, tool)
    except DefinitionError as error:
        raise CommandError(
            f"{word!r} cannot be compared: {error}", error_type="not_comparable"
        ) from error
    return tools if wanted is None else {wanted: tools[wanted]}


def _add_tool(tools: dict[str, Tool], tool: Tool) -> None:
    if tool.name in tools:
        raise CommandError(
            f"the tool {tool.name!r} is defined in {tools[tool.name].source} and in "
            f"{tool.source}; rename or remove one",
            error_type="duplicate_tool",
        )
    tools[tool.name] = tool


def _print_compared(compared: Sequence[Compared]) -> None:
    console = make_console()
    for each in compared:
        if each.level != NONE:
            console.print(as_text(_make_headline(each), "bold"), soft_wrap=True)
        for change in each.diff.changes if each.diff is not None else ():
            about = f"{change.path}: " if change.path else ""
            line = f"  {change.level:<10}  {about}{change.message}"
            console.print(as_text(line, _STYLES[change.level]), soft_wrap=True)
        advice = _find_advice(each)
        if advice is not None:
            style = "yellow" if each.is_announced else "red"
            console.print(as_text(f"  {advice}", style), soft_wrap=True)
    console.print(as_text(_make_summary(compared)), soft_wrap=True)


def _find_advice(each: Compared) -> str | None:
    """Return the advice without the changes, which are printed above it."""
    if each.diff is None or each.is_announced:
        return each.warning
    cure = f"make it version {next_major(each.diff.old_version)}"
    return f"breaking, and {each.diff.new_version!r} is no major step; {cure}"


def _make_headline(each: Compared) -> str:
    if each.diff is None:
        return f"{each.name}: {each.status}"
    versions = (each.diff.old_version, each.diff.new_version)
    step = versions[0] if versions[0] == versions[1] else " -> ".join(versions)
    return f"{each.name} {step}: {each.level}"


def _make_summary(compared: Sequence[Compared]) -> str:
    counts = [(level, sum(each.level == level for each in compared)) for level in _LEVELS]
    words = [f"{count} {'unchanged' if level == NONE else level}" for level, count in counts]
    return f"{count_text(len(compared), 'tool')} compared: {', '.join(words)}"


_TIMEOUT = 60.0


def is_revision(word: str) -> bool:
    """Return True for `REVISION:PATH`, unless the word is a path itself."""
    revision, colon, path = word.partition(":")
    # One letter before the colon is a drive, and a dash would be an option of git's.
    is_named = len(revision) > 1 and not revision.startswith("-")
    return bool(colon and path) and is_named and not Path(word).exists()


def files_in_revision(word: str, *, is_recursive: bool = False) -> dict[str, bytes]:
    """Return the definitions at `REVISION:PATH`, relative to the present folder.

    Raises:
        CommandError: git does not know it, or is not installed.
    """
    revision, _, path = word.partition(":")
    # An archive holds files and folders alike, and links as links.
    archive = _run_git("archive", "--format=tar", revision, "--", path)
    root = PurePosixPath(path)
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for member in members:
            name = PurePosixPath(member.name)
            content = members.extractfile(member) if member.isreg() else None
            is_wanted = name == root or (
                is_definition(name.name) and (is_recursive or name.parent == root)
            )
            if content is not None and is_wanted:
                files[f"{revision}:{name}"] = content.read()
    return dict(sorted(files.items()))


def _run_git(*words: str) -> bytes:
    try:
        ended = subprocess.run(  # noqa: S603 - a list of words, and no shell
            ["git", *words],  # noqa: S607 - the person's own git
            capture_output=True,
            check=True,
            timeout=_TIMEOUT,
        )
    except FileNotFoundError:
        raise CommandError(
            "git is not installed; compare two folders", error_type="no_git"
        ) from None
    except subprocess.TimeoutExpired:
        raise CommandError(
            f"git took longer than {_TIMEOUT:g} s; compare two folders", error_type="no_git"
        ) from None
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode("utf-8", "replace").strip()
        raise CommandError(
            f"git cannot read that: {reason}; name a revision of the repository in this folder, or "
            "compare two folders",
            error_type="no_revision",
        ) from error
    return ended.stdout
