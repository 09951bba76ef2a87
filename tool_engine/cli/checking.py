"""Which tool files are wrong, where, and how are they mended?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from tool_engine.catalog.folder import list_definitions, read_definition
from tool_engine.catalog.loader import ToolConfigLoader, duplicate_error
from tool_engine.catalog.strict_yaml import parse
from tool_engine.cli.console import make_console, plain, print_json
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK, CommandError
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import count_text
from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.executors.registry import ExecutorRegistry
from tool_engine.model.tool import Tool

__all__ = ["Checked", "check_files", "validate_files"]

_PATH_PART: Final = re.compile(r"[^.\[\]]+")


class Checked(msgspec.Struct):
    """What was found in one file."""

    file: str
    tool: Tool | None = None
    problems: list[DefinitionProblem] = []
    warnings: list[str] = []

    def to_dict(self) -> dict[str, Any]:
        """The findings as JSON values."""
        return {
            "file": self.file,
            "tool": None if self.tool is None else self.tool.name,
            "is_valid": not self.problems,
            "problems": [problem._asdict() for problem in self.problems],
            "warnings": self.warnings,
        }


def validate_files(
    settings: Settings, paths: Sequence[str], *, verbose: bool, as_json: bool
) -> int:
    """Checks files and folders, prints every problem, and says by the exit code if there is one."""
    checked = check_files(paths or [settings.folder()], is_recursive=settings.is_recursive)
    invalid = sum(bool(each.problems) for each in checked)
    if as_json:
        print_json(
            {
                "checked": len(checked),
                "valid": len(checked) - invalid,
                "invalid": invalid,
                "files": [each.to_dict() for each in checked],
            }
        )
    else:
        _print_checked(checked, verbose=verbose)
    return EXIT_FAILED if invalid else EXIT_OK


def check_files(paths: Iterable[str], *, is_recursive: bool = False) -> list[Checked]:
    """Checks each file once, in order; a name that two files of a folder define is a problem.

    Raises:
        CommandError: There is nothing at one of the paths.
    """
    loader, executors = ToolConfigLoader(), ExecutorRegistry()
    checked: list[Checked] = []
    for files in _folders(paths, is_recursive=is_recursive).values():
        found = [_check_file(file, loader, executors) for file in files]
        _check_duplicates(found)
        checked += found
    return checked


def _folders(paths: Iterable[str], *, is_recursive: bool) -> dict[Path, list[str]]:
    # Names must differ within what one engine loads, so a file counts to the folder it is in.
    folders: dict[Path, dict[Path, str]] = {}
    for text in paths:
        path = Path(text)
        if not path.exists():
            raise CommandError(f"there is no file or folder {text!r}", error_type="no_such_file")
        is_folder = path.is_dir()
        files = list_definitions(text, recursive=is_recursive) if is_folder else [text]
        folder = folders.setdefault((path if is_folder else path.parent).resolve(), {})
        for file in files:
            folder.setdefault(Path(file).resolve(), file)
    return {folder: list(files.values()) for folder, files in folders.items()}


def _check_file(file: str, loader: ToolConfigLoader, executors: ExecutorRegistry) -> Checked:
    try:
        tool = loader.load_file(file)
    except DefinitionError as error:
        return Checked(file, problems=list(error.problems))
    problems = [_located(problem) for problem in executors.check(tool)]
    return Checked(file, tool, problems, [*tool.findings, *_executor_warnings(tool, executors)])


def _located(problem: DefinitionProblem) -> DefinitionProblem:
    # An executor reads the loaded tool, which no longer knows the lines of its text.
    documents, _ = parse(read_definition(problem.file).data, problem.file)
    line, column = documents[0].position(tuple(_PATH_PART.findall(problem.path)))
    return problem._replace(line=line, column=column)


def _executor_warnings(tool: Tool, executors: ExecutorRegistry) -> list[str]:
    if "request" in tool.implementation_config or tool.handler in executors.names():
        return []
    near = executors.nearest(tool.handler)
    hint = f"did you mean {near!r}?" if near else "register it with engine.register_executor"
    return [f"{tool.source}: entry.handler: nothing installed runs {tool.handler!r}; {hint}"]


def _check_duplicates(checked: list[Checked]) -> None:
    by_name: dict[str, list[Checked]] = {}
    for each in checked:
        if each.tool is not None:
            by_name.setdefault(each.tool.name, []).append(each)
    for name, same in by_name.items():
        files = [each.file for each in same]
        for each in same if len(same) > 1 else ():
            error = duplicate_error(name, each.file, files)
            each.problems.extend(_located(problem) for problem in error.problems)


def _print_checked(checked: Sequence[Checked], *, verbose: bool) -> None:
    console = make_console()
    for each in checked:
        for problem in each.problems:
            console.print(plain(str(problem), "red"), soft_wrap=True)
        for warning in each.warnings:
            console.print(plain(f"warning: {warning}", "yellow"), soft_wrap=True)
        if verbose and each.tool is not None and not each.problems:
            text = f"{each.file}: ok: {each.tool.name} {each.tool.version}"
            console.print(plain(text, "green"), soft_wrap=True)
    problems = sum(len(each.problems) for each in checked)
    invalid = sum(bool(each.problems) for each in checked)
    console.print(
        f"{count_text(len(checked), 'file')} checked, {len(checked) - invalid} valid, "
        f"{invalid} invalid, {count_text(problems, 'problem')}"
    )
