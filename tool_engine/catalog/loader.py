"""How does a definition become a tool, or a list of everything that is wrong with it?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from tool_engine.catalog.definition import (
    build_tool,
    definition_faults,
    definition_warnings,
    plain_data,
)
from tool_engine.catalog.document import Document, format_path
from tool_engine.catalog.folder import FolderError, list_definitions, read_definition
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.structure import Fault
from tool_engine.errors import DefinitionError, DefinitionProblem, DuplicateToolError
from tool_engine.model.tool import Tool

__all__ = ["ToolConfigLoader", "duplicate_error"]

StrPath = str | os.PathLike[str]


class ToolConfigLoader:
    r"""Reads definitions from files, text and mappings.

    A definition loads whole or not at all: a `DefinitionError` lists everything that is wrong with
    it, each with file, line, column, path and cure.

    Example:
        >>> loader = ToolConfigLoader()
        >>> loader.load_text("name: ping\ndescription: Answers.", "ping.yaml").name
        'ping'
    """

    def __init__(self) -> None:
        self.load_errors: list[tuple[str, str]] = []
        """The `(file, message)` pairs of the last `load_directory`."""

    def load_file(self, path: StrPath) -> Tool:
        """Reads the one tool that the file at `path` defines.

        Raises:
            DefinitionError: The file cannot be read, or is not a right definition.
        """
        source = os.fspath(path)
        return self.load_text(read_definition(source).data, source)

    def load_text(self, text: str | bytes, source: str = "<text>") -> Tool:
        """Reads the one tool that `text` defines; errors call the text `source`.

        Raises:
            DefinitionError: The text is not a right definition.
        """
        documents, problems = _yaml("strict_yaml").parse(text, source)
        if not problems and len(documents) == 1:
            document = documents[0]
            faults = definition_faults(document.value)
            if not faults:
                warnings = definition_warnings(document.value)
                findings = [str(_problem(fault, source, document)) for fault in warnings]
                return build_tool(document.value, source, findings)
            raise DefinitionError(*_problems(faults, source, document))
        raise DefinitionError(*_all_problems(documents, problems, source))

    def load_directory(self, path: StrPath, recursive: bool = False) -> list[Tool]:
        """Reads every definition in a folder; what cannot be loaded stands in `load_errors`.

        Files that define the same name are all refused: nothing says which one is meant.

        Args:
            path: A folder of `*.yaml` and `*.yml`; hidden, swap and backup files are passed over.
            recursive: Reads sub-folders too.

        Returns:
            The tools, by name.
        """
        self.load_errors = []
        by_name: dict[str, list[Tool]] = {}
        try:
            files = list_definitions(os.fspath(path), recursive=recursive)
        except FolderError as error:
            self.load_errors.append((os.fspath(path), str(error)))
            files = {}
        for file in files:
            try:
                tool = self.load_file(file)
            except DefinitionError as error:
                self.load_errors.append((file, str(error)))
            else:
                by_name.setdefault(tool.name, []).append(tool)
        for name, tools in by_name.items():
            if len(tools) > 1:
                sources = [str(tool.source) for tool in tools]
                self.load_errors.extend(
                    (source, str(duplicate_error(name, source, sources))) for source in sources
                )
        return [by_name[name][0] for name in sorted(by_name) if len(by_name[name]) == 1]

    def from_mapping(self, mapping: Mapping[str, Any], source: str = "<code>") -> Tool:
        """Reads a definition that was written in code; its tool has no file (`source` is None).

        Raises:
            DefinitionError: The mapping is not a right definition.
        """
        faults: list[Fault] = []
        definition = plain_data(mapping, (), faults)
        if not faults:
            faults = definition_faults(definition)
        if faults:
            raise DefinitionError(*_problems(faults, source, None))
        warnings = definition_warnings(definition)
        return build_tool(
            definition, None, [str(_problem(fault, source, None)) for fault in warnings]
        )

    def export_to_yaml(self, tool: Tool) -> str:
        """Writes `tool` as a definition that loads as the same tool again."""
        text: str = _yaml("export").export_to_yaml(tool)
        return text


def _yaml(name: str) -> ModuleType:
    """A module that needs PyYAML, which takes as long to import as the rest of the catalog."""
    return import_module(f"tool_engine.catalog.{name}")


def duplicate_error(name: str, file: str, files: list[str]) -> DuplicateToolError:
    """The error of `file`, which defines a name that other `files` define too."""
    others = ", ".join(other for other in files if other != file)
    return DuplicateToolError(
        DefinitionProblem(
            f"the tool {name!r} is also defined in {others}; rename or remove one",
            file,
            path="name",
        )
    )


def _problem(fault: Fault, source: str, document: Document | None) -> DefinitionProblem:
    line = column = None
    if document is not None:
        line, column = document.position(fault.path, of_key=fault.at_key)
    return DefinitionProblem(fault.message, source, line, column, format_path(fault.path))


def _problems(
    faults: list[Fault], source: str, document: Document | None
) -> list[DefinitionProblem]:
    found = [_problem(fault, source, document) for fault in faults[:MAX_PROBLEMS]]
    return sorted(found, key=lambda problem: (problem.line or 0, problem.column or 0))


def _all_problems(
    documents: list[Document], problems: list[DefinitionProblem], source: str
) -> list[DefinitionProblem]:
    """The problems of the YAML, and of the definition in it where that could still be read."""
    if not documents:
        return problems or [
            DefinitionProblem("the file is empty; a definition has name and description", source)
        ]
    if len(documents) > 1:
        line, column = documents[1].position(())
        message = "a second document starts here; a file defines one tool, so split it"
        return [*problems, DefinitionProblem(message, source, line, column)]
    places = {(problem.line, problem.column) for problem in problems}
    faults = _problems(definition_faults(documents[0].value), source, documents[0])
    # What the YAML reader refused has a stand-in value, about which nothing can be said.
    return problems + [found for found in faults if (found.line, found.column) not in places]
