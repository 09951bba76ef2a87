"""How does a definition become a tool, or a list of everything that is wrong with it?"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from tool_engine.catalog.definition import (
    build_tool,
    definition_faults,
    definition_warnings,
    plain_data,
)
from tool_engine.catalog.document import Document
from tool_engine.catalog.fault import Fault, locate
from tool_engine.catalog.folder import FolderError, list_definitions, read_definition
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.sent_text import sent_text_faults
from tool_engine.errors import DefinitionError, DefinitionProblem, DuplicateToolError
from tool_engine.model.tool import Tool

__all__ = ["ToolConfigLoader", "duplicate_error"]

StrPath = str | os.PathLike[str]


class ToolConfigLoader:
    r"""Reads definitions from files, text and mappings.

    A definition loads whole or not at all: a `DefinitionError` lists everything that is wrong with
    it, each with file, line, column, path and cure.

    Args:
        allow_aliases: Whether `*name` may stand for a copy of what `&name` was put before. The
            engine itself does not allow it.

    Example:
        >>> loader = ToolConfigLoader()
        >>> loader.load_text("name: ping\ndescription: Answers.", "ping.yaml").name
        'ping'
    """

    def __init__(self, *, allow_aliases: bool = False) -> None:
        self._allow_aliases = allow_aliases
        self.load_errors: list[tuple[str, str]] = []
        """The `(file, message)` pairs of the last `load_directory`."""

    def load_file(self, path: StrPath) -> Tool:
        """Reads the one tool that the file at `path` defines.

        Raises:
            DefinitionError: The file cannot be read, is not a right definition, or defines several
                tools.
        """
        source = os.fspath(path)
        return self.load_text(read_definition(source).data, source)

    def load_text(self, text: str | bytes, source: str = "<text>") -> Tool:
        """Reads the one tool that `text` defines; errors call the text `source`.

        Raises:
            DefinitionError: The text is not a right definition, or defines several tools.
        """
        return self._read(text, source, may_be_several=False)[0]

    def load_file_tools(self, path: StrPath) -> list[Tool]:
        """Reads every tool that the file at `path` defines, in the order of the file.

        Raises:
            DefinitionError: The file cannot be read, or something in it is wrong.
        """
        source = os.fspath(path)
        return self.load_tools(read_definition(source).data, source)

    def load_tools(self, text: str | bytes, source: str = "<text>") -> list[Tool]:
        r"""Reads every tool that `text` defines, in its order; `---` lines stand between them.

        All of them load or none: one fault in one of them refuses the text.

        Args:
            text: One definition, or several with a line `---` between them.
            source: The name that errors give the text, such as its file.

        Raises:
            DefinitionError: Something is wrong with one of the definitions, or two of them define
                the same name; lists everything that is wrong with all of them.

        Example:
            >>> text = "name: a\ndescription: One.\n---\nname: b\ndescription: Two."
            >>> [tool.name for tool in ToolConfigLoader().load_tools(text)]
            ['a', 'b']
        """
        return self._read(text, source, may_be_several=True)

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
                for tool in self.load_file_tools(file):
                    by_name.setdefault(tool.name, []).append(tool)
            except DefinitionError as error:
                self.load_errors.append((file, str(error)))
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

    def _read(self, text: str | bytes, source: str, *, may_be_several: bool) -> list[Tool]:
        documents, problems = _yaml("strict_yaml").parse(
            text, source, allow_aliases=self._allow_aliases
        )
        if not problems and documents and (may_be_several or len(documents) == 1):
            names: dict[str, int] = {}
            found: list[DefinitionProblem] = []
            for document in documents:
                found += _problems(_document_faults(document, names, documents), source, document)
                if len(found) >= MAX_PROBLEMS:
                    break
            if found:
                raise DefinitionError(*found[:MAX_PROBLEMS])
            tools = [_built(document, source) for document in documents[:-1]]
            return [*tools, _built(documents[-1], source, _cut_findings(text, source))]
        raise DefinitionError(*_all_problems(documents, problems, source, may_be_several))


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
            cure="rename or remove one",
        )
    )


def _problem(fault: Fault, source: str, document: Document | None) -> DefinitionProblem:
    return locate([fault], source, document)[0]


def _problems(
    faults: list[Fault], source: str, document: Document | None
) -> list[DefinitionProblem]:
    return locate(faults[:MAX_PROBLEMS], source, document)


def _built(document: Document, source: str, findings: Sequence[str] = ()) -> Tool:
    warnings = definition_warnings(document.value)
    found = [str(_problem(fault, source, document)) for fault in warnings]
    return build_tool(document.value, source, [*found, *findings])


def _cut_findings(text: str | bytes, source: str) -> list[str]:
    """What is told of a file whose last line does not end; text from code may end as it likes."""
    if not isinstance(text, bytes) or text.endswith((b"\n", b"\r")):
        return []
    line, last = text.count(b"\n") + 1, text.rpartition(b"\n")[2]
    message = "the last line does not end, so the file may have been cut short"
    column = len(last.decode("utf-8", "replace")) + 1
    cure = "end it with a line break"
    return [str(DefinitionProblem(f"{message}; {cure}", source, line, column, cure=cure))]


def _document_faults(
    document: Document, names: dict[str, int], documents: list[Document]
) -> list[Fault]:
    """What is wrong with one of several definitions; notes in `names` where each name stands."""
    if document.value is None and len(documents) > 1:
        cure = "remove the line, or write a tool"
        return [Fault((), "there is nothing after this ---", cure=cure)]
    faults = definition_faults(document.value) + sent_text_faults(document)
    name = document.value.get("name") if isinstance(document.value, dict) else None
    if isinstance(name, str) and len(documents) > 1:
        line, _ = document.position(("name",))
        first = names.setdefault(name, line)
        if first != line:
            message = f"the tool {name[:80]!r} is already defined on line {first}"
            faults.append(Fault(("name",), message, cure="rename or remove one"))
    return faults


def _all_problems(
    documents: list[Document],
    problems: list[DefinitionProblem],
    source: str,
    may_be_several: bool,
) -> list[DefinitionProblem]:
    """The problems of the YAML, and of the definitions in it where they could still be read."""
    if not documents:
        cure = "write a definition, which has name and description"
        return problems or [
            DefinitionProblem(f"the file is empty; {cure}", source, 1, 1, cure=cure)
        ]
    if len(documents) > 1 and not may_be_several:
        line, column = documents[1].position(())
        cure = "split the text, or read all of its tools with load_tools or load_file_tools"
        message = f"a second definition starts here, and one tool was asked for; {cure}"
        return [*problems, DefinitionProblem(message, source, line, column, cure=cure)]
    places = {(problem.line, problem.column) for problem in problems}
    names: dict[str, int] = {}
    for document in documents:
        faults = _problems(_document_faults(document, names, documents), source, document)
        # What the YAML reader refused has a stand-in value, about which nothing can be said.
        problems += [found for found in faults if (found.line, found.column) not in places]
        if len(problems) >= MAX_PROBLEMS:
            break
    problems.sort(key=lambda problem: (problem.line or 0, problem.column or 0))
    return problems[:MAX_PROBLEMS]
