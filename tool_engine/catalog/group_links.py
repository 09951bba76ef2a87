"""Which tools does a group name that are missing or foreign?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tool_engine.catalog.definition.fault import Fault
from tool_engine.catalog.definition.group_definition import split_conditions
from tool_engine.catalog.index import ToolIndex
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.yaml.document import Path, format_path
from tool_engine.errors import DefinitionProblem
from tool_engine.model.group import ToolGroup


def link_faults(group: ToolGroup, index: ToolIndex) -> list[Fault]:
    """Return the group's names of tools that do not fit a snapshot.

    Another file may make all of it right: none of it keeps the group from loading.
    """
    return list(islice(_find_absent(group, index), MAX_PROBLEMS))


def group_warnings(index: ToolIndex) -> list[str]:
    warnings: list[str] = []
    for group in index.groups.values():
        warnings += group.findings
        place = group.source or f"group {group.name!r}"
        for fault in link_faults(group, index):
            path = format_path(fault.path)
            warnings.append(str(DefinitionProblem(fault.sentence, place, path=path)))
    return warnings


def _find_absent(group: ToolGroup, index: ToolIndex) -> Iterator[Fault]:
    known = set(group.tools)
    for number, name in enumerate(group.tools):
        yield from _find_unknown(name, ("tools", number), index)
    for number, name in enumerate(group.disabled_tools):
        tool = index.get(name)
        if tool is not None and not group.selects(tool):
            message = f"the tool {name[:80]!r} is off and does not belong to the group"
            yield Fault(("off", number), message, cure="select it, or remove it here")
        elif name not in known:
            yield from _find_unknown(name, ("off", number), index)
    needed = (split_conditions(line)[0] for line in group.rules.splitlines())
    for name in dict.fromkeys(name for names in needed for name in names):
        if name not in known:
            yield from _find_unknown(name, ("rules",), index)


def _find_unknown(name: str, path: Path, index: ToolIndex) -> Iterator[Fault]:
    if name not in index:
        near = next(iter(index.nearest(name)), "")
        cure = "" if near else "add a definition of it, or remove the name"
        yield Fault(path, f"there is no tool {name[:80]!r}", nearest=near, cure=cure)
