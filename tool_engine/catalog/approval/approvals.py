"""How does an engine ask its lock file, and approve what waits?

Read with the folder, asked for each tool and group, and written when the program that embeds the
engine approves something.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from tool_engine.catalog.approval.lock import LockedTool, ToolLock, content_hash, is_hash
from tool_engine.catalog.approval.lock_state import (
    CHANGED,
    NEW,
    LockState,
    bare_name,
    changed_lock,
    compare_lock,
    is_locked,
    kind_named,
    take_part,
)
from tool_engine.catalog.approval.locked_group import PREFIX, LockedGroup
from tool_engine.catalog.approval.quarantine import QuarantinedTool
from tool_engine.catalog.kinds import Definition, ServerDefinition
from tool_engine.catalog.loader import kind_of
from tool_engine.errors import ApprovalConflictError, LockFileError, ToolNotFoundError
from tool_engine.model.checks.setting_kinds import check_names
from tool_engine.model.group import ToolGroup
from tool_engine.model.tool import Tool, is_source_name

_MOST_OTHERS: Final = 1_000
"""Hashes of groups, and of tools that are gone, beyond as many as there are tools."""


def read_names(names: Iterable[str] | Mapping[str, str]) -> Collection[str]:
    """Return the names of what is to be approved, or looked at; one text is one name.

    Raises:
        ConfigurationError: They are no names.
    """
    listed = check_names("names", (names,) if isinstance(names, str) else names, "tool name")
    return names if isinstance(names, Mapping) else listed


class Approvals:
    """The approvals of one engine's lock file.

    `code_hash` is None for a tool that no code runs yet; `is_outdated` says whether the process
    runs other code than it would read now; `options_of` returns the options with which
    `tool-engine lock` finds the tools of a source, None where only a program does. Unless
    `is_enforced`, every tool may be called, and the file is not read.
    """

    def __init__(
        self,
        file: str,
        code_hash: Callable[[Tool], str | None],
        *,
        is_enforced: bool,
        is_outdated: Callable[[Tool], bool] = lambda _: False,
        options_of: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        self.file = file
        self.is_enforced = is_enforced
        self._code_hash = code_hash
        self._is_outdated = is_outdated
        self._options_of = options_of
        self._lock = ToolLock(file=file, problem=f"{file} was not read yet")
        self._hashes: dict[tuple[str, str], tuple[Definition, str]] = {}

    def __repr__(self) -> str:
        return f"Approvals({self._lock!r}, is_enforced={self.is_enforced})"

    @property
    def problem(self) -> str | None:
        """Why nothing is approved, when the file cannot be used."""
        return self._lock.problem if self.is_enforced else None

    @property
    def state(self) -> tuple[object, ...]:
        """A value that differs when the file does."""
        return (self._lock.data, self.problem)

    def read(self) -> None:
        """Read the file if approvals are enforced; blocks."""
        if not self.is_enforced:
            return
        try:
            self._lock = ToolLock.read(self.file, self._lock)
        except LockFileError as error:
            self._lock = ToolLock(file=self.file, problem=str(error))

    def covers_code(self, tool: Tool) -> bool:
        return self.code_of(tool) is not None

    def code_of(self, tool: Tool) -> str | None:
        """Return the hash of the approved code of `tool`; None: any code."""
        approved = self._lock.tools.get(tool.name) if self.is_enforced else None
        return None if approved is None else approved.handler

    def refusal(self, tool: Tool) -> QuarantinedTool | None:
        """Return why `tool` may not be called; None when it may."""
        if not self.is_enforced:
            return None
        is_covered = self.covers_code(tool)
        code = self._code_hash(tool) if is_covered else None
        options = self._options_of(tool.origin) if is_source_name(tool.source) else ""
        refusal = self._lock.refusal(tool, self._content_hash(tool), code, options)
        if refusal is None and is_covered and self._is_outdated(tool):
            message = (
                f"the tool {tool.name!r} is quarantined: this process has imported the code of "
                f"{tool.handler!r} before it was what is approved now; start the program anew"
            )
            return QuarantinedTool(tool, "handler_changed", message, tool.version)
        return refusal

    def forget_others(self, names: Collection[str]) -> None:
        """Forget the hashes of tools that are gone, once they are more than the present ones."""
        if len(self._hashes) > 2 * len(names) + _MOST_OTHERS:
            self._hashes = {
                key: known
                for key, known in self._hashes.items()
                if key[1] in names or not isinstance(known[0], Tool)
            }

    def groups_of(self, groups: Mapping[str, ToolGroup]) -> Mapping[str, ToolGroup]:
        """Return the groups as calls see them; unapproved ones only take away."""
        if not self.is_enforced:
            return groups
        held = dict(groups)
        for name in {*groups, *self._lock.groups}:
            group = groups.get(name)
            if group is None or group.source is not None:
                content = "" if group is None else self._content_hash(group)
                held[name] = self._lock.held_back(name, group, content) or groups[name]
        return {name: held[name] for name in sorted(held)}

    def known(self) -> ToolLock:
        """Return the file's lock, empty without a file; blocks."""
        return ToolLock.read_or_start(self.file, self._lock)

    def with_approved(
        self,
        known: ToolLock | None,
        present: Mapping[str, Definition],
        names: Iterable[str],
    ) -> ToolLock:
        """Return a lock that approves `names` as they are now.

        `known` stays approved besides; `present` is what files and sources define, by `key_of`. A
        name that nothing defines loses its approval. Of a mapping, the values are the fingerprints
        of what was read.

        Raises:
            ToolNotFoundError: Nothing defines a name, and it is not in `known`.
            ApprovalConflictError: What was read is not what is there.
        """
        lock = ToolLock(file=self.file) if known is None else known
        if isinstance(names, Mapping):
            self._check_read(names, present)
        changes: dict[str, LockedTool | LockedGroup | None] = {}
        for name in names:
            changes[name] = self._lock_one(present[name]) if name in present else None
            if name not in present and not is_locked(lock, name):
                near = [key for key in present if key == f"{PREFIX}{name}"]
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ToolNotFoundError(
                    f"no file defines the {kind_named(name)} {bare_name(name)!r}, no source gives "
                    f"it, and {self.file} does not have it{hint}"
                )
        return changed_lock(lock, changes)

    def compare(
        self,
        known: ToolLock,
        present: Mapping[str, Definition],
        names: Collection[str] | None = None,
    ) -> list[LockState]:
        """Return the state in `known` of all that files and sources define, or of these only."""
        known = known if names is None else take_part(known, names)
        tools = [each for each in present.values() if isinstance(each, Tool)]
        code = {tool.name: code for tool in tools if (code := self._handler_hash(tool))}
        states = compare_lock(known, present, code, self._content_hash)
        return [
            replace(each, fingerprint=self._make_fingerprint(present[each.name]))
            if each.status in (NEW, CHANGED)
            else each
            for each in states
        ]

    def _check_read(self, names: Mapping[str, str], present: Mapping[str, Definition]) -> None:
        changed = [
            name
            for name, read in names.items()
            if name not in present or self._make_fingerprint(present[name]) != read
        ]
        if changed:
            shown = ", ".join(repr(bare_name(each)) for each in changed[:3])
            more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
            raise ApprovalConflictError(
                f"{shown}{more} changed after it was read, and nothing was approved; read it again"
            )

    def _make_fingerprint(self, definition: Definition) -> str:
        """Return what stands for all that an approval of a definition would hold."""
        line = msgspec.json.encode(self._lock_one(definition))
        return hashlib.sha256(kind_of(definition).encode() + line).hexdigest()

    def refuse_servers(self, servers: Iterable[ServerDefinition]) -> dict[str, str]:
        """Return why each of some servers may not be started, by name."""
        if not self.is_enforced:
            return {}
        said = {
            each.name: self._lock.refuse_server(each, self._content_hash(each)) for each in servers
        }
        return {name: message for name, message in said.items() if message is not None}

    def _lock_one(self, definition: Definition) -> LockedTool | LockedGroup:
        content = self._content_hash(definition)
        if isinstance(definition, Tool):
            return LockedTool.of(definition, content, self._handler_hash(definition))
        if isinstance(definition, ToolGroup):
            return LockedGroup.of(definition, content)
        return LockedTool.of_server(definition, content)

    def _handler_hash(self, tool: Tool) -> str | None:
        code = self._code_hash(tool)
        return code if code is not None and is_hash(code) else None

    def _content_hash(self, definition: Definition) -> str:
        key = kind_of(definition), definition.name
        known = self._hashes.get(key)
        if known is None or known[0] is not definition:
            known = self._hashes[key] = (definition, content_hash(definition))
        return known[1]
