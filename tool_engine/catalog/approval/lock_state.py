"""Which tools and groups does a lock file approve as they are, and which changed since?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from tool_engine.catalog.approval.lock import LockedTool, ToolLock, content_hash
from tool_engine.catalog.approval.locked_group import PREFIX, LockedGroup
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool

APPROVED: Final = "approved"
NEW: Final = "new"
CHANGED: Final = "changed"
GONE: Final = "gone"


class LockState(msgspec.Struct, frozen=True):
    """The state of a tool or group in the lock file."""

    name: str
    """Of a group: with `group:` before it."""
    status: str
    """`approved`, `new`, `changed`, or `gone` when nothing defines it any more."""
    version: str | None = None
    """Of the definition; None when it is gone."""
    approved_version: str | None = None
    """Of the approval; None when it is new."""
    is_code: bool = False
    """Whether only the code of its handler is unapproved, and not its definition."""

    @property
    def is_group(self) -> bool:
        return self.name.startswith(PREFIX)


def compare_lock(
    lock: ToolLock, present: Mapping[str, Tool | ToolGroup], code: Mapping[str, str]
) -> list[LockState]:
    """Return the state of each definition that is present or in the lock.

    `present` are the definitions by name, groups as `group:NAME`; `code` is the hashes of the code
    that runs them, by tool.
    """
    locked: dict[str, LockedTool | LockedGroup] = dict(lock.tools)
    locked |= {f"{PREFIX}{name}": each for name, each in lock.groups.items()}
    found = []
    for name in sorted({*present, *locked}, key=lambda name: (name.startswith(PREFIX), name)):
        one, known = present.get(name), locked.get(name)
        is_code = False
        if one is None or known is None:
            status = GONE if one is None else NEW
        else:
            is_same = known.definition == content_hash(one)
            is_code = is_same and getattr(known, "handler", None) != code.get(name) and name in code
            status = APPROVED if is_same and not is_code else CHANGED
        versions = [each.version if each else None for each in (one, known)]
        found.append(LockState(name, status, versions[0], versions[1], is_code))
    return found


def key_of(definition: Tool | ToolGroup) -> str:
    """Return the tool's name, or `group:NAME`."""
    is_group = isinstance(definition, ToolGroup)
    return f"{PREFIX}{definition.name}" if is_group else definition.name


def by_key(definitions: Iterable[Tool | ToolGroup]) -> dict[str, Tool | ToolGroup]:
    """Return definitions as `compare_lock` takes them."""
    return {key_of(each): each for each in definitions}
