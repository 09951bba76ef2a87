"""What holds for the calls of one conversation, by all that anybody has said about them? X3."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from tool_engine.approval.likeness import is_match
from tool_engine.approval.policy import Decision, PermissionRule, decide
from tool_engine.model.group import ToolGroup
from tool_engine.model.permission import ExecutionPolicy, Permission, ResultPolicy
from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig
from tool_engine.session.memberships import memberships
from tool_engine.session.skills import READING
from tool_engine.session.standing import Standing
from tool_engine.session.tool_view import groups_of, shown_names
from tool_engine.session.toolbox import Toolbox

__all__ = ["SessionPolicy"]

_EXECUTION: Final = list(ExecutionPolicy)
_RESULT: Final = list(ResultPolicy)
_REMEMBERED: Final = 256
"""Tools of which it is known what is said of them."""
_FREE: Final = Decision(ExecutionPolicy.AUTO, ResultPolicy.NEVER)
_ALSO: Final[ContextVar[Mapping[SessionPolicy, SessionPolicy]]] = ContextVar("also", default={})  # noqa: B039 - nobody changes it
"""Of a conversation: what else decides, for the calls of one reply."""


class _Said(NamedTuple):
    """What is said of one tool, as long as nothing changes."""

    tool: Tool
    """Kept, so that no other one gets its identity."""
    names: list[str]
    rules: list[PermissionRule]
    """Those that are about it: of thousands, few are."""
    places: list[Permission | None]


class SessionPolicy:
    """Decides by rules, then by what is said of the tool, its groups and the session.

    Args:
        toolbox: The tools of the conversation, with its settings.
        parent: Of the conversation that it works for: what that one forbids or asks for, holds.
    """

    def __init__(self, toolbox: Toolbox, parent: SessionPolicy | None = None) -> None:
        self._toolbox = toolbox
        self._parent = parent
        self._config = toolbox.config
        self._rules = self._config.permission_rules()
        self._standing: Standing | None = None
        self._is_silent = False
        """Whether nobody but a tool's definition says anything."""
        self._said: dict[int, _Said] = {}
        """What is said of a tool, by its identity."""

    def decide(self, tool: Tool, params: Mapping[str, Any]) -> Decision:
        """What holds for a call of a tool, in the form in which the engine has it."""
        own, others = self._own(tool, params), _ALSO.get()
        also = others.get(self) if others else None
        if also is not None:
            own = _stricter(own, also.decide(tool, params))
        return own if self._parent is None else _stricter(own, self._parent.decide(tool, params))

    @contextmanager
    def also(self, config: ToolCallConfig) -> Iterator[None]:
        """What is called meanwhile is decided by other settings, too: the stricter word holds.

        Args:
            config: The other settings. That they ask before each call is left to whoever has them.
        """
        said = replace(config, mode="auto", require_confirmation=False)
        token = _ALSO.set({**_ALSO.get(), self: SessionPolicy(self._toolbox.under(said))})
        try:
            yield
        finally:
            _ALSO.reset(token)

    def _own(self, tool: Tool, params: Mapping[str, Any]) -> Decision:
        standing, config = self._toolbox.standing, self._toolbox.config
        if standing is not self._standing or config is not self._config:
            self._look(standing, config)
        if self._is_silent and tool.permission is None:
            return _FREE
        said = self._said.get(id(tool)) or self._look_at(tool)
        return decide(tool.name, params, said.rules, said.places, other_names=said.names)

    def _look_at(self, tool: Tool) -> _Said:
        # A rule for what the conversation calls a tool is a rule for the tool.
        shown = shown_names(self._toolbox.catalog, tool)
        if len(self._said) >= _REMEMBERED:
            self._said.clear()
        names = {*shown, tool.name}
        rules = [each for each in self._rules if any(is_match(name, each.tool) for name in names)]
        said = self._said[id(tool)] = _Said(tool, shown, rules, self._places(tool, shown))
        return said

    def _look(self, standing: Standing, config: ToolCallConfig) -> None:
        """Forgets what was said before a change."""
        if config is not self._config:
            self._config, self._rules = config, config.permission_rules()
        self._standing, self._said = standing, {}
        self._is_silent = not self._is_said_anything()

    def _is_said_anything(self) -> bool:
        config = self._config
        of_session = config.permission is not None or config.asks_always
        of_some = config.rules or config.tool_permissions or config.group_permissions
        groups = [each.group for each in self._toolbox.groups()]
        # Also those that gave way to the session's own.
        groups += groups_of(self._toolbox.catalog).values()
        return of_session or bool(of_some) or any(each.permission for each in groups)

    def _places(self, tool: Tool, shown: Sequence[str]) -> list[Permission | None]:
        config, toolbox = self._config, self._toolbox
        names = dict.fromkeys((*shown, tool.name))
        groups = dict.fromkeys(group for name in names for group in toolbox.groups_of(name))
        definition = tool.permission
        declared = [each for name in names for each in toolbox.permissions_of(name)]
        # The model is not told of each tool that another one calls.
        for name, group in self._groups_of_hidden(tool):
            groups[name] = None
            declared += [] if group.permission is None else [group.permission]
        of_groups = _strictest(declared)
        session = config.permission or Permission()
        if config.asks_always and tool.name not in READING:
            # Whoever wants to be asked is asked, whatever the authors of tools think of them.
            definition, of_groups = _without_auto(definition), _without_auto(of_groups)
            asked = session.execution or ExecutionPolicy.ASK_ALWAYS
            session = Permission(execution=asked, result=session.result)
        return [
            _strictest(config.tool_permissions.get(name) for name in names),
            definition,
            _strictest(config.group_permissions.get(name) for name in groups),
            of_groups,
            session,
        ]

    def _groups_of_hidden(self, tool: Tool) -> Iterator[tuple[str, ToolGroup]]:
        yield from memberships(self._toolbox.catalog, tool).items()
        for state in self._toolbox.groups():
            if state.is_own and state.group.members([tool]):
                yield state.name, state.group


def _strictest(permissions: Iterable[Permission | None]) -> Permission | None:
    """What several places of one kind say together: of two words the stricter one."""
    given = [each for each in permissions if each is not None]
    if not given:
        return None
    executions = [each.execution for each in given if each.execution is not None]
    results = [each.result for each in given if each.result is not None]
    return Permission(
        execution=max(executions, key=_EXECUTION.index, default=None),
        result=max(results, key=_RESULT.index, default=None),
    )


def _stricter(own: Decision, other: Decision) -> Decision:
    """Of each question the stricter answer; a reason that one of them keeps back is kept back."""
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
