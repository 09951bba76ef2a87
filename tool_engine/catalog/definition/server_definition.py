"""Which server of tools does a definition describe, and what is wrong with it?

`${env:NAME}` and `${env:NAME:-default}` stand for variables of the environment, and, where secrets
go, `${file:/path}` for what a file holds. What other programs write is brought into this form.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path as FilePath
from typing import Any, Final

import msgspec

from tool_engine.catalog.definition.fault import Fault
from tool_engine.catalog.definition.plain_data import plain_data
from tool_engine.catalog.definition.structure import structure_faults
from tool_engine.catalog.kinds import ServerDefinition
from tool_engine.catalog.limits import MAX_PROBLEMS
from tool_engine.catalog.literal_words import find_server_literals
from tool_engine.catalog.yaml.document import Marked, Path

SERVER: Final = "mcp_server"
_OF_PROGRAM: Final = ("args", "env", "cwd")
_OF_ENDPOINT: Final = ("headers", "allow")
_SECRET: Final = ("env", "headers")
_FILLED_IN: Final = ("command", "args", "cwd", "url", *_SECRET)
_NO_CONTENT: Final = ("kind", "name", "version", "description", "enabled")
_SCHEMES: Final = ("http://", "https://")
MARK: Final = re.compile(r"\$\{(?P<inner>[^{}]*)\}")
_NAME: Final = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
VARIABLE: Final = re.compile(rf"env:{_NAME}(?::-(?P<default>.*))?", re.DOTALL)
FILE: Final = re.compile(r"file:/.+")
_BARE: Final = re.compile(rf"{_NAME}(?::-.*)?", re.DOTALL)
_INPUT: Final = "input:"
_OF_FILE: Final = "file:"


def is_server(definition: Any) -> bool:
    """Return True for a server's definition, right or wrong."""
    return isinstance(definition, Mapping) and definition.get("kind") == SERVER


def server_faults(definition: Mapping[str, Any]) -> list[Fault]:
    """Return every fault; `build_server` takes only definitions without one."""
    faults: list[Fault] = []
    plain_data(definition, (), faults)
    if faults:
        return faults
    faults = structure_faults(definition)
    faults += islice(_reach_faults(definition), MAX_PROBLEMS)
    faults += islice(_bucket_faults(definition), MAX_PROBLEMS)
    for key in _FILLED_IN:
        found = _variable_faults(definition.get(key), (key,), may_be_file=key in _SECRET)
        faults += islice(found, MAX_PROBLEMS)
    return faults


def server_warnings(definition: Mapping[str, Any]) -> list[Fault]:
    """Return what a definition without faults says that was hardly meant so."""
    found = islice(find_server_literals(definition), MAX_PROBLEMS)
    return [Fault(place, message, cure=cure) for place, message, cure in found]


def build_server(
    definition: Mapping[str, Any],
    source: str | None,
    findings: Sequence[str] = (),
    folder: str = "",
) -> ServerDefinition:
    """Return the server of a definition without faults."""
    content = {key: value for key, value in definition.items() if key not in _NO_CONTENT}
    server = ServerDefinition(
        name=definition["name"],
        content=content,
        version=definition.get("version", "1.0.0"),
        is_enabled=definition.get("enabled", True),
    )
    said = msgspec.json.encode(server, order="deterministic")
    return msgspec.structs.replace(
        server,
        description=definition.get("description", ""),
        definition_hash=hashlib.sha256(said).hexdigest(),
        source=source,
        findings=tuple(findings),
        folder=folder,
    )


def mark_parts(
    server: ServerDefinition, document: Marked, find_place: Callable[[Path], Path] = tuple
) -> ServerDefinition:
    """Return a server that knows where its parts stand.

    Args:
        server: Read from the document.
        document: The text.
        find_place: Returns the path in the document of a part of the definition.
    """
    parts = [("name",), *(path for path, _ in _walk_parts(server.content, ()))]
    marks = document.marks((find_place(path), False) for path in parts)
    found = {
        path: (mark.line + 1, mark.column + 1) for path, mark in zip(parts, marks, strict=True)
    }
    return msgspec.structs.replace(server, marks={**found, (): found[("name",)]})


def _walk_parts(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    items = enumerate(value) if isinstance(value, list) else _list_items(value)
    for key, each in items:
        yield (*path, key), each
        yield from _walk_parts(each, (*path, key))


def list_texts(server: ServerDefinition) -> Iterator[tuple[Path, str]]:
    """Yield the texts of a server in which variables are filled in, and their paths."""
    for path, value in _walk_parts(server.content, ()):
        if path[0] in _FILLED_IN and isinstance(value, str):
            yield path, value


def _reach_faults(definition: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what keeps from knowing how the server is reached."""
    command, url, kind = (definition.get(key) for key in ("command", "url", "type"))
    if command is None and url is None:
        cure = "add the program as command, or the endpoint as url"
        yield Fault((), "nothing says how the server is reached", cure=cure)
        return
    if command is not None and url is not None:
        cure = "remove one of them"
        yield Fault(("url",), "command and url are two servers", at_key=True, cure=cure)
        return
    is_program = command is not None
    if kind is not None and (kind == "stdio") is not is_program:
        what, cure = ("command", "stdio") if is_program else ("url", "http or sse")
        yield Fault(("type",), f"the type does not go with {what}", cure=f"write {cure}")
    for key in _OF_ENDPOINT if is_program else _OF_PROGRAM:
        if key in definition:
            what = "url" if is_program else "command"
            yield Fault((key,), f"{key} belongs to {what}", at_key=True, cure="remove it")
    if isinstance(url, str) and not url.startswith((*_SCHEMES, "${")):
        cure = "begin it with https://, or http://"
        yield Fault(("url",), "the url is no address of HTTP", cure=cure)


def _bucket_faults(definition: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield where two keys say which limit counts."""
    named = definition.get("tools")
    places: list[tuple[Path, Any]] = [((), definition)]
    places += [(("tools", name), each) for name, each in _list_items(named)]
    for path, each in places:
        concurrency = each.get("concurrency") if isinstance(each, Mapping) else None
        if isinstance(concurrency, Mapping) and "bucket" in concurrency and "bucket" in each:
            message = "bucket and concurrency.bucket say the same"
            yield Fault((*path, "bucket"), message, at_key=True, cure="give one")


def _variable_faults(value: Any, path: Path, *, may_be_file: bool) -> Iterator[Fault]:
    if isinstance(value, str):
        for message, cure in find_strange(value, may_be_file=may_be_file):
            yield Fault(path, message, cure=cure)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _variable_faults(each, (*path, number), may_be_file=may_be_file)
    else:
        for key, each in _list_items(value):
            yield from _variable_faults(each, (*path, key), may_be_file=may_be_file)


def _list_items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, Mapping) else []


def find_strange(text: str, *, may_be_file: bool) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with each `${...}` of a text, and the cure."""
    for found in MARK.finditer(text):
        inner = found["inner"]
        if VARIABLE.fullmatch(inner) or (may_be_file and FILE.fullmatch(inner)):
            continue
        shown = f"${{{inner[:60]}}}"
        if inner.startswith(_INPUT):
            cure = "set a variable, and write ${env:NAME}"
            yield f"{shown} asks a person, and there may be none", cure
        elif FILE.fullmatch(inner):
            yield f"{shown} would show the secret here", "put it into env or headers"
        elif inner.startswith(_OF_FILE) and may_be_file:
            path = os.path.expanduser(inner[len(_OF_FILE) :] or "/NAME")  # noqa: PTH111 - without a home this is no error
            yield f"{shown} is no full path", f"write ${{file:{os.path.abspath(path)}}}"  # noqa: PTH100 - follows no link
        else:
            bare = _BARE.fullmatch(inner)
            meant = f"${{env:{inner}}}" if bare else "${env:NAME}"
            yield f"{shown} stands for nothing", f"write {meant}"


def spell_variables(text: str, folder: str) -> str:
    """Return a text of another program's settings with its `${...}` as we write them.

    Args:
        text: It may hold `${NAME}`, `${NAME:-default}`, `${workspaceFolder}` and the like.
        folder: The folder of the project.
    """
    fixed = _list_places(folder)

    def spell(found: re.Match[str]) -> str:
        inner = found["inner"]
        if inner in fixed:
            return fixed[inner]
        bare = _BARE.fullmatch(inner)
        return f"${{env:{inner}}}" if bare else found[0]

    return MARK.sub(spell, text)


def _list_places(folder: str) -> Mapping[str, str]:
    return {
        "workspaceFolder": folder,
        "workspaceFolderBasename": FilePath(folder).name,
        "userHome": str(FilePath("~").expanduser()),
        "pathSeparator": os.sep,
        "/": os.sep,
    }
