"""Which tools of the folder may be called, and which groups hold?

In this order: what a rollback holds back, what the lock file approves, what the reload policy lets
through. A tool that was registered in code passes: code that runs in the program needs no approval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from tool_engine.catalog.approval.approvals import Approvals
from tool_engine.catalog.approval.quarantine import QuarantinedTool
from tool_engine.catalog.index import ToolIndex
from tool_engine.model.tool import Tool

if TYPE_CHECKING:
    from tool_engine.catalog.change.compatibility import ToolDiff

STRICT: Final = "strict"
_COMPARISON: Final = "tool_engine.catalog.change.compatibility"


class Passed(msgspec.Struct):
    index: ToolIndex
    diffs: dict[str, ToolDiff]
    """The differences of the changed tools from those called until now."""
    quarantined: dict[str, QuarantinedTool]
    errors: list[tuple[str, str]]
    """`(file, message)` of edits that were refused."""


class _Hold(msgspec.Struct, frozen=True):
    """The replacement of a definition by a rollback, until the definition changes."""

    against: str | None
    """The hash of the definition that was rolled back; None: the folder had no such tool."""
    tool: Tool | None
    """The tool called instead; None: none."""


class _Note(msgspec.Struct, frozen=True):
    definition_hash: str
    text: str


class _Compared(NamedTuple):
    old: Tool
    new: Tool
    diff: ToolDiff


class Gate:
    """Decides, for each reload, what calls see from then on.

    The policy, `warn` or `strict`, is for breaking edits without a major version step. Approvals
    that are enforced decide alone.
    """

    def __init__(self, policy: str, approvals: Approvals) -> None:
        self._is_strict = policy == STRICT and not approvals.is_enforced
        self._approvals = approvals
        self._holds: dict[str, _Hold] = {}
        self._notes: dict[str, _Note] = {}
        self._compared: dict[str, _Compared] = {}
        """What was compared ahead for the next `settle`."""

    @property
    def held(self) -> list[str]:
        return sorted(self._holds)

    def hold(self, wanted: ToolIndex, target: ToolIndex) -> None:
        """Let calls see `target`, except for definitions that differ from `wanted` later."""
        self._holds = {}
        for name in {*wanted.list_names(), *target.list_names()}:
            now, then = _of_file(wanted.get(name)), _of_file(target.get(name))
            if _hash_of(now) != _hash_of(then):
                self._holds[name] = _Hold(_hash_of(now), then)

    def release(self) -> None:
        self._holds = {}

    def release_source(self, origin: str) -> None:
        """Drop the holds on tools of a source that was removed."""
        self._holds = {
            name: hold
            for name, hold in self._holds.items()
            if hold.tool is None or hold.tool.origin != origin
        }

    def prepare(self, found: Iterable[Tool], present: ToolIndex) -> None:
        """Compare tools with those of now, in a thread: thousands would hold the loop."""
        pairs = ((present.get(tool.name), tool) for tool in found)
        self._compared |= {
            new.name: _Compared(old, new, compare_versions(old, new))
            for old, new in pairs
            if old is not None and old.definition_hash != new.definition_hash
        }

    def settle(self, wanted: ToolIndex, present: ToolIndex) -> Passed:
        """Return what calls see next.

        `wanted` is what the folder and code hold; `present` is what calls see now.
        """
        passed = Passed(wanted, {}, {}, [])
        chosen = self._held_back(wanted)
        if self._approvals.is_enforced:
            self._quarantine_tools({**{tool.name: tool for tool in wanted}, **chosen}, passed)
            chosen.update(dict.fromkeys(passed.quarantined))
        for tool in wanted.new_since(present):
            before = present.get(tool.name)
            if before is not None and tool.name not in chosen:
                chosen[tool.name] = self._choose_tool(tool, before, passed)
        self._compared = {}
        self._notes = {name: note for name, note in self._notes.items() if name in wanted}
        chosen = {name: tool for name, tool in chosen.items() if tool is not wanted.get(name)}
        if chosen:
            passed.index = wanted.with_changes(chosen)
        groups = self._approvals.groups_of(wanted.groups)
        if groups != wanted.groups:
            passed.index = passed.index.with_groups(groups)
        return passed

    def _held_back(self, wanted: ToolIndex) -> dict[str, Tool | None]:
        """Drop the holds whose definition changed; return the tools of the others."""
        for name in self.held:
            if _hash_of(_of_file(wanted.get(name))) != self._holds[name].against:
                del self._holds[name]
        in_code = wanted.registered
        return {name: hold.tool for name, hold in self._holds.items() if name not in in_code}

    def _quarantine_tools(self, tools: Mapping[str, Tool | None], passed: Passed) -> None:
        for name, tool in tools.items():
            if tool is not None and tool.source is not None:
                refusal = self._approvals.refusal(tool)
                if refusal is not None:
                    passed.quarantined[name] = refusal
        self._approvals.forget_others(tools.keys())

    def _choose_tool(self, tool: Tool, present: Tool, passed: Passed) -> Tool:
        """Return the tool with its notes, or `present` where it is refused."""
        if present.definition_hash == tool.definition_hash:
            noted = self._note_tool(tool)
            return present if present == noted else noted
        known = self._compared.get(tool.name)
        if known is not None and known.old is present and known.new is tool:
            diff = known.diff
        else:
            diff = compare_versions(present, tool)
        if self._is_strict and diff.breaks_unannounced:
            passed.errors.append((str(tool.source), f"{diff.warning}; the tool of before stays"))
            return present
        passed.diffs[tool.name] = diff
        if diff.warning is not None:
            self._notes[tool.name] = _Note(tool.definition_hash, f"{tool.source}: {diff.warning}")
        return self._note_tool(tool)

    def _note_tool(self, tool: Tool) -> Tool:
        note = self._notes.get(tool.name)
        if note is None or note.definition_hash != tool.definition_hash:
            return tool
        return msgspec.structs.replace(tool, findings=[*tool.findings, note.text])


def _of_file(tool: Tool | None) -> Tool | None:
    return None if tool is None or tool.source is None else tool


def _hash_of(tool: Tool | None) -> str | None:
    return None if tool is None else tool.definition_hash


def compare_versions(old: Tool, new: Tool) -> ToolDiff:
    """Compare two tools."""
    # Few programs need it, and none at its start.
    diff: ToolDiff = import_module(_COMPARISON).compare_versions(old, new)
    return diff
