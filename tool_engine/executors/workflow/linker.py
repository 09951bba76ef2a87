"""How is each workflow checked against the tools that exist now?

The files of a folder are read in any order, and any of them may change. So the workflows of a
snapshot are checked when the snapshot is whole; one that does not fit stays, with the reasons in
its findings: a bad neighbour never takes a good file down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from tool_engine.errors import DefinitionProblem
from tool_engine.executors.workflow.broken_links import find_unlinked, with_links
from tool_engine.logger import get_logger
from tool_engine.model.call import ValidationResult
from tool_engine.model.tool import Tool

if TYPE_CHECKING:
    from tool_engine.executors.workflow.link_check import Link, WorkflowLinks

_log = get_logger(__name__)


class Snapshot(Protocol):
    """An immutable set of tools."""

    def __iter__(self) -> Iterator[Tool]: ...

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name."""

    def find(self, name: str) -> Tool | None:
        """Return the tool of this name or alias."""

    def nearest(self, name: str) -> list[str]:
        """Return the most similar names."""

    def new_since(self, before: Self) -> list[Tool]:
        """Return the tools that another snapshot does not hold."""

    def with_changes(self, changes: Mapping[str, Tool | None]) -> Self:
        """Return a snapshot with other tools."""


SnapshotT = TypeVar("SnapshotT", bound=Snapshot)


class WorkflowLinker:
    def __init__(
        self,
        is_workflow: Callable[[Tool], bool],
        validate: Callable[[Tool, dict[str, Any]], ValidationResult],
    ) -> None:
        self._is_workflow = is_workflow
        self._validate = validate
        self._links: WorkflowLinks | None = None
        self._last: Any = None
        self._names: set[str] = set()
        self._others: dict[str, Tool] = {}
        """What `prepare` found to be no workflow, for the next `link`."""

    def link(self, index: SnapshotT, before: SnapshotT) -> SnapshotT:
        """Return the snapshot with findings; workflows unchanged since `before` stay the same."""
        others, self._others = self._others, {}
        for new in index if self._last is None else index.new_since(self._last):
            is_one = others.get(new.name) is not new and self._is_workflow(new)
            (self._names.add if is_one else self._names.discard)(new.name)
        self._last = index
        there = [tool for name in sorted(self._names) if (tool := index.get(name)) is not None]
        self._names = {tool.name for tool in there}
        changes: dict[str, Tool | None] = {}
        for tool in there:
            linked = self._link_tool(find_unlinked(tool), index, before.get(tool.name))
            if linked is not tool:
                changes[tool.name] = linked
        return index.with_changes(changes) if changes else index

    def prepare(self, tools: Iterable[Tool], index: Snapshot) -> None:
        """Check the workflows among `tools`, in a thread: the first check takes longest."""
        others = {}
        for tool in tools:
            if self._is_workflow(tool):
                self.problems(find_unlinked(tool), index)
            else:
                others[tool.name] = tool
        self._others = others

    def _link_tool(self, tool: Tool, index: Snapshot, present: Tool | None) -> Tool:
        found = self.problems(tool, index)
        if not found:
            return tool
        file = tool.source or f"tool {tool.name!r}"
        findings = [str(DefinitionProblem(link.message, file, path=link.path)) for link in found]
        linked = with_links(tool, findings, [link.to_caller() for link in found if link.is_broken])
        if present is not None and present == linked:
            return present
        _log.warning("workflow_finding", tool=tool.name, findings=findings)
        return linked

    def problems(self, tool: Tool, index: Snapshot) -> list[Link]:
        if self._links is None:
            # Most programs have no workflow.
            links = import_module("tool_engine.executors.workflow.link_check")
            self._links = links.WorkflowLinks(self._is_workflow, self._validate)

        def find(name: str) -> Tool | None:
            other = index.find(name)
            return None if other is None else find_unlinked(other)

        return self._links.problems(tool, find, index.nearest)
