"""How are tools and groups represented in one conversation?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

from tool_engine.errors import ConfigurationError
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig

GroupRules = Callable[[list[str]], str]
"""Makes the rules of a group from the names of its enabled tools. S11."""


class Placed(NamedTuple):
    """A tool and its state in the conversation."""

    name: str
    """The name by which the catalog knows and runs it."""
    tool: Tool
    """The tool as the model sees it."""
    is_enabled: bool
    """Whether the model sees it and may call it."""
    is_own: bool
    """Whether only this conversation has it."""
    groups: tuple[str, ...] = ()
    """The enabled groups that contain it."""


class GroupState(NamedTuple):
    """A group and its state in the conversation."""

    group: ToolGroup
    is_enabled: bool
    tools: tuple[str, ...]
    """The names of its tools, on or off."""
    enabled_tools: tuple[str, ...]
    """The names of its tools that the model sees."""
    rules: GroupRules | None = None
    """Makes its rules; None: `group.rules` is their text."""
    is_own: bool = False
    """Whether only this conversation has it."""

    @property
    def name(self) -> str:
        """The group's name."""
        return self.group.name


def make_group(fields: Mapping[str, Any]) -> ToolGroup:
    """Return the group that the keys of a definition describe.

    Raises:
        ConfigurationError: They describe no group; the message names every fault.
    """
    if not isinstance(fields, Mapping):
        raise ConfigurationError(
            f"group must be a ToolGroup, or its definition as a mapping, got {fields!r:.80}"
        )
    definitions = import_module("tool_engine.catalog.definition.group_definition")
    definition = {**fields, "kind": definitions.GROUP}
    faults = definitions.group_faults(definition)
    if faults:
        sentences = "; ".join(
            ": ".join(filter(None, (_name_place(each), each.sentence))) for each in faults
        )
        raise ConfigurationError(f"this is no group: {sentences}")
    return cast("ToolGroup", definitions.build_group(definition, None))


def _name_place(fault: Any) -> str:
    return ".".join(map(str, fault.path))


def split_name(name: str) -> tuple[str, str]:
    """Return `toolId` and method, split at the last `_`. A35."""
    owner, _, method = name.rpartition("_")
    return (owner, method) if owner and method else (name, name)


def find_toggle(name: str, config: ToolCallConfig) -> bool | None:
    """Return a tool's toggle, by name or `toolId`, or None. A7."""
    toggles = config.tool_toggles
    if name in toggles or not config.toggles_by_tool_id:
        return toggles.get(name)
    return toggles.get(split_name(name)[0])
