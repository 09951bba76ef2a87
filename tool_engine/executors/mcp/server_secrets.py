"""How do the secrets that a server is reached with get into its settings?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec.structs import replace

from tool_engine.errors import ToolExecutionError
from tool_engine.executors.mcp.faults import BadServerError
from tool_engine.executors.mcp.server_settings import MCPServerSettings
from tool_engine.executors.secrets import SecretPart, SecretScope
from tool_engine.redaction.secret_names import is_secret_key

_SECRET: Final = re.compile(r"\$\{(env|file):([^}]+)\}")
_NAMED: Final = re.compile(r"-{0,2}([A-Za-z][\w.-]*)\s?[=:]\s?(\S.*)", re.DOTALL)
"""An argument that holds the value of an option, a variable or a header."""
_RUN: Final = re.compile(r"[A-Za-z0-9]+")
_SHORTEST_KEY: Final = 16
_SHORTEST_RUN: Final = 8


async def put_in_secrets(settings: MCPServerSettings, scope: SecretScope) -> MCPServerSettings:
    """Return the settings with values in the place of `${env:NAME}` and `${file:/path}`.

    They are hidden from now on, and so is what is named like a secret among the headers, variables
    and arguments, and what is one in a URL.

    Raises:
        BadServerError: A variable is not set, or a file cannot be read.
    """
    named = (*settings.env.items(), *settings.headers.items())
    for place, text in _list_texts(settings):
        parts = [SecretPart(name, kind) for kind, name in _SECRET.findall(text)]
        try:
            await scope.read_files(parts)
            for part in parts:
                scope.resolve(part)
        except ToolExecutionError as error:
            raise BadServerError(str(error), place) from None

    def put_in(text: str) -> str:
        return _SECRET.sub(lambda found: scope.resolve(SecretPart(found[2], found[1])), text)

    for name, text in (*named, *_list_named(settings.command)):
        if is_secret_key(name) and not _SECRET.search(text):
            scope.hide_value(text.removeprefix("Bearer "))
    command, url = tuple(map(put_in, settings.command)), put_in(settings.url)
    for text in (url, *command):
        for secret in _list_url_secrets(text):
            scope.hide_value(secret)
    return replace(
        settings,
        command=command,
        url=url,
        env=_fill_all(settings.env, put_in),
        headers=_fill_all(settings.headers, put_in),
    )


def _list_texts(settings: MCPServerSettings) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the texts that may hold secrets, with their places in a definition."""
    for number, word in enumerate(settings.command):
        yield ("args", number - 1) if number else ("command",), word
    yield ("url",), settings.url
    for key in ("env", "headers"):
        yield from (((key, name), text) for name, text in getattr(settings, key).items())


def _fill_all(values: Mapping[str, str], put_in: Callable[[str], str]) -> dict[str, str]:
    return {key: put_in(text) for key, text in values.items()}


def _list_named(command: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield what is given by name, as `--token VALUE`, `--token=VALUE` or `X-Token: VALUE`."""
    before = ""
    for word in command:
        if found := _NAMED.fullmatch(word):
            yield found[1], found[2]
        elif before.startswith("-") and not word.startswith("-"):
            yield before.lstrip("-"), word
        before = word


def _list_url_secrets(url: str) -> Iterator[str]:
    """Yield the password, values that are named like secrets, and what looks like a key."""
    try:
        parts = urlsplit(url)
        queried = parse_qsl(parts.query)
    except ValueError:
        return
    if not parts.netloc:
        return
    if parts.password:
        yield unquote(parts.password)
    yield from (value for name, value in queried if is_secret_key(name))
    others = [parts.username or "", *parts.path.split("/"), *(value for _, value in queried)]
    yield from filter(_looks_secret, map(unquote, others))


def _looks_secret(text: str) -> bool:
    """Return True for what people do not read: long, with digits among its letters."""
    runs = (run for run in _RUN.findall(text) if len(run) >= _SHORTEST_RUN)
    return len(text) >= _SHORTEST_KEY and any(not (run.isalpha() or run.isdigit()) for run in runs)
