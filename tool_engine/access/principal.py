"""Who is behind a request, and what may they ask for?"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from tool_engine.errors import ConfigurationError
from tool_engine.model.settings.concurrency import DEFAULT_PRIORITY

SCOPES: Final = ("call", "read", "approve", "operate")
"""What a principal may do: call tools; see tools and what it has started; answer requests for
consent; see and steer all."""
LEAST_URGENT: Final = 9
_GLOB: Final = re.compile(r"(?![0-9.-])(?:[A-Za-z0-9_.*?-]|\[!?[A-Za-z0-9_.-]+\])+")
"""What may match names of tools: a letter or `_`, and then also digits, `.` and `-`."""


class Principal(msgspec.Struct, frozen=True):
    """Who is behind a request.

    Raises:
        ConfigurationError: Its scopes are no frozenset, or its tools no tuple.
    """

    name: str
    scopes: frozenset[str]
    tools: tuple[str, ...] = ("*",)
    """Patterns of the names of tools, as a shell has them."""
    priority: int = DEFAULT_PRIORITY
    """The most urgent priority that its calls may ask for; one that operates may ask for any."""

    def __post_init__(self) -> None:
        # One text would be taken for its letters, of which `*` is all tools.
        if type(self.scopes) is not frozenset or type(self.tools) is not tuple:
            raise ConfigurationError(
                f"scopes and tools of the principal {self.name!r} must be a frozenset and a tuple, "
                f"got {self.scopes!r:.80} and {self.tools!r:.80}; write frozenset({{'call'}}) and "
                "('notes_*',)"
            )

    def may(self, scope: str) -> bool:
        """Return True if it may do what a scope stands for."""
        return scope in self.scopes

    def may_ask_for(self, priority: int) -> bool:
        """Return True if its calls may have a priority that their tool does not give them."""
        return priority >= self.priority or self.may("operate")

    @property
    def may_use_all(self) -> bool:
        """Whether no tool is kept from it."""
        return "*" in self.tools

    def may_use(self, tool_name: str) -> bool:
        """Return True if it may know and call a tool."""
        return self.may_use_all or any(fnmatchcase(tool_name, each) for each in self.tools)


def is_name(value: Any) -> bool:
    """Return True for what can be a principal's name: a text that is seen as it is.

    A line break in it would forge lines of logs, no database takes a NUL, and a blank before it
    makes another one of what looks the same.
    """
    return isinstance(value, str) and value != "" and value.isprintable() and value == value.strip()


def read_scopes(scopes: Any, where: str) -> frozenset[str]:
    """Return the scopes of a list.

    Raises:
        ConfigurationError: There is no such scope, or it is no list.
    """
    if isinstance(scopes, list | tuple) and all(each in SCOPES for each in scopes):
        return frozenset(scopes)
    raise ConfigurationError(
        f"{where}: scopes must be a list of {', '.join(SCOPES)}, got {scopes!r}"
    )


def read_patterns(patterns: Any, where: str) -> tuple[str, ...]:
    """Return the patterns of names of a list.

    Raises:
        ConfigurationError: It is no list of texts, or one could match no name of a tool.
    """
    if not isinstance(patterns, list | tuple):
        raise ConfigurationError(
            f"{where}: tools must be a list of names or patterns, such as ['notes_*'], got "
            f"{patterns!r}"
        )
    for each in patterns:
        if not isinstance(each, str) or _GLOB.fullmatch(each) is None:
            raise ConfigurationError(
                f"{where}: tools: {each!r} matches no name of a tool; write names, with * for any "
                "letters, ? for one, and [ab] for one of these"
            )
    return tuple(patterns)


def read_priority(priority: Any, where: str) -> int:
    """Return the most urgent priority that calls may ask for.

    Raises:
        ConfigurationError: It is none.
    """
    if type(priority) is int and 0 <= priority <= LEAST_URGENT:
        return priority
    raise ConfigurationError(
        f"{where}: priority must be a whole number from 0, the most urgent one, to {LEAST_URGENT}, "
        f"got {priority!r:.80}"
    )
