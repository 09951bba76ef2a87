"""Which servers does a `.mcp.json` name, as Claude, Cursor, VS Code and others write it?

Each entry becomes a definition of `kind: mcp_server`, so that one set of rules says what is right.
What only the other program does is left out, and a finding says what becomes of it. One entry that
is wrong never stops the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from tool_engine.catalog.definition.fault import Fault, locate_faults
from tool_engine.catalog.definition.mending import list_mistakes
from tool_engine.catalog.definition.plain_data import plain_definition
from tool_engine.catalog.definition.server_definition import (
    SERVER,
    build_server,
    mark_parts,
    server_faults,
    server_warnings,
    spell_variables,
)
from tool_engine.catalog.definition.structure import definition_schema
from tool_engine.catalog.kinds import ServerDefinition
from tool_engine.catalog.servers.json_text import JSONDocument, read_json
from tool_engine.catalog.servers.toml_text import TOMLDocument
from tool_engine.catalog.yaml.document import Path
from tool_engine.errors import DefinitionError, DefinitionProblem
from tool_engine.model.checks.nearness import find_nearest
from tool_engine.named_file import read_named, why_unread
from tool_engine.redaction import describe_value

LISTS: Final = ("mcpServers", "servers")
"""The keys under which programs list their servers."""
_FOLDERS: Final = (".vscode", ".cursor", ".claude", ".gemini", ".roo", ".kiro")
"""Folders inside a project that hold the settings of one program."""
OWN: Final = "tool-engine"
"""The key of an entry under which our own keys stand."""
_KINDS: Final = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}
_SAME: Final = ("command", "args", "env", "cwd", "url", "headers")
_RENAMED: Final = {"serverUrl": "url", "httpUrl": "url", "transport": "type", "type": "type"}
_ENABLED: Final = ("disabled", "enabled")
_CONSENT: Final = ("consent is decided here", "set permission under tool-engine")
_CHOICE: Final = ("all tools are taken", "set expose under tool-engine")
_SIGNING_IN: Final = ("nothing signs in here", "put a token into headers")
_PASSED_OVER: Final = {
    **dict.fromkeys(("autoApprove", "alwaysAllow", "trust"), _CONSENT),
    **dict.fromkeys(("disabledTools", "enabledTools", "includeTools", "excludeTools"), _CHOICE),
    "tools": _CHOICE,
    "timeout": ("programs count it in different units", "set it under tool-engine, in seconds"),
    "envFile": ("the file is not opened", "put its variables into env"),
    **dict.fromkeys(("auth", "oauth", "authProviderType", "authorization"), _SIGNING_IN),
    **dict.fromkeys(("sandbox", "sandboxEnabled"), ("the program runs outside of it", "remove it")),
}
"""What only other programs do: what becomes of it here, and the cure."""
_TEXTS: Final = ("name", "title", "label", "description", "note", "notes", "comment")
_HARMLESS: Final = (*_TEXTS, "$schema", "id", "version", "icon", "gallery", "metadata", "dev")
_CLIENT_KEYS: Final = (*_SAME, *_RENAMED, *_ENABLED, OWN)
_OTHER_NAMES: Final = {
    **dict.fromkeys(("cmd", "exec", "program", "executable"), "command"),
    **dict.fromkeys(("arguments", "argv", "params"), "args"),
    **dict.fromkeys(("environment", "environ"), "env"),
    **dict.fromkeys(("uri", "endpoint", "address"), "url"),
    **dict.fromkeys(("workdir", "workingDirectory", "working_directory", "directory"), "cwd"),
}
"""What no program reads -> what is meant by it."""
_OF_ENTRY: Final = ("name", "enabled", "cwd")
"""Keys of a definition that stand in an entry under their own names."""


Text = JSONDocument | TOMLDocument


class Servers(NamedTuple):
    """What was found: the servers in their order, and what is wrong with the others."""

    servers: list[ServerDefinition]
    problems: list[DefinitionProblem]
    """What is wrong with the entries that cannot be used."""
    broken: list[str]
    """The names of these entries."""
    is_read: bool = True
    """False: nothing of the file can be used."""

    @property
    def errors(self) -> list[tuple[str, str]]:
        """The `(file, message)` of each problem."""
        return [(each.file, str(each)) for each in self.problems]


def read_config_file(path: str) -> Servers:
    """Read a file of servers; what cannot be used stands in the errors. Blocks."""
    try:
        data = read_named(path)
    except OSError as error:
        message = f"the file of servers cannot be read: {why_unread(error)}"
        return Servers([], [DefinitionProblem(message, path)], [], is_read=False)
    try:
        document = read_json(data, path)
    except DefinitionError as error:
        return Servers([], list(error.problems), [], is_read=False)
    return _read_lists(document, path, project_of(path))


def read_entries(entries: Mapping[str, Any], place: str) -> Servers:
    """Read entries that a program gives, as they stand under `mcpServers`."""
    return read_table(JSONDocument({place: dict(entries)}, "", {}), place, place)


def read_table(document: Text, key: str, source: str) -> Servers:
    """Read the entries that stand under a key of a text; paths count from the current folder."""
    return _read_list(document, key, source, os.getcwd(), set())  # noqa: PTH109 - a text


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
        return Servers([], _locate_faults([fault], path, document), [], is_read=False)
    found = Servers([], [], [])
    seen: set[str] = set()
    for key in named:
        of_list = _read_list(document, key, path, folder, seen)
        found.servers.extend(of_list.servers)
        found.problems.extend(of_list.problems)
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


def _read_list(document: Text, key: str, source: str, folder: str, seen: set[str]) -> Servers:
    listed = document.value[key]
    if not isinstance(listed, dict):
        cure = 'write {"NAME": {...}}'
        fault = Fault(
            (key,), expected="servers by their names", got=describe_value(listed), cure=cure
        )
        return Servers([], _locate_faults([fault], source, document), [], is_read=False)
    found = Servers([], [], [])
    for name, entry in listed.items():
        read = read_entry(name, entry, folder)
        faults = read.faults
        if name in seen:
            cure = "remove one, or rename it"
            message = f"there is a server {name[:80]!r} under mcpServers as well"
            faults = [Fault((), message, at_key=True, cure=cure), *faults]
        seen.add(name)
        placed = [_place_in_file(fault, (key, name)) for fault in faults]
        if placed:
            found.problems.extend(_locate_faults(placed, source, document))
            found.broken.append(name)
            continue
        warnings = [_place_in_file(each, (key, name)) for each in read.findings]
        said = [str(each) for each in _locate_faults(warnings, source, document)]
        server = build_server(read.definition, source, said, folder)
        if document.has_text:
            server = mark_parts(server, document, partial(read.find_place, above=(key, name)))
        found.servers.append(server)
    return found


def _place_in_file(fault: Fault, place: Path) -> Fault:
    at_key = fault.at_key or not fault.path
    return fault._replace(path=(*place, *fault.path), at_key=at_key)


def _locate_faults(faults: list[Fault], source: str, document: Text) -> list[DefinitionProblem]:
    if document.has_text:
        return locate_faults(faults, source, document)
    # The place is the setting, under which the path begins.
    return locate_faults([each._replace(path=each.path[1:]) for each in faults], source, None)


class Entry(NamedTuple):
    """An entry as a definition, with what is wrong in the places of the entry itself."""

    definition: dict[str, Any]
    faults: list[Fault]
    findings: list[Fault]
    places: Mapping[str, Path] = {}
    """The keys of the entry that are called otherwise in the definition."""

    def find_place(self, path: Path, above: Path = ()) -> Path:
        """Return where a part of the definition stands in the entry, which stands at `above`."""
        first = path[0] if path else None
        if first in self.places:
            return (*above, *self.places[str(first)], *path[1:])
        return (*above, *path) if first is None or first in _OF_ENTRY else (*above, OWN, *path)


def read_entry(name: str, entry: Any, folder: str) -> Entry:
    """Read one entry.

    Args:
        name: The name of the server.
        entry: What stands under the name.
        folder: The folder of the project, which paths count from.
    """
    if not isinstance(entry, Mapping):
        cure = "write a mapping with command or url"
        return Entry(
            {}, [Fault((), expected="a mapping", got=describe_value(entry), cure=cure)], []
        )
    strange: list[Fault] = []
    entry = plain_definition(entry, strange)
    if strange:
        return Entry({}, strange, [])
    places: dict[str, Path] = {}
    definition: dict[str, Any] = {"kind": SERVER, "name": name}
    faults = [*_take_keys(entry, definition, places), *_take_own(entry, definition)]
    _fill_places(definition, folder)
    read = Entry(definition, faults, [*_list_findings(entry)], places)
    # A key that is wrong may be the one that is missing.
    mistakes = list_mistakes(definition, server_faults(definition), server_faults)
    found = [each for each in mistakes if isinstance(each, Fault) and (each.path or not faults)]
    faults += [each._replace(path=read.find_place(each.path)) for each in found]
    if not faults:
        unmeant = server_warnings(definition)
        read.findings.extend(each._replace(path=read.find_place(each.path)) for each in unmeant)
    return read._replace(faults=faults)


def _take_keys(
    entry: Mapping[Any, Any], definition: dict[str, Any], places: dict[str, Path]
) -> Iterator[Fault]:
    """Take over what other programs write; yield what cannot be meant."""
    for key, value in entry.items():
        own = key if key in _SAME else _RENAMED.get(key)
        if own in definition:
            first = places[own][0]
            yield Fault((key,), f"{first} and {key} say the same", at_key=True, cure="give one")
        elif own == "type":
            places[own] = (key,)
            if value not in _KINDS if isinstance(value, str) else True:
                near = find_nearest(value, _KINDS)
                expected = "one of stdio, http, sse"
                yield Fault((key,), expected=expected, got=describe_value(value), nearest=near)
            else:
                definition[own] = _KINDS[value]
        elif own is not None:
            places[own], definition[own] = (key,), value
        elif key in _ENABLED:
            yield from _take_enabled(key, value, definition)
        elif _is_own_key(key, value):
            cure = f"put it under {OWN}"
            yield Fault((key,), f"{key} is a key of ours", at_key=True, cure=cure)
        elif near := _meant_key(key):
            yield Fault((key,), f"unknown key {key[:80]!r}", at_key=True, nearest=near)


def _take_enabled(key: str, value: Any, definition: dict[str, Any]) -> Iterator[Fault]:
    if not isinstance(value, bool):
        yield Fault((key,), expected="true or false", got=describe_value(value))
        return
    is_enabled = value is (key == "enabled")
    if definition.get("enabled", is_enabled) is not is_enabled:
        yield Fault((key,), "disabled and enabled differ", at_key=True, cure="give one")
    definition["enabled"] = is_enabled


def _meant_key(key: str) -> str:
    is_known = key in _CLIENT_KEYS or key in _PASSED_OVER or key in _HARMLESS
    return "" if is_known else _OTHER_NAMES.get(key) or find_nearest(key, _CLIENT_KEYS)


def _is_own_key(key: str, value: Any) -> bool:
    if key == "tools":
        rules = value.values() if isinstance(value, Mapping) else ()
        ours = definition_schema()["$defs"]["mcp_tool"]["properties"]
        return any(isinstance(each, Mapping) and each.keys() & ours.keys() for each in rules)
    return key in _own_keys() and key not in _PASSED_OVER


def _own_keys() -> list[str]:
    known = definition_schema()["$defs"]["mcp_server"]["properties"]
    others = ("kind", "name", "description", "enabled", "type", *_SAME)
    return [key for key in known if key not in others]


def _take_own(entry: Mapping[Any, Any], definition: dict[str, Any]) -> Iterator[Fault]:
    own = entry.get(OWN, {})
    if not isinstance(own, Mapping):
        yield Fault((OWN,), expected="a mapping", got=describe_value(own))
        return
    known = _own_keys()
    for key, value in own.items():
        if key in known:
            definition[key] = value
        else:
            near = find_nearest(key, known)
            cure = "" if near else f"the keys here are {', '.join(known)}"
            message = f"unknown key {key[:80]!r}"
            yield Fault((OWN, key), message, at_key=True, nearest=near, cure=cure)


def _fill_places(definition: dict[str, Any], folder: str) -> None:
    """Write variables as we do, and let a program run where the settings are."""
    for key in _SAME:
        value = definition.get(key)
        if isinstance(value, str):
            definition[key] = spell_variables(value, folder)
        elif isinstance(value, list):
            definition[key] = [_spell_value(each, folder) for each in value]
        elif isinstance(value, Mapping):
            definition[key] = {name: _spell_value(each, folder) for name, each in value.items()}
    if "command" in definition:
        cwd = definition.get("cwd", "")
        if isinstance(cwd, str) and not cwd.startswith("${"):
            definition["cwd"] = f"{folder}/{cwd}".rstrip("/") if not cwd.startswith("/") else cwd


def _spell_value(value: Any, folder: str) -> Any:
    return spell_variables(value, folder) if isinstance(value, str) else value


def _list_findings(entry: Mapping[Any, Any]) -> Iterator[Fault]:
    for key in entry:
        if key in _CLIENT_KEYS or key in _HARMLESS:
            continue
        what, cure = _PASSED_OVER.get(key, ("its meaning is unknown", "remove it"))
        yield Fault((key,), f"{key[:80]!r} is passed over: {what}", at_key=True, cure=cure)
    url, has_type = entry.get("url"), {"type", "transport"} & entry.keys()
    if isinstance(url, str) and url.rstrip("/").endswith("/sse") and not has_type:
        message = "the url looks like the HTTP of before 2025, and is read as streamable HTTP"
        yield Fault(("url",), message, cure='write "type": "sse" if it is that')
