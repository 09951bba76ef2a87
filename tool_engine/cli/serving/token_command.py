"""Whose tokens does a file hold, and how does one come into it?"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from tool_engine.access.principal import (
    LEAST_URGENT,
    SCOPES,
    Principal,
    read_patterns,
    read_priority,
    read_scopes,
)
from tool_engine.access.tokens import TokenFile
from tool_engine.cli.completion import WORDS, complete_word
from tool_engine.cli.console import as_text, make_console, print_json
from tool_engine.cli.failures import EXIT_OK, CommandError, suggest_name
from tool_engine.cli.options import JSONOption
from tool_engine.cli.tables import make_table

_WORDS: Final = WORDS["token"]
_USUAL: Final = "tokens.yaml"
_BYTES: Final = 32


def run_command(
    word: Annotated[
        str,
        typer.Argument(
            metavar="WORD",
            autocompletion=complete_word,
            help="new NAME: make a token and print it, once; list: show whose there are; "
            "revoke NAME: take those of a name out.",
        ),
    ],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Whose token it is.")] = None,
    *,
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE", help="The token file.")
    ] = _USUAL,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="|".join(SCOPES), help="What it is for: call and read."),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option("--tool", metavar="NAME", help="For which tools, * for letters: all."),
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option("--priority", metavar="0-9", help="The most urgent that calls may have: 5."),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="TIME", help="Until when, as 2027-01-31T12:00:00Z."),
    ] = None,
    as_json: JSONOption = False,
) -> int:
    """Make, list and revoke the tokens of those who may use a server.

    Example: tool-engine token new ann --scope call --tool 'notes_*'
    """
    if word not in _WORDS:
        raise CommandError(f"there is no `token {word}`{suggest_name(word, _WORDS)}")
    path = Path(file)
    if word == "list":
        return _list_tokens(path, as_json=as_json)
    if name is None or not name.strip():
        raise CommandError(f"`token {word}` needs a name: tool-engine token {word} ann")
    if word == "revoke":
        return _revoke_tokens(path, name)
    entry: dict[str, Any] = {"name": name, "sha256": ""}
    if scope:
        entry["scopes"] = sorted(read_scopes(scope, "--scope"))
    if tool:
        entry["tools"] = list(read_patterns(tool, "--tool"))
    if priority is not None:
        entry["priority"] = read_priority(priority, "--priority")
    if expires is not None:
        entry["expires"] = expires
    return _add_token(path, entry, as_json=as_json)


def _add_token(path: Path, entry: dict[str, Any], *, as_json: bool) -> int:
    token = secrets.token_urlsafe(_BYTES)
    entry["sha256"] = hashlib.sha256(token.encode()).hexdigest()
    entries = [*_read_entries(path), entry] if path.exists() else [entry]
    _write_entries(path, entries)
    if as_json:
        print_json({"name": entry["name"], "token": token, "file": str(path)})
    else:
        make_console().print(as_text(token), soft_wrap=True)
        about = f"the token of {entry['name']!r}, shown this once; {path} has what knows it"
        make_console(stderr=True).print(as_text(about), soft_wrap=True)
    return EXIT_OK


def _list_tokens(path: Path, *, as_json: bool) -> int:
    entries = _read_entries(path)
    known = TokenFile(str(path)).list_principals()
    if as_json:
        print_json(
            [_describe_token(each, entry) for each, entry in zip(known, entries, strict=True)]
        )
        return EXIT_OK
    table = make_table("tokens", "name", "scopes", "tools", "priority", "expires")
    for each, entry in zip(known, entries, strict=True):
        table.add_row(
            as_text(each.name),
            as_text(", ".join(sorted(each.scopes))),
            as_text(", ".join(each.tools)),
            as_text(f"{_first_priority(each)} to {LEAST_URGENT}"),
            as_text(str(entry.get("expires", "never"))),
        )
    make_console().print(table)
    return EXIT_OK


def _describe_token(principal: Principal, entry: dict[str, Any]) -> dict[str, Any]:
    expires = entry.get("expires")
    return {
        "name": principal.name,
        "scopes": sorted(principal.scopes),
        "tools": list(principal.tools),
        "priority": _first_priority(principal),
        "expires": None if expires is None else str(expires),
    }


def _first_priority(principal: Principal) -> int:
    return 0 if principal.may_ask_for(0) else principal.priority


def _revoke_tokens(path: Path, name: str) -> int:
    entries = _read_entries(path)
    left = [each for each in entries if each["name"] != name]
    if len(left) == len(entries):
        names = [each["name"] for each in entries]
        raise CommandError(f"{path} has no token of {name!r}{suggest_name(name, names)}")
    _write_entries(path, left)
    about = f"{len(entries) - len(left)} of {name!r} taken out; a server heeds that within a second"
    make_console(stderr=True).print(as_text(about), soft_wrap=True)
    return EXIT_OK


def _read_entries(path: Path) -> list[dict[str, Any]]:
    # It is checked as a server checks it: nothing is written beside what could not be read.
    TokenFile(str(path))
    entries: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return entries


def _write_entries(path: Path, entries: list[dict[str, Any]]) -> None:
    """Write the file whole or not at all, for its owner alone, and as a server reads it."""
    text = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        TokenFile(str(beside))
        beside.replace(path)
    except OSError as error:
        reason = error.strerror or error
        raise CommandError(
            f"{path} cannot be written: {reason}; name another with --file"
        ) from error
    finally:
        beside.unlink(missing_ok=True)
