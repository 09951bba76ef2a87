"""Which tools does a conversation's model see, and which may it call?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from tool_engine.approval.principal import engine_asked
from tool_engine.errors import ConfigurationError, SessionError, ToolConflictError
from tool_engine.interfaces import ToolExecutor
from tool_engine.interfaces.source import Source, ToolSource
from tool_engine.model.checks.called_name import find_called
from tool_engine.model.checks.field_types import convert_value
from tool_engine.model.checks.nearness import suggest_near
from tool_engine.model.group import ToolGroup, runs_only_as_tasks
from tool_engine.model.json.copying import refuse_copying
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.toolbox.standing import (
    GroupRules,
    GroupState,
    OwnGroup,
    Placed,
    Seen,
    Standing,
    find_standing,
    is_on,
    list_groups,
    make_group,
    split_name,
)
from tool_engine.sources.composition import Prepare, prepare
from tool_engine.sources.foreign import check_source
from tool_engine.sources.owners import owners_of

_MANY: Final = 500
"""The most tools with which a name is compared one by one."""
_LIKELY: Final = 20
_WILD: Final = frozenset("*?[")
_BY_EITHER: Final = ("tool_permissions", "rules", "max_uses")
_MOST_HINTS: Final = 10
"""The most settings whose nearest name is looked up, which is slow among thousands."""


class OnToggle(Protocol):
    """Hears that a tool or a group was turned on or off."""

    def __call__(self, name: str, is_enabled: bool, *, is_group: bool) -> object:
        """Take note of it."""


class Found(msgspec.Struct, frozen=True, eq=False):
    """The last standing, and what shows whether it is still valid."""

    standing: Standing
    registered: tuple[tuple[Tool, ToolExecutor], ...]
    snapshot: object
    """An engine's snapshot, which says that generation and groups are as they were; None: ask."""
    generation: object
    config: ToolCallConfig
    groups: Mapping[str, ToolGroup]
    own_groups: dict[str, OwnGroup]


class _On(NamedTuple):
    config: ToolCallConfig
    groups: Mapping[str, ToolGroup]
    own: dict[str, OwnGroup]
    generation: object
    skilled: tuple[ToolGroup, ...]


@refuse_copying("take that of another session")
class Toolbox:
    """The tools and groups of one conversation, on or off.

    A reload of the engine is seen at the next question; where nothing changed, a question costs
    next to nothing.

    Args:
        catalog: Where the tools are: a `ToolEngine`, or what `combine`, `prefix`, `rename`, `keep`
            and `prepare` make of some.
        config: What is on from the start; what is toggled changes `toolbox.config`.
        own: Gives the tools that only this conversation has: always the same, but for those that
            are in `registered`.
        prepare: Adapts how the model sees each tool in each turn: see `prepare`.
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
        self.on_toggle: OnToggle | None = None
        """Called after a change of what is on."""
        self.turn = 0
        """The present turn, for `prepare`: the model's loop counts it."""
        self.catalog: Source = _bind_catalog(catalog, prepare, lambda: self.turn)
        """The catalog that runs the tools, under the model's names."""
        self._own = own
        self.registered: dict[str, tuple[Tool, ToolExecutor]] = {}
        """The tools that were registered for this conversation only, with their executors; a
        program may change it."""
        self._groups: dict[str, OwnGroup] = {}
        self.found: Found | None = None
        """The last standing that was found: another object after each noticed change."""
        self._on: _On | None = None

    def __repr__(self) -> str:
        try:
            groups = [state.name for state in self.groups() if state.is_enabled]
        except ConfigurationError as error:
            return f"Toolbox({error})"
        tools = sum(each.is_enabled for each in self.all())
        return f"Toolbox({tools} tools on, groups {', '.join(groups) or 'none'})"

    # The tools that the model sees.

    @property
    def standing(self) -> Standing:
        """Return the present standing: another object after every change."""
        return self.find_present().standing

    def tools(self) -> list[Tool]:
        """Return the enabled tools, the session's own last.

        Raises:
            ToolConflictError: Two tools have one name; the message names both and a remedy.
        """
        standing = self.standing
        if standing.conflict is not None:
            raise ToolConflictError(standing.conflict)
        return standing.enabled.copy()

    def all(self) -> list[Placed]:
        """Return every unambiguous tool, on or off, the session's own last."""
        return list(self.standing.placed.values())

    def find(self, shown_name: str) -> Placed | None:
        """Return the one tool of a shown name or alias, on or off, or None."""
        standing = self.standing
        placed = find_called(standing.placed, shown_name)
        if placed is not None:
            return placed
        meant = self.catalog.get(shown_name)
        own = standing.aliases.find(shown_name, standing.placed)
        name = own if meant is None else meant.name if own is None else None
        return None if name is None else standing.placed.get(name)

    def hint(self, name: str) -> str:
        """Return `; did you mean 'x'?` for a near tool, or ""."""
        placed = self.standing.placed
        return suggest_near(
            name, (each for each in self._find_likely(name) if placed[each].is_enabled)
        )

    def _find_likely(self, name: str) -> set[str]:
        names = set(self.standing.placed)
        index = self.catalog.index
        if len(names) > _MANY and index is not None:
            # An engine finds the likely ones of thousands at once.
            own = (each.name for each in self._own())
            names &= {*index.nearest(name, _LIKELY), *own}
        return names

    def groups(self) -> list[GroupState]:
        """Return all groups by name, on or off."""
        return list(self.standing.groups.values())

    def skilled_groups(self) -> tuple[ToolGroup, ...]:
        """Return the enabled groups with skills, by name, without a look at each tool."""
        config, groups, own, on = self.config, self.catalog.groups, self._groups, self._on
        generation = self.catalog.generation
        if (
            on is None
            or on.generation != generation
            or on.config is not config
            or on.groups is not groups
            or on.own is not own
        ):
            named = list_groups(self.catalog, own).values() if config.enabled else ()
            enabled = [each.group for each in named if is_on(each.group, config)]
            skilled = tuple(each for each in enabled if each.skills and not self._is_late(each))
            self._on = on = _On(config, groups, own, generation, skilled)
        return on.skilled

    def _is_late(self, group: ToolGroup) -> bool:
        """Return True if all tools of a group run only as tasks, which no conversation starts."""
        registered = (tool for tool, _ in self.registered.values())
        return runs_only_as_tasks(filter(group.selects, chain(self.catalog.list_all(), registered)))

    def groups_of(self, shown_name: str) -> list[str]:
        """Return the names of a tool's groups, on or off."""
        groups = self.standing.memberships.get(shown_name, ())
        return list(dict.fromkeys(group.name for group in groups))

    def shown_names(self, tool: Tool) -> list[str]:
        """Return the names under which the model sees an engine's tool."""
        placed = self.standing.placed.get(tool.name)
        if placed is not None and placed.is_own:
            return [tool.name]
        owners = owners_of(self.catalog, tool, engine_asked(tool))
        return [name for each in owners for name in self.catalog.find_shown_names(tool, each)]

    @property
    def findings(self) -> list[str]:
        """Problems that keep a tool or a group from the conversation."""
        found = [getattr(each, "message", each) for each in self.catalog.findings]
        hidden = sorted(self._groups.keys() & self.catalog.groups.keys())
        found += [
            f"the session's own group {name!r} stands in the place of the catalog's: rename one"
            for name in hidden
        ]
        standing = self.standing
        found += find_unknown(
            self.config,
            standing.placed,
            standing.groups,
            self._is_named_so,
            self._find_likely,
        )
        return found if standing.conflict is None else [*found, standing.conflict]

    def _is_named_so(self, engine_name: str) -> bool:
        if self.catalog.is_hidden(engine_name):
            return True
        near = (self.find(name) for name in self.catalog.find_near_names(engine_name))
        return any(self.shown_names(replace(each.tool, name=engine_name)) for each in near if each)

    # Which are on. S22.

    def is_group_enabled(self, name: str) -> bool:
        """Return True if a group is on.

        Raises:
            ConfigurationError: There is no such group; the message names the nearest.
        """
        return self._find_group(name).is_enabled

    def toggle_group_enabled(self, name: str, enabled: bool | None = None) -> bool:
        """Turn a group on or off, for this conversation only.

        Args:
            name: The group.
            enabled: Whether it is to be on; None: the opposite of what it is.

        Returns:
            Whether it is on now.

        Raises:
            ConfigurationError: There is no such group; the message names the nearest. Or it is to
                be on and is not approved: see `ToolGroup.is_quarantined`.
        """
        wanted = not self._find_group(name).is_enabled if enabled is None else _check_flag(enabled)
        group = self._find_group(name).group
        if wanted and group.is_quarantined:
            raise ConfigurationError("; ".join(group.findings))
        before = self.config.group_toggles
        self.config = replace(self.config, group_toggles={**before, name: wanted})
        if self.on_toggle is not None and before.get(name) is not wanted:
            self.on_toggle(name, wanted, is_group=True)
        return wanted

    def is_tool_enabled(self, name: str) -> bool:
        """Return True if the model sees a tool and may call it.

        Raises:
            ConfigurationError: There is no such tool; the message names the nearest.
        """
        return self._find_tool(name).is_enabled

    def set_tool_enabled(self, name: str, enabled: bool) -> None:
        """Turn a tool on or off, here only, whatever its groups say.

        A tool that its definition does not offer to models (a draft, a deprecated one) stays off.

        Raises:
            ConfigurationError: There is no such tool; the message names the nearest.
        """
        name = self._find_tool(name).name
        before, wanted = self.config.tool_toggles, _check_flag(enabled)
        self.config = replace(self.config, tool_toggles={**before, name: wanted})
        if self.on_toggle is not None and before.get(name) is not wanted:
            self.on_toggle(name, wanted, is_group=False)

    def register_group(
        self, group: ToolGroup | Mapping[str, Any], rules: GroupRules | None = None
    ) -> ToolGroup:
        """Add or replace a group for this conversation only.

        Args:
            group: The group, or its definition as a mapping.
            rules: Makes its rules from the names of its tools that are on; None: `group.rules`.

        Raises:
            ConfigurationError: The mapping describes no group.
            ToolConflictError: The catalog has a group of that name.
        """
        made = group if isinstance(group, ToolGroup) else make_group(group)
        if made.name in self.catalog.groups:
            raise ToolConflictError(
                f"the catalog has a group {made.name!r} already: give the session's group another "
                "name"
            )
        if rules is not None and not callable(rules):
            raise ConfigurationError(f"rules must be a function of tool names, got {rules!r}")
        self._groups = {**self._groups, made.name: OwnGroup(made, rules)}
        return made

    def under(self, config: ToolCallConfig) -> Toolbox:
        """Return the same tools under other settings, for a few questions."""
        if config == self.config:
            return self
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        made.config = config
        return made

    # Saving.

    def to_dict(self) -> dict[str, Any]:
        """Return the toggles and the session's own groups as JSON values.

        Functions that make rules are left out: register them again.
        """
        kept = _Kept(
            self.config.tool_toggles,
            self.config.group_toggles,
            [each.group for each in self._groups.values()],
        )
        return dict(msgspec.to_builtins(kept))

    def restore(self, data: Mapping[str, Any]) -> None:
        """Restore what `to_dict` wrote.

        Raises:
            SessionError: The data is not what `to_dict` writes; the message names the place.
        """
        try:
            kept = convert_value(data, _Kept)
        except (msgspec.ValidationError, ConfigurationError) as error:
            raise SessionError(f"this is no kept toolbox: {error}") from error
        self.config = replace(
            self.config, tool_toggles=kept.tool_toggles, group_toggles=kept.group_toggles
        )
        self._groups = {
            group.name: OwnGroup(group, self._find_rules(group.name)) for group in kept.groups
        }

    def _find_rules(self, name: str) -> GroupRules | None:
        known = self._groups.get(name)
        return None if known is None else known.rules

    def _find_group(self, name: str) -> GroupState:
        groups = self.standing.groups
        if not isinstance(name, str) or name not in groups:
            raise ConfigurationError(f"there is no group {name!r:.80}{suggest_near(name, groups)}")
        return groups[name]

    def _find_tool(self, name: str) -> Placed:
        placed = self.find(name) if isinstance(name, str) else None
        if placed is None:
            near = suggest_near(name, self.standing.placed)
            raise ConfigurationError(f"there is no tool {name!r:.80}{near}")
        return placed

    # Finding.

    def find_present(self) -> Found:
        """Return the present standing, and what it was found from.

        It is another object after every change.
        """
        found = self.found
        if (
            found is not None
            and found.config is self.config
            and found.own_groups is self._groups
            and found.registered == (*self.registered.values(),)
            and (
                not self._has_catalog_changed(found)
                if found.snapshot is None
                else found.snapshot is self.catalog.index
            )
        ):
            return found
        self.found = self._look_again()
        return self.found

    def _has_catalog_changed(self, found: Found) -> bool:
        """Return True if a catalog without snapshots may have other tools or groups now."""
        generation, catalog = found.generation, self.catalog
        if generation is None or generation != catalog.generation:
            return True
        return found.groups is not catalog.groups

    def _look_again(self) -> Found:
        catalog, own = self.catalog, tuple(self._own())
        snapshot = catalog.index if catalog.is_engine else None
        generation, groups = catalog.generation, catalog.groups
        seen = Seen(generation, self.config, own, groups, self._groups)
        standing = find_standing(catalog, seen)
        registered = (*self.registered.values(),)
        return Found(standing, registered, snapshot, generation, self.config, groups, self._groups)


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    tool_toggles: dict[str, bool]
    group_toggles: dict[str, bool]
    groups: list[ToolGroup]


def _bind_catalog(catalog: ToolSource, adapt: Prepare | None, turn: Callable[[], int]) -> Source:
    """Return the catalog as one conversation sees it, in its turns."""
    source = check_source(catalog)
    return (source if adapt is None else prepare(source, adapt)).bind_turn(turn)


def _check_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"enabled must be true or false, got {value!r}")
    return value


def find_unknown(
    config: ToolCallConfig,
    tools: Collection[str],
    groups: Collection[str],
    was_named: Callable[[str], bool],
    likely: Callable[[str], Iterable[str]],
) -> list[str]:
    """Return a sentence for each setting that names nothing known.

    Such a name is no error, since its file may come later. But a misspelled one leaves a tool on
    that was to be off.

    Args:
        config: The settings.
        tools: The names of the tools that the conversation knows, on or off.
        groups: Those of its groups.
        was_named: Whether a tool has this name in its engine, which counts for rules and uses, too.
        likely: The tools that a name may be meant for.
    """
    owners = {split_name(each)[0] for each in tools} if config.toggles_by_tool_id else set()
    missing = [
        (setting, "tool", name)
        for setting, name in _list_tools_named(config)
        if name not in tools
        and not (setting == "tool_toggles" and name in owners)
        and not (setting in _BY_EITHER and was_named(name))
    ]
    for setting, names in (
        ("group_toggles", config.group_toggles),
        ("group_permissions", config.group_permissions),
    ):
        missing += [(setting, "group", name) for name in names if name not in groups]
    sentences = []
    for number, (setting, word, name) in enumerate(missing):
        hint = ""
        if number < _MOST_HINTS:
            hint = suggest_near(name, groups if word == "group" else likely(name))
        sentences.append(
            f"{setting}[{name!r}]: there is no {word} {name!r} in this conversation{hint}"
        )
    return sentences


def _list_tools_named(config: ToolCallConfig) -> Iterator[tuple[str, str]]:
    for setting in ("tool_toggles", "tool_permissions", "tool_limits", "tool_show", "max_uses"):
        yield from ((setting, name) for name in getattr(config, setting))
    for rule in config.permission_rules():
        if not _WILD & set(rule.tool):
            yield "rules", rule.tool
