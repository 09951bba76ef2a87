"""What do a project's own settings say, and where does each of them stand?

They are `tool-engine.toml`, or the table `[tool.tool-engine]` of `pyproject.toml`, in the current
folder and no other one: a file above it may be another user's, and servers are programs.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tool_engine.catalog.servers.toml_text import TOMLDocument
from tool_engine.cli.failures import CommandError
from tool_engine.errors import ConfigurationError
from tool_engine.model.checks.nearness import find_near, find_nearest, suggest_near

NOWHERE: Final = "none"
"""In place of a database: there is none."""
OWN_FILE: Final = "tool-engine.toml"
PROJECT_FILE: Final = "pyproject.toml"
_TABLE: Final = "tool-engine"
"""The table of `PROJECT_FILE` below `[tool]`."""
_MISNAMED_FILES: Final = (
    "tool_engine.toml",
    "toolengine.toml",
    f".{OWN_FILE}",
    "tool-engine.yaml",
    "tool-engine.yml",
)
_MEANT: Final = {"buckets": "bucket_limits", "timeout": "default_timeout"}
"""Words of users -> the setting that they mean."""
FOLDERS: Final = {"tools": "tools_directory", "path": ""}
"""The settings that are folders, and the fields of an engine which they are."""
_OF_COMMANDS: Final = frozenset(
    {
        *("tools_directory", "auto_reload", "reload_interval", "watch_for_changes", "preload"),
        *("mcp_autostart", "run_tasks", "durability", "retention"),
    }
)
"""Fields of an engine that each command decides."""
_TABLES: Final = {
    "sources": '{shop = "sqlite:///shop.db"}',
    "concurrency": "{max_concurrent = 20}",
    "mcp_servers": '".mcp.json"',
}
"""Settings with names of their own below them, and an example of each."""
_ELSE: Final = {"mcp_servers": (str,)}
_SERVERS: Final = "mcp_servers"
_MISSPELT: Final = 0.85
"""How like ours the name of a table is that can hardly be another program's."""
_PYTHON_WORD: Final = re.compile(r"\b(?:True|False)\b")
_BAD: Final = "settings_error"
_TOML_PLACE: Final = re.compile(r" \(at line (\d+), column (\d+)\)")
_TOML_CURE: Final = """write values so: tools = "tools", keep_events = 0, in tables [so]"""


class SettingsFile(NamedTuple):
    """The settings of a project."""

    file: str
    values: dict[str, Any]
    """By the key that stands in the file."""
    document: TOMLDocument
    """Where each part of them stands."""

    def engine_fields(self) -> dict[str, Any]:
        """Return the settings that are fields of an engine's configuration."""
        return {key: value for key, value in self.values.items() if key not in FOLDERS}

    def place(self, *path: str) -> str:
        """Return `tool-engine.toml:3`."""
        return f"{self.file}:{self.document.find_key(path)[0]}"

    def point(self, *path: str) -> str:
        """Return `tool-engine.toml:3:1`, where a key stands that is wrong."""
        return _point_at(self.file, self.document, path)


def _point_at(file: str, document: TOMLDocument, path: tuple[str, ...]) -> str:
    line, column = document.find_key(path)
    return f"{file}:{line}:{column}"


def known_settings() -> list[str]:
    """Return the names of all settings that the file may have."""
    from tool_engine.config import ToolEngineConfig

    fields = ToolEngineConfig.__struct_fields__
    return [*FOLDERS, *(each for each in fields if each not in _OF_COMMANDS)]


def read_settings_file(cluster: str | None = None) -> SettingsFile | None:
    """Return the settings of the project in the current folder; None: it has none.

    Args:
        cluster: What an option or a variable says in the place of the URL of their cluster.

    Raises:
        CommandError: A file cannot be read, or is none; there are two; a setting is unknown or
            wrong.
    """
    if os.path.lexists(OWN_FILE) and not Path(OWN_FILE).is_file():
        raise CommandError(
            f"{OWN_FILE} is no file; put the settings there, or move it away", error_type=_BAD
        )
    for file in _MISNAMED_FILES:
        if os.path.lexists(file):
            raise CommandError(
                f"{file} is read by no command; move its settings to {OWN_FILE}", error_type=_BAD
            )
    own, project = _read_table(OWN_FILE, ()), _read_table(PROJECT_FILE, ("tool", _TABLE))
    if own is None or project is None:
        found = own or project
        return None if found is None else _check_settings(found, cluster)
    raise CommandError(
        f"{project.point()}: there are settings in {OWN_FILE} too; keep them in one of the two "
        "files",
        error_type=_BAD,
    )


def tools_of_project() -> str | None:
    """Return the folder of tools that the project names; None: unsaid, or unreadable."""
    try:
        found = read_settings_file()
    except CommandError:
        return None
    return None if found is None else found.values.get("tools")


def _read_table(file: str, keys: tuple[str, ...]) -> SettingsFile | None:
    path = Path(file)
    try:
        # A pipe or a device of that name would never answer.
        if not path.is_file():
            return None
        text = path.read_text("utf-8")
        table: Any = tomllib.loads(text)
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror}", error_type=_BAD) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        if keys and _TABLE not in path.read_text("utf-8", "replace"):
            # Another program's file, and its mistake.
            return None
        cure = "save it as UTF-8" if isinstance(error, UnicodeDecodeError) else _TOML_CURE
        where = _TOML_PLACE.search(str(error))
        place = f"{file}:{where[1]}:{where[2]}" if where else file
        reason = _TOML_PLACE.sub("", str(error))
        raise CommandError(f"{place} is no TOML: {reason}; {cure}", error_type=_BAD) from error
    _check_headings(text, table if keys else {})
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    if table is None:
        return None
    heading = f"[{'.'.join(keys)}]"
    if not isinstance(table, dict):
        place = _point_at(file, TOMLDocument(table, text), keys)
        got = f"got {type(table).__name__}"
        raise CommandError(
            f"{place}: the settings are a table, {got}; write them below {heading}",
            error_type=_BAD,
        )
    return SettingsFile(file, table, TOMLDocument(table, text, keys))


def _check_headings(text: str, project: Mapping[str, Any]) -> None:
    """Refuse a table of the project's file which is ours but for its name."""
    below = project.get("tool")
    below = below if isinstance(below, Mapping) else {}
    # What is only like it may be another program's, where the project has settings of ours.
    like_enough = 1.0 if _TABLE in below or os.path.lexists(OWN_FILE) else _MISSPELT
    for table, names, least in (((), project, 1.0), (("tool",), below, like_enough)):
        others = [name for name in names if name != _TABLE or not table]
        for name in find_near(_TABLE, others, 1, like_enough=least):
            path = (*table, name)
            place = _point_at(PROJECT_FILE, TOMLDocument(project, text), path)
            raise CommandError(
                f"{place}: [{'.'.join(path)}] is read by no command; did you mean [tool.{_TABLE}]?",
                error_type=_BAD,
            )


def _check_settings(found: SettingsFile, cluster: str | None) -> SettingsFile:
    known = known_settings()
    for key, value in found.values.items():
        if key in _OF_COMMANDS:
            said = "is called tools here" if key in FOLDERS.values() else "is for programs"
            cure = "write tools" if key in FOLDERS.values() else "leave it out"
            raise CommandError(
                f"{found.point(key)}: the setting {key!r} {said}; {cure}", error_type=_BAD
            )
        if key in ("tool", _TABLE) and isinstance(value, Mapping):
            raise CommandError(
                f"{found.point(key)}: {OWN_FILE} holds nothing but settings; leave out the heading "
                f"[{key if key == _TABLE else f'tool.{_TABLE}'}]",
                error_type=_BAD,
            )
        if key not in known:
            hint = _suggest_setting(found, key.replace("-", "_"), known)
            cure = hint or f"; there are: {', '.join(known)}"
            raise CommandError(
                f"{found.point(key)}: there is no setting {key!r}{cure}", error_type=_BAD
            )
        is_limits = key == "concurrency" and cluster is not None
        _check_value(found, key, _add_url(value) if is_limits else value)
    return found._replace(values={**found.values, **_read_servers(found)})


def _add_url(limits: Any) -> Any:
    """Return limits whose cluster has a URL: that of an option is not in the file."""
    shared = limits.get("cluster") if isinstance(limits, Mapping) else None
    if not isinstance(shared, Mapping) or "url" in shared:
        return limits
    return {**limits, "cluster": {**shared, "url": "postgresql://host/coordination"}}


def _read_servers(found: SettingsFile) -> dict[str, Any]:
    """Return the setting of servers with what its entries define, where it has entries.

    Raises:
        CommandError: An entry is wrong.
    """
    if not isinstance(found.values.get(_SERVERS), Mapping):
        return {}
    from tool_engine.catalog.servers.config_file import read_table

    read = read_table(found.document, _SERVERS, found.file)
    if read.problems:
        raise CommandError(str(read.problems[0]), error_type=_BAD)
    return {_SERVERS: tuple(read.servers)}


def _suggest_setting(found: SettingsFile, key: str, known: list[str]) -> str:
    """Return the nearest setting, of those below `[concurrency]` too."""
    from tool_engine.config import ConcurrencyConfig

    limits = ConcurrencyConfig.__struct_fields__
    near = _MEANT.get(key) or find_nearest(key, [*known, *limits])
    if near not in limits or near in known:
        return suggest_near(key, known)
    above = "tool.tool-engine." if found.file == PROJECT_FILE else ""
    return f"; did you mean {near!r} below [{above}concurrency]?"


def _check_value(found: SettingsFile, key: str, value: Any) -> None:
    if key in FOLDERS:
        if not isinstance(value, str) or not value:
            raise CommandError(
                f"{found.point(key)}: {key} is the path of a folder, in quotes, got {value!r}",
                error_type=_BAD,
            )
        return
    if key == "records" and value == NOWHERE:
        return
    from tool_engine.config import ToolEngineConfig

    def find_error(fields: Mapping[str, Any]) -> ConfigurationError | None:
        try:
            ToolEngineConfig(**fields)
        except ConfigurationError as error:
            return error
        return None

    if key in _TABLES and not isinstance(value, (Mapping, *_ELSE.get(key, ()))):
        got = type(value).__name__
        raise CommandError(
            f"{found.point(key)}: {key} is a table, got {got}; write {key} = {_TABLES[key]}",
            error_type=_BAD,
        )
    error = find_error({key: value})
    if error is not None:
        way = _find_wrong({key: value}, lambda said: str(find_error(said)))
        text = _PYTHON_WORD.sub(lambda word: word[0].lower(), str(error))
        raise CommandError(f"{found.point(*way)}: {text}", error_type=_BAD) from error


def _find_wrong(value: Any, find_error: Callable[[Any], str]) -> tuple[str, ...]:
    """Return the keys that lead to what is wrong in a value: without it, there is another error.

    Where two keys do not go together, or one is needed, what the error names first is wrong.
    """
    if not isinstance(value, Mapping):
        return ()
    error = find_error(value)
    wrong = [
        key
        for key in value
        if find_error({each: value[each] for each in value if each != key}) != error
    ]
    if not wrong:
        return ()  # something is missing in it
    places = {key: re.search(rf"\b{re.escape(key)}\b", error) for key in wrong}
    key = min(wrong, key=lambda key: len(error) if (at := places[key]) is None else at.start())
    return (key, *_find_wrong(value[key], lambda inner: find_error({**value, key: inner})))
