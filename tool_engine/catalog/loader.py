"""Which tools do the definitions in files, text and code define?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from tool_engine.catalog.folder import FolderError, list_definitions, read_definition
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
        made: Tool = _module("building").tool_of_mapping(mapping, source)
        return made

    def export_to_yaml(self, tool: Tool) -> str:
        """Writes `tool` as a definition that loads as the same tool again."""
        text: str = _module("export").export_to_yaml(tool)
        return text

    def _read(self, text: str | bytes, source: str, *, may_be_several: bool) -> list[Tool]:
        tools: list[Tool] = _module("building").tools_of_text(
            text, source, allow_aliases=self._allow_aliases, may_be_several=may_be_several
        )
        return tools


def _module(name: str) -> ModuleType:
    """A module of the catalog that only those need who read or write definitions."""
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
