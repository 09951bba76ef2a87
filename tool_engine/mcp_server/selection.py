"""Which of an engine's tools does a server show?"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.known_fields import KnownFields
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool


class ToolSelection(msgspec.Struct, frozen=True, kw_only=True, metaclass=KnownFields):
    """The tools that are shown: those that any of the lists names; all, where all lists are empty.

    Raises:
        ConfigurationError: A list is a single text, or holds something else than texts.
    """

    names: tuple[str, ...] = ()
    """Names of tools, with `*`, `?` and `[...]` for letters."""
    groups: tuple[str, ...] = ()
    """Names of groups."""
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in self.__struct_fields__:
            value = getattr(self, key)
            if isinstance(value, str) or not isinstance(value, (list, tuple)):
                raise ConfigurationError(
                    f"{key} of a ToolSelection must be a list of texts, got {value!r}"
                )
            if not all(isinstance(each, str) and each for each in value):
                raise ConfigurationError(
                    f"{key} of a ToolSelection must hold texts that are not empty, got {value!r}"
                )
            msgspec.structs.force_setattr(self, key, tuple(value))

    @property
    def is_all(self) -> bool:
        """True if nothing is left out."""
        return not (self.names or self.groups or self.tags)

    def picks(self, tool: Tool, groups: Mapping[str, ToolGroup]) -> bool:
        """Return True if the tool is shown.

        Args:
            tool: The tool.
            groups: The groups that it belongs to, by name.
        """
        return (
            self.picks_name(tool.name)
            or any(name in groups for name in self.groups)
            or any(tag in tool.tags for tag in self.tags)
        )

    def picks_name(self, name: str) -> bool:
        """Return True if a tool of this name is shown, whatever its groups and tags."""
        return self.is_all or any(fnmatchcase(name, pattern) for pattern in self.names)

    def find_missing_groups(self, groups: Mapping[str, ToolGroup]) -> list[str]:
        """Return the names of groups that there are not."""
        return [name for name in self.groups if name not in groups]
