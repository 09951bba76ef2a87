"""Which text and name does a new tool file get?"""

from __future__ import annotations

import re
from importlib import resources
from typing import Final

import msgspec

KINDS: Final = {
    "http": "an HTTP request, declared in the file; no code",
    "python": "a Python function of yours",
    "calculator": "the built-in calculator",
    "echo": "returns its arguments, for tests",
    "http_request": "an HTTP request that the model itself composes",
    "search_tools": "the built-in search, with which a model finds tools",
    "read_result": "reads on where a result was shortened",
    "run_command": "runs a program, without a shell",
    "run_shell_command": "runs scripts of a model, approved and in a sandbox",
    "read_file": "reads text files below one folder",
    "write_file": "writes whole text files below one folder",
    "edit_file": "changes a part of a text file below one folder",
    "read_folder": "lists a folder",
    "search_files": "finds text in the files below one folder",
    "sql_query": "one SQL statement, in a database of the engine's sources",
    "run_workflow": "runs steps that call other tools",
    "mcp_tool": "a tool of an MCP server, under words and limits of yours",
}
"""Every kind of tool that `tool-engine new` can begin, and what runs it."""

SCHEMA_FILE: Final = ".tool.schema.json"
"""The schema beside the tool files; hidden, so that no loader reads it."""

_TEMPLATES: Final = resources.files("tool_engine.catalog").joinpath("templates")
_PLACE_OF_NAME: Final = "__NAME__"
_PLACE_OF_MODULE: Final = "__MODULE__"
_GOOD_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_LONGEST_NAME: Final = 64
"""The longest name that every provider takes."""


class Starter(msgspec.Struct, frozen=True):
    definition: str
    """The text of `NAME.yaml`."""
    handler: str | None = None
    """The text of `NAME.py`, for a tool that needs code."""
    arguments: tuple[str, ...] = ()
    """Words of a call that works, such as `message=hello`."""
    called: tuple[str, ...] = ()
    """The kinds of the tools that it calls, each of which has the name of its kind."""


_ARGUMENTS: Final = {
    "http": ("item_id=a-17",),
    "python": ("text='To be or not to be'", "words=2"),
    "calculator": ("expression='6 * 7'",),
    "echo": ("message=hello",),
    "http_request": ("url=https://example.com/",),
    "search_tools": ("query='calculate something'",),
    "read_result": ("call_id=call-9f3c51e2-4be07d1a6c35f0a2d419",),
    "run_command": ("path=/",),
    "run_shell_command": ("script='echo hello'",),
    "read_file": ("path=notes.txt",),
    "write_file": ("path=notes.txt", "content=hello"),
    "edit_file": ("path=notes.txt", "old_text=hello", "new_text=goodbye"),
    "read_folder": ("path=.",),
    "search_files": ("pattern=hello",),
    "sql_query": ("country=NL",),
    "mcp_tool": ("query=cheese",),
    "run_workflow": ('expressions=\'["1 + 1", "2 * 3"]\'',),
}


_CALLED: Final = {"run_workflow": ("calculator", "echo")}


def make_starter(kind: str, name: str, module: str = "") -> Starter:
    """Return the files of a new tool of a kind in `KINDS`.

    `name` is a good name, see `better_name`; `module` is its import name, `tools.NAME` if empty.
    """
    definition = _read_template(f"{kind}.yaml", name)
    definition = definition.replace(_PLACE_OF_MODULE, module or f"tools.{name}")
    handler = _read_template("python_handler.txt", name) if kind == "python" else None
    return Starter(definition, handler, _ARGUMENTS[kind], _CALLED.get(kind, ()))


def better_name(name: str) -> str | None:
    """Return the good name nearest to `name`; None when `name` is good.

    A good name is in snake_case, and every provider takes it. Empty when nothing in `name` could be
    kept.

    Example:
        >>> better_name("Get Weather-2")
        'get_weather_2'
        >>> better_name("get_weather") is None
        True
    """
    if _GOOD_NAME.fullmatch(name) and len(name) <= _LONGEST_NAME:
        return None
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).lower()
    return words.strip("_").lstrip("0123456789_")[:_LONGEST_NAME].rstrip("_")


def schema_text() -> str:
    package = resources.files("tool_engine.catalog")
    return package.joinpath("definition.schema.json").read_text("utf-8")


def _read_template(file: str, name: str) -> str:
    return _TEMPLATES.joinpath(file).read_text("utf-8").replace(_PLACE_OF_NAME, name)
