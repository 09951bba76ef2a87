"""Which tools and groups of a conversation are on, and which conversations share the answer?

To look at each tool of a large catalog takes milliseconds and room: it is done once for all
conversations of a catalog that have the same switches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, cast
from weakref import WeakKeyDictionary

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.interfaces.source import Source
from tool_engine.model.checks.aliases import AliasTable
from tool_engine.model.group import ToolGroup, members_of_all, runs_only_as_tasks
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.variables.variable_definitions import VARIABLE_TOOLS

GroupRules = Callable[[list[str]], str]
"""Makes the rules of a group from the names of its enabled tools. S11."""
_SHARED_AT_ONCE: Final = 8
"""The most different switches of one catalog whose standings are kept."""


class Placed(msgspec.Struct, frozen=True):
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
    is_for_tasks: bool = False
    """Whether all of its tools run only as tasks, which no conversation starts."""

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


class OwnGroup(NamedTuple):
    group: ToolGroup
    rules: GroupRules | None


class Standing(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """The state of all tools and groups. Immutable."""

    placed: dict[str, Placed]
    groups: dict[str, GroupState]
    memberships: dict[str, tuple[ToolGroup, ...]]
    """Tool -> the groups that contain it, on or off."""
    conflict: str | None
    """The message about a name that several tools have; it then stands for none of them."""
    enabled: list[Tool]
    """The tools that are on."""
    aliases: AliasTable
    """The further names of the conversation's own tools."""


class Seen(NamedTuple):
    generation: object
    config: ToolCallConfig
    own: Sequence[Tool]
    groups: Mapping[str, ToolGroup]
    own_groups: dict[str, OwnGroup]

    @property
    def key(self) -> tuple[Any, ...]:
        """Return a key that is equal where the standing would be."""
        config = self.config
        switches = (
            config.enabled,
            dict(config.tool_toggles),
            config.toggles_by_tool_id,
            config.default_tool_enabled,
            dict(config.group_toggles),
            config.default_group_enabled,
        )
        # Tools are equal if one has 1 where the other has true, and may still change.
        own = [tool.definition_hash or id(tool) for tool in self.own]
        return self.generation, switches, own, self.own, self.groups


_shared: Final[WeakKeyDictionary[Any, tuple[tuple[tuple[Any, ...], Standing], ...]]] = (
    WeakKeyDictionary()
)


def find_standing(catalog: Source, seen: Seen) -> Standing:
    """Return the state of a catalog's tools and groups, perhaps shared.

    Args:
        catalog: Where the tools are, as the conversation sees it.
        seen: What the conversation has beside it; it is what the catalog is at present.
    """
    # The rules of a group may be a method of its conversation, which nothing here must keep alive.
    if seen.generation is None or seen.own_groups:
        return _make_standing(catalog, seen)
    key = seen.key
    try:
        known = _shared.get(catalog, ())
    except TypeError:
        # A catalog that cannot be a key.
        return _make_standing(catalog, seen)
    for other, standing in known:
        if other == key:
            return standing
    current = [each for each in known if each[0][0] == seen.generation]
    standing = _make_standing(catalog, seen, current[-1][1] if current else None)
    _shared[catalog] = (*current[1 - _SHARED_AT_ONCE :], (key, standing))
    return standing


def list_groups(catalog: Source, own_groups: Mapping[str, OwnGroup]) -> dict[str, OwnGroup]:
    """Return all groups by name; the conversation's own replace the catalog's."""
    named = {name: OwnGroup(group, None) for name, group in catalog.groups.items()}
    named |= own_groups
    return {name: named[name] for name in sorted(named)}


def is_on(group: ToolGroup, config: ToolCallConfig) -> bool:
    """Return True if a group is on, where tools are. S21, S22."""
    if group.is_quarantined:
        return False
    if group.name in config.group_toggles:
        return config.group_toggles[group.name]
    default = config.default_group_enabled
    return group.is_enabled if default is None else default


def _make_standing(catalog: Source, seen: Seen, like: Standing | None = None) -> Standing:
    tools, conflict = catalog.list_unambiguous()
    config, own = seen.config, seen.own
    taken = _find_conflicts(own, {tool.name for tool in tools}, catalog)
    # To its model, what is for code only is not there: other tools may call it.
    clear = [tool for tool in tools if tool.name not in taken and tool.is_for_models]
    named = list_groups(catalog, seen.own_groups)
    members: dict[str, list[ToolGroup]] = {}
    of_group: dict[str, list[str]] = {}
    single = [tool for tool in own if tool.name not in taken and tool.is_for_models]
    found = members_of_all([each.group for each in named.values()], clear)
    for (name, each), tools_of_group in zip(named.items(), found, strict=True):
        of_group[name] = [tool.name for tool in tools_of_group]
        if name in seen.own_groups:
            # A selector in a file does not cover a conversation's own tools.
            of_group[name] += [tool.name for tool in single if tool.name in each.group.tools]
        for tool_name in of_group[name]:
            members.setdefault(tool_name, []).append(each.group)
    placed = {tool.name: _place_tool(tool, members.get(tool.name, ()), config) for tool in clear}
    placed |= {tool.name: _place_own(tool, members.get(tool.name, ()), config) for tool in single}
    if not any(is_on(each.group, config) for each in named.values()):
        _turn_off_idle(placed, config)
    if like is not None:
        # A tool that stands as in another conversation shares its memory.
        for name, known in like.placed.items():
            if not known.is_own and placed.get(name) == known:
                placed[name] = known
    states = {
        name: GroupState(
            each.group,
            config.enabled and is_on(each.group, config),
            tuple(of_group[name]),
            tuple(tool for tool in of_group[name] if placed[tool].is_enabled),
            each.rules,
            name in seen.own_groups,
            runs_only_as_tasks(placed[tool].tool for tool in of_group[name]),
        )
        for name, each in named.items()
    }
    # A group that the session's own one replaces still decides who approves.
    for name in seen.groups.keys() & seen.own_groups.keys():
        for tool in seen.groups[name].members(clear):
            members.setdefault(tool.name, []).append(seen.groups[name])
    return Standing(
        placed,
        states,
        {name: tuple(each) for name, each in members.items()},
        taken[min(taken)] if taken else conflict,
        [each.tool for each in placed.values() if each.is_enabled],
        AliasTable(single),
    )


def _find_conflicts(own: Sequence[Tool], names: set[str], catalog: Source) -> dict[str, str]:
    taken: dict[str, str] = {}
    seen: set[str] = set()
    for tool in own:
        if tool.name in seen:
            taken[tool.name] = (
                f"the session has two tools named {tool.name!r} of its own: rename one"
            )
        elif tool.name in names or catalog.get(tool.name) is not None:
            taken[tool.name] = (
                f"the session's own tool {tool.name!r} and the catalog's {tool.name!r} have "
                "one name: rename one, or put prefix() or rename() around the catalog"
            )
        seen.add(tool.name)
    return taken


def _place_tool(tool: Tool, groups: Iterable[ToolGroup], config: ToolCallConfig) -> Placed:
    on = [group for group in groups if is_on(group, config)]
    toggle = find_toggle(tool.name, config)
    if toggle is not None:
        is_enabled = toggle
    elif groups:
        offered = any(tool.name not in group.disabled_tools for group in on)
        is_enabled = config.default_tool_enabled and offered
    else:
        is_enabled = config.default_tool_enabled
    is_shown = config.enabled and is_enabled and tool.is_enabled and tool.is_offered
    return Placed(tool.name, tool, is_shown, False, tuple(group.name for group in on))


def _turn_off_idle(placed: dict[str, Placed], config: ToolCallConfig) -> None:
    """Turn off the variable tools where no other tool is on. S23."""
    idle = [name for name in VARIABLE_TOOLS if name in placed and placed[name].is_own]
    if any(each.is_enabled for name, each in placed.items() if name not in idle):
        return
    for name in idle:
        if find_toggle(name, config) is None:
            placed[name] = msgspec.structs.replace(placed[name], is_enabled=False)


def _place_own(tool: Tool, groups: Collection[ToolGroup], config: ToolCallConfig) -> Placed:
    on = [group for group in groups if is_on(group, config)]
    offered = not groups or any(tool.name not in group.disabled_tools for group in on)
    toggle = find_toggle(tool.name, config)
    is_on_here = offered if toggle is None else toggle
    is_enabled = config.enabled and tool.is_offered and is_on_here
    return Placed(tool.name, tool, is_enabled, True, tuple(group.name for group in on))
