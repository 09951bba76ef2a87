"""Which server does an entry of another program's settings describe?

The entry becomes a definition of `kind: mcp_server`, so that one set of rules says what is right.
What only the other program does is left out, and a finding says what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tool_engine.catalog.definition.fault import Fault, describe_value
from tool_engine.catalog.definition.plain_data import plain_definition
from tool_engine.catalog.definition.server_definition import SERVER, server_faults, spell_variables
from tool_engine.catalog.definition.structure import definition_schema
from tool_engine.catalog.yaml.document import Path
from tool_engine.model.checks.nearness import find_nearest

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


class Entry(NamedTuple):
    """An entry as a definition, with what is wrong in the places of the entry itself."""

    definition: dict[str, Any]
    faults: list[Fault]
    findings: list[Fault]


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
    if not faults:
        _fill_places(definition, folder)
        faults = [_place_fault(fault, places) for fault in server_faults(definition)]
    return Entry(definition, faults, [*_list_findings(entry)])


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
            if not isinstance(value, bool):
                yield Fault((key,), expected="true or false", got=describe_value(value))
            definition["enabled"] = value is (key == "enabled")
        elif key in _own_keys() and key not in _PASSED_OVER:
            cure = f"put it under {OWN}"
            yield Fault((key,), f"{key} is a key of ours", at_key=True, cure=cure)
        elif near := _meant_key(key):
            yield Fault((key,), f"unknown key {key[:80]!r}", at_key=True, nearest=near)


def _meant_key(key: str) -> str:
    is_known = key in _CLIENT_KEYS or key in _PASSED_OVER or key in _HARMLESS
    return "" if is_known else find_nearest(key, _CLIENT_KEYS)


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


def _place_fault(fault: Fault, places: Mapping[str, Path]) -> Fault:
    """Return a fault of the definition, in the place of the entry."""
    first = fault.path[0] if fault.path else None
    if first in places:
        return fault._replace(path=(*places[str(first)], *fault.path[1:]))
    if first is None or first in ("name", "enabled", "cwd"):
        return fault
    return fault._replace(path=(OWN, *fault.path))


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
