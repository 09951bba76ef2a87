"""Which tool files are wrong, where, and how are they mended?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tool_engine.catalog.alias_clashes import clashes_of
from tool_engine.catalog.definition_files import (
    SETTLE_TIME,
    FileStamp,
    FolderError,
    find_target,
    list_definitions,
    read_definition,
    stamp_of,
    without_foreign_content,
)
from tool_engine.catalog.group_links import link_faults
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.kinds import Definition, ServerDefinition
from tool_engine.catalog.loader import (
    ToolConfigLoader,
    duplicate_error,
    kind_of,
    load_checked,
)
from tool_engine.catalog.yaml.document import format_path, parse_path
from tool_engine.catalog.yaml.strict_yaml import parse_yaml
from tool_engine.cli.console import as_text, make_console
from tool_engine.cli.failures import missing_file
from tool_engine.cli.settings import Settings
from tool_engine.cli.tables import count_text
from tool_engine.errors import DefinitionError, DefinitionProblem, ToolEngineError
from tool_engine.executors.executor_registry import ENTRY_CHECKS, PYTHON, ExecutorRegistry
from tool_engine.executors.workflow.linker import WorkflowLinker
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool
from tool_engine.validation import ToolParameterValidator
from tool_engine.visible import escape_hidden

_OF_FILES: Final = "tool_engine.executors.files.file_entry"
"""What reads the entries of file tools."""


class Checked(msgspec.Struct):
    file: str
    definitions: list[Definition] = []
    """The tools, groups and servers, in the order of the file."""
    problems: list[DefinitionProblem] = []
    warnings: list[str] = []

    @property
    def tools(self) -> list[Tool]:
        return [each for each in self.definitions if isinstance(each, Tool)]

    @property
    def groups(self) -> list[ToolGroup]:
        return [each for each in self.definitions if isinstance(each, ToolGroup)]

    @property
    def servers(self) -> list[ServerDefinition]:
        return [each for each in self.definitions if isinstance(each, ServerDefinition)]

    def to_dict(self) -> dict[str, Any]:
        names = [tool.name for tool in self.tools]
        return {
            "file": self.file,
            "tool": names[0] if len(names) == 1 else None,
            "tools": names,
            "groups": [group.name for group in self.groups],
            "servers": [server.name for server in self.servers],
            "is_valid": not self.problems,
            "problems": [problem._asdict() for problem in self.problems],
            "warnings": self.warnings,
        }


IsBusy = Callable[[str, FileStamp], bool]
"""Returns True if a file in this state is still being written."""


class Checker:
    """Checks files, and those that did not change since only once."""

    def __init__(self) -> None:
        self.busy: set[str] = set()
        """The files that the last `check` left as they were, because they are being written."""
        self._loader = ToolConfigLoader()
        self._executors = ExecutorRegistry()
        self._linker = WorkflowLinker(
            self._executors.is_workflow, ToolParameterValidator().validate
        )
        self._known: dict[str, tuple[FileStamp | None, Checked]] = {}

    def check(
        self, paths: Iterable[str], *, is_recursive: bool = False, is_busy: IsBusy | None = None
    ) -> list[Checked]:
        """Check each file once; duplicate names in a folder are problems.

        Files and folders are given as `paths`; a file counts as at the last check where `is_busy`
        says so.

        Raises:
            CommandError: There is nothing at one of the paths.
        """
        self.busy = set()
        checked: list[Checked] = []
        for files in _group_by_folder(paths, is_recursive=is_recursive).values():
            found = [
                each for file in files if (each := self._check_file(file, is_busy)) is not None
            ]
            _check_duplicates(found)
            self._check_workflows(found)
            self._check_groups(found)
            self._check_aliases(found)
            checked += found
        kept = {each.file for each in checked}
        self._known = {file: known for file, known in self._known.items() if file in kept}
        return checked

    def _check_file(self, file: str, is_busy: IsBusy | None) -> Checked | None:
        stamp = stamp_of(file)
        known = self._known.get(file)
        if known is None or stamp is None or known[0] != stamp:
            if stamp is not None and is_busy is not None and is_busy(file, stamp):
                self.busy.add(file)
            else:
                # A file read this very moment may change again under the same stamp.
                kept = stamp if _is_settled(stamp) else None
                known = kept, _check_file(file, self._executors)
                self._known[file] = known
        if known is None:
            return None
        # A copy: faults caused by other files must not stay.
        problems, warnings = list(known[1].problems), list(known[1].warnings)
        return msgspec.structs.replace(known[1], problems=problems, warnings=warnings)

    def _check_workflows(self, checked: list[Checked]) -> None:
        """Add the problems between the tools of a folder."""
        workflows = [
            (each, number, tool)
            for each in checked
            for number, tool in enumerate(each.definitions)
            if not each.problems and isinstance(tool, Tool) and self._executors.is_workflow(tool)
        ]
        index = _index_of(checked, self._loader) if workflows else ToolIndex()
        for each, number, tool in workflows:
            for link in self._linker.problems(tool, index):
                problem = DefinitionProblem(link.message, each.file, path=link.path)
                located = _locate_problem(problem, number)
                if link.is_broken and not link.is_absent:
                    each.problems.append(located)
                else:
                    each.warnings.append(str(located))

    def _check_groups(self, checked: list[Checked]) -> None:
        """Add warnings about missing tools in groups."""
        groups = [
            (each, number, group)
            for each in checked
            for number, group in enumerate(each.definitions)
            if not each.problems and isinstance(group, ToolGroup)
        ]
        index = _index_of(checked, self._loader) if groups else ToolIndex()
        for each, number, group in groups:
            for fault in link_faults(group, index):
                place = format_path(fault.path)
                problem = DefinitionProblem(fault.sentence, each.file, path=place)
                each.warnings.append(str(_locate_problem(problem, number)))

    def _check_aliases(self, checked: list[Checked]) -> None:
        """Add warnings about further names that other tools have, too."""
        if any(tool.aliases or tool.vcp_command for each in checked for tool in each.tools):
            files = {each.file: each for each in checked}
            for problem in clashes_of(_index_of(checked, self._loader)):
                if problem.file in files:
                    files[problem.file].warnings.append(str(problem))


def _index_of(checked: list[Checked], loader: ToolConfigLoader) -> ToolIndex:
    tools = {tool.name: tool for each in checked for tool in each.tools}
    return ToolIndex([*_load_neighbours(checked, loader), *tools.values()])


def check_files(paths: Iterable[str], *, is_recursive: bool = False) -> list[Checked]:
    """Check each file once with a new `Checker`; see `Checker.check`."""
    return Checker().check(paths, is_recursive=is_recursive)


class LoadedFolder(NamedTuple):
    """The good tools and groups of a folder by name, and what is wrong elsewhere."""

    tools: dict[str, Tool]
    groups: dict[str, ToolGroup]
    errors: list[tuple[str, str]]
    """Each file that could not be loaded, and why."""
    server_errors: tuple[tuple[str, str], ...] = ()
    """What is wrong with servers, where they were asked."""


def load_folder(settings: Settings) -> LoadedFolder:
    checked = check_files([settings.folder()], is_recursive=settings.is_recursive)
    good = [each for each in checked if not each.problems]
    tools = sorted((tool for each in good for tool in each.tools), key=lambda tool: tool.name)
    groups = sorted((group for each in good for group in each.groups), key=lambda group: group.name)
    errors = [(each.file, "\n".join(map(str, each.problems))) for each in checked if each.problems]
    return LoadedFolder(
        {tool.name: tool for tool in tools}, {group.name: group for group in groups}, errors
    )


def _group_by_folder(paths: Iterable[str], *, is_recursive: bool) -> dict[Path, list[str]]:
    # Names must differ within one engine's folder, so a file counts to the folder it is in.
    folders: dict[Path, dict[Path, str]] = {}
    for text in paths:
        path = Path(text)
        if not path.exists():
            raise missing_file(text)
        is_folder = path.is_dir()
        files = list_definitions(text, recursive=is_recursive) if is_folder else [text]
        folder = folders.setdefault(Path(find_target(path if is_folder else path.parent)), {})
        for file in files:
            folder.setdefault(Path(find_target(file)), file)
    return {folder: list(files.values()) for folder, files in folders.items()}


def _is_settled(stamp: FileStamp | None) -> bool:
    """Return True if a later write would change the stamp."""
    if stamp is None:
        return False
    return abs(stamp.age()) > SETTLE_TIME and not stamp.may_hide_a_change()


def _check_file(file: str, executors: ExecutorRegistry) -> Checked:
    data = b""
    try:
        with without_foreign_content(file):
            data = read_definition(file).data
            definitions = load_checked(data, file, lambda tool: check_tool(tool, executors))
    except DefinitionError as error:
        checked = Checked(file, problems=list(error.problems))
        # What only an executor refuses still has a name, which no other tool may have.
        with contextlib.suppress(DefinitionError):
            checked.definitions = load_checked(data, file, None)
        return checked
    checked = Checked(file, definitions)
    for number, each in enumerate(definitions):
        checked.warnings += each.findings
        if isinstance(each, Tool):
            missing = _missing_executor(each, executors) or _missing_root(each, executors)
            checked.warnings += [str(place_problem(missing, data, number))] if missing else []
    return checked


def check_tool(tool: Tool, executors: ExecutorRegistry) -> list[DefinitionProblem]:
    """Return what is wrong with a tool's entry."""
    problems = executors.check(tool)
    # Built-in handlers are known, and a path is a function's; others may be registered in code.
    if tool.implementation_config.get("type") != "builtin" and not executors.is_path(tool):
        return problems
    missing = _missing_executor(tool, executors)
    return [*problems, missing] if missing else problems


def _locate_problem(problem: DefinitionProblem, number: int) -> DefinitionProblem:
    try:
        return place_problem(problem, read_definition(problem.file).data, number)
    except DefinitionError:
        # The file has changed meanwhile; its next check finds the problem anew.
        return problem


def _load_neighbours(checked: list[Checked], loader: ToolConfigLoader) -> list[Tool]:
    """Return the tools of files beside the checked ones."""
    known = {Path(find_target(each.file)) for each in checked}
    tools: list[Tool] = []
    files: dict[str, None] = {}
    for folder in {path.parent for path in known}:
        # The folder of a readable file may not be listable.
        with contextlib.suppress(FolderError):
            files.update(dict.fromkeys(list_definitions(str(folder), recursive=False)))
    for file in files:
        if Path(find_target(file)) not in known:
            with contextlib.suppress(DefinitionError):
                tools += loader.load_file_tools(file)
    return tools


def _missing_executor(tool: Tool, executors: ExecutorRegistry) -> DefinitionProblem | None:
    if executors.name_of(tool) in (PYTHON, *executors.names()):
        return None
    cure, near = executors.missing_cure(tool, may_read=True)
    message = f"nothing installed runs {tool.handler!r}; {cure}"
    return DefinitionProblem(message, file=tool.source or "", path="entry.handler", nearest=near)


def _missing_root(tool: Tool, executors: ExecutorRegistry) -> DefinitionProblem | None:
    """Return the problem of a file tool whose folder is not there, with its whole path.

    A call, which a model reads, does not name the folders of this computer.
    """
    module = ENTRY_CHECKS.get(executors.name_of(tool))
    if module != _OF_FILES:
        return None
    try:
        root = import_module(module).compile_entry(tool).open().path
    except ToolEngineError:
        return None  # its variable may be set where the engine runs
    if Path(root).is_dir():
        return None
    message = f"there is no folder {root}; create it, or correct entry.root"
    return DefinitionProblem(message, file=tool.source or "", path="entry.root")


def _check_duplicates(checked: list[Checked]) -> None:
    by_name: dict[tuple[str, str], list[tuple[Checked, int]]] = {}
    for each in checked:
        for number, definition in enumerate(each.definitions):
            key = kind_of(definition), definition.name
            by_name.setdefault(key, []).append((each, number))
    for (kind, name), same in by_name.items():
        files = [each.file for each, _ in same]
        for each, number in same if len(same) > 1 else ():
            error = duplicate_error(name, each.file, files, kind=kind)
            each.problems.extend(_locate_problem(problem, number) for problem in error.problems)


def print_checked(checked: Sequence[Checked], *, verbose: bool) -> None:
    console = make_console()
    for each in checked:
        for problem in each.problems:
            console.print(as_text(str(problem), "red"), soft_wrap=True)
        for warning in each.warnings:
            console.print(as_text(escape_hidden(f"warning: {warning}"), "yellow"), soft_wrap=True)
        if verbose and not each.problems:
            names = ", ".join(map(_name_of, each.definitions))
            line = escape_hidden(f"{each.file}: ok: {names}")
            console.print(as_text(line, "green"), soft_wrap=True)


def _name_of(definition: Definition) -> str:
    kind = kind_of(definition)
    return f"{'' if kind == 'tool' else f'{kind} '}{definition.name} {definition.version}"


def print_summary(checked: Sequence[Checked]) -> None:
    problems = sum(len(each.problems) for each in checked)
    invalid = sum(bool(each.problems) for each in checked)
    warnings = sum(len(each.warnings) for each in checked)
    more = f", {count_text(warnings, 'warning')}" if warnings else ""
    make_console().print(
        f"{count_text(len(checked), 'file')} checked, {len(checked) - invalid} valid, "
        f"{invalid} invalid, {count_text(problems, 'problem')}{more}"
    )


def place_problem(problem: DefinitionProblem, text: bytes, number: int) -> DefinitionProblem:
    """Return the problem with the line and column of definition `number`.

    An executor reads the entry of the loaded tool, which no longer knows the lines of its text.
    """
    if problem.line is not None:
        return problem
    try:
        documents, _ = parse_yaml(text, problem.file)
    except DefinitionError:
        documents = []
    if number >= len(documents):
        # The file has changed meanwhile; its next check finds the problem anew.
        return problem
    line, column = documents[number].position(parse_path(problem.path))
    return problem._replace(line=line, column=column)
