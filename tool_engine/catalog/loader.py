"""Which tools, groups and servers do the definitions in files, text and code define?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from tool_engine.catalog.definition_files import (
    FolderError,
    list_definitions,
    read_definition,
    without_foreign_content,
)
from tool_engine.errors import DefinitionError, DefinitionProblem, DuplicateToolError
from tool_engine.model.checks.known_fields import KnownArguments
from tool_engine.model.checks.setting_kinds import check_path, check_switch
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool

if TYPE_CHECKING:
    from tool_engine.catalog.kinds import Definition, ServerDefinition

KINDS: Final = ("tool", "group", "server")
"""What `kind_of` returns."""
StrPath = str | os.PathLike[str]


class ToolConfigLoader(KnownArguments):
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
        check_switch("allow_aliases", allow_aliases)
        self._allow_aliases = allow_aliases
        self.load_errors: list[tuple[str, str]] = []
        """The `(file, message)` pairs of the last `load_directory`."""
        self.groups: list[ToolGroup] = []
        """The groups that the last `load_directory` found, by name."""
        self.servers: list[ServerDefinition] = []
        """The servers of tools that it found, by name."""

    def load_file(self, path: StrPath) -> Tool:
        """Reads the one tool that the file at `path` defines.

        Raises:
            DefinitionError: The file cannot be read, is not a right definition, or defines several
                tools, or a group.
        """
        with without_foreign_content(source := os.fspath(path)):
            return self.load_text(read_definition(source).data, source)

    def load_text(self, text: str | bytes, source: str = "<text>") -> Tool:
        """Reads the one tool that `text` defines; errors call the text `source`.

        Raises:
            DefinitionError: The text is not a right definition, or defines several tools, or a
                group.
        """
        return _keep_tools(self._read_text(text, source, only_one_tool=True))[0]

    def load_file_tools(self, path: StrPath) -> list[Tool]:
        """Reads every tool that the file at `path` defines, in the order of the file.

        Raises:
            DefinitionError: The file cannot be read, or something in it is wrong.
        """
        with without_foreign_content(source := os.fspath(path)):
            return self.load_tools(read_definition(source).data, source)

    def load_tools(self, text: str | bytes, source: str = "<text>") -> list[Tool]:
        r"""Reads every tool that `text` defines, in its order; `---` lines stand between them.

        All of them load or none: one fault in one of them refuses the text, and one in a group that
        stands beside them does, too.

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
        return _keep_tools(self.load_definitions(text, source))

    def load_file_definitions(self, path: StrPath) -> list[Definition]:
        """Reads every tool, group and server that the file at `path` defines, in its order.

        Raises:
            DefinitionError: The file cannot be read, or something in it is wrong.
        """
        with without_foreign_content(source := os.fspath(path)):
            return self.load_definitions(read_definition(source).data, source)

    def load_definitions(self, text: str | bytes, source: str = "<text>") -> list[Definition]:
        r"""Reads every tool, group and server that `text` defines, in its order.

        Args:
            text: One definition, or several with a line `---` between them.
            source: The name that errors give the text, such as its file.

        Raises:
            DefinitionError: As of `load_tools`.

        Example:
            >>> text = "kind: group\nname: web\ntags: [web]\n---\nname: a\ndescription: One."
            >>> [each.name for each in ToolConfigLoader().load_definitions(text)]
            ['web', 'a']
        """
        return self._read_text(text, source, only_one_tool=False)

    def load_directory(self, path: StrPath, recursive: bool = False) -> list[Tool]:
        """Reads every definition in a folder; what cannot be loaded stands in `load_errors`.

        Files that define the same name are all refused: nothing says which one is meant. What the
        executors of the package say of an entry counts, as in an engine; what an engine alone
        knows (`sources`, executors of your own) does not.

        Args:
            path: A folder of `*.yaml` and `*.yml`; hidden, swap and backup files are passed over.
            recursive: Reads sub-folders too.

        Returns:
            The tools, by name.

        Raises:
            ConfigurationError: `path` is none, or `recursive` is neither True nor False.
        """
        check_switch("recursive", recursive)
        path = check_path("path", path)
        self.load_errors = []
        by_name: dict[tuple[str, str], list[Definition]] = {}
        # By name: the catalog needs no executor but here, and an engine brings its own.
        check = import_module("tool_engine.executors.executor_registry").ExecutorRegistry().check
        try:
            files = list_definitions(os.fspath(path), recursive=recursive)
        except FolderError as error:
            self.load_errors.append((os.fspath(path), str(error)))
            files = {}
        for file in files:
            try:
                with without_foreign_content(file):
                    found = load_checked(read_definition(file).data, file, check)
                for each in found:
                    by_name.setdefault((kind_of(each), each.name), []).append(each)
            except DefinitionError as error:
                self.load_errors.append((file, str(error)))
        for (kind, name), rivals in by_name.items():
            if len(rivals) > 1:
                sources = [str(rival.source) for rival in rivals]
                self.load_errors.extend(
                    (source, str(duplicate_error(name, source, sources, kind=kind)))
                    for source in sources
                )
        sole = [by_name[key][0] for key in sorted(by_name) if len(by_name[key]) == 1]
        self.groups = [each for each in sole if isinstance(each, ToolGroup)]
        self.servers = [
            cast("ServerDefinition", each) for each in sole if kind_of(each) == "server"
        ]
        return _keep_tools(sole)

    def from_mapping(self, mapping: Mapping[str, Any], source: str = "<code>") -> Tool:
        """Reads a definition that was written in code; its tool has no file (`source` is None).

        Raises:
            DefinitionError: The mapping is not a right definition.
        """
        made: Tool = _import_module("building").tool_of_mapping(mapping, source)
        return made

    def group_from_mapping(self, mapping: Mapping[str, Any], source: str = "<code>") -> ToolGroup:
        """Reads the definition of a group that was written in code; `kind` may be left out.

        Raises:
            DefinitionError: The mapping is not a right definition.
        """
        made: ToolGroup = _import_module("building").group_of_mapping(mapping, source)
        return made

    def export_to_yaml(self, tool: Definition) -> str:
        """Writes a tool, group or server as a definition that loads as the same again."""
        text: str = _import_module("export").export_to_yaml(tool)
        return text

    def _read_text(
        self, text: str | bytes, source: str, *, only_one_tool: bool
    ) -> list[Definition]:
        read: list[Definition] = _import_module("building").definitions_of_text(
            text, source, allow_aliases=self._allow_aliases, only_one_tool=only_one_tool
        )
        return read


def load_checked(
    text: str | bytes, source: str, check: Callable[[Tool], list[DefinitionProblem]] | None
) -> list[Definition]:
    """Reads every definition of a text, as `ToolConfigLoader.load_definitions` does.

    Args:
        text: One definition, or several.
        source: What errors call it.
        check: Says what an engine would refuse of a tool.

    Raises:
        DefinitionError: Lists everything that is wrong with all of them, also what `check` says.
    """
    read: list[Definition] = _import_module("building").definitions_of_text(
        text, source, allow_aliases=False, only_one_tool=False, check=check
    )
    return read


def _keep_tools(definitions: Iterable[Definition]) -> list[Tool]:
    return [each for each in definitions if isinstance(each, Tool)]


def _import_module(name: str) -> ModuleType:
    """A module of the catalog that only those need who read or write definitions."""
    return import_module(f"tool_engine.catalog.definition.{name}")


def kind_of(definition: Definition) -> str:
    """What a definition is of: one of `KINDS`."""
    if isinstance(definition, Tool):
        return KINDS[0]
    return KINDS[1] if isinstance(definition, ToolGroup) else KINDS[2]


def duplicate_error(
    name: str, file: str, files: list[str], *, kind: str = "tool"
) -> DuplicateToolError:
    """The error of `file`, which defines a name that other `files` define too."""
    others = ", ".join(other for other in files if other != file)
    return DuplicateToolError(
        DefinitionProblem(
            f"the {kind} {name!r} is also defined in {others}; rename or remove one",
            file,
            path="name",
            cure="rename or remove one",
        )
    )
