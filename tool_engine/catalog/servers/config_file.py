"""Which servers does a `.mcp.json` name, as Claude, Cursor, VS Code and others write it?

One entry that is wrong never stops the others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tool_engine.catalog.definition.fault import Fault, describe_value, locate_faults
from tool_engine.catalog.definition.server_definition import build_server
from tool_engine.catalog.kinds import ServerDefinition
from tool_engine.catalog.servers.config_entry import read_entry
from tool_engine.catalog.servers.json_text import JSONDocument, read_json
from tool_engine.catalog.yaml.document import Path
from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.named_file import read_named, why_unread

LISTS: Final = ("mcpServers", "servers")
"""The keys under which programs list their servers."""
_FOLDERS: Final = (".vscode", ".cursor", ".claude", ".gemini", ".roo", ".kiro")
"""Folders inside a project that hold the settings of one program."""


class Servers(NamedTuple):
    """What was found: the servers in their order, and what is wrong with the others."""

    servers: list[ServerDefinition]
    errors: list[tuple[str, str]]
    """The `(file, message)` of each entry that cannot be used."""
    broken: list[str]
    """The names of these entries."""
    is_read: bool = True
    """False: nothing of the file can be used."""


def read_config_file(path: str) -> Servers:
    """Read a file of servers; what cannot be used stands in the errors. Blocks."""
    try:
        data = read_named(path)
    except OSError as error:
        message = f"{path}: the file of servers cannot be read: {why_unread(error)}"
        return Servers([], [(path, message)], [], is_read=False)
    try:
        document = read_json(data, path)
    except DefinitionError as error:
        return Servers([], [(path, str(error))], [], is_read=False)
    return _read_lists(document, path, project_of(path))


def read_entries(entries: Mapping[str, Any], place: str) -> Servers:
    """Read entries that a program gives, as they stand under `mcpServers`."""
    document = JSONDocument({LISTS[0]: dict(entries)}, "", {})
    return _read_list(document, LISTS[0], place, os.getcwd(), set())  # noqa: PTH109 - a text


def project_of(path: str) -> str:
    """Return the folder of the project that a file belongs to."""
    folder, _ = os.path.split(os.path.abspath(path))  # noqa: PTH100 - follows no link
    above, name = os.path.split(folder)
    return above if name in _FOLDERS else folder


def _read_lists(document: JSONDocument, path: str, folder: str) -> Servers:
    value = document.value
    named = [key for key in LISTS if isinstance(value, dict) and key in value]
    if not named:
        fault = _no_servers(value)
        return Servers([], _locate_errors([fault], path, document), [], is_read=False)
    found = Servers([], [], [])
    seen: set[str] = set()
    for key in named:
        of_list = _read_list(document, key, path, folder, seen)
        found.servers.extend(of_list.servers)
        found.errors.extend(of_list.errors)
        found.broken.extend(of_list.broken)
        found = found._replace(is_read=found.is_read and of_list.is_read)
    return found


def _no_servers(value: Any) -> Fault:
    cure = "list the servers under mcpServers"
    if not isinstance(value, dict):
        return Fault((), expected="a mapping", got=describe_value(value), cure=cure)
    for key in value:
        if near := find_nearest(key, LISTS):
            return Fault((key,), f"unknown key {key[:80]!r}", at_key=True, nearest=near)
    return Fault((), "there are no servers here", cure=cure)


def _read_list(
    document: JSONDocument, key: str, source: str, folder: str, seen: set[str]
) -> Servers:
    listed = document.value[key]
    if not isinstance(listed, dict):
        cure = 'write {"NAME": {...}}'
        fault = Fault(
            (key,), expected="servers by their names", got=describe_value(listed), cure=cure
        )
        return Servers([], _locate_errors([fault], source, document), [], is_read=False)
    found = Servers([], [], [])
    for name, entry in listed.items():
        definition, faults, findings = read_entry(name, entry, folder)
        if name in seen:
            cure = "remove one, or rename it"
            message = f"there is a server {name[:80]!r} under mcpServers as well"
            faults = [Fault((), message, at_key=True, cure=cure), *faults]
        seen.add(name)
        placed = [_place_fault(fault, (key, name)) for fault in faults]
        if placed:
            found.errors.extend(_locate_errors(placed, source, document))
            found.broken.append(name)
            continue
        warnings = [_place_fault(each, (key, name)) for each in findings]
        said = [str(each) for each in _locate_faults(warnings, source, document)]
        found.servers.append(build_server(definition, source, said, folder))
    return found


def _place_fault(fault: Fault, place: Path) -> Fault:
    at_key = fault.at_key or not fault.path
    return fault._replace(path=(*place, *fault.path), at_key=at_key)


def _locate_errors(
    faults: list[Fault], source: str, document: JSONDocument
) -> list[tuple[str, str]]:
    return [(source, str(DefinitionError(*_locate_faults(faults, source, document))))]


def _locate_faults(
    faults: list[Fault], source: str, document: JSONDocument
) -> list[DefinitionProblem]:
    problems = locate_faults(faults, source, document)  # type: ignore[arg-type] # it has the same methods
    if document.has_text:
        return problems
    return [problem._replace(line=None, column=None) for problem in problems]
