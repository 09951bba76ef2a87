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

from tool_engine.session.config import ToolCallConfig, names_said
from tool_engine.session.discovery import as_config

_REPLY: Final[ContextVar[Mapping[object, ToolCallConfig]]] = ContextVar("reply", default={})  # noqa: B039 - it is never changed


def _own(own: Any, said: Any) -> Any:
    """Keep the conversation's value: a reply does not change it."""
    del said
    return own


def _said(own: Any, said: Any) -> Any:
    """Use the reply's value: it is checked beside the conversation's, or it allows nothing."""
    del own
    return said


def _both(own: bool, said: bool) -> bool:
    return own and said


def _least(own: int, said: int) -> int:
    return min(own, said)


def _least_given(own: int | None, said: int | None) -> int | None:
    return min((each for each in (own, said) if each is not None), default=None)


def _joined(own: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Join both: a name that only the conversation has keeps its value."""
    return {**own, **said}


HOW: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "enabled": _both,
    "mode": _said,
    "tool_toggles": _said,
    "default_tool_enabled": _said,
    "max_iterations": _own,
    "timeout": _said,
    "require_confirmation": _said,
    "parallel_execution": _both,
    "protocol": _said,
    "toggles_by_tool_id": _said,
    "group_toggles": _said,
    "default_group_enabled": _said,
    "permission": _said,
    "group_permissions": _said,
    "tool_permissions": _said,
    "rules": _said,
    "approval_timeout": _own,
    "limit": _said,
    "tool_limits": _joined,
    "show": _said,
    "tool_show": _joined,
    "capacity": _own,
    "max_calls_per_turn": _least,
    "max_calls": _least_given,
    "max_uses": _joined,
    "max_tokens": _least_given,
    "max_seconds": _own,
    "hint_at": _own,
    "stop_at": _own,
    "language": _said,
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


def narrowed(own: ToolCallConfig, said: ToolCallConfig | Mapping[str, Any]) -> ToolCallConfig:
    """Return the settings of one reply.

    Args:
        own: The conversation's.
        said: Other ones. A `ToolCallConfig` leaves out what is as by default; a mapping what it
            does not name.

    Raises:
        ConfigurationError: They are none.
    """
    chosen = as_config(said)
    names = names_said(said)
    for some, others in _TOGETHER:
        if names & some:
            names |= others
    changes = {name: HOW[name](getattr(own, name), getattr(chosen, name)) for name in names}
    return replace(own, **changes)


@contextmanager
def in_reply(session: object, config: ToolCallConfig) -> Iterator[None]:
    """Hold the calls of a conversation to `config` meanwhile, too."""
    token = _REPLY.set({**_REPLY.get(), session: config})
    try:
        yield
    finally:
        _REPLY.reset(token)


def of_reply(session: object) -> ToolCallConfig | None:
    """Return the settings of the reply that a call belongs to, or None."""
    known = _REPLY.get()
    return known.get(session) if known else None


def marks_of_replies() -> frozenset[int]:
    """Return marks that identify the replies in progress here."""
    return frozenset(map(id, _REPLY.get().values()))
