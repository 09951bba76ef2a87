"""How does each tool stand to a lock file: approved, new, changed or gone?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from tool_engine.catalog.approval.lock import (
    SERVER_PREFIX,
    LockedTool,
    ToolLock,
    content_hash,
)
from tool_engine.catalog.approval.locked_group import PREFIX, LockedGroup
from tool_engine.catalog.kinds import Definition
from tool_engine.catalog.loader import kind_of

APPROVED: Final = "approved"
NEW: Final = "new"
CHANGED: Final = "changed"
GONE: Final = "gone"
_PREFIXES: Final = {"tool": "", "group": PREFIX, "server": SERVER_PREFIX}


class LockState(msgspec.Struct, frozen=True):
    """The state of a tool, group or server in the lock file."""

    name: str
    """Of a group: with `group:` before it; of a server: with `server:`."""
    status: str
    """`approved`, `new`, `changed`, or `gone` when nothing defines it any more."""
    version: str | None = None
    """Of the definition; None when it is gone."""
    approved_version: str | None = None
    """Of the approval; None when it is new."""
    is_code: bool = False
    """Whether only the code of its handler is unapproved, and not its definition."""
    fingerprint: str | None = None
    """Stands for all that an approval would hold, for `lock_tools`; None: it is approved or gone,
    or no engine was asked."""

    @property
    def kind(self) -> str:
        """`tool`, `group` or `server`."""
        return kind_named(self.name)


def compare_lock(
    lock: ToolLock,
    present: Mapping[str, Definition],
    code: Mapping[str, str],
    hash_of: Callable[[Definition], str] = content_hash,
) -> list[LockState]:
    """Return the state of each definition that is present or in the lock.

    `present` are the definitions, each as `key_of` names it; `code` is the hashes of the code
    that runs them, by tool; `hash_of` is `content_hash`, or one that remembers.
    """
    locked: dict[str, LockedTool | LockedGroup] = dict(lock.tools)
    locked |= {f"{PREFIX}{name}": each for name, each in lock.groups.items()}
    locked |= {f"{SERVER_PREFIX}{name}": each for name, each in lock.servers.items()}
    found = []
    order = list(_PREFIXES)
    for name in sorted({*present, *locked}, key=lambda name: (order.index(kind_named(name)), name)):
        one, known = present.get(name), locked.get(name)
        is_code = False
        if one is None or known is None:
            status = GONE if one is None else NEW
        else:
            is_same = known.definition == hash_of(one)
            is_code = is_same and getattr(known, "handler", None) != code.get(name) and name in code
            status = APPROVED if is_same and not is_code else CHANGED
        versions = [each.version if each else None for each in (one, known)]
        found.append(LockState(name, status, versions[0], versions[1], is_code))
    return found


def changed_lock(
    lock: ToolLock, changes: Mapping[str, LockedTool | LockedGroup | None]
) -> ToolLock:
    """Return a lock with other approvals, each by what `key_of` returns; None takes one out."""
    tables: dict[str, dict[str, Any]] = {
        "tool": dict(lock.tools),
        "group": dict(lock.groups),
        "server": dict(lock.servers),
    }
    for key, approved in changes.items():
        table, name = tables[kind_named(key)], bare_name(key)
        table.pop(name, None)
        if approved is not None:
            table[name] = approved
    return ToolLock(
        tables["tool"].values(),
        file=lock.file,
        groups=tables["group"].values(),
        servers=tables["server"].values(),
    )


def take_part(lock: ToolLock, keys: Iterable[str]) -> ToolLock:
    """Return a lock with these approvals only, each by what `key_of` returns."""
    tables: dict[str, Mapping[str, Any]] = {
        "tool": lock.tools,
        "group": lock.groups,
        "server": lock.servers,
    }
    chosen = {key: tables[kind_named(key)].get(bare_name(key)) for key in keys}
    return changed_lock(ToolLock(file=lock.file), chosen)


def is_locked(lock: ToolLock, key: str) -> bool:
    """Return True if a lock has what `key_of` names."""
    table: Mapping[str, object] = getattr(lock, f"{kind_named(key)}s")
    return bare_name(key) in table


def key_of(definition: Definition) -> str:
    """Return the tool's name, `group:NAME` or `server:NAME`."""
    return f"{_PREFIXES[kind_of(definition)]}{definition.name}"


def kind_named(key: str) -> str:
    """Return the kind of what `key_of` names."""
    return next((kind for kind, mark in _PREFIXES.items() if mark and key.startswith(mark)), "tool")


def bare_name(key: str) -> str:
    """Return the name in what `key_of` returns."""
    return key.removeprefix(_PREFIXES[kind_named(key)])


def by_key(definitions: Iterable[Definition]) -> dict[str, Definition]:
    """Return definitions as `compare_lock` takes them."""
    return {key_of(each): each for each in definitions}
