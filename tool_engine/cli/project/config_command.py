"""Which settings hold, and who says each of them?"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import typer

from tool_engine.catalog.servers.config_file import read_config_file
from tool_engine.cli.console import as_text, json_text, make_console, print_json
from tool_engine.cli.failures import EXIT_FAILED, EXIT_OK
from tool_engine.cli.options import (
    JSONOption,
    RecordsOption,
    ToolsOption,
    settings_of,
)
from tool_engine.cli.records.recording import records_place
from tool_engine.cli.settings import Settings
from tool_engine.cli.settings_file import NOWHERE, known_settings
from tool_engine.cli.tables import make_table
from tool_engine.config import ToolEngineConfig
from tool_engine.model.settings.cluster import ClusterURL
from tool_engine.model.settings.databases import DatabaseSource
from tool_engine.model.settings.retention import RecordsURL

_TABLES: Final = ("sources", "concurrency")
_SAID_HERE: Final = "the command line"
_DEFAULT: Final = "default"


class Said(NamedTuple):
    """A setting, its value, and who says it."""

    name: str
    value: Any
    origin: str


def run_command(
    ctx: typer.Context,
    *,
    as_json: JSONOption = False,
    tools: ToolsOption = None,
    records: RecordsOption = None,
) -> int:
    """Show the settings that hold here, and who says each: an option, a variable, a file.

    Example: tool-engine config --json
    """
    settings = settings_of(ctx, tools, records)
    said = list(find_settings(settings, _find_options(ctx, settings)))
    if as_json:
        file = None if settings.file is None else settings.file.file
        print_json({"file": file, "settings": [each._asdict() for each in said]})
        return _report_servers(settings)
    table = make_table(f"settings in {Path.cwd()}", "setting", "value", "said by")
    for each in said:
        # Not `null`: a settings file has no such word.
        value = "not set" if each.value is None else each.value
        value = value if isinstance(value, str) else json_text(value, indent=None)
        table.add_row(as_text(each.name, "bold cyan"), as_text(value), as_text(each.origin))
    make_console().print(table)
    return _report_servers(settings)


def _report_servers(settings: Settings) -> int:
    """Say on stderr what is wrong in the file of servers."""
    if not isinstance(settings.mcp_servers, str):
        return EXIT_OK
    problems = read_config_file(settings.mcp_servers).problems
    for each in problems:
        sys.stderr.write(f"{each}\n")
    return EXIT_FAILED if problems else EXIT_OK


def find_settings(settings: Settings, options: Mapping[str, str]) -> Iterator[Said]:
    """Yield each setting, its value without secrets, and who says it.

    `options` has the settings that the command line or a variable says, and which of them.
    """
    with settings.placed_errors():
        config = ToolEngineConfig(**settings.engine_fields())
    values: dict[str, Any] = {
        **{key: getattr(config, key) for key in known_settings() if hasattr(config, key)},
        "tools": settings.tools,
        "path": settings.project,
        "records": _show_records(settings),
        "lock_file": settings.lock_file,
        "mcp_servers": _show_servers(settings),
    }
    file = settings.file
    for name in known_settings():
        if name in _TABLES:
            yield from _list_entries(settings, name, values[name], options)
        elif name in options:
            yield Said(name, values[name], options[name])
        elif file is not None and name in file.values:
            yield Said(name, values[name], file.place(name))
        else:
            yield Said(name, values[name], _DEFAULT)


def _list_entries(
    settings: Settings, name: str, value: Any, options: Mapping[str, str]
) -> Iterator[Said]:
    """Yield what is said below a table."""
    file, said = settings.file, settings.read_file(name, {})
    here = {each.partition("=")[0] for each in settings.sources} if name == "sources" else set()
    if name == "concurrency" and settings.cluster is not None:
        here, options = {"cluster"}, {name: options["cluster"]}
    for key in dict.fromkeys((*said, *here)):
        shown = value[key] if isinstance(value, Mapping) else getattr(value, key)
        origin = options[name] if key in here or file is None else file.place(name, key)
        yield Said(f"{name}.{key}", _show_value(shown), origin)


def _show_value(value: Any) -> Any:
    """Return a setting as JSON; of one with fields, those that say more than their default."""
    if isinstance(value, DatabaseSource):
        # The `repr` of a URL hides what may be secret.
        return repr(RecordsURL(value.url)).strip("'") + (", readonly" if value.readonly else "")
    if isinstance(value, ClusterURL):
        return repr(value).strip("'")
    if isinstance(value, msgspec.Struct):
        value = dict(_list_said(value))
    if isinstance(value, Mapping):
        return {str(key): _show_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return sorted(value) if isinstance(value, frozenset) else list(map(_show_value, value))
    return value if isinstance(value, str | int | float | None) else repr(value)


def _list_said(value: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """Yield the fields that say more than their default."""
    for field in msgspec.structs.fields(value):
        said = getattr(value, field.name)
        if field.required or (said and said != field.default):
            yield field.name, said


def _find_options(ctx: typer.Context, settings: Settings) -> dict[str, str]:
    """Return what the command line and variables say, and which of both it is."""
    found = {
        name: _SAID_HERE if origin.startswith("--") else f"the variable {origin}"
        for name, origin in settings.origins.items()
    }
    root = ctx.find_root()
    if root.params.get("recursive") or root.params.get("no_recursive"):
        found["recursive"] = _SAID_HERE
    return found


def _show_records(settings: Settings) -> str:
    place = records_place(settings)
    # The `repr` of a database that is named hides what may be secret.
    if place is None:
        return NOWHERE
    return place if settings.records is None else repr(place).strip("'")


def _show_servers(settings: Settings) -> str | list[str] | None:
    servers = settings.mcp_servers
    return [each.name for each in servers] if isinstance(servers, tuple) else servers
