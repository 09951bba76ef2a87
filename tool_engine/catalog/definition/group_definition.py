"""Which group does a definition describe, and what is wrong with it?"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from tool_engine.catalog.definition.fault import Fault
from tool_engine.catalog.definition.permission import build_permission
from tool_engine.catalog.definition.plain_data import plain_data
from tool_engine.catalog.definition.structure import structure_faults
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.yaml.document import Path
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.model.group import Skill, ToolGroup

GROUP: Final = "group"

_MOST_COMPARED: Final = 200
"""Names compared to find the nearest; thousands would take seconds."""
_SELECTORS: Final = ("tools", "tags", "categories")
_LISTS: Final = (*_SELECTORS, "off")
_CONTENT: Final = (*_SELECTORS, "rules", "skills")
# A reference to a variable looks alike, but is no mark of the template.
_MARK: Final = re.compile(r"(?<!\$VAR_REF)\{\{(?P<inner>[^{}]*)\}\}")
_LEADING: Final = re.compile(r"\s*\{\{if +(?P<name>[^\s{}]+) *\}\} ?")


def is_group(definition: Any) -> bool:
    """Return True for a group's definition, right or wrong."""
    return isinstance(definition, Mapping) and definition.get("kind") == GROUP


def group_faults(definition: Mapping[str, Any]) -> list[Fault]:
    """Return every fault; `build_group` takes only definitions without one."""
    faults: list[Fault] = []
    plain_data(definition, (), faults)
    if faults:
        return faults
    faults = structure_faults(definition)
    for key in _LISTS:
        faults += islice(_find_repeated(key, definition.get(key)), MAX_PROBLEMS)
    faults += islice(_off_faults(definition), MAX_PROBLEMS)
    faults += islice(_skill_faults(definition.get("skills")), MAX_PROBLEMS)
    if not faults and not any(key in definition for key in _CONTENT):
        cure = "add tools, tags, categories, rules or skills"
        faults.append(Fault((), "the group holds nothing", cure=cure))
    return faults


def group_findings(definition: Mapping[str, Any]) -> list[Fault]:
    """Return what is allowed, but can hardly be meant."""
    found = dict.fromkeys(_mark_warnings(definition.get("rules", "")))
    return list(islice(found, MAX_PROBLEMS))


def build_group(
    definition: Mapping[str, Any], source: str | None, findings: Sequence[str] = ()
) -> ToolGroup:
    permission = definition.get("permission")
    group = ToolGroup(
        name=definition["name"],
        description=definition.get("description", ""),
        tools=definition.get("tools", ()),
        tags=definition.get("tags", ()),
        categories=definition.get("categories", ()),
        rules=definition.get("rules", ""),
        skills=tuple(
            _make_skill(name, spec) for name, spec in _named_skills(definition.get("skills", ()))
        ),
        permission=None if permission is None else build_permission(permission),
        is_enabled=definition.get("enabled", False),
        disabled_tools=definition.get("off", ()),
        version=definition.get("version", "1.0.0"),
    )
    # As with tools, the hash covers what the group is, not how its text is laid out.
    content = msgspec.json.encode(group, order="deterministic")
    return msgspec.structs.replace(
        group,
        definition_hash=hashlib.sha256(content).hexdigest(),
        source=source,
        findings=tuple(findings),
    )


def _named_skills(skills: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(skills, Mapping):
        yield from skills.items()
    else:
        for skill in skills:
            yield skill["name"], skill


def _make_skill(name: str, spec: Mapping[str, Any]) -> Skill:
    return Skill(
        name=name,
        desc=spec["desc"],
        prompt=spec["prompt"],
        when=spec.get("when", ""),
        always_load=spec.get("always_load", spec.get("alwaysLoad", False)),
    )


def _find_repeated(key: str, names: Any) -> Iterator[Fault]:
    seen: set[str] = set()
    for number, name in enumerate(names if isinstance(names, list) else ()):
        if isinstance(name, str) and name in seen:
            yield Fault((key, number), f"{name[:80]!r} is listed twice", cure="remove one")
        elif isinstance(name, str):
            seen.add(name)


def _off_faults(definition: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield tools in `off` that no other key puts into the group."""
    off, named = definition.get("off"), definition.get("tools")
    if not isinstance(off, list) or "tags" in definition or "categories" in definition:
        return
    listed = named if isinstance(named, list) else []
    tools = dict.fromkeys(each for each in listed if isinstance(each, str))
    for number, name in enumerate(off):
        if isinstance(name, str) and name not in tools:
            near = find_nearest(name, islice(tools, _MOST_COMPARED))
            message = f"the tool {name[:80]!r} is off and does not belong to the group"
            cure = "" if near else "add it to tools, or remove it here"
            yield Fault(("off", number), message, nearest=near, cure=cure)


def _skill_faults(skills: Any) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for place, skill in _placed_skills(skills):
        if not isinstance(skill, dict):
            continue
        if "always_load" in skill and "alwaysLoad" in skill:
            message = "always_load and alwaysLoad say the same"
            yield Fault((*place, "alwaysLoad"), message, at_key=True, cure="give one")
        name, number = skill.get("name"), place[-1]
        if isinstance(name, str) and isinstance(number, int):
            first = seen.setdefault(name, number)
            if first != number:
                message = f"the skill {name[:80]!r} is already skills[{first}]"
                yield Fault((*place, "name"), message, cure="rename or remove one")


def _placed_skills(skills: Any) -> Iterator[tuple[Path, Any]]:
    if isinstance(skills, dict):
        yield from ((("skills", name), skill) for name, skill in skills.items())
    elif isinstance(skills, list):
        yield from ((("skills", number), skill) for number, skill in enumerate(skills))


def split_conditions(line: str) -> tuple[list[str], str]:
    """Split a line of rules into its leading `{{if NAME}}` and text."""
    names: list[str] = []
    while found := _LEADING.match(line):
        names.append(found["name"])
        line = line[found.end() :]
    return names, line


def _mark_warnings(rules: str) -> Iterator[Fault]:
    """Yield marks in the rules that would stay in the text."""
    for line in rules.splitlines():
        _, rest = split_conditions(line)
        for mark in _MARK.finditer(rest):
            inner = mark["inner"]
            shown = f"{{{{{inner[:40]}}}}}"
            if inner == "tools":
                continue
            if _LEADING.fullmatch(mark[0]):
                message = f"{shown} does not stand where its line begins"
                cure = "put it first, or break the line before it"
            else:
                message = f"{shown} stands for nothing and reaches the model as it is"
                cure = "the marks are {{tools}} and, where a line begins, {{if NAME}}"
            yield Fault(("rules",), message, cure=cure)
