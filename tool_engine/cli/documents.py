"""How does a command read JSON, JSON lines or YAML?

Never silently wrong: a duplicate key, NaN, or text after the end is an error with its place.
"""

from __future__ import annotations

import json
import sys
from typing import Any, BinaryIO, TextIO

from tool_engine.cli.failures import CommandError
from tool_engine.errors import DefinitionError
from tool_engine.named_file import read_named, why_unread

_LINES = (".jsonl", ".ndjson")
_YAML = (".yaml", ".yml")


class JSONTextError(CommandError):
    """A text that should be JSON is none; the message has its place."""


def read_bytes(path: str) -> bytes:
    """Read a file, or stdin when `path` is `-`."""
    try:
        return open_stdin().read() if path == "-" else read_named(path)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {why_unread(error)}") from error


def open_stdin() -> BinaryIO:
    # It is None where the process has begun without one.
    stdin: TextIO | None = sys.stdin
    if stdin is None:
        raise CommandError("standard input is closed; name a file in place of -")
    return stdin.buffer


def read_text(path: str) -> str:
    """Read a text file, or stdin when `path` is `-`."""
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError(
            f"cannot read {path}: it is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from error


def read_document(path: str) -> Any:
    """Read one value of JSON or YAML; `-` is stdin."""
    text = read_text(path)
    if _is_yaml(path, text):
        documents = _parse_yaml(text, path)
        if not documents:
            raise CommandError(f"{path}: it is empty; write one JSON or YAML value into it")
        if len(documents) > 1:
            raise CommandError(f"{path}: expected one YAML document, found {len(documents)}")
        return documents[0]
    return parse_json(text, path)


def read_entries(path: str) -> list[tuple[str, Any]]:
    """Read list entries or JSON lines, each with its place."""
    text = read_text(path)
    if _is_yaml(path, text):
        documents = _parse_yaml(text, path)
        value = documents[0] if len(documents) == 1 else documents
    elif path.endswith(_LINES) or not text.lstrip().startswith("[") or _is_lines(text):
        return [
            (f"{path}:{number}", parse_json(line, f"{path}:{number}"))
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip()
        ]
    else:
        value = parse_json(text, path)
    if not isinstance(value, list):
        raise CommandError(f"{path}: expected a list of calls, found {_name_of(value)}")
    return [(f"{path}[{index}]", entry) for index, entry in enumerate(value)]


def parse_json(text: str, source: str) -> Any:
    """Parse one strict JSON value: no duplicate keys, NaN or trailing text."""
    try:
        return json.loads(text, object_pairs_hook=_unique_pairs, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise JSONTextError(f"{source}: not JSON: {error.msg} at {place}") from error
    except RecursionError as error:
        raise JSONTextError(f"{source}: not JSON: nested too deeply") from error
    except ValueError as error:
        raise JSONTextError(f"{source}: not JSON: {error}") from error


def _is_yaml(path: str, text: str) -> bool:
    if path.endswith((".json", *_LINES)):
        return False
    return path.endswith(_YAML) or not text.lstrip().startswith(("{", "["))


def _is_lines(text: str) -> bool:
    # Lines of ["name", {...}] begin like a list; only they have a whole list on each line.
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        return False
    return all(line.strip().startswith("[") and line.strip().endswith("]") for line in lines)


def _parse_yaml(text: str, source: str) -> list[Any]:
    from tool_engine.catalog.strict_yaml import load_all

    try:
        return load_all(text, source)
    except DefinitionError as error:
        raise CommandError(str(error)) from error


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise ValueError(f"the key {key!r} stands twice in one object")
        mapping[key] = value
    return mapping


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _name_of(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
