"""What do the settings of a client need, so that it starts or reaches the server?"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.failures import EXIT_OK, CommandError, suggest_name
from tool_engine.cli.mcp.mcp_command import PATH, ServeOptions, read_address
from tool_engine.cli.settings import Settings

_TOKEN: Final = "MCP_TOKEN"  # noqa: S105 - the name of a variable
_STAND_IN: Final = "TOKEN"
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


class Client(NamedTuple):
    """How the settings of one client name a server."""

    place: str
    """Where they are kept."""
    table: str = "mcpServers"
    url: str | None = "url"
    """The key of an address that is reached over HTTP; None: it takes none there."""
    says_type: bool = False
    token: str = f"${{env:{_TOKEN}}}"
    """How it writes a variable of the environment."""


CLIENTS: Final[Mapping[str, Client]] = {
    "claude-desktop": Client(
        "claude_desktop_config.json: Settings, Developer, Edit Config", url=None
    ),
    "claude-code": Client(".mcp.json of the project", says_type=True, token=f"${{{_TOKEN}}}"),
    "cursor": Client(".cursor/mcp.json of the project, or ~/.cursor/mcp.json"),
    "vscode": Client(".vscode/mcp.json of the project", "servers", says_type=True),
    "windsurf": Client("~/.codeium/windsurf/mcp_config.json", url="serverUrl"),
    "zed": Client("settings.json: zed: open settings file", "context_servers", token=_STAND_IN),
    "gemini": Client("~/.gemini/settings.json", url="httpUrl", token=f"${_TOKEN}"),
    "codex": Client("~/.codex/config.toml", "mcp_servers"),
}
"""By the names that the command line takes."""
_COMMON: Final = Client("", says_type=True, token=f"${{{_TOKEN}}}")
_CODEX: Final = CLIENTS["codex"]


def print_entry(settings: Settings, options: ServeOptions, words: Sequence[str]) -> int:
    """Print what the settings of clients, or of the one that is named, need."""
    if len(words) > 1:
        raise CommandError("`mcp install` takes one client, or none for the common form")
    if words and words[0] not in CLIENTS:
        raise CommandError(
            f"`mcp install` knows no client {words[0]!r}, and without one prints what most others "
            f"read{suggest_name(words[0], CLIENTS)}"
        )
    client = CLIENTS[words[0]] if words else _COMMON
    if options.http is not None and client.url is None:
        raise CommandError(
            f"{words[0]} reads no address there: leave out --http, and it starts the server itself"
        )
    entry = _make_entry(settings, options, client)
    if client is _CODEX:
        sys.stdout.write(_write_toml(client.table, options.title, entry))
    else:
        print_json({client.table: {options.title: entry}})
    if find_spec("mcp") is None:
        text = "the SDK of MCP is not installed, so the server would not start: "
        text += "pip install 'tool-engine[mcp]'"
        make_console(stderr=True).print(as_text(text, "yellow"), soft_wrap=True)
    listed = ", ".join(CLIENTS)
    place = client.place or f"for one client: tool-engine mcp install CLIENT, of {listed}"
    make_console(stderr=True).print(as_text(place), soft_wrap=True)
    return EXIT_OK


def _make_entry(settings: Settings, options: ServeOptions, client: Client) -> dict[str, Any]:
    kind = {"type": "stdio" if options.http is None else "http"} if client.says_type else {}
    if client.url is None or options.http is None:
        program = shutil.which("tool-engine")
        command = [program] if program else [sys.executable, "-m", "tool_engine.cli"]
        words = [*command, *_list_words(settings, options)]
        # All but one take a command without its type, and some of them take no other.
        said = kind if client.table == "servers" else {}
        return {**said, "command": words[0], "args": words[1:]}
    host, port = read_address(options.http)
    shown = f"[{host}]" if ":" in host else host
    entry: dict[str, Any] = {**kind, client.url: f"http://{shown}:{port}{PATH}"}
    if options.token_file is None:
        return entry
    if client is _CODEX:
        return {**entry, "bearer_token_env_var": _TOKEN}
    return {**entry, "headers": {"Authorization": f"Bearer {client.token}"}}


def _write_toml(table: str, name: str, entry: Mapping[str, Any]) -> str:
    key = name if _BARE.fullmatch(name) else _write_text(name)
    lines = [f"[{table}.{key}]"]
    for each, said in entry.items():
        texts = ", ".join(map(_write_text, said)) if isinstance(said, list) else None
        lines.append(f"{each} = {_write_text(said) if texts is None else f'[{texts}]'}")
    return "\n".join(lines) + "\n"


def _write_text(text: str) -> str:
    """Return a text as TOML has it, in letters that every terminal shows."""
    written = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in written)


def _list_words(settings: Settings, options: ServeOptions) -> list[str]:
    # The client starts it in another folder, where the project's settings are not found, nor files
    # that a URL names, nor modules.
    needs_folder = any((settings.file, settings.records, settings.sources, options.app))
    is_of_folder = options.app is None and not settings.is_without_folder
    paths = {
        "--directory": "." if needs_folder else None,
        "--tools": settings.folder() if is_of_folder else None,
        "--path": settings.path,
        "--mcp-config": settings.mcp_config,
    }
    words: list[str] = []
    for option, path in paths.items():
        words += [] if path is None else [option, str(Path(path).absolute())]
    flags = {"--recursive": settings.is_recursive, "--no-recursive": settings.is_flat}
    words += [option for option, is_said in flags.items() if is_said]
    urls = {"--records": settings.records, "--cluster": settings.cluster}
    for option, url in (*(("--source", each) for each in settings.sources), *urls.items()):
        words += [] if url is None else [option, url]
    words += ["mcp", "serve"]
    for option, values in _list_options(options):
        for value in values:
            words += [option, value]
    return words


def _list_options(options: ServeOptions) -> Sequence[tuple[str, Sequence[str]]]:
    return (
        ("--app", () if options.app is None else (options.app,)),
        ("--tool", options.names),
        ("--group", options.groups),
        ("--tag", options.tags),
        ("--mode", () if options.mode == "all" else (options.mode,)),
        ("--approvals", () if options.approvals is None else (options.approvals,)),
        ("--name", () if options.title == "tool-engine" else (options.title,)),
    )
