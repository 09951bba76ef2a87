"""How do a front end's settings for one reply combine with the session's?

A setting that they leave out is the conversation's. For the others, the stricter value of both
holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from msgspec.structs import replace

from tool_engine.model.tool import Tool
from tool_engine.session.config import ToolCallConfig, as_config, find_names_said
from tool_engine.session.toolbox.toolbox import Toolbox

_REPLY: Final[ContextVar[Mapping[Toolbox, ToolCallConfig]]] = ContextVar("reply", default={})  # noqa: B039 - it is never changed


def _keep_own(own: Any, said: Any) -> Any:
    """Keep the conversation's value: a reply does not change it."""
    del said
    return own


def _take_said(own: Any, said: Any) -> Any:
    """Use the reply's value: the conversation's is checked beside it."""
    del own
    return said


def _need_both(own: bool, said: bool) -> bool:
    return own and said


def _take_least(own: int, said: int) -> int:
    return min(own, said)


def _take_least_given(own: int | None, said: int | None) -> int | None:
    return min((each for each in (own, said) if each is not None), default=None)


def _join_both(own: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Join both: a name that only the conversation has keeps its value."""
    return {**own, **said}


HOW: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "enabled": _need_both,
    "mode": _take_said,
    "tool_toggles": _take_said,
    "default_tool_enabled": _take_said,
    "max_iterations": _keep_own,
    "timeout": _take_said,
    "require_confirmation": _take_said,
    "parallel_execution": _need_both,
    "protocol": _take_said,
    "toggles_by_tool_id": _take_said,
    "group_toggles": _take_said,
    "default_group_enabled": _take_said,
    "permission": _take_said,
    "group_permissions": _take_said,
    "tool_permissions": _take_said,
    "rules": _take_said,
    "approval_timeout": _keep_own,
    "limit": _take_said,
    "tool_limits": _join_both,
    "show": _take_said,
    "tool_show": _join_both,
    "capacity": _keep_own,
    "max_calls_per_turn": _take_least,
    "max_calls": _take_least_given,
    "max_uses": _join_both,
    "max_tokens": _take_least_given,
    "max_seconds": _keep_own,
    "hint_at": _keep_own,
    "stop_at": _keep_own,
    "language": _take_said,
}
"""Setting -> how its value for a reply is made of the conversation's and the reply's."""

_GROUPS: Final = frozenset(("group_toggles", "default_group_enabled"))
_TOOLS: Final = frozenset(("tool_toggles", "default_tool_enabled", "toggles_by_tool_id"))
_CONSENT: Final = frozenset(("permission", "group_permissions", "tool_permissions", "rules"))
_TOGETHER: Final = ((_GROUPS, _GROUPS | _TOOLS), (_TOOLS, _TOOLS), (_CONSENT, _CONSENT))
"""Settings that depend on each other: where one of the first is given, all of the second are
taken from the reply, lest a looser value of the conversation override them. The
conversation's own are checked beside it anyway.
"""


def narrow_settings(
    own: ToolCallConfig, said: ToolCallConfig | Mapping[str, Any]
) -> ToolCallConfig:
    """Return the settings of one reply.

    Args:
        own: The conversation's.
        said: Other ones. A `ToolCallConfig` leaves out what is as by default; a mapping what it
            does not name.

    Raises:
        ConfigurationError: They are none.
    """
    chosen = as_config(said)
    names = find_names_said(said)
    for some, others in _TOGETHER:
        if names & some:
            names |= others
    changes = {name: HOW[name](getattr(own, name), getattr(chosen, name)) for name in names}
    return replace(own, **changes)


def find_limit(
    config: ToolCallConfig, tool: Tool | None, tool_name: str, said: int | None = None
) -> int:
    """Return the most characters of a result by the settings, code or the definition. S7.

    Args:
        config: The settings.
        tool: Its definition; None: it is not known.
        tool_name: Its name in the conversation.
        said: What code says of it.
    """
    if said is None and tool is not None and tool.result is not None:
        said = tool.result.limit
    return config.tool_limits.get(tool_name, config.limit if said is None else said)


@contextmanager
def hold_reply(toolbox: Toolbox, config: ToolCallConfig) -> Iterator[None]:
    """Hold the calls of a toolbox's conversation to `config` meanwhile, too."""
    token = _REPLY.set({**_REPLY.get(), toolbox: config})
    try:
        yield
    finally:
        _REPLY.reset(token)


find_replies: Final = _REPLY.get
"""Returns the settings of the replies in progress here, by the toolbox of their session."""


def find_reply_marks() -> frozenset[int]:
    """Return marks that identify the replies in progress here."""
    return frozenset(map(id, _REPLY.get().values()))
