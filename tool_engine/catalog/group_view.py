"""Which groups are there, and how does code add one?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import msgspec

from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.loader import ToolConfigLoader
from tool_engine.catalog.view import CatalogView
from tool_engine.errors import ConfigurationError, DefinitionProblem, DuplicateToolError
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.group import ToolGroup


class GroupsView(CatalogView):
    """The groups beside the tools of the snapshot in `index`."""

    @property
    def groups(self) -> Mapping[str, ToolGroup]:
        """The present groups by name, sorted; a reload makes new ones.

        A reload swaps tools and groups at once: `index.groups` are those that go with the tools of
        the snapshot `index`.
        """
        return self.index.groups

    def group_warnings(self) -> list[str]:
        """Return warnings about groups, such as names of missing tools.

        Nothing of it keeps a group from being used: the tool may come with the next reload.
        """
        notes: list[str] = import_module("tool_engine.catalog.group_links").group_warnings(
            self.index
        )
        return notes

    def register_group(self, group: ToolGroup | Mapping[str, Any]) -> ToolGroup:
        """Add a group that no file defines; it stays across reloads.

        Args:
            group: The group, or its definition as a mapping, in which `kind` may be left out.

        Returns:
            The group, without a `source`.

        Raises:
            DefinitionError: The definition is not right, or the name is taken.
            EngineClosedError: The engine is closed.

        Example:
            >>> engine = ToolEngine()
            >>> engine.register_group({"name": "web", "tags": ["web"]}).is_enabled
            False
        """
        self._require_open()
        made = group if isinstance(group, ToolGroup) else _load_group(group)
        made = msgspec.structs.replace(made, source=None)
        present = self.groups.get(made.name)
        if present is not None:
            cure = "rename one of the two"
            where = present.source or "<code>"
            message = f"the group {made.name!r} is already defined in {where}; {cure}"
            raise DuplicateToolError(DefinitionProblem(message, "<code>", path="name", cure=cure))
        self._swap_index(self.index.with_groups({**self.groups, made.name: made}))
        return made

    def unregister_group(self, name: str) -> None:
        """Remove a group that was registered in code.

        Raises:
            ConfigurationError: There is none of this name, or it comes from a file.
        """
        group = self.groups.get(name)
        if group is None:
            hint = suggest_near(name, self.groups) or "; see engine.groups"
            raise ConfigurationError(f"there is no group {name!r}{hint}")
        if group.source is not None:
            raise ConfigurationError(
                f"the group {name!r} is defined in {group.source}; remove the file instead"
            )
        rest = {other: each for other, each in self.groups.items() if other != name}
        self._swap_index(self.index.with_groups(rest))

    @abstractmethod
    def _swap_index(self, index: ToolIndex, cause: str = "code") -> None:
        """Replace the present snapshot."""

    @abstractmethod
    def _require_open(self) -> None:
        """Raise `EngineClosedError` once the engine is closed."""


def _load_group(definition: Mapping[str, Any]) -> ToolGroup:
    return ToolConfigLoader().group_from_mapping(definition)
