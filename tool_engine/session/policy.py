"""Which permission holds for a call, from all rules, groups and settings? X3."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from tool_engine.approval.matching import is_match
from tool_engine.approval.place import engine_asked
from tool_engine.approval.policy import Decision, PermissionRule, decide
from tool_engine.interfaces.source import Source
from tool_engine.model.group import ToolGroup
from tool_engine.model.permission import ExecutionPolicy, Permission, ResultPolicy
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.prompt.skills import READING
from tool_engine.session.toolbox.toolbox import Found, Toolbox
from tool_engine.sources.owners import owners_of

_EXECUTION: Final = list(ExecutionPolicy)
_RESULT: Final = list(ResultPolicy)
_REMEMBERED: Final = 256
_FREE: Final = Decision(ExecutionPolicy.AUTO, ResultPolicy.NEVER)
RulesOfReplies: TypeAlias = "Mapping[SessionPolicy, tuple[SessionPolicy, ...]]"
"""The further policies that decide the calls of one reply, by conversation."""
_ALSO: Final[ContextVar[RulesOfReplies]] = ContextVar("also", default={})  # noqa: B039 - read only


find_reply_rules: Final = _ALSO.get
"""Returns what decides here beside the settings of the conversations."""


@contextmanager
def hold_rules(rules: RulesOfReplies) -> Iterator[None]:
    """Let these rules decide beside those that hold here."""
    # A thread may have the context of a call without the rules set around it.
    known = _ALSO.get()
    if known is rules:
        yield
        return
    policies = {*known, *rules}
    token = _ALSO.set(
        {
            each: tuple(dict.fromkeys((*known.get(each, ()), *rules.get(each, ()))))
            for each in policies
        }
    )
    try:
        yield
    finally:
        _ALSO.reset(token)


class _ToolRules(NamedTuple):
    """The permissions and rules for one tool, until something changes."""

    tool: Tool
    """Held so that no other tool gets its identity."""
    names: list[str]
    """All names of the tool, at least one."""
    rules: list[PermissionRule]
    """The rules about this tool: a few of perhaps thousands."""
    places: list[Permission | None]
    unapproved: list[Permission | None] | None
    """The words of unapproved groups, by place; None: the tool is in no such group."""


class SessionPolicy:
    """Decide by rules, then by the tool, its groups and the session.

    Args:
        toolbox: The tools of the conversation, with its settings.
        parent: Of the conversation that it works for: what that one forbids or asks for, holds.
    """

    def __init__(self, toolbox: Toolbox, parent: SessionPolicy | None = None) -> None:
        self._toolbox = toolbox
        self._parent = parent
        self._config = toolbox.config
        self._rules = self._config.permission_rules()
        self._found: Found | None = None
        self._is_without_rules = False
        """Whether only the tools' own definitions have permissions."""
        self._known: dict[int, list[_ToolRules]] = {}
        """What holds for a tool, by identity: all candidates, where its engine is unclear."""

    def decide(self, tool: Tool, params: Mapping[str, Any]) -> Decision:
        """Decide about a call of a tool as the engine has it."""
        if self.is_silent() and tool.permission is None:
            return _FREE
        if self._is_without_rules and tool.permission is None:
            own = _FREE
        else:
            said = self._find_all(tool)
            own = reduce(_take_stricter, [_decide_by(each, params) for each in said])
        others = _ALSO.get()
        for also in others.get(self, ()) if others else ():
            own = _take_stricter(own, also.decide(tool, params))
        return (
            own if self._parent is None else _take_stricter(own, self._parent.decide(tool, params))
        )

    def is_silent(self) -> bool:
        """Return True if tools' own definitions alone say here who is asked about a call."""
        found = self._toolbox.find_present()
        if found is not self._found:
            self._note_change(found)
        is_alone = self._parent is None and not _ALSO.get()
        return is_alone and self._is_without_rules

    def result_policy(self, tool: Tool) -> ResultPolicy:
        """Return the strictest result policy of the tool for any arguments."""
        said = [self.decide(tool, {}).result]
        others = [*_ALSO.get().get(self, ()), *([] if self._parent is None else [self._parent])]
        said += [each.result_policy(tool) for each in others]
        known = self._find_all(tool)
        rules = [rule for each in known for rule in each.rules]
        said += [rule.permission.result for rule in rules if rule.permission.result]
        return max(said, key=_RESULT.index)

    @contextmanager
    def also(self, config: ToolCallConfig) -> Iterator[None]:
        """Apply other settings to calls meanwhile: the stricter word holds.

        Args:
            config: The other settings. That they ask before each call is checked by their owner.
        """
        said = replace(config, mode="auto", require_confirmation=False)
        known = _ALSO.get()
        # A tool may take another reply through: what holds for the first one holds there, too.
        also = (*known.get(self, ()), SessionPolicy(self._toolbox.under(said)))
        token = _ALSO.set({**known, self: also})
        try:
            yield
        finally:
            _ALSO.reset(token)

    def _find_all(self, tool: Tool) -> list[_ToolRules]:
        if engine_asked(tool) is not None:
            # Of two engines that have one tool object, this one.
            return self._read_all(tool)
        said = self._known.get(id(tool))
        if said is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            said = self._known[id(tool)] = self._read_all(tool)
        return said

    def _read_all(self, tool: Tool) -> list[_ToolRules]:
        found = owners_of(self._toolbox.catalog, tool, engine_asked(tool))
        owners: list[Source | None] = [*found]
        return [said for owner in owners or [None] for said in self._read_owners(tool, owner)]

    def _read_owners(self, tool: Tool, owner: Source | None) -> Iterator[_ToolRules]:
        """Find the permissions for a tool of one source.

        A rule for what the conversation calls a tool is a rule for the tool. One for the name that
        it has in its engine, which a tool of another one has, too, only makes it stricter.
        """
        shown = self._toolbox.catalog.find_shown_names(tool, owner)
        yield self._read_names(tool, owner, [*shown, tool.name])
        if owner is not None and self._is_of_others(tool.name, owner):
            # No name of a tool has a space, and only a rule for all tools is about this one.
            yield self._read_names(tool, owner, shown or [f"another {tool.name}"])

    def _is_of_others(self, name: str, owner: Source) -> bool:
        """Return True if another source's tool has the name, there or here."""
        catalog = self._toolbox.catalog
        placed = self._toolbox.standing.placed.get(name)
        is_shown = catalog.get(name) is not None and catalog.find_origin(name)[0] is not owner
        return (
            is_shown
            or (placed is not None and placed.is_own)
            or any(each.get(name) for each in catalog.list_origins() if each is not owner)
        )

    def _read_names(self, tool: Tool, owner: Source | None, names: list[str]) -> _ToolRules:
        rules = [each for each in self._rules if any(is_match(name, each.tool) for name in names)]
        groups = self._find_groups(tool, owner, names)
        approved = {name: each for name, each in groups.items() if not _is_unapproved(each)}
        places, unapproved = self._find_places(tool, names, approved), None
        if len(approved) < len(groups):
            unapproved = self._find_places(tool, names, groups)
        return _ToolRules(tool, names, rules, places, unapproved)

    def _note_change(self, found: Found) -> None:
        """Forget what was found before a change."""
        if found.config is not self._config:
            self._config, self._rules = found.config, found.config.permission_rules()
        self._found, self._known = found, {}
        self._is_without_rules = not self._has_any_rule()

    def _has_any_rule(self) -> bool:
        config = self._config
        of_session = config.permission is not None or config.asks_always
        of_some = config.rules or config.tool_permissions or config.group_permissions
        groups = [each.group for each in self._toolbox.groups()]
        # Also those that gave way to the session's own.
        groups += self._toolbox.catalog.groups.values()
        return of_session or bool(of_some) or any(each.permission for each in groups)

    def _find_groups(
        self, tool: Tool, owner: Source | None, names: Sequence[str]
    ) -> dict[str, list[ToolGroup]]:
        """Return all groups of a tool by name, hidden ones too."""
        found: dict[str, list[ToolGroup]] = {}
        standing = self._toolbox.standing
        for name in dict.fromkeys(names):
            for group in standing.memberships.get(name, ()):
                found.setdefault(group.name, []).append(group)
        # The model does not know every tool that another tool calls.
        for name, group in self._find_hidden_groups(tool, owner, by_name=tool.name in names):
            found.setdefault(name, []).append(group)
        return found

    def _find_places(
        self, tool: Tool, names: Sequence[str], groups: Mapping[str, Sequence[ToolGroup]]
    ) -> list[Permission | None]:
        config = self._config
        definition = tool.permission
        of_groups = _find_strictest(group.permission for each in groups.values() for group in each)
        session = config.permission or Permission()
        if config.asks_always and tool.name not in READING:
            # A session that asks for everything asks whatever the tools' authors say.
            definition, of_groups = _without_auto(definition), _without_auto(of_groups)
            asked = session.execution or ExecutionPolicy.ASK_ALWAYS
            session = Permission(execution=asked, result=session.result)
        return [
            _find_strictest(config.tool_permissions.get(name) for name in names),
            definition,
            _find_strictest(config.group_permissions.get(name) for name in groups),
            of_groups,
            session,
        ]

    def _find_hidden_groups(
        self, tool: Tool, owner: Source | None, *, by_name: bool
    ) -> Iterator[tuple[str, ToolGroup]]:
        yield from self._toolbox.catalog.find_groups(tool, owner).items()
        for state in self._toolbox.groups() if by_name else ():
            if state.is_own and state.group.members([tool]):
                yield state.name, state.group


def _decide_by(said: _ToolRules, params: Mapping[str, Any]) -> Decision:
    first, names = said.names[0], said.names
    known = decide(first, params, said.rules, said.places, other_names=names)
    if said.unapproved is None:
        return known
    # An unapproved group may forbid, and never allow.
    new = decide(first, params, said.rules, said.unapproved, other_names=names)
    return _take_stricter(known, new)


def _is_unapproved(groups: Iterable[ToolGroup]) -> bool:
    return any(group.is_quarantined for group in groups)


def _find_strictest(permissions: Iterable[Permission | None]) -> Permission | None:
    """Return the strictest of the permissions from places of one kind."""
    given = [each for each in permissions if each is not None]
    if not given:
        return None
    executions = [each.execution for each in given if each.execution is not None]
    results = [each.result for each in given if each.result is not None]
    return Permission(
        execution=max(executions, key=_EXECUTION.index, default=None),
        result=max(results, key=_RESULT.index, default=None),
    )


def _take_stricter(own: Decision, other: Decision) -> Decision:
    """Return the stricter answer to each question; a withheld reason stays withheld."""
    runs = max(own, other, key=lambda each: _EXECUTION.index(each.execution))
    reads = max(own, other, key=lambda each: _RESULT.index(each.result))
    return Decision(
        runs.execution,
        reads.result,
        own.is_silent or other.is_silent,
        own.is_result_silent or other.is_result_silent,
        runs.execution_by,
        reads.result_by,
    )


def _without_auto(permission: Permission | None) -> Permission | None:
    if permission is None or permission.execution is not ExecutionPolicy.AUTO:
        return permission
    return Permission(execution=None, result=permission.result)
