"""Of which tools is the model of one conversation told, and which of them may it call?"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from tool_engine.errors import ConfigurationError, SessionError, ToolConflictError
from tool_engine.model.bounds import nearest
from tool_engine.model.group import ToolGroup
from tool_engine.model.permission import Permission
from tool_engine.model.tool import Tool
from tool_engine.protocols.sources import ToolSource
from tool_engine.session.composition import Prepare, Source, as_source, prepare
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.placing import GroupRules, GroupState, Placed, group_from, toggle_of
from tool_engine.session.tool_view import bound, groups_of, listed, shown_names

__all__ = ["GroupRules", "GroupState", "Placed", "Toolbox"]


class _OwnGroup(NamedTuple):
    group: ToolGroup
    rules: GroupRules | None


class _View(NamedTuple):
    """What everything came to, when it was looked at last."""

    key: tuple[Any, ...]
    placed: dict[str, Placed]
    groups: dict[str, GroupState]
    memberships: dict[str, tuple[ToolGroup, ...]]
    """Tool -> the groups it is in, whether they are on or not."""
    conflict: str | None
    """What is wrong with a name that several tools have; it stands for none of them."""


class Toolbox:
    """The tools and the groups of one conversation, and what of them is on.

    A reload of the engine is seen at the next question; where nothing changed, a question costs
    next to nothing.

    Args:
        catalog: Where the tools are: a `ToolEngine`, or what `combine`, `prefix`, `rename`, `keep`
            and `prepare` make of some.
        config: What is on from the start; what is toggled changes `toolbox.config`.
        own: Gives the tools that only this conversation has.
        prepare: Adapts what the model is told of each tool in each turn: see `prepare`.
    """

    def __init__(
        self,
        catalog: ToolSource,
        config: ToolCallConfig | None = None,
        own: Callable[[], Sequence[Tool]] = tuple,
        *,
        prepare: Prepare | None = None,
    ) -> None:
        self.config = ToolCallConfig() if config is None else config
        self.turn = 0
        """Which turn it is, for `prepare`: counted by whoever asks the model."""
        self.catalog: Source = _of_one(catalog, prepare, lambda: self.turn)
        """What runs the tools: knows each one as the model does."""
        self._own = own
        self._groups: dict[str, _OwnGroup] = {}
        self._view: _View | None = None
        self._on: tuple[tuple[object, ...], tuple[ToolGroup, ...]] | None = None
        """What the groups that are on were found from, and these."""

    def __repr__(self) -> str:
        groups = [state.name for state in self.groups() if state.is_enabled]
        tools = sum(each.is_enabled for each in self.all())
        return f"Toolbox({tools} tools on, groups {', '.join(groups) or 'none'})"

    # What the model is told of.

    def tools(self) -> list[Tool]:
        """The tools that are on, as the model is told of them; the session's own stand last.

        Raises:
            ToolConflictError: Two tools have one name; the message names both, and the cure.
        """
        view = self._current()
        if view.conflict is not None:
            raise ToolConflictError(view.conflict)
        return [each.tool for each in view.placed.values() if each.is_enabled]

    def all(self) -> list[Placed]:
        """Every tool whose name is clear, on or off; the session's own stand last."""
        return list(self._current().placed.values())

    def find(self, shown_name: str) -> Placed | None:
        """The tool that the model knows by this name, on or off; None: none, or more than one."""
        return self._current().placed.get(shown_name)

    def groups(self) -> list[GroupState]:
        """All groups by name, on or off."""
        return list(self._current().groups.values())

    def enabled_groups(self) -> tuple[ToolGroup, ...]:
        """The groups that are on, by name; asks for no tools, not even the session's own."""
        key = (self.config, groups_of(self.catalog), self._groups)
        if self._on is None or any(a is not b for a, b in zip(self._on[0], key, strict=True)):
            named = self._named_groups().values() if self.config.enabled else ()
            self._on = (key, tuple(each.group for each in named if self._is_on(each.group)))
        return self._on[1]

    def groups_of(self, shown_name: str) -> list[str]:
        """The names of all groups that a tool is in, on or off."""
        groups = self._current().memberships.get(shown_name, ())
        return list(dict.fromkeys(group.name for group in groups))

    def permissions_of(self, shown_name: str) -> list[Permission]:
        """What the groups that a tool is in say of it, in the order of `groups_of`.

        A group that is off counts, too: a tool may be on without it.
        """
        groups = self._current().memberships.get(shown_name, ())
        return [group.permission for group in groups if group.permission is not None]

    def shown_names(self, tool: Tool) -> list[str]:
        """The names under which the model is told of a tool, of which the engine has this form."""
        placed = self._current().placed.get(tool.name)
        if placed is not None and placed.is_own:
            return [tool.name]
        return shown_names(self.catalog, tool)

    @property
    def findings(self) -> list[str]:
        """What somebody should know who expects a tool or a group to be there."""
        findings = list(getattr(self.catalog, "findings", ()))
        told = [getattr(each, "message", each) for each in findings]
        hidden = sorted(self._groups.keys() & groups_of(self.catalog).keys())
        told += [
            f"the session's own group {name!r} stands in the place of the catalog's: rename one"
            for name in hidden
        ]
        conflict = self._current().conflict
        return told if conflict is None else [*told, conflict]

    # What is on. S22.

    def is_group_enabled(self, name: str) -> bool:
        """Whether a group is on.

        Raises:
            ConfigurationError: There is no such group; the message names the nearest.
        """
        return self._group(name).is_enabled

    def toggle_group_enabled(self, name: str, enabled: bool | None = None) -> bool:
        """Turns a group on or off, for this conversation only.

        Args:
            name: The group.
            enabled: Whether it is to be on; None: the opposite of what it is.

        Returns:
            Whether it is on now.

        Raises:
            ConfigurationError: There is no such group; the message names the nearest.
        """
        wanted = not self._group(name).is_enabled if enabled is None else _flag(enabled)
        self._group(name)
        toggles = {**self.config.group_toggles, name: wanted}
        self.config = replace(self.config, group_toggles=toggles)
        return wanted

    def is_tool_enabled(self, name: str) -> bool:
        """Whether the model is told of a tool, and may call it.

        Raises:
            ConfigurationError: There is no such tool; the message names the nearest.
        """
        return self._tool(name).is_enabled

    def set_tool_enabled(self, name: str, enabled: bool) -> None:
        """Turns a tool on or off, for this conversation only; goes before its groups.

        A tool that its definition does not offer to models (a draft, a deprecated one) stays off.

        Raises:
            ConfigurationError: There is no such tool; the message names the nearest.
        """
        self._tool(name)
        toggles = {**self.config.tool_toggles, name: _flag(enabled)}
        self.config = replace(self.config, tool_toggles=toggles)

    def register_group(
        self, group: ToolGroup | Mapping[str, Any], rules: GroupRules | None = None
    ) -> ToolGroup:
        """Adds a group that only this conversation has, in the place of its last one of that name.

        Args:
            group: The group, or its definition as a mapping.
            rules: Makes its rules from the names of its tools that are on; None: `group.rules`.

        Raises:
            ConfigurationError: The mapping is no group.
            ToolConflictError: The catalog has a group of that name.
        """
        made = group if isinstance(group, ToolGroup) else group_from(group)
        if made.name in groups_of(self.catalog):
            raise ToolConflictError(
                f"the catalog has a group {made.name!r} already: give the session's group another "
                "name"
            )
        if rules is not None and not callable(rules):
            raise ConfigurationError(f"rules must be a function of tool names, got {rules!r}")
        self._groups = {**self._groups, made.name: _OwnGroup(made, rules)}
        return made

    def under(self, config: ToolCallConfig) -> Toolbox:
        """The same tools and groups under other settings, for a question or two."""
        if config == self.config:
            return self
        made = copy.copy(self)
        made.config = config
        return made

    # Keeping it.

    def to_dict(self) -> dict[str, Any]:
        """What was toggled, and the session's own groups, as JSON values for `restore`.

        Functions that make rules are left out: register them again.
        """
        kept = _Kept(
            self.config.tool_toggles,
            self.config.group_toggles,
            [each.group for each in self._groups.values()],
        )
        return dict(msgspec.to_builtins(kept))

    def restore(self, data: Mapping[str, Any]) -> None:
        """Takes up what `to_dict` wrote.

        Raises:
            SessionError: The data is not what `to_dict` writes; the message names the place.
        """
        try:
            kept = msgspec.convert(data, _Kept)
        except (msgspec.ValidationError, ConfigurationError) as error:
            raise SessionError(f"this is no kept toolbox: {error}") from error
        self.config = replace(
            self.config, tool_toggles=kept.tool_toggles, group_toggles=kept.group_toggles
        )
        self._groups = {
            group.name: _OwnGroup(group, self._rules_of(group.name)) for group in kept.groups
        }

    def _rules_of(self, name: str) -> GroupRules | None:
        known = self._groups.get(name)
        return None if known is None else known.rules

    def _group(self, name: str) -> GroupState:
        groups = self._current().groups
        if name not in groups:
            raise ConfigurationError(f"there is no group {name!r:.80}{nearest(name, groups)}")
        return groups[name]

    def _tool(self, name: str) -> Placed:
        placed = self._current().placed
        if name not in placed:
            raise ConfigurationError(f"there is no tool {name!r:.80}{nearest(name, placed)}")
        return placed[name]

    # Looking.

    def _current(self) -> _View:
        own = tuple(self._own())
        groups = groups_of(self.catalog)
        generation = getattr(self.catalog, "generation", None)
        key = (generation, self.config, own, groups, self._groups)
        view = self._view
        if view is None or generation is None or not _is_same(view.key, key):
            view = self._view = self._looked(key, own)
        return view

    def _named_groups(self) -> dict[str, _OwnGroup]:
        """All groups by name; the session's own go before the catalog's."""
        groups = groups_of(self.catalog)
        named = {name: _OwnGroup(group, None) for name, group in groups.items()} | self._groups
        return {name: named[name] for name in sorted(named)}

    def _looked(self, key: tuple[Any, ...], own: Sequence[Tool]) -> _View:
        tools, conflict = listed(self.catalog)
        taken = self._conflicts_of(own, {tool.name for tool in tools})
        clear = [tool for tool in tools if tool.name not in taken]
        named = self._named_groups()
        members: dict[str, list[ToolGroup]] = {}
        for each in named.values():
            for tool in each.group.members(clear):
                members.setdefault(tool.name, []).append(each.group)
        placed = {tool.name: self._placed(tool, members.get(tool.name, ())) for tool in clear}
        placed |= {tool.name: self._placed_own(tool) for tool in own if tool.name not in taken}
        states = {
            name: self._state(each, [t for t in placed if each.group in members.get(t, ())], placed)
            for name, each in named.items()
        }
        # A group that gave way to the session's one of its name still says who is asked.
        hidden = [group for name, group in groups_of(self.catalog).items() if name in self._groups]
        for group in hidden:
            for tool in group.members(clear):
                members.setdefault(tool.name, []).append(group)
        memberships = {name: tuple(each) for name, each in members.items()}
        return _View(key, placed, states, memberships, taken[min(taken)] if taken else conflict)

    def _conflicts_of(self, own: Sequence[Tool], names: set[str]) -> dict[str, str]:
        """Name -> what is wrong with it, of the session's own tools."""
        taken: dict[str, str] = {}
        seen: set[str] = set()
        for tool in own:
            if tool.name in seen:
                taken[tool.name] = (
                    f"the session has two tools named {tool.name!r} of its own: rename one"
                )
            elif tool.name in names or self.catalog.get(tool.name) is not None:
                taken[tool.name] = (
                    f"the session's own tool {tool.name!r} and the catalog's {tool.name!r} have "
                    "one name: rename one, or put prefix() or rename() around the catalog"
                )
            seen.add(tool.name)
        return taken

    def _is_on(self, group: ToolGroup) -> bool:
        if group.name in self.config.group_toggles:
            return self.config.group_toggles[group.name]
        default = self.config.default_group_enabled
        return group.is_enabled if default is None else default

    def _placed(self, tool: Tool, groups: Iterable[ToolGroup]) -> Placed:
        config = self.config
        on = [group for group in groups if self._is_on(group)]
        toggle = toggle_of(tool.name, config)
        if toggle is not None:
            is_enabled = toggle
        elif groups:
            offered = any(tool.name not in group.disabled_tools for group in on)
            is_enabled = config.default_tool_enabled and offered
        else:
            is_enabled = config.default_tool_enabled
        is_told = config.enabled and is_enabled and tool.is_enabled
        return Placed(tool.name, tool, is_told, False, tuple(group.name for group in on))

    def _placed_own(self, tool: Tool) -> Placed:
        is_enabled = self.config.enabled and toggle_of(tool.name, self.config) is not False
        return Placed(tool.name, tool, is_enabled, True)

    def _state(
        self, each: _OwnGroup, names: Sequence[str], placed: Mapping[str, Placed]
    ) -> GroupState:
        return GroupState(
            each.group,
            self.config.enabled and self._is_on(each.group),
            tuple(names),
            tuple(name for name in names if placed[name].is_enabled),
            each.rules,
            each.group.name in self._groups,
        )


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    """What `to_dict` writes."""

    tool_toggles: dict[str, bool]
    group_toggles: dict[str, bool]
    groups: list[ToolGroup]


def _of_one(catalog: ToolSource, adapt: Prepare | None, turn: Callable[[], int]) -> Source:
    """The catalog as one conversation sees it: nobody else's turns count."""
    source = as_source(catalog)
    return as_source(bound(source if adapt is None else prepare(source, adapt), turn))


def _is_same(old: tuple[Any, ...], new: tuple[Any, ...]) -> bool:
    """Whether nothing changed; what is the same object is not compared."""
    return all(a is b or a == b for a, b in zip(old, new, strict=True))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"enabled must be true or false, got {value!r}")
    return value
