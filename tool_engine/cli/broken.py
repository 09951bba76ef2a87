"""How does a command report tool files that could not be loaded?

One short sentence with every command; why, with the command that asks for such a tool.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tool_engine.catalog.definition_files import list_definitions
from tool_engine.cli.completion import names_in
from tool_engine.cli.console import safe_text
from tool_engine.cli.failures import CommandError, suggest_name
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import count_text
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.visible import escape_hidden

if TYPE_CHECKING:
    from tool_engine.engine import ToolEngine

_ALMOST: Final = re.compile(r"\.(ya?ml\.(txt|json)|json|yam|yalm|ymal|ymls|yamls)$", re.IGNORECASE)
"""The end of a name that was meant as that of a tool file."""
NOT_LOADED: Final = "tool_not_loaded"
"""The type of the error about a tool whose file could not be loaded."""
_MOST_LOOKED_AT: Final = 1_000
"""Files that are read in search of a name."""
_MOST_SHOWN: Final = 5
"""Faults that are printed one by one."""


def report_broken(settings: Settings, files: int) -> None:
    if files:
        summary = f"{count_text(files, 'file')} could not be loaded"
        sys.stderr.write(f"{summary}; see tool-engine validate {safe_text(settings.tools)}\n")


def report_faults(settings: Settings, errors: Iterable[tuple[str, str]]) -> None:
    """Say how many files have faults that `validate` shows, and print what only running shows.

    Args:
        settings: Those of the command.
        errors: The file and the words of each fault that an engine found.
    """
    known: dict[str, str] = dict(errors)
    if not known:
        return
    files = [each for each in known if Path(each).is_file()]
    # By name: commands that check files are above what reports them.
    check_files = import_module("tool_engine.cli.files.checking").check_files
    wrong = {each.file for each in check_files(files) if each.problems} if files else set()
    right = known.keys() - wrong
    report_broken(settings, len(wrong))
    for count, file in enumerate(sorted(right)):
        if count == _MOST_SHOWN:
            report_broken(settings, len(right) - count)
            break
        sys.stderr.write(f"{escape_hidden(known[file])}\n")


def report_empty(settings: Settings) -> None:
    """Say why no file of the folder is read, where none is."""
    if reason := explain_empty(settings.tools, is_recursive=settings.is_recursive):
        sys.stderr.write(f"{safe_text(reason)}\n")


def explain_empty(folder: str, *, is_recursive: bool) -> str:
    """Return why no file of a folder is read; empty if one is, or the folder cannot be listed."""
    try:
        if list_definitions(folder, recursive=is_recursive):
            return ""
        entries = _list_entries(folder)
        inner = [each for each in entries if each.is_dir() and not each.name.startswith(".")]
        deeper = next(
            (each for each in inner if list_definitions(str(each), recursive=False)), None
        )
    except OSError:
        return ""
    reason = f"there is no tool file in {folder}"
    if deeper is not None:
        return f"{reason}; there are some in {deeper}: write `tool-engine --recursive ...`"
    misnamed = next(list_misnamed(entries), "")
    return f"{reason}; {misnamed or 'write one with `tool-engine new NAME`'}"


def _list_entries(folder: str) -> list[Path]:
    path = Path(folder)
    return sorted(path.iterdir()) if path.is_dir() else []


def list_misnamed(entries: Iterable[Path], stem: str | None = None) -> Iterator[str]:
    """Yield what to rename of files that were meant as tool files, perhaps only that of a tool."""
    for each in entries:
        right = _ALMOST.sub(".yaml", each.name)
        is_meant = right != each.name and not each.name.startswith(".")
        if is_meant and stem in (None, Path(right).stem):
            yield f"{each.name!r} is not read: rename it to {right!r}"


def report_load_errors(settings: Settings, engine: ToolEngine, unfit: int) -> None:
    """Say how many files and workflows have faults, and whether a server gave no tools."""
    of_servers = engine.list_mcp_errors()
    errors = {place: text for place, text in engine.load_errors if (place, text) not in of_servers}
    if settings.is_without_folder:
        errors.pop(settings.tools, None)
    report_faults(settings, errors.items())
    waiting = len(engine.quarantined())
    if waiting and engine.config.lock_file not in errors:
        summary = f"{count_text(waiting, 'tool')} not approved, and not offered"
        sys.stderr.write(f"{summary}; see tool-engine lock --check\n")
    if unfit:
        summary = f"{count_text(unfit, 'workflow')} with a tool that is not there, or does not fit"
        sys.stderr.write(f"{summary}; see tool-engine validate {safe_text(settings.tools)}\n")
    report_servers(of_servers)


def report_servers(errors: Iterable[tuple[str, str]]) -> None:
    if any(errors):
        sys.stderr.write("not all servers could be used; see tool-engine mcp list\n")


def find_errors(name: str, errors: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return those of the errors whose files have a tool of this name."""
    return [
        (file, message)
        for file, message in errors
        if name == Path(file).stem or name in names_in(Path(file))
    ]


def suggest_tool(name: str, known: Collection[str], errors: Iterable[tuple[str, str]]) -> str:
    """Return the nearest name, also of a file that could not be loaded; else a few that load."""
    broken = {each for file, _ in errors for each in names_in(Path(file))}
    near = find_nearest(name, {*known, *broken})
    if near in broken and near not in known:
        return f"; did you mean {near!r}, whose file could not be loaded?"
    return suggest_name(name, known)


def missing_tool(
    settings: Settings,
    name: str,
    known: Collection[str],
    errors: Collection[tuple[str, str]],
    of_servers: Sequence[tuple[str, str]] = (),
) -> CommandError:
    """Return a missing tool's error: its broken file, near names, or a server without tools.

    Args:
        settings: The global options.
        name: What was asked for.
        known: The names that there are.
        errors: The files that could not be loaded, and why.
        of_servers: The servers that could not be used, and why; the tool may be one of theirs.
    """
    for file, message in find_errors(name, errors)[:1]:
        first, *more = message.splitlines()
        rest = f" (and {len(more)} more; see tool-engine validate {file})" if more else ""
        summary = f"the tool {name!r} could not be loaded: {first}{rest}"
        return CommandError(summary, error_type=NOT_LOADED)
    text = _explain_path(settings, name, known)
    unread = next((message for file, message in errors if file == settings.tools), "")
    if not text and unread:
        text = f"there is no tool {name!r}: {unread}"
    if not text:
        what, word = ("file", Path(name).stem) if _is_written_as_path(name) else ("tool", name)
        place = f", and no tool {word!r}" if what == "file" else ""
        text = f"there is no {what} {name!r}{place} in {settings.tools}"
        text += suggest_tool(word, known, errors)
        # Where tools come from servers, a folder without files is no reason.
        is_bare = not (known or of_servers)
        misplaced = _find_misplaced(settings.tools, word)
        if not misplaced and not is_bare and not settings.is_recursive:
            misplaced = _find_below(settings.tools, word)
        if is_bare and (
            reason := explain_empty(settings.tools, is_recursive=settings.is_recursive)
        ):
            text = f"there is no {what} {name!r}: {reason}"
        if misplaced:
            text = f"there is no {what} {name!r} in {settings.tools}; {misplaced}"
        elif not is_bare and (
            misnamed := next(list_misnamed(_list_entries(settings.tools), word), "")
        ):
            text += f"; {misnamed}"
        for _, message in of_servers[:1]:
            text += f"; it may be of a server that gives none: {message}"
    return CommandError(text, error_type="tool_not_found")


def missing_in(settings: Settings, engine: ToolEngine, name: str) -> CommandError:
    """Return the error of a tool that an engine lacks."""
    known, servers = engine.list_names(), engine.list_mcp_errors()
    return missing_tool(settings, name, known, engine.load_errors, servers)


def _find_misplaced(folder: str, name: str) -> str:
    """Return what to do with a tool's file that lies beside the folder, or is no YAML by name."""
    for place in dict.fromkeys((Path(), Path(folder).parent)):
        for file in (place / f"{name}.yaml", place / f"{name}.yml"):
            if _is_file(file) and name in names_in(file):
                return f"'{file}' is not read: move it into {folder}"
    text = Path(folder, f"{name}.txt")
    return f"{text.name!r} is not read: rename it to '{name}.yaml'" if _is_file(text) else ""


def _find_below(folder: str, name: str) -> str:
    """Return what to do with a tool's file that lies in a folder of the folder."""
    try:
        found = list_definitions(folder, recursive=True)
    except OSError:
        return ""
    below = (each for each in map(Path, found) if each.parent != Path(folder))
    for each in islice(below, _MOST_LOOKED_AT):
        if name in names_in(each):
            return f"'{each}' is not read: write `tool-engine --recursive ...`"
    return ""


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False  # where it may not look


def _is_written_as_path(word: str) -> bool:
    return "/" in word or word.endswith((".yaml", ".yml"))


def _explain_path(settings: Settings, word: str, known: Collection[str]) -> str:
    """Return what to write in place of a path, where a tool's name belongs; empty for a name."""
    path = Path(word)
    if path.is_dir() and ("/" in word or word == settings.tools):
        return f"{word!r} is a folder; name a tool of it, as `tool-engine --tools {word} list` does"
    if _is_file(path) and ("/" in word or path.suffix) and path.suffix not in (".yaml", ".yml"):
        near = suggest_name(path.stem, known)
        return f"{word!r} is a file, and the name of a tool belongs here{near}"
    if not _is_written_as_path(word):
        return ""
    names = names_in(path) if path.is_file() else [path.stem] if path.stem in known else []
    if not names:
        return ""
    what = "is a file" if path.is_file() else "is no file"
    listed = " or ".join(map(repr, sorted(names)))
    is_elsewhere = path.is_file() and known and not {*names} & {*known}
    folder = f", with --tools {path.parent}" if is_elsewhere else ""
    return f"{word!r} {what}, and the name of a tool belongs here: write {listed}{folder}"
